"""What is wrong with labeled data: likely label errors, duplicates that disagree, leakage, rare and confused labels."""
