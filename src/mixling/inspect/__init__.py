"""Plots of what a model does."""
