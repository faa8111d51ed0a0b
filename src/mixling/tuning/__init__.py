"""Search over options of training: many runs with different values, of which validation chooses the best."""
