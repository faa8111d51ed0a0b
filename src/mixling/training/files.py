"""Names of the files that training writes into its folder."""

CHECKPOINT = "checkpoint.safetensors"
HISTORY = "metrics.jsonl"
TENSORBOARD_FOLDER = "tensorboard"
