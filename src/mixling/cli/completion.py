"""Names of models and tasks for help and shell completion, without torch, which takes seconds to import."""

from __future__ import annotations

from mixling.tasks import own_tasks

# Text models in the order of `mixling models`; a test compares the two.
MODELS = (
    "mixling-tiny", "mixling-linear", "mixling-small", "mixling-mixer", "mixling-base", "pnlp-mixer-x-large",
    "pnlp-mixer-large", "pnlp-mixer-base", "pnlp-mixer-small", "pnlp-mixer-x-small", "projection-only",
    "projection-only-w4",
    "pnlp-transformer", "pnlp-lstm", "pqrnn", "gmlp-18", "gmlp-36", "gmlp-72", "gmlp-144", "gmlp-base",
    "gmlp-large", "gmlp-x-large", "amlp-base", "amlp-large", "gmlp-36-linear", "gmlp-36-additive",
    "gmlp-36-multiplicative", "mlp-mixer-text", "bert-base", "bert-large", "bert-base-content-free",
    "bert-6-relative", "bert-12-relative", "bert-24-relative", "bert-48-relative",
    "bert-24-512", "bert-48-384", "bert-96-256", "gmlp-tiny", "amlp-tiny",
    "bert-tiny", "hypermixer", "hypermixer-untied", "transformer", "linear-transformer", "fnet",
    "fnet-512", "gmlp-512", "mlp-mixer",
    "gmlp", "t5-1.1-base", "t5-1.1-small", "remixer-literal-base", "remixer-base", "remixer-scaled-base",
    "mixer-transformer-base", "mixer-mixer-base", "hypermixer-hypermixer-base", "remixer-small",
    "remixer-scaled-small", "mixer-transformer-small", "mixer-mixer-small", "hypermixer-hypermixer-small", "t5-10m",
    "remixer-10m", "remixer-scaled-10m", "mixer-transformer-10m", "mixer-mixer-10m", "hypermixer-hypermixer-10m",
    "t5-2m", "remixer-2m", "remixer-scaled-2m", "mixer-transformer-2m", "mixer-mixer-2m",
    "hypermixer-hypermixer-2m",
)  # fmt: skip
LABELING = tuple(own_tasks())
TASK_NAMES = (*LABELING, "text2text", "image_classification")


def complete_models() -> list[str]:
    """Return the completions of a model's name; if none matches, the shell completes file names."""
    return list(MODELS)


def complete_tasks() -> list[str]:
    """Return the names of all tasks of `mixling train`."""
    return list(TASK_NAMES)
