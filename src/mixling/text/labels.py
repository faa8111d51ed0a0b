"""Labels to ids, logits to predictions: the last step of training, evaluation, prediction and serving alike.

Logits, probabilities and ids are NumPy arrays; C is the number of labels, B of texts, N of tokens.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from mixling.errors import DataError, ModelFileError, near_miss
from mixling.text.predictions import Prediction, Span

LabelKind = Literal["single", "multi", "iob", "span"]
Targets = np.ndarray | list[np.ndarray]

_IOB_TAG = re.compile(r"O|[BI]-\S.*", re.DOTALL)
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


@dataclass(frozen=True)
class LabelSet:
    """The names of a task's classes; the id of a class is its place.

    Args:
        names: distinct, not empty. For `iob` the first is `O`, each other `B-type` or `I-type`.
        kind: `single` (one class a text), `multi` (any number of them), `iob` (one tag a token), `span` (no classes but
            the two ends of an answer, of which each token has two numbers).

    Raises:
        DataError: the names break one of these rules, or there are too few of them to tell anything apart.
    """

    names: tuple[str, ...]
    kind: LabelKind

    def __post_init__(self) -> None:
        if self.kind not in get_args(LabelKind):
            raise DataError(f"label kind {self.kind!r}; {near_miss(str(self.kind), get_args(LabelKind))}")
        seen = set()
        for name in self.names:
            self._check(name)
            if name in seen:
                raise DataError(f"label {name!r} stands twice in the label set; each label is given once")
            seen.add(name)
        if not self.names:
            raise DataError("there are no labels; give at least one labelled row")
        if self.kind == "span" and self.names != ("start", "end"):
            raise DataError(f"got the labels {', '.join(self.names)}; where answers are found they are start and end")
        if self.kind == "iob" and self.names[0] != "O":
            raise DataError(f"the first tag of the label set is {self.names[0]!r}; it must be 'O'")
        if len(self.names) == 1 and self.kind == "single":
            raise DataError(f"every text has the same label, {self.names[0]!r}; at least two classes are needed")
        if len(self.names) == 1 and self.kind == "iob":
            raise DataError("every token is tagged 'O'; at least one token must be tagged B-type or I-type")

    def _check(self, name: object) -> None:
        if not isinstance(name, str):
            raise DataError(f"label {name!r} is of type {type(name).__name__}; labels are strings")
        if not name.strip():
            raise DataError(f"label {name!r} is empty; give every label a name")
        if any("\ud800" <= character <= "\udfff" for character in name):
            raise DataError(f"label {name!r} holds half a surrogate pair, which cannot be written as UTF-8")
        if self.kind == "iob" and not _IOB_TAG.fullmatch(name):
            raise DataError(f"tag {name!r} is not an IOB tag; allowed: O, B-type, I-type")

    @classmethod
    def from_labels(cls, labels: Iterable[str], kind: LabelKind) -> LabelSet:
        """The label set of the labels (or tags) met in the data, repeated ones included.

        Sorted by code points, or by value where all are integers; `iob` has `O` first, also where the data has none.
        """
        distinct = set(labels)
        if kind == "iob":
            return cls(("O", *sorted(distinct - {"O"}, key=str)), kind)
        if all(isinstance(label, str) and _INTEGER.fullmatch(label) for label in distinct):
            return cls(tuple(sorted(distinct, key=lambda label: (int(label), label))), kind)
        return cls(tuple(sorted(distinct, key=str)), kind)

    def to_dict(self) -> dict[str, Any]:
        """JSON values, which `from_dict` reads."""
        return {"kind": self.kind, "names": list(self.names)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> LabelSet:
        """Read back what `to_dict` gave.

        Raises:
            ModelFileError: the values are not those of a label set.
        """
        if not isinstance(values, Mapping) or set(values) != {"kind", "names"} or not isinstance(values["names"], list):
            raise ModelFileError("labels: got something else than {'kind': ..., 'names': [...]}; the model is damaged")
        try:
            return cls(tuple(values["names"]), values["kind"])
        except DataError as error:
            raise ModelFileError(f"labels: {error}") from None

    def __len__(self) -> int:
        return len(self.names)

    @property
    def of_tokens(self) -> bool:
        """Whether the logits are of tokens, (N, C), not of texts."""
        return self.kind in ("iob", "span")

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.names)}

    def id(self, name: str) -> int:
        """The id of a label.

        Raises:
            DataError: the set has no such label; the message names the nearest one.
        """
        found = self._ids.get(name)
        if found is None:
            raise DataError(f"unknown label {name!r}; {near_miss(str(name), self.names)}")
        return found

    def ids(self, names: Iterable[str]) -> np.ndarray:
        """The ids of labels, int64 (len(names),); raises as `id` does."""
        return np.array([self.id(name) for name in names], dtype=np.int64)

    def targets(self, targets: Iterable[Any]) -> Targets:
        """Targets as examples hold them, as ids: (B,) for `single`, (B, C) of zeros and ones for `multi`, B arrays
        (N,) for `iob`; raises as `id` does."""
        if self.kind == "single":
            return self.ids(targets)
        rows = [self.ids(names) for names in targets]
        if self.kind == "iob":
            return rows
        out = np.zeros((len(rows), len(self)), np.int64)
        for marks, row in zip(out, rows, strict=True):
            marks[row] = 1
        return out

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        """Probabilities (..., C), float64, of logits (..., C): softmax, or for `multi` the sigmoid of each.

        Raises:
            ModelFileError: a logit is not finite.
        """
        values = np.asarray(logits, dtype=np.float64)
        assert values.shape[-1] == len(self.names), f"{values.shape[-1]} logits for {len(self.names)} labels"
        if not np.isfinite(values).all():
            raise not_finite()
        if self.kind == "multi":
            small = np.exp(-np.abs(values))
            return np.where(values >= 0, 1.0, small) / (1.0 + small)
        exponentials = np.exp(values - values.max(-1, keepdims=True))
        return exponentials / exponentials.sum(-1, keepdims=True)

    def decode_text(self, logits: np.ndarray, truncated: bool, *, threshold: float = 0.5) -> Prediction:
        """The prediction for one text from logits (C,); `threshold` is for `multi`.

        In plain Python: for a handful of classes a chain of NumPy calls costs several times as much.
        """
        values = logits.tolist()
        assert len(values) == len(self.names), f"{len(values)} logits for {len(self.names)} labels"
        if not math.isfinite(sum(values)):
            raise not_finite()
        if self.kind == "multi":
            row = [_sigmoid(value) for value in values]
            best = 0
        else:
            top = max(values)
            best = values.index(top)
            exponentials = [math.exp(value - top) for value in values]
            total = sum(exponentials)
            row = [value / total for value in exponentials]
        return self._prediction(row, best, truncated, threshold)

    def decode_texts(
        self, logits: np.ndarray, truncated: Sequence[bool], *, threshold: float = 0.5
    ) -> list[Prediction]:
        """The predictions for a batch of texts from logits (B, C): what `decode_text` says of each."""
        assert len(logits) == len(truncated), f"{len(logits)} rows of logits for {len(truncated)} texts"
        rows = self.probabilities(logits).tolist()
        bests = np.argmax(logits, axis=-1).tolist()
        return [self._prediction(*item, threshold) for item in zip(rows, bests, truncated, strict=True)]

    def _prediction(self, row: list[float], best: int, truncated: bool, threshold: float) -> Prediction:
        probabilities = dict(zip(self.names, row, strict=True))
        if self.kind == "single":
            return Prediction(label=self.names[best], probabilities=probabilities, truncated=bool(truncated))
        assert self.kind == "multi", "a text's logits with the labels of a tagger"
        labels = tuple(name for name, probability in probabilities.items() if probability >= threshold)
        return Prediction(labels=labels, probabilities=probabilities, truncated=bool(truncated))

    def decode_tokens(
        self, logits: np.ndarray, tokens: Sequence[str], offsets: np.ndarray, truncated: bool
    ) -> Prediction:
        """The tags and spans of one text from logits (N, C), its N tokens and their character offsets (N, 2)."""
        assert self.kind == "iob", f"tokens' logits with labels of kind {self.kind!r}"
        assert len(logits) == len(tokens), f"{len(logits)} rows of logits for {len(tokens)} tokens"
        probabilities = self.probabilities(logits)
        tag_ids = np.argmax(logits, axis=-1)
        return Prediction(
            spans=self.decode_iob(tag_ids, offsets, probabilities.max(-1)),
            tokens=tuple(tokens),
            tags=tuple(self.names[tag_id] for tag_id in tag_ids.tolist()),
            truncated=bool(truncated),
        )

    def decode_iob(
        self, tag_ids: np.ndarray, offsets: np.ndarray, probabilities: np.ndarray | None = None
    ) -> tuple[Span, ...]:
        """Character spans of tag ids (N,), token offsets (N, 2) and the probabilities (N,) of the chosen tags.

        Tolerant as `iob_spans` is: every sequence of tags can be decoded.
        """
        assert self.kind == "iob", f"spans of labels of kind {self.kind!r}"
        assert len(tag_ids) == len(offsets), f"{len(tag_ids)} tags for {len(offsets)} offsets"
        places = offsets.tolist()
        scores = [1.0] * len(tag_ids) if probabilities is None else probabilities.tolist()
        return tuple(
            Span(label, places[start][0], places[end - 1][1], sum(scores[start:end]) / (end - start))
            for label, start, end in iob_spans([self.names[tag_id] for tag_id in tag_ids.tolist()])
        )


def iob_spans(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """The spans `(type, first token, last token + 1)` of well-formed IOB tags, in order.

    The convention of conlleval: a B-x always starts a span; an I-x that does not continue a span of type x starts one.
    """
    spans = []
    current, first = "", 0
    for index, tag in enumerate((*tags, "O")):
        prefix, _, kind = tag.partition("-")
        if current and (prefix != "I" or kind != current):
            spans.append((current, first, index))
            current = ""
        if kind and not current:
            current, first = kind, index
    return spans


def _sigmoid(value: float) -> float:
    small = math.exp(-abs(value))
    return (1.0 if value >= 0 else small) / (1.0 + small)


def not_finite() -> ModelFileError:
    """The error of a model whose answer is none."""
    return ModelFileError("the model answered with a logit that is not finite: it is damaged, or its training diverged")
