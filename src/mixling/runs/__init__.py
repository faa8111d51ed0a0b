"""A run: from a configuration and data to a folder that holds the model, its metrics and its record."""
