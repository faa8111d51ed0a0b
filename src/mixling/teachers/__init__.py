"""Models that label text for a smaller one to learn from."""
