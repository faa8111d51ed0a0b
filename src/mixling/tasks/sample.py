"""The beginning of a training file, from which its task is inferred."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mixling.data.config import ColumnsConfig
from mixling.data.readers import format_of_name
from mixling.data.values import is_blank, labels_in


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The beginning of a training file, from which a task is inferred.

    text, label, text_pair: the columns of texts, of the label, and of second texts, if any. rows: the first rows. rest:
    those after them, which can be read once.
    """

    path: str
    file_format: str | None
    text: str
    label: str
    text_pair: str | None
    rows: Sequence[Mapping[str, Any]]
    rest: Iterator[Mapping[str, Any]] = field(default_factory=lambda: iter(()))

    @functools.cached_property
    def label_counts(self) -> Counter[str]:
        """How often each label of the first rows occurs, as it is written."""
        return Counter(str(row.get(self.label)).strip() for row in self.rows)

    @functools.cached_property
    def list_sizes(self) -> set[int]:
        """How many labels the lists in the label column have; empty if one row has no list.

        Empty cells are lists without labels. If all lists of the first rows have one label, the rest is read, too.
        """
        values = [row.get(self.label) for row in self.rows]
        if all(map(is_blank, values)):
            return set()
        for bare in (False, True):
            lists = [[] if is_blank(value) else labels_in(value, bare=bare) for value in values]
            sizes = {-1 if labels is None else len(labels) for labels in lists}
            if -1 not in sizes and not (bare and sizes == {1}):  # names may be in brackets
                break
        else:
            return set()
        if sizes == {1}:
            rest = (labels_in(row.get(self.label)) for row in self.rest)
            others = (len(labels) for labels in rest if labels is not None and len(labels) != 1)
            sizes.update(itertools.islice(others, 1))
        return sizes

    @property
    def first(self) -> Mapping[str, Any]:
        """The first row; empty if there is none."""
        return self.rows[0] if self.rows else {}

    @property
    def names_text(self) -> bool:
        """Whether the user named the column of texts, which words, tags and questions have no use for."""
        named: bool = self.text != ColumnsConfig.model_fields["text"].default
        return named

    @property
    def is_conll(self) -> bool:
        """Whether the file is in CoNLL format, by its extension or by the user's option."""
        return "conll" in (self.file_format, format_of_name(self.path))
