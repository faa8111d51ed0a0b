"""The names of a task's outputs, stored in a model file; the task defines their meaning (`mixling.tasks`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from mixling.errors import DataError, ModelFileError, near_miss

Targets = np.ndarray | list[np.ndarray]

LABEL_TYPES: dict[str, type] = {"integer": int, "number": float, "boolean": bool}
_WRITTEN = {name: re.compile("true|false" if name == "boolean" else r"-?[0-9]{1,400}") for name in LABEL_TYPES}
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


@dataclass(frozen=True)
class LabelSet:
    """The names of a task's classes or other outputs; the id of a name is its index.

    Args:
        names: distinct and not empty.
        kind: the `Task.kind` of the task that the names belong to.
        numbers: further values that decoding needs, such as the mean of the training targets of a regression.
        types: what labels are in Python, if they are no strings: a key of `LABEL_TYPES` by name.
        columns: the names of the columns of the indicator matrix that a model was fitted on; empty if it was not.

    Raises:
        DataError: the names break one of these rules.
    """

    names: tuple[str, ...]
    kind: str
    numbers: Mapping[str, float] = field(default_factory=dict, hash=False)
    types: Mapping[str, str] = field(default_factory=dict, hash=False)
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        seen = set()
        for name in self.names:
            _check(name)
            if name in seen:
                raise DataError(f"label {name!r} occurs twice in the label set; list each label once")
            seen.add(name)
        if not self.names:
            raise DataError("there are no labels; give at least one labeled example")
        for key, value in self.numbers.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
                raise DataError(f"{key} is {str(value)[:40]!r}; a finite number is needed")
        for name in (*self.columns, *self.types):
            _check(name)
        for name, kind in self.types.items():
            if not isinstance(kind, str) or kind not in LABEL_TYPES or not _WRITTEN[kind].fullmatch(name):
                raise DataError(f"label {name!r} is no {str(kind)[:40]}")
        if self.columns and (len(set(self.columns)) < len(self.columns) or not seen <= set(self.columns)):
            raise DataError("the columns of the labels do not have each of them once")

    @classmethod
    def from_labels(
        cls, labels: Iterable[str], kind: str, *, types: Mapping[str, str] | None = None, columns: Sequence[str] = ()
    ) -> LabelSet:
        """Return the label set of the labels in the data, which may repeat.

        Names are sorted by code points, or by value if all are integers.

        Args:
            types: of all labels that are no strings; others are ignored.
        """
        distinct = set(labels)
        by_value = all(isinstance(label, str) and _INTEGER.fullmatch(label) for label in distinct)
        names = sorted(distinct, key=lambda label: (int(label) if by_value else 0, str(label)))
        known = {name: types[name] for name in (*names, *columns) if name in types} if types else {}
        return cls(tuple(names), kind, types=known, columns=tuple(columns))

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values that `from_dict` reads."""
        out: dict[str, Any] = {"kind": self.kind, "names": list(self.names)}
        if self.numbers:
            out["numbers"] = dict(self.numbers)
        if self.types:
            same = set(self.types.values()) if self.types.keys() >= {*self.names, *self.columns} else set()
            out["types"] = same.pop() if len(same) == 1 else dict(self.types)
        if self.columns:
            out["columns"] = list(self.columns)
        return out

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> LabelSet:
        """Return the label set that `to_dict` converted.

        Raises:
            ModelFileError: the values do not describe a label set.
        """
        if (
            not isinstance(values, Mapping)
            or set(values) - {"numbers", "types", "columns"} != {"kind", "names"}
            or not isinstance(values["kind"], str)
            or not isinstance(values["names"], list)
            or not isinstance(values.get("numbers", {}), Mapping)
            or not isinstance(types := values.get("types", {}), Mapping | str)
            or not isinstance(values.get("columns", []), list)
        ):
            raise ModelFileError("labels: expected {'kind': ..., 'names': [...]}; the model is damaged")
        try:
            names = tuple(values["names"])
            columns = tuple(values.get("columns", ()))
            if isinstance(types, str):
                types = dict.fromkeys((*names, *columns), types)
            return cls(names, values["kind"], values.get("numbers", {}), types, columns)
        except DataError as error:
            raise ModelFileError(f"labels: {error}") from None

    def __len__(self) -> int:
        return len(self.names)

    def value(self, name: str) -> Any:
        """Return the label with this name as it was given in Python, such as 1 for "1"."""
        kind = self.types.get(name)
        return (name == "true") if kind == "boolean" else LABEL_TYPES[kind](name) if kind else name

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.names)}

    def id(self, name: str) -> int:
        """Return the id of a label.

        Raises:
            DataError: the set has no such label; the message names the nearest one.
        """
        if name not in self._ids:
            raise DataError(f"unknown label {name!r}; {near_miss(str(name), self.names)}")
        return self._ids[name]

    def ids(self, names: Iterable[str]) -> np.ndarray:
        """Return the ids of labels, int64 (len(names),); raises like `id`."""
        return np.array([self.id(name) for name in names], dtype=np.int64)


def _check(name: object) -> None:
    if not isinstance(name, str):
        raise DataError(f"label {name!r} is of type {type(name).__name__}; labels are strings")
    if not name.strip():
        raise DataError(f"label {name!r} is empty; give every label a name")
    if any("\ud800" <= character <= "\udfff" for character in name):
        raise DataError(f"label {name!r} contains a lone surrogate, which cannot be encoded as UTF-8; remove it")


def iob_spans(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return the spans `(type, first token, last token + 1)` of well-formed IOB tags, in order.

    As in conlleval, B-x always starts a span, and so does an I-x that does not continue a span of type x.
    """
    spans = []
    current = ""
    first = 0
    for index, tag in enumerate((*tags, "O")):
        prefix, _, kind = tag.partition("-")
        if current and (prefix != "I" or kind != current):
            spans.append((current, first, index))
            current = ""
        if kind and not current:
            current = kind
            first = index
    return spans


def not_finite() -> ModelFileError:
    """Return the error of a model with logits that are not finite."""
    return ModelFileError("the model computed a logit that is not finite: it is damaged, or its training diverged")
