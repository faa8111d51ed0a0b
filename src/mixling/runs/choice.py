"""Choosing a model for the training examples when the user names none."""

from __future__ import annotations

import numpy as np

from mixling.data.dataset import Dataset
from mixling.runs.config import RunConfig
from mixling.tasks import task_type
from mixling.tasks.base import Choice
from mixling.text.encoder import Text
from mixling.text.words import split_words

_SAMPLE = 1000  # texts whose words are counted
_MANY_EXAMPLES, _MANY_PAIRS, _MANY_LABELS = 20_000, 5_000, 20
# Half the time per epoch of batches of 64 at a rate of 0.002, and as accurate on four sets of such texts.
_LARGE_BATCHES = {"batch_size": 256, "optim": {"lr": 3e-3}}
_LARGE_BATCH_EXAMPLES, _LARGE_BATCH_WORDS = 5_000, 64  # of sets with fewer examples or longer texts nothing is known


def choose_model(train: Dataset, config: RunConfig) -> Choice:
    """Return the preset, with changes, that fits the training examples.

    Few examples with few labels get the small preset. More of them, unlabeled text or a teacher get the base preset;
    token labels and many pairs get the mixer preset. The maximum length is the 95th percentile of the texts' lengths,
    rounded up to a multiple of 32 between 64 and 1,024 (256 with token mixing). For pairs, words that occur in both
    texts are marked. Classifiers of many short texts are trained in larger batches. The rules were chosen by validation
    accuracy on several data sets (experiments/README.md).
    """
    step = max(1, len(train) // _SAMPLE)
    task = task_type(config.task)
    if chosen := task.choose_model(train):
        return chosen
    lengths = list(map(_length, train.texts[::step]))
    words = int(np.quantile(lengths, 0.95)) if lengths else 0
    pairs = train.schema.pairs
    mixing = task.per_word or (pairs and len(train) >= _MANY_PAIRS)
    most = 256 if mixing else 1024  # a token-mixing MLP has weights for each position
    changes = {"text": {"max_len": min(max(-(-words // 32) * 32, 64), most), **({"overlap": True} if pairs else {})}}
    if mixing:
        return Choice("mixling-mixer", changes, f"{len(train):,} pairs of texts" if pairs else "words have labels")
    large = task.has_classes and not pairs and len(train) >= _LARGE_BATCH_EXAMPLES and words <= _LARGE_BATCH_WORDS
    batches = _LARGE_BATCHES if large else {}
    if config.distill is not None:
        return Choice("mixling-base", changes, "distillation from a teacher", batches)
    if config.init.has_texts:
        return Choice("mixling-base", changes, "initialized from text")
    labels = len(train.label_counts())
    name = "mixling-base" if len(train) >= _MANY_EXAMPLES or labels >= _MANY_LABELS else "mixling-small"
    why = f"{len(train):,} examples" + (f", {labels} labels" if task.has_labels else "")
    return Choice(name, changes, why, batches)


def _length(text: Text) -> int:
    if isinstance(text, str):
        return len(split_words(text))
    return len(text) if isinstance(text, list) else sum(map(_length, text)) + 1
