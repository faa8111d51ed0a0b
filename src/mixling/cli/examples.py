"""What `mixling COMMAND --help` shows before all else: commands to paste, on the sample data, and the first options."""

from __future__ import annotations

EXAMPLES = {
    "help": ("mixling help train",),
    "sample": ("mixling sample messages",),
    "demo": ("mixling demo --no-open",),
    "train": ("mixling sample messages", "mixling train messages.csv --text message --label topic -o model/"),
    "tune": ("mixling tune messages.csv --text message --label topic --trials 5 -o tuned/",),
    "distill": ("mixling distill messages.csv --teacher self --text message --label topic -o small/",),
    "config": ("mixling config > config.toml",),
    "evaluate": ("mixling evaluate demo messages_test.csv --text message --label topic",),
    "compare": ("mixling compare messages.csv --text message --label topic --test messages_test.csv",),
    "explain": ('mixling explain demo "where is my parcel"',),
    "audit": ("mixling audit messages.csv --text message --label topic -o report/",),
    "drift": ("mixling drift demo messages_test.csv --text message",),
    "label": ("mixling sample no-topic", "mixling label no_topic.csv --text message --names refund,parcel"),
    "suggest": ("mixling suggest demo no_topic.csv --text message -n 10",),
    "encode": ("mixling encode demo messages.csv --text message -o index",),
    "similar": ('mixling similar index/ "where is my parcel"',),
    "dedup": ("mixling dedup messages.csv -o kept.csv --report repeated.csv",),
    "show": ("mixling show demo",),
    "predict": (
        'mixling predict demo "where is my parcel"',
        "mixling predict demo messages_test.csv --text message -o answers.csv",
    ),
    "serve": ("mixling serve demo",),
    "export": ("mixling export demo --browser page.html",),
    "push": ("mixling push model/ NAME/MODEL --private",),
    "models": ("mixling models",),
    "pretrain": ("mixling pretrain messages.csv --text message -o pretrained/",),
    "generate": ('mixling generate rewriter/ "where is my parcel"',),
    "inspect": (
        "mixling train messages.csv --text message --label topic --model mixling-mixer --epochs 1 -o mixer/",
        'mixling inspect mixer/ --maps "where is my parcel" -o maps.png',
    ),
    "cost": ("mixling cost mixling-small --lengths 64",),
    "bench": ("mixling bench attention --set num_heads=1",),
}
"""Commands on the files of `mixling sample`, on the packaged model `demo`, and on what the other examples make."""

FIRST_OPTIONS = {
    "train": (
        "files", "text", "label", "validation", "abstain_at", "model", "epochs", "time_budget", "seed",
        "overrides", "out", "resume", "overwrite", "verbose",
    ),
    "predict": (
        "model", "inputs", "text", "threshold", "out", "output_format", "echo", "on_bad_row", "top_k", "probabilities",
        "workers", "url",
    ),
    "tune": (
        "files", "text", "label", "validation", "task", "model", "trials", "time_budget", "space", "jobs",
        "seed", "overrides", "out", "resume",
    ),
    "distill": (
        "files", "text", "label", "validation", "task", "teacher", "unlabeled", "model", "epochs",
        "time_budget", "seed", "overrides", "out", "resume", "overwrite", "verbose",
    ),
    "compare": (
        "files", "text", "label", "validation", "test", "task", "model", "systems", "time_budget", "seeds", "out",
        "markdown",
    ),
    "evaluate": (
        "model", "files", "text", "label", "out", "confusion", "reliability", "threshold", "out_of_scope",
        "errors", "noise",
    ),
    "audit": ("files", "text", "label", "test", "task", "folds", "out"),
}  # fmt: skip
"""The options, by the names of their parameters, that `--help` shows where there are many; `mixling help` shows all."""
