"""The examples of text to text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A source and its target.

    Attributes:
        target: None if unknown.
        path, line: file and 1-based line (or row).
        group: a group for which metrics are reported separately; None: no group.
        question: identifies pairs that a metric considers together (MultiRC, ReCoRD).
        references: all correct targets, if there are several; empty: the target only.
    """

    source: str
    target: str | None
    path: str
    line: int
    group: str | None = None
    question: str | None = None
    references: tuple[str, ...] = ()

    @property
    def right(self) -> tuple[str, ...]:
        """All correct targets."""
        return self.references or (() if self.target is None else (self.target,))
