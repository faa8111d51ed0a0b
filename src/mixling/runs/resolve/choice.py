"""Choosing, for the training examples, a model if the user names none, and the batches in which it is trained."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixling.data.dataset import Dataset
from mixling.runs.resolve.config import RunConfig
from mixling.tasks import task_type
from mixling.tasks.base import Choice
from mixling.text.encoder import Text
from mixling.text.words import split_words

_MOST_LABELS = 5_000
_SAMPLE = 1000  # texts whose words are counted
# A network that is trained for fewer epochs is worse than n-grams alone, which take seconds.
_LEAST_EPOCHS = 3
_WORDS_PER_SECOND = 60_000  # of a training on one core
_BESIDE = 10.0  # seconds for all but the training
_MANY_EXAMPLES = 20_000
_MANY_PAIRS = 5_000
_MANY_LABELS = 20
# As accurate as batches of 64 at a rate of 0.002, in half to five sixths of the time (experiments/README.md).
_LARGE_BATCHES = {"batch_size": 256, "optim": {"lr": 3e-3}}
_TAGGERS_BATCHES = {"batch_size": 128, "optim": {"lr": 4e-3}}
# Where a text is a word or two, such as a name, its first and last letters count, and parts as long as syllables.
_FEW_WORDS = 2
_LENGTHS_IN_FEW_WORDS = {"min_n": 2, "max_n": 5}
# Of fewer examples, longer texts and wider models nothing is known.
_LARGE_BATCH_EXAMPLES = 5_000
_LARGE_BATCH_WORDS = 64
_LARGE_BATCH_DIM = 256


def choose_model(train: Dataset, config: RunConfig) -> Choice:
    """Return the preset, with changes, that fits the training examples.

    Few examples with few labels get the small preset. More of them, unlabeled text or a teacher get the base preset;
    token labels and many pairs get the mixer preset. The maximum length is the 95th percentile of the texts' lengths,
    rounded up to a multiple of 32 between 64 and 1,024 (256 with token mixing). Of several texts, words are marked by
    their text, and those that another one has, too. The rules were chosen by validation accuracy on several data sets
    (experiments/README.md).
    """
    task = task_type(config.task)
    if chosen := task.choose_model(train):
        return chosen
    words = _words(train)
    pairs = train.schema.pairs
    mixing = task.per_word or (pairs and len(train) >= _MANY_PAIRS)
    most = 256 if mixing else 1024  # a token-mixing MLP has weights for each position
    marks = {"segments": train.schema.texts, "overlap": True} if pairs else {}
    changes = {"text": {"max_len": min(max(-(-words // 32) * 32, 64), most), **marks}}
    batches = choose_batches(train, config, initialized=True)
    seconds = config.train.time_budget
    if seconds is not None and _is_short(seconds, train, config):
        why = f"{_LEAST_EPOCHS} epochs of a network would take more than {seconds:g} s"
        return Choice("mixling-linear", changes, why, {})
    if mixing:
        why = f"{len(train):,} examples of {train.schema.texts} texts" if pairs else "words have labels"
        return Choice("mixling-mixer", changes, why, batches)
    if config.distill is not None:
        return Choice("mixling-base", changes, "distillation from a teacher", batches)
    if config.init.has_texts:
        return Choice("mixling-base", changes, "initialized from text", batches)
    labels = len(train.label_counts())
    if task.has_classes and labels > _MOST_LABELS:  # of a network, whose steps compute the scores of all
        return Choice("mixling-linear", changes, f"{labels:,} labels", {})
    name = "mixling-base" if len(train) >= _MANY_EXAMPLES or labels >= _MANY_LABELS else "mixling-small"
    why = f"{len(train):,} examples" + (f", {labels} labels" if task.has_labels else "")
    return Choice(name, changes, why, batches)


def _is_short(seconds: float, train: Dataset, config: RunConfig) -> bool:
    """Return whether a network of texts could be trained for a few epochs at most, beside n-grams."""
    task = task_type(config.task)
    others = train.schema.pairs or config.distill is not None or config.init.has_texts
    if others or not task.has_scores or task.per_word or config.train.epochs is not None:
        return False
    some = train.texts[:: max(1, len(train) // _SAMPLE)]
    words = sum(map(_length, some)) / max(len(some), 1) * len(train)
    return seconds < _BESIDE + _LEAST_EPOCHS * words / _WORDS_PER_SECOND


def choose_batches(train: Dataset, config: RunConfig, *, initialized: bool) -> dict[str, Any]:
    """Return the batch size and the learning rate with which models of hashed words are trained on many short texts.

    Nothing where they would be less accurate, or it was not measured: pairs, fewer or longer texts, wide models, other
    mixers than MLPs, pretrained and (for taggers) distilled models, and classifiers whose embeddings begin at random.

    Args:
        initialized: whether the embeddings are initialized from the training texts.
    """
    task = task_type(config.task)
    model = config.model
    distilled = config.distill is not None
    own_rows = config.init.kind in ("random", "rows")  # initialized from no other texts or models
    if task.per_word:
        larger = own_rows and not distilled
    else:
        larger = task.has_classes and (distilled or (own_rows and initialized))
    hashed = model.text.tokens == "words" and model.dim <= _LARGE_BATCH_DIM
    mlps = {mixer.type for layer in model.layers for mixer in layer.mixers} <= {"token_mlp"}
    if not larger or not hashed or not mlps or train.schema.pairs:
        return {}
    if len(train) < _LARGE_BATCH_EXAMPLES or _words(train) > _LARGE_BATCH_WORDS:
        return {}
    return _TAGGERS_BATCHES if task.per_word else _LARGE_BATCHES


def choose_ngrams(train: Dataset) -> dict[str, Any]:
    """Return other lengths of character n-grams than usual for texts of a word or two."""
    return dict(_LENGTHS_IN_FEW_WORDS) if len(train) and _words(train) <= _FEW_WORDS else {}


def _words(train: Dataset) -> int:
    """Return the 95th percentile of the texts' lengths."""
    lengths = list(map(_length, train.texts[:: max(1, len(train) // _SAMPLE)]))
    return int(np.quantile(lengths, 0.95)) if lengths else 0


def _length(text: Text) -> int:
    if isinstance(text, str):
        return len(split_words(text))
    return len(text) if isinstance(text, list) else sum(map(_length, text)) + 1
