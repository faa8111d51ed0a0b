"""Explain an answer by leaving words out of the text, with any engine that computes logits of texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.answers.labels import not_finite
from mixling.arrays import Float64
from mixling.errors import ConfigError, DataError, near_miss, shown
from mixling.explain.explanation import ColumnEffect, Explanation, WordEffect
from mixling.explain.parts import Logits, LogitsOfKept, ReadPart, read_parts
from mixling.explain.shapley import EXACT_PLAYERS, exact_shapley, leave_one_out, sampled_shapley
from mixling.features.cells import Cells, cells_of, with_cells
from mixling.tasks.base import Task, sigmoid
from mixling.text.config import TextConfig
from mixling.text.encoder import Encoded, Text
from mixling.text.long_texts import TextWindow

METHODS = ("auto", "leave_one_out", "shapley")
# Of longer texts, leave-one-out finds nearly the same words in a quarter of the time (experiments/explanations.py).
_MANY = 64


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
    words, parts, truncated = read_parts(text, config, encode, divide, as_list=task.per_word)
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


def _tags(task: Task, count: int, parts: Sequence[ReadPart], logits: Logits) -> npt.NDArray[np.int64]:
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
