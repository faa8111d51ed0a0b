"""The explanation of one answer, each word of a text with its effect: as lines for a terminal, and as HTML."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from mixling.errors import printable
from mixling.notebook import html_page
from mixling.text.encoder import Text

_LISTED = 8  # words with their effects, below the text
# Blue is for the answer and orange against it, as on the pages of the server and of the browser: color-blind readers
# can tell the two apart, and neither reads as an alarm.
_FOR = (26, 106, 208)
_AGAINST = (232, 120, 20)
_OPACITY = 0.6  # of the strongest; text on it has a contrast above 4.5, black on white and white on black
_STYLE = """
body { font: 16px/1.7 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
section { border-top: 1px solid #8888; padding: .5rem 0 1rem }
p { margin: .4rem 0; overflow-wrap: anywhere; white-space: pre-wrap }
.note { opacity: .8; font-size: 85% }
mark { color: inherit; border-radius: 3px; padding: .1em 0 }
b.explained { outline: 2px solid; border-radius: 3px }
"""


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
        return html_section(self)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        words = list(map(asdict, self.words))
        if not isinstance(self.text, tuple):
            for item in words:
                del item["part"]
        names = ("target", "word", "method", "score", "base", "probability")
        values = {name: value for name in names if (value := getattr(self, name)) is not None}
        text = list(self.text) if isinstance(self.text, tuple) else self.text
        columns = {"columns": list(map(asdict, self.columns))} if self.columns else {}
        return {"text": text, **values, "words": words, **columns, "truncated": self.truncated}


def explanation_lines(explanation: Explanation, *, color: bool) -> list[str]:
    """Return an explanation as lines for a terminal: the answer, the text, and the words with the largest effects.

    Args:
        color: mark the words with the background colors of ANSI escape sequences.
    """
    strongest = _strongest(explanation)
    lines = [_headline(explanation)]
    for part, words in _by_part(explanation):
        source = printable(_source(explanation, part).replace("\n", " "))
        if color:
            source = _painted(source, words, explanation.word, strongest)
        lines.append(source)
    lines += [f"  {column.effect:+8.3f}  {printable(_shown(column))}" for column in explanation.columns]
    top = [word for word in explanation.top(_LISTED) if word.effect]
    lines += [f"  {word.effect:+8.3f}  {printable(word.word)}" for word in top]
    return [*lines, *([f"  ({_TRUNCATED})"] if explanation.truncated else [])]


_TRUNCATED = "the text is longer than the model's maximum; its end was ignored"


def explanation_page(explanations: Sequence[Explanation], *, title: str) -> str:
    """Return a complete page that loads nothing; effects are below the text, and where the pointer is."""
    note = '<p class="note">Blue words raise the score of the answer, orange words lower it.</p>'
    return html_page(title, "\n".join([note, *map(html_section, explanations)]), _STYLE)


def html_section(explanation: Explanation) -> str:
    """Return one explanation as a section of a page."""
    lines = [f"<p><b>{html.escape(_headline(explanation))}</b></p>"]
    strongest = _strongest(explanation)
    for part, words in _by_part(explanation):
        source = _source(explanation, part)
        pieces = []
        end = 0
        for index, word in words:
            pieces.append(html.escape(source[end : word.start]))
            spelled = html.escape(source[word.start : word.end])
            if index == explanation.word:
                pieces.append(f'<b class="explained">{spelled}</b>')
            else:
                pieces.append(_mark(spelled, word.effect, strongest))
            end = word.end
        lines.append(f"<p>{''.join(pieces)}{html.escape(source[end:])}</p>")
    for column in explanation.columns:
        lines.append(f"<p>{_mark(html.escape(_shown(column)), column.effect, strongest)} {column.effect:+.3f}</p>")
    if top := [word for word in explanation.top(_LISTED) if word.effect]:
        listed = ", ".join(f"{word.effect:+.3f} {printable(word.word)}" for word in top)
        lines.append(f'<p class="note">{html.escape(listed)}</p>')
    if explanation.truncated:
        lines.append(f'<p class="note">{_TRUNCATED}</p>')
    return f"<section>{''.join(lines)}</section>"


def _mark(content: str, effect: float, strongest: float) -> str:
    rgb = ",".join(map(str, _FOR if effect > 0 else _AGAINST))
    style = f"background:rgba({rgb},{_OPACITY * abs(effect) / strongest:.2f})"
    return f'<mark style="{style}" title="{effect:+.3f}">{content}</mark>'


def _shown(column: ColumnEffect) -> str:
    return f"{column.name}: {'missing' if column.value is None else column.value}"


def _headline(explanation: Explanation) -> str:
    score = f"{explanation.score:.3f}"
    base = f"{explanation.base:.3f}"
    without = "without words" if explanation.word is None else "of the word alone"
    without += " and columns" * bool(explanation.columns)
    method = explanation.method.replace("_", " ")
    if explanation.probability is None:
        return f"{score}; {without} {base}; {method}"
    word = "" if explanation.word is None else f"{printable(explanation.words[explanation.word].word)}: "
    answer = f"{word}{printable(str(explanation.target))}  {explanation.probability:.1%}"
    return f"{answer}  (log-odds {score}; {without} {base}; {method})"


def _strongest(explanation: Explanation) -> float:
    effects = [*(word.effect for word in explanation.words), *(column.effect for column in explanation.columns)]
    return max(map(abs, effects), default=0.0) or 1.0


def _source(explanation: Explanation, part: int) -> str:
    """Return the text that the offsets of a part refer to."""
    text = explanation.text
    if isinstance(text, tuple):
        return text[part]
    return text if isinstance(text, str) else " ".join(text)


def _by_part(explanation: Explanation) -> Iterator[tuple[int, list[tuple[int, WordEffect]]]]:
    """Yield each text of the input with its words and their indices, also if it has no words."""
    found = {part: list(items) for part, items in groupby(enumerate(explanation.words), key=lambda item: item[1].part)}
    for part in range(len(explanation.text) if isinstance(explanation.text, tuple) else 1):
        yield part, found.get(part, [])


def _painted(source: str, words: list[tuple[int, WordEffect]], explained: int | None, strongest: float) -> str:
    pieces = []
    end = 0
    for index, word in words:
        spelled = source[word.start : word.end]
        if index == explained:
            spelled = f"\x1b[1;4m{spelled}\x1b[0m"
        elif (fraction := abs(word.effect) / strongest) >= 0.05:
            color = _FOR if word.effect > 0 else _AGAINST
            # Mixed with white under black letters, so that it is readable on dark and light terminals.
            red, green, blue = (round(255 - fraction * _OPACITY * (255 - part)) for part in color)
            spelled = f"\x1b[30;48;2;{red};{green};{blue}m{spelled}\x1b[0m"
        pieces += [source[end : word.start], spelled]
        end = word.end
    return "".join([*pieces, source[end:]])
