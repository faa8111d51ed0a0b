"""Rows given in memory, as to an estimator: checked as the rows of files are.

In messages a name in angle brackets stands for the file, and rows count from 0, as the items of a list.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mixling.data.dataset import Dataset
from mixling.data.examples import Example, Target, kinds_problem, slots_problem, words_problem
from mixling.errors import DataError
from mixling.text.clean import check_many
from mixling.text.encoder import Text

Rows = tuple[list[Any], list[Target]]
"""Texts and their targets."""

COLLECTIONS = list | tuple | set | frozenset


def labeled_rows(X: Iterable[Text], y: Iterable[Any], where: str, *, many: bool) -> Rows:
    """Texts, and the names of their labels.

    Args:
        many: each target is a collection of labels.

    Raises:
        DataError: a text or a target that is none, or another number of these than of those.
    """
    texts, targets = _beside(X, y, where)
    names: list[Target] = []
    kinds: dict[str, type] = {}
    for number, (text, target) in enumerate(zip(texts, targets, strict=True)):
        try:
            names.append(_names(target, many=many))
            problem = _problem(text)
            for label in map(plain, target if many else [target]):
                if message := kinds_problem(label_name(label), label, kinds):
                    problem = problem or f"got the label {message}"
        except DataError as error:
            problem = str(error)
        if problem:
            raise DataError(problem, path=where, line=number)
    return texts, names


def numbered_rows(X: Iterable[Text], y: Iterable[Any], where: str) -> Rows:
    """Return texts, and their numbers as floats.

    Raises:
        DataError: a text or a number that cannot be used, or another number of these than of those.
    """
    texts, targets = _beside(X, y, where)
    numbers = list(map(plain, targets))
    for row, (text, number) in enumerate(zip(texts, numbers, strict=True)):
        problem = _problem(text)
        if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
            problem = f"got {str(number)[:80]!r} where a finite number is needed"
        if problem:
            raise DataError(problem, path=where, line=row)
    return texts, list(map(float, numbers))


def tagged_rows(X: Iterable[list[str]], y: Iterable[Sequence[str]], where: str) -> Rows:
    """Sentences of words, and their tags.

    Raises:
        DataError: a sentence or tags that cannot be used, or another number of these than of those.
    """
    sentences, tags = (list(map(unpacked, items)) for items in _beside(X, y, where))
    for number, (words, slots) in enumerate(zip(sentences, tags, strict=True)):
        problem = words_problem(words, "the sentence") or slots_problem(words, slots, "its tags")
        if problem:
            raise DataError(problem, path=where, line=number)
    return sentences, [tuple(slots) for slots in tags]


def unlabeled_texts(texts: Iterable[Text], *, pairs: bool) -> list[Text]:
    """Texts without targets.

    Raises:
        DataError: an item is none, or single where the rows are pairs, or the other way round.
    """
    out = list(map(unpacked_words, listed(texts, "texts")))
    for number, text in enumerate(out):
        problem = _problem(text)
        if not problem and isinstance(text, tuple) != pairs:
            problem = (
                f"got {'one text' if pairs else 'a pair of texts'}; the rows are {'pairs' if pairs else 'single texts'}"
            )
        if problem:
            raise DataError(problem, path="<unlabelled>", line=number)
    return out


def unpacked_words(text: Any) -> Any:
    """An array of words as a list; what is none stays as it is."""
    return list(text) if isinstance(text, np.ndarray) else text


def _beside(X: Any, y: Any, where: str) -> tuple[list[Any], list[Any]]:
    texts, targets = listed(X, "texts"), listed(y, "targets")
    if len(texts) != len(targets):
        raise DataError(f"{len(texts)} texts but {len(targets)} targets; give each text one", path=where)
    return texts, targets


def listed(items: Any, what: str) -> list[Any]:
    """Many items as a list; raises as `check_many` does."""
    check_many(items, what)
    return list(items)


def unpacked(words: Any) -> Any:
    """A sentence as a list; what is none stays as it is."""
    return list(words) if isinstance(words, tuple | np.ndarray) else words


def store_rows(rows: Rows, where: str, *, pairs: bool | None = None) -> Dataset:
    """Return rows as training reads them; `pairs` as of `Dataset.from_examples`."""
    texts, targets = rows
    examples = (Example(text, target, where, i) for i, (text, target) in enumerate(zip(texts, targets, strict=True)))
    return Dataset.from_examples(examples, pairs=pairs)


def _problem(text: Any) -> str:
    """What is wrong with a text, or nothing."""
    if isinstance(text, tuple) and len(text) != 2:
        return f"a tuple is a pair of texts; got {len(text)} items"
    parts = text if isinstance(text, tuple | list) else [text]
    wrong = [part for part in parts if not isinstance(part, str)]
    return f"got {wrong[0]!r} where a text is needed; a text is a str, a pair of str or a list of str" if wrong else ""


def checked_weights(sample_weight: Any, count: int) -> np.ndarray | None:
    """Weights of examples as float32 numbers.

    Raises:
        DataError: they are none, or of another number of examples.
    """
    if sample_weight is None:
        return None
    needed = f"{count} finite numbers >= 0, not all zero, are needed"
    try:
        weights = np.asarray(sample_weight, np.float32)
    except (TypeError, ValueError):  # words, or rows of several lengths
        raise DataError(f"sample_weight: got {str(sample_weight)[:80]}; {needed}") from None
    if weights.shape != (count,) or not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise DataError(f"sample_weight: got shape {weights.shape}; {needed}")
    return weights


def score_weights(sample_weight: Any, count: int) -> np.ndarray:
    """As `checked_weights`, where None means ones, and no example at all is an error."""
    if not count:
        raise DataError("there is nothing to score; give at least one text and its target")
    weights = checked_weights(sample_weight, count)
    return np.ones(count) if weights is None else weights


def plain(label: Any) -> Any:
    """A NumPy scalar as the Python value that it is."""
    return label.item() if isinstance(label, np.generic) else label


def _names(target: Any, *, many: bool) -> Target:
    """The name of a label, or the names of a collection of labels.

    Raises:
        DataError: the one where the other is needed, or what `label_name` refuses.
    """
    if isinstance(target, COLLECTIONS) != many:
        got = f"got {str(target)[:80]!r} where {'a collection of labels' if many else 'one label'} is needed"
        raise DataError(f"{got}; targets are single labels, or collections of labels, never both")
    return tuple(sorted(set(map(label_name, target)))) if many else label_name(target)


def label_name(label: Any) -> str:
    """The name under which a label is saved.

    Raises:
        DataError: the label is neither a string, an integer nor a boolean.
    """
    label = plain(label)
    if isinstance(label, bool):
        return "true" if label else "false"
    if isinstance(label, int | str):
        return str(label)
    got = f"label {label!r} is of type {type(label).__name__}; a string, an integer or a boolean is allowed"
    raise DataError(f"{got}, and TextRegressor predicts numbers" if isinstance(label, float) else got)
