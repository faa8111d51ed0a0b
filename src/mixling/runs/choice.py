"""Which model fits the rows, where the user names none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mixling.data.dataset import Dataset
from mixling.runs.config import RunConfig
from mixling.text.encoder import Text
from mixling.text.words import split_words, word_spans

_SAMPLE = 1000  # texts whose words are counted
_MANY_ROWS, _MANY_PAIRS, _MANY_LABELS = 20_000, 5_000, 20


@dataclass(frozen=True, slots=True)
class Choice:
    """A preset's name, values of its `ModelConfig` that go with the rows, and the reason in a few words."""

    name: str
    changes: dict[str, Any]
    why: str

    @property
    def values(self) -> dict[str, Any]:
        """As values of a `RunConfig`."""
        return {"model": {"preset": self.name, **self.changes}}


def choose_model(train: Dataset, config: RunConfig) -> Choice:
    """Our small model for few rows of few labels; the base one for more, or where text or a teacher stands behind them.

    The length is that of the rows: what 95 of 100 texts have, as a multiple of 32 from 64 to 1,024 (with token mixing
    to 256). In pairs the words that both texts have are told apart from the others. All was chosen by dev accuracy
    on several sets (experiments/README.md).
    """
    step = max(1, len(train) // _SAMPLE)
    if config.task == "question_answering":
        return _for_questions(train, step)
    lengths = list(map(_length, train.texts[::step]))
    words = int(np.quantile(lengths, 0.95)) if lengths else 0
    pairs = train.schema.pairs
    mixing = config.task == "tagging" or (pairs and len(train) >= _MANY_PAIRS)
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
    return Choice(name, changes, f"{len(train):,} rows, {labels} labels")


def _for_questions(train: Dataset, step: int) -> Choice:
    """Token mixing, question and context told apart, up to 256 tokens; units where answers begin or end within words,
    as they do where words are written without spaces."""
    lengths, inside, answers = [], 0, 0
    for text, answers_of in zip(train.texts[::step], train.answers[::step], strict=True):
        context = text[1]
        lengths.append(_length(text))
        answer = answers_of.first
        if answer is not None:
            edges = {edge for span in word_spans(context, len(context)) for edge in span}
            answers += 1
            inside += not edges.issuperset(answer)
    tokens = "units" if inside > 0.05 * answers else "words"
    longest = int(np.quantile(lengths, 0.95)) if tokens == "words" else 256
    max_len = min(max(-(-longest // 32) * 32, 64), 256)
    changes = {"text": {"max_len": max_len, "overlap": True, "segments": True, "tokens": tokens}}
    why = "questions and contexts" + ("; answers begin or end within words" if tokens == "units" else "")
    return Choice("mixling-mixer", changes, why)


def _length(text: Text) -> int:
    if isinstance(text, str):
        return len(split_words(text))
    return len(text) if isinstance(text, list) else sum(map(_length, text)) + 1
