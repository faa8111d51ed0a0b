"""The explanation of one answer: each word of a text with its effect."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from mixling.text.encoder import Text


@dataclass(frozen=True, slots=True)
class WordEffect:
    """A word, its characters in the text (end exclusive), and how much it raises or lowers the score.

    Attributes:
        start, end: characters of the text as the user gave it; of a list of words, of the words joined by spaces.
        part: 0, or 1 for the second text of a pair.
    """

    word: str
    start: int
    end: int
    effect: float
    part: int = 0


_SHOWN = 3  # words, by `repr`


@dataclass(frozen=True, slots=True)
class ColumnEffect:
    """A column beside the text, its value, None where it is missing, and how much it raises or lowers the score."""

    name: str
    value: str | None
    effect: float


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Explanation:
    """Why a model gives an answer to a text.

    Attributes:
        text: as the user gave it.
        target: the label that is explained; None in regression.
        word: the index of the word whose tag is explained (tagging); it is never left out, and its effect is 0.
        method: "leave_one_out", "shapley" (exact) or "sampled_shapley".
        score: of the text: the log-odds of the label's probability, or the predicted number (regression).
        base: the score of the text without words; in tagging, of the explained word alone.
        probability: of the label; None in regression.
        words: those that the model read, in order. Shapley effects, with the columns', sum to `score - base`.
        columns: those beside the text; what has no value has no effect.
        truncated: whether the model did not read the end of the text.
    """

    text: Text
    target: str | None
    word: int | None
    method: str
    score: float
    base: float
    probability: float | None
    words: tuple[WordEffect, ...]
    truncated: bool
    columns: tuple[ColumnEffect, ...] = ()

    def top(self, count: int) -> list[WordEffect]:
        """Return the words with the largest effects, whether for or against, the largest first."""
        return sorted(self.words, key=lambda word: -abs(word.effect))[:count]

    def __repr__(self) -> str:
        effects = [f"{word.word} {word.effect:+.2f}" for word in self.top(_SHOWN)]
        words = ", ".join([*effects, *["..."] * (len(self.words) > _SHOWN)])
        answer = "" if self.target is None else f"target={self.target!r}, "
        return f"Explanation({answer}score={self.score:.3f}, {self.method}: {words})"

    def _repr_html_(self) -> str:
        from mixling.explain.render import html_section

        return html_section(self)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        words = [asdict(word) for word in self.words]
        if not isinstance(self.text, tuple):
            for item in words:
                del item["part"]
        names = ("target", "word", "method", "score", "base", "probability")
        values = {name: value for name in names if (value := getattr(self, name)) is not None}
        text = list(self.text) if isinstance(self.text, tuple) else self.text
        columns = {"columns": [asdict(column) for column in self.columns]} if self.columns else {}
        return {"text": text, **values, "words": words, **columns, "truncated": self.truncated}
