"""What a training writes into its folder while it runs."""

CHECKPOINT = "checkpoint.safetensors"
HISTORY = "metrics.jsonl"
TENSORBOARD_FOLDER = "tensorboard"
