"""The one training loop, its optimiser, its checkpoints, its processes."""
