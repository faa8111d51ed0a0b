"""The names of a task's outputs, which a model file holds; what they mean is the task's business (`mixling.tasks`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from mixling.errors import DataError, ModelFileError, near_miss

Targets = np.ndarray | list[np.ndarray]

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


@dataclass(frozen=True)
class LabelSet:
    """The names of a task's classes, or of its other outputs; the id of one is its index.

    Args:
        names: distinct, not empty.
        kind: the `Task.kind` of the task that they belong to.
        numbers: what decoding needs beside the names, such as the mean of the training targets of a regression.

    Raises:
        DataError: the names break one of these rules.
    """

    names: tuple[str, ...]
    kind: str
    numbers: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        seen = set()
        for name in self.names:
            _check(name)
            if name in seen:
                raise DataError(f"label {name!r} stands twice in the label set; each label is given once")
            seen.add(name)
        if not self.names:
            raise DataError("there are no labels; give at least one labeled row")
        for key, value in self.numbers.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
                raise DataError(f"{key} is {str(value)[:40]!r}; a finite number is needed")

    @classmethod
    def from_labels(cls, labels: Iterable[str], kind: str) -> LabelSet:
        """Make the label set of the labels met in the data, repeated ones included.

        Sorted by code points, or by value where all are integers.
        """
        distinct = set(labels)
        if all(isinstance(label, str) and _INTEGER.fullmatch(label) for label in distinct):
            return cls(tuple(sorted(distinct, key=lambda label: (int(label), label))), kind)
        return cls(tuple(sorted(distinct, key=str)), kind)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values, which `from_dict` reads."""
        return {"kind": self.kind, "names": list(self.names)} | (
            {"numbers": dict(self.numbers)} if self.numbers else {}
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> LabelSet:
        """Read back what `to_dict` gave.

        Raises:
            ModelFileError: the values are not those of a label set.
        """
        sound = isinstance(values, Mapping) and set(values) - {"numbers"} == {"kind", "names"}
        if not sound or not (
            isinstance(values["kind"], str)
            and isinstance(values["names"], list)
            and isinstance(values.get("numbers", {}), Mapping)
        ):
            raise ModelFileError("labels: got something else than {'kind': ..., 'names': [...]}; the model is damaged")
        try:
            return cls(tuple(values["names"]), values["kind"], values.get("numbers", {}))
        except DataError as error:
            raise ModelFileError(f"labels: {error}") from None

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.names)}

    def id(self, name: str) -> int:
        """Return the id of a label.

        Raises:
            DataError: the set has no such label; the message names the nearest one.
        """
        found = self._ids.get(name)
        if found is None:
            raise DataError(f"unknown label {name!r}; {near_miss(str(name), self.names)}")
        return found

    def ids(self, names: Iterable[str]) -> np.ndarray:
        """Return the ids of labels, int64 (len(names),); raises as `id` does."""
        return np.array([self.id(name) for name in names], dtype=np.int64)


def _check(name: object) -> None:
    if not isinstance(name, str):
        raise DataError(f"label {name!r} is of type {type(name).__name__}; labels are strings")
    if not name.strip():
        raise DataError(f"label {name!r} is empty; give every label a name")
    if any("\ud800" <= character <= "\udfff" for character in name):
        raise DataError(f"label {name!r} holds half a surrogate pair, which cannot be written as UTF-8")


def iob_spans(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return the spans `(type, first token, last token + 1)` of well-formed IOB tags, in order.

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


def not_finite() -> ModelFileError:
    """Return the error of a model whose logits are none."""
    return ModelFileError("the model answered with a logit that is not finite: it is damaged, or its training diverged")
