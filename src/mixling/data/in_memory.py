"""Check examples that are passed in memory, as to an estimator, in the same way as the rows of files.

In messages, a name in angle brackets replaces that of a file, and items are counted from 0.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mixling.data.dataset import Dataset
from mixling.data.examples import Example, Target
from mixling.data.number_codes import LARGEST, as_number
from mixling.data.tag_schemes import ImpossibleTagError, recognize
from mixling.data.values import kinds_problem, slots_problem, words_problem
from mixling.errors import DataError, shown
from mixling.text.clean import check_many
from mixling.text.encoder import Text

LabeledTexts = tuple[list[Any], list[Target]]
"""Texts, and their targets."""

COLLECTIONS = list | tuple | set | frozenset


def labeled_rows(X: Iterable[Text], y: Iterable[Any], where: str, *, many: bool) -> LabeledTexts:
    """Return texts, and the names of their labels.

    Args:
        many: each target is a collection of labels.

    Raises:
        DataError: a text or target is invalid, or their numbers differ.
    """
    texts, targets = _beside(X, y, where)
    names: list[Target] = []
    kinds: dict[str, type] = {}
    for number, (text, target) in enumerate(zip(texts, targets, strict=True)):
        try:
            names.append(_names(target, many=many))
            problem = _problem(text)
            for label in map(plain_label, target if many else [target]):
                if message := kinds_problem(label_name(label), label, kinds):
                    problem = problem or f"got the label {message}"
        except DataError as error:
            problem = str(error)
        if problem:
            raise DataError(problem, path=where, line=number)
    return texts, names


def numbered_rows(X: Iterable[Text], y: Iterable[Any], where: str) -> LabeledTexts:
    """Return texts, and their target numbers as floats.

    Raises:
        DataError: a text or number is invalid, or there are not as many texts as numbers.
    """
    texts, targets = _beside(X, y, where)
    numbers: list[Target] = []
    for row, (text, target) in enumerate(zip(texts, map(plain_label, targets), strict=True)):
        problem, number = _problem(text), as_number(target)
        if number is None:
            problem = f"got {shown(target)}; a finite number is required"
        elif abs(number) > LARGEST:
            problem = f"got {number:g}, of which no square can be computed; numbers up to {LARGEST:g} are allowed"
        if problem:
            raise DataError(problem, path=where, line=row)
        numbers.append(number)
    return texts, numbers


def tagged_rows(X: Iterable[list[str]], y: Iterable[Sequence[str]], where: str) -> LabeledTexts:
    """Return sentences as lists of words, and their tags in IOB2; a warning says what is converted.

    Raises:
        DataError: a sentence or its tags are invalid, or their numbers differ.
    """
    sentences, tags = (list(map(unpacked, items)) for items in _beside(X, y, where))
    for number, (words, slots) in enumerate(zip(sentences, tags, strict=True)):
        problem = words_problem(words, "the sentence") or slots_problem(words, slots, "its tags")
        if any(isinstance(slot, int | np.integer) for slot in slots or ()):
            problem = f"its tags are numbers ({str(slots)[:40]}); give names: [[names[i] for i in tags] for tags in y]"
        if problem:
            raise DataError(problem, path=where, line=number)
    scheme = recognize(tags)
    converted: list[Target] = []
    for number, (words, slots) in enumerate(zip(sentences, tags, strict=True)):
        try:
            converted.append(tuple(scheme.convert(slots)))
        except ImpossibleTagError as error:
            problem = f"bad tag at token {error.index + 1} ({words[error.index][:40]!r}): {error}"
            raise DataError(problem, path=where, line=number) from None
    if scheme.remark:
        warnings.warn(f"{where}: {scheme.remark}", stacklevel=3)
    return sentences, converted


def unlabeled_texts(texts: Iterable[Text], *, pairs: bool) -> list[Text]:
    """Return texts without targets as a list.

    Raises:
        DataError: an item is not a text, or is (not) a pair although the labeled examples are not (are).
    """
    out = list(map(unpacked_words, listed(texts, "texts")))
    expected = "a pair of texts, like the labeled examples" if pairs else "a single text, like the labeled examples"
    for number, text in enumerate(out):
        problem = _problem(text)
        if not problem and isinstance(text, tuple) != pairs:
            problem = f"got {'one text' if pairs else 'a pair of texts'}; allowed: {expected}"
        if problem:
            raise DataError(problem, path="<unlabeled>", line=number)
    return out


def unpacked_words(text: Any) -> Any:
    """Convert an array of words to a list; return other values unchanged."""
    return list(text) if isinstance(text, np.ndarray) else text


def _beside(X: Any, y: Any, where: str) -> tuple[list[Any], list[Any]]:
    texts, targets = listed(X, "texts"), listed(y, "targets")
    if len(texts) != len(targets):
        raise DataError(f"{len(texts)} texts but {len(targets)} targets; give each text one", path=where)
    return texts, targets


def listed(items: Any, what: str) -> list[Any]:
    """Return items as a list; raise an error as `check_many` does."""
    check_many(items, what)
    return list(items)


def unpacked(words: Any) -> Any:
    """Convert a tuple or array of words to a list; return other values unchanged."""
    return list(words) if isinstance(words, tuple | np.ndarray) else words


def store_rows(rows: LabeledTexts, where: str, *, pairs: bool | None = None) -> Dataset:
    """Return a data set of examples; `pairs` as for `Dataset.from_examples`."""
    texts, targets = rows
    examples = (Example(text, target, where, i) for i, (text, target) in enumerate(zip(texts, targets, strict=True)))
    return Dataset.from_examples(examples, pairs=pairs)


def _problem(text: Any) -> str:
    """Describe the problem with a text; return "" if there is none."""
    if isinstance(text, tuple) and len(text) != 2:
        return f"got a tuple of {len(text)} items; allowed: a pair of texts"
    parts = text if isinstance(text, tuple | list) else [text]
    wrong = [part for part in parts if not isinstance(part, str)]
    return f"got {wrong[0]!r}, which is not a text; allowed: a str, a pair of str, a list of str" if wrong else ""


def checked_weights(sample_weight: Any, count: int) -> np.ndarray | None:
    """Return the weights of `count` examples as float32 numbers.

    Raises:
        DataError: they are not numbers, or not one per example.
    """
    if sample_weight is None:
        return None
    needed = f"{count} finite numbers >= 0, not all zero, are required"
    try:
        with np.errstate(over="ignore"):
            weights = np.asarray(sample_weight, np.float32)
    except (TypeError, ValueError):  # strings, or rows of different lengths
        raise DataError(f"sample_weight: got {str(sample_weight)[:80]}; {needed}") from None
    if weights.shape != (count,):
        raise DataError(f"sample_weight: got shape {weights.shape}; {needed}")
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(wrong):
        got = np.asarray(sample_weight).reshape(-1)[wrong[0]]
        raise DataError(f"sample_weight: item {wrong[0]} is {got}; {needed}")
    if not weights.any():
        raise DataError(f"sample_weight: all are 0; {needed}")
    return weights


def score_weights(sample_weight: Any, count: int) -> np.ndarray:
    """Return weights as `checked_weights` does, but ones for None; no examples are an error."""
    if not count:
        raise DataError("there is nothing to score; give at least one text with its target")
    weights = checked_weights(sample_weight, count)
    return np.ones(count) if weights is None else weights


def plain_label(label: Any) -> Any:
    """Convert a NumPy scalar to a Python value; return other values unchanged."""
    return label.item() if isinstance(label, np.generic) else label


def _names(target: Any, *, many: bool) -> Target:
    """Return the name of a label, or the sorted names of a collection of labels.

    Raises:
        DataError: the target is not a collection (or is one), or a label is invalid.
    """
    if isinstance(target, COLLECTIONS) != many:
        got = f"got {str(target)[:80]!r}; {'a collection of labels' if many else 'one label'} is required"
        raise DataError(f"{got}: targets are either single labels or collections of labels, not both")
    return tuple(sorted(set(map(label_name, target)))) if many else label_name(target)


def label_name(label: Any) -> str:
    """Return the name under which a label is saved.

    Raises:
        DataError: the label is neither a string, an integer nor a boolean.
    """
    label = plain_label(label)
    if isinstance(label, bool):
        return "true" if label else "false"
    if isinstance(label, int | str):
        return str(label)
    got = f"label {label!r} is of type {type(label).__name__}; allowed: a string, an integer or a boolean"
    raise DataError(f"{got}; to predict numbers use TextRegressor" if isinstance(label, float) else got)
