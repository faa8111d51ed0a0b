"""Runs: training from a configuration and data to a folder with the model, its metrics and its record."""
