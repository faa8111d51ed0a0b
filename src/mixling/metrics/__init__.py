"""How good predictions are, by NumPy alone: a saved model is evaluated where nothing was installed for training."""
