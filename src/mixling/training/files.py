"""Names of the files that training writes into its folder."""

CHECKPOINT = "checkpoint.safetensors"
HISTORY = "metrics.jsonl"
TENSORBOARD_FOLDER = "tensorboard"
TRACKING_FILE = "tracking.json"  # the ids of a run in trackers, to continue it
