"""Which model fits the rows, where the user names none."""

from __future__ import annotations

import numpy as np

from mixling.data.dataset import Dataset
from mixling.runs.config import RunConfig
from mixling.tasks import task_type
from mixling.tasks.base import Choice
from mixling.text.encoder import Text
from mixling.text.words import split_words

_SAMPLE = 1000  # texts whose words are counted
_MANY_ROWS, _MANY_PAIRS, _MANY_LABELS = 20_000, 5_000, 20


def choose_model(train: Dataset, config: RunConfig) -> Choice:
    """Our small model for few rows of few labels; the base one for more, or where text or a teacher stands behind them.

    The length is that of the rows: what 95 of 100 texts have, as a multiple of 32 from 64 to 1,024 (with token mixing
    to 256). In pairs the words that both texts have are told apart from the others. All was chosen by validation
    accuracy on several sets (experiments/README.md).
    """
    step = max(1, len(train) // _SAMPLE)
    task = task_type(config.task)
    if chosen := task.choose_model(train):
        return chosen
    lengths = list(map(_length, train.texts[::step]))
    words = int(np.quantile(lengths, 0.95)) if lengths else 0
    pairs = train.schema.pairs
    mixing = task.per_word or (pairs and len(train) >= _MANY_PAIRS)
    most = 256 if mixing else 1024  # a token-mixing MLP has weights for each place
    changes = {"text": {"max_len": min(max(-(-words // 32) * 32, 64), most), **({"overlap": True} if pairs else {})}}
    if mixing:
        return Choice("mixling-mixer", changes, f"{len(train):,} pairs of texts" if pairs else "words have labels")
    if config.distill is not None:
        return Choice("mixling-base", changes, "there is a teacher")
    if config.start.kind == "text":
        return Choice("mixling-base", changes, "there is more text to begin with")
    labels = len(train.label_counts())
    name = "mixling-base" if len(train) >= _MANY_ROWS or labels >= _MANY_LABELS else "mixling-small"
    return Choice(name, changes, f"{len(train):,} rows" + (f", {labels} labels" if task.has_labels else ""))


def _length(text: Text) -> int:
    if isinstance(text, str):
        return len(split_words(text))
    return len(text) if isinstance(text, list) else sum(map(_length, text)) + 1
