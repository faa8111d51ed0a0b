"""The training loop, with its optimizers, checkpoints and distributed processes."""
