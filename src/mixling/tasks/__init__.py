"""What a training loop must not know: collate, loss, decode, metrics of each task."""
