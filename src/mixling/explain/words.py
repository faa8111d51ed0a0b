"""Explain an answer by leaving words out of the text, with any engine that computes logits of texts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.answers.labels import not_finite
from mixling.arrays import Float64
from mixling.errors import ConfigError, DataError, near_miss, shown
from mixling.explain.explanation import ColumnEffect, Explanation, WordEffect
from mixling.explain.shapley import EXACT_PLAYERS, exact_shapley, leave_one_out, sampled_shapley
from mixling.features.cells import Cells, cells_of, with_cells
from mixling.tasks.base import Task, sigmoid
from mixling.text.clean import clean
from mixling.text.config import MOST_TOGETHER, TextConfig
from mixling.text.encoder import Encoded, Text, fit_parts
from mixling.text.long_texts import TextWindow
from mixling.text.words import word_spans

METHODS = ("auto", "leave_one_out", "shapley")
# Of longer texts, leave-one-out finds nearly the same words in a quarter of the time (experiments/explanations.py).
_MANY = 64

Logits = Callable[[list[Text]], Sequence[npt.NDArray[Any]]]
LogitsOfKept = Callable[[str, npt.NDArray[np.bool_]], npt.NDArray[Any] | None]
_Word = tuple[str, int, int, int]  # as in `WordEffect`
_BITS = tuple(tuple(mask >> bit & 1 for bit in range(7, -1, -1)) for mask in range(256))  # of a byte, highest first
_MAX_WORDS = 10_000  # each is left out in turn, at the cost of a prediction


def explain(
    text: Text,
    *,
    task: Task,
    config: TextConfig,
    encode: Callable[[Text], Encoded],
    logits: Logits,
    logits_of_kept: LogitsOfKept,
    columns: Sequence[str] = (),
    divide: Callable[[Text], Sequence[TextWindow]] | None,
    target: str | None,
    word: int | None,
    method: str,
    evaluations: int,
    seed: int,
) -> Explanation:
    """Explain an answer; see `Predictor.explain`.

    Args:
        encode: encodes one text, with offsets.
        logits: computes the logits of texts, (C,) each, or (W, C) where answers are for words.
        logits_of_kept: computes those (M, C) of the texts that keep some of the words of one, by a matrix (M, W); None:
            it cannot, and `logits` has to.
        columns: the names of the columns beside the text.
        divide: returns the windows of a text above the maximum; None: it is explained up to the maximum.
    """
    _check(task, method, target)
    for name, number, least in (("evaluations", evaluations, 1), ("seed", seed, 0)):
        if number < least:
            raise ConfigError(f"{name}: got {shown(number)}; allowed: whole numbers from {least}")
    if task.per_word and isinstance(text, tuple):
        raise DataError("the model labels the words of one text; got a pair of texts")
    cells = cells_of(text) or ()
    added = np.zeros((0, len(task.labels.names)))
    if columns:
        text, added, logits, logits_of_kept = _without_cells(text, cells, logits, logits_of_kept)
    words, parts, truncated = _read(text, config, encode, divide, as_list=task.per_word)
    label = None if target is None else _label_id(task, target)
    if task.per_word:
        tags = _tags(task, len(words), parts, logits)
        word = _explained_word(tags, word)
        label = int(tags[word]) if label is None else label
        # Words outside the window that the tag is from make no difference to it.
        parts = [part for part in parts if word in part.own]
    elif word is not None:
        raise ConfigError(f"word: got {word}; the model gives {task.gives}: word is for models that tag words")

    def outputs(kept: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
        if word is not None:
            return parts[0].logits_of(word, kept, lambda texts: list(map(task.word_scores, logits(texts))))
        found = [part.logits(kept, logits, logits_of_kept) for part in parts]
        if len(parts) == 1:
            return found[0]
        return np.stack([task.pool_windows(np.stack(rows)) for rows in zip(*found, strict=True)])

    read = parts[0].words if len(parts) == 1 else np.arange(len(words))
    players = read[read != word]

    def game(coalitions: npt.NDArray[np.bool_]) -> Float64:
        nonlocal label
        kept = coalitions[:, : len(players)]
        if len(players) < len(words):
            kept = np.ones((len(coalitions), len(words)), bool)
            kept[:, players] = coalitions
        found = outputs(kept)
        if len(added):
            found = found + coalitions[:, len(players) :] @ added
        if label is None:  # the label of the text itself, which every method evaluates among the last
            whole = next(number for number in range(len(coalitions) - 1, -1, -1) if coalitions[number].all())
            label = task.best(found[whole])
        return task.target_scores(found, label)

    used, values = _method(method, len(players) + len(added), evaluations, seed)
    effects, score, base = values(game, len(players) + len(added))
    all_effects = np.zeros(len(words))
    all_effects[players] = effects[: len(players)]
    of_columns = effects[len(players) :].tolist()
    assert label is not None
    return Explanation(
        text=text,
        target=task.labels.names[label] if task.has_labels else None,
        word=word,
        method=used,
        score=score,
        base=base,
        probability=sigmoid(score) if task.has_labels else None,
        words=tuple(
            WordEffect(spelled, start, end, effect, part)
            for (spelled, start, end, part), effect in zip(words, all_effects.tolist(), strict=True)
        ),
        columns=tuple(map(ColumnEffect, columns, cells, of_columns)),
        truncated=truncated,
    )


def _without_cells(
    text: Text, cells: Cells, logits: Logits, logits_of_kept: LogitsOfKept
) -> tuple[Text, npt.NDArray[Any], Logits, LogitsOfKept]:
    """Return a text, what each of its columns adds to the logits (W, C), and what computes logits without columns."""
    none = (None,) * len(cells)
    plain: Text = str(text) if isinstance(text, str) else tuple(text)
    alone = [(*none[:number], cell, *none[number + 1 :]) for number, cell in enumerate(cells)]
    found = np.stack(list(logits([with_cells(plain, row) for row in (none, *alone)])))

    def of_texts(texts: list[Text]) -> Sequence[npt.NDArray[Any]]:
        return logits([with_cells(one, none) for one in texts])

    def of_kept(one: str, kept: npt.NDArray[np.bool_]) -> npt.NDArray[Any] | None:
        return logits_of_kept(with_cells(one, none), kept)  # type: ignore[arg-type]  # a string

    return plain, found[1:] - found[0], of_texts, of_kept


def _check(task: Task, method: str, target: str | None) -> None:
    if method not in METHODS:
        raise ConfigError(f"method: got {shown(method)}; {near_miss(str(method), METHODS)}")
    if task.windows:
        raise ConfigError(f"the model gives {task.gives}, which cannot be explained; labels, tags and numbers can")
    if target is not None and not task.has_labels:
        raise ConfigError(f"target: got {shown(target)}; the model gives {task.gives}, so there is no label to choose")


def _label_id(task: Task, target: str) -> int:
    if target not in task.labels.names:
        raise ConfigError(f"target: the model has no label {shown(target)}; {near_miss(target, task.labels.names)}")
    return task.labels.id(target)


def _tags(task: Task, count: int, parts: Sequence[_Part], logits: Logits) -> npt.NDArray[np.int64]:
    """Return the ids of the tags (W,) that are predicted for the words of a text."""
    if not count:
        raise ConfigError("the text has no words, so there is no tag to explain")
    stitched = np.zeros((count, len(task.labels.names)))
    for part, rows in zip(parts, logits([part.text() for part in parts]), strict=True):
        stitched[part.own] = np.asarray(rows)[np.searchsorted(part.words, part.own)]
    if not np.isfinite(stitched).all():
        raise not_finite()
    return task.best_tags(stitched)


def _explained_word(tags: npt.NDArray[np.int64], word: int | None) -> int:
    """Return the index of the word to explain: by default the first in a span, else the first word."""
    if word is None:
        return int((tags != 0).argmax())  # O, the tag of words outside all spans, is the first label
    if not 0 <= word < len(tags):
        raise ConfigError(f"word: got {word}; the model read {len(tags)} words: 0 to {len(tags) - 1} are allowed")
    return word


def _method(
    method: str, players: int, evaluations: int, seed: int
) -> tuple[str, Callable[..., tuple[Float64, float, float]]]:
    if method == "leave_one_out" or (method == "auto" and players > _MANY):
        return "leave_one_out", leave_one_out
    if players <= EXACT_PLAYERS:
        return "shapley", exact_shapley
    return "sampled_shapley", partial(sampled_shapley, evaluations=evaluations, seed=seed)


class _Part:
    """A text, or a window of one, that is read without some of its words.

    Args:
        text: as it is read.
        spelled: its words; the characters between them separate or join no words.
        words: (N,) the index of each among the words of the whole text.
        own: those whose tags are from here.
        places: (N,) of several texts, the number of the one that each word is in.
        as_list: give words to the model, not a string.
    """

    def __init__(
        self,
        text: Text,
        spelled: list[str],
        *,
        words: npt.NDArray[np.int64],
        own: npt.NDArray[np.int64],
        places: Sequence[int],
        as_list: bool,
    ) -> None:
        self.words = words
        self.own = own
        self._spelled = spelled
        self._kind: type = list if as_list else type(text)
        number = len(text) if isinstance(text, tuple) else 0
        self._ends = np.searchsorted(np.asarray(places, np.int64), np.arange(number + 1)).tolist()

    def text(self) -> Text:
        """Return the text with all of its words."""
        return self._make(np.ones((1, len(self._spelled)), bool))[0]

    def logits(self, kept: npt.NDArray[np.bool_], logits: Logits, logits_of_kept: LogitsOfKept) -> npt.NDArray[Any]:
        """Return the logits (M, C) of this part of texts that keep some of all words (M, words of the whole text).

        Of a window, equal parts are computed once.
        """
        if kept.shape[1] == len(self.words):
            return self._distinct_logits(kept, logits, logits_of_kept)
        rows = kept[:, self.words]
        packed, inverse = np.unique(np.packbits(rows, axis=1), axis=0, return_inverse=True)
        distinct = np.unpackbits(packed, axis=1, count=rows.shape[1]).astype(bool)
        return self._distinct_logits(distinct, logits, logits_of_kept)[inverse.ravel()]

    def _distinct_logits(
        self, rows: npt.NDArray[np.bool_], logits: Logits, logits_of_kept: LogitsOfKept
    ) -> npt.NDArray[Any]:
        found = logits_of_kept(" ".join(self._spelled), rows) if self._kind is str and self._spelled else None
        return np.asarray(logits(self._make(rows))) if found is None else found

    def logits_of(self, word: int, kept: npt.NDArray[np.bool_], logits: Logits) -> npt.NDArray[Any]:
        """Return the logits (M, C) of a word, which is kept."""
        rows = kept[:, self.words]
        at = rows[:, : int(np.searchsorted(self.words, word))].sum(1)
        return np.stack([row[i] for row, i in zip(logits(self._make(rows)), at, strict=True)])

    def _make(self, coalitions: npt.NDArray[np.bool_]) -> list[Text]:
        """Return the text with the words (N,) of each coalition (M, N) only."""
        spelled = self._spelled
        if self._kind is str:
            return _join(spelled, coalitions)
        if self._kind is list:
            return [list(itertools.compress(spelled, row)) for row in coalitions.tolist()]
        ends = [*itertools.pairwise(self._ends)]
        return [
            tuple(" ".join(itertools.compress(spelled[begin:end], row[begin:end])) for begin, end in ends)
            for row in coalitions.tolist()
        ]


def _join(words: Sequence[str], coalitions: npt.NDArray[np.bool_]) -> list[Text]:
    """Return the words (N,) of each coalition (M, N), separated by spaces: a word is read as one between them, too.

    What eight words in succession contribute is put together once.
    """
    columns = []
    for number, column in enumerate(np.packbits(coalitions, axis=1).T):
        group = words[8 * number : 8 * number + 8]
        bits = column.tolist()
        made = {mask: f" {' '.join(itertools.compress(group, _BITS[mask]))}" for mask in set(bits)}
        columns.append(map(made.__getitem__, bits))
    return list(map("".join, zip(*columns, strict=True))) if columns else [""] * len(coalitions)


def _read(
    text: Text,
    config: TextConfig,
    encode: Callable[[Text], Encoded],
    divide: Callable[[Text], Sequence[TextWindow]] | None,
    *,
    as_list: bool,
) -> tuple[list[_Word], list[_Part], bool]:
    """Return the words of a text that a model reads, the windows that it reads them in, and whether there were more.

    Raises:
        DataError: there are too many.
    """
    words, truncated = _read_words(text, config, encode)
    windows = divide(text) if truncated and divide is not None else ()
    if len(windows) < 2:  # otherwise a word is too long, not the text
        everything = np.arange(len(words))
        spelled = [word for word, *_ in words]
        places = [part for *_, part in words]
        return (
            words,
            [_Part(text, spelled, words=everything, own=everything, places=places, as_list=as_list)],
            truncated,
        )
    read: list[list[_Word]] = []
    truncated = False
    for window in windows:
        found, cut = _read_words(window.text, config, encode)
        truncated |= cut
        shift = [0] * MOST_TOGETHER
        shift[window.side] = window.offset
        read.append([(word, start + shift[part], end + shift[part], part) for word, start, end, part in found])
    known = {_location(item): item for part in read for item in part}  # windows may overlap
    words = [known[location] for location in sorted(known)]
    if len(words) > _MAX_WORDS:
        raise DataError(
            f"the text has {len(words):,} words; texts of up to {_MAX_WORDS:,} are explained: shorten it (in Python, "
            "Predictor(..., too_long='truncate') explains its beginning)"
        )
    index = {location: number for number, location in enumerate(sorted(known))}
    parts = []
    for window, found in zip(windows, read, strict=True):
        numbers = np.array([index[_location(item)] for item in found], np.int64)
        begins = np.array([item[1] for item in found], np.int64)
        own = numbers[(window.first <= begins) & (begins < window.end)]
        spelled = [word for word, *_ in found]
        places = [part for *_, part in found]
        parts.append(_Part(window.text, spelled, words=numbers, own=own, places=places, as_list=as_list))
    return words, parts, truncated


def _location(word: _Word) -> tuple[int, int]:
    return word[3], word[1]


def _read_words(text: Text, config: TextConfig, encode: Callable[[Text], Encoded]) -> tuple[list[_Word], bool]:
    """Return the words of a text that a model reads, and whether there were more."""
    if isinstance(text, tuple):
        cleaned = [clean(part, config.max_chars) for part in text]
        spans = [word_spans(part, config.max_len + 1, contractions=config.contractions) for part, _ in cleaned]
        kept, shortened = fit_parts(spans, config.max_len)
        words = [
            (part[start:end], start, end, number)
            for number, ((part, _), spans_of_part) in enumerate(zip(cleaned, kept, strict=True))
            for start, end in spans_of_part
        ]
        return words, shortened or any(cut for _, cut in cleaned)
    if isinstance(text, str) and config.tokens == "words":
        clean_text, cut = clean(text, config.max_chars)
        found = word_spans(clean_text, config.max_len + 1, contractions=config.contractions)
        return [(clean_text[a:b], a, b, 0) for a, b in found[: config.max_len]], cut or len(found) > config.max_len
    encoded = encode(text)
    assert encoded.offsets is not None
    spelled = text if isinstance(text, list) else [clean(text, config.max_chars)[0][a:b] for a, b in encoded.offsets]
    return [(word, *span, 0) for word, span in zip(spelled, encoded.offsets, strict=False)], encoded.truncated
