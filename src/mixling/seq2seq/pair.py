"""The record that text-to-text models learn from and are measured by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A source and what a model is to write for it, and where it stands: file and 1-based line (or row).

    Attributes:
        target: None where it is not known.
        group: a group that has metrics of its own, too; None: of no group.
        question: what several pairs belong to where a measure is of them together (MultiRC, ReCoRD).
        references: all right answers where more than the target are right; empty: the target alone.
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
        """All right answers."""
        return self.references or (() if self.target is None else (self.target,))
