"""Metrics, computed with NumPy alone, so that a base install can evaluate a saved model."""
