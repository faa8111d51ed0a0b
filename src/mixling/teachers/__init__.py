"""Teachers: models whose probabilities a smaller model is trained on."""
