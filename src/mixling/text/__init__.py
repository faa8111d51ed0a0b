"""Raw text -> `Encoded`, with NumPy and tokenizers only."""
