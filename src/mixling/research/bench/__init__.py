"""What a token mixer costs, and what it remembers: a benchmark for any registered mixer, minutes long on two cores."""
