"""Check examples that are passed in memory, as to an estimator, in the same way as the rows of files.

In messages, a name in angle brackets replaces the file's, and items are counted from 0.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mixling.answers.labels import LABEL_TYPES
from mixling.data.cells import read_cell
from mixling.data.columns import texts_in_words
from mixling.data.dataset import Dataset
from mixling.data.examples import Example, Target
from mixling.data.frames import column_values, is_missing
from mixling.data.number_codes import LARGEST, as_number
from mixling.data.tag_schemes import ImpossibleTagError, recognize
from mixling.data.values import (
    is_blank,
    kinds_problem,
    labels_in,
    list_problem,
    slots_problem,
    words_problem,
    words_with_blanks,
)
from mixling.errors import DataError, shown
from mixling.text.clean import check_many
from mixling.text.config import MOST_TOGETHER
from mixling.text.encoder import Text

LabeledTexts = tuple[list[Any], list[Target]]
"""Texts, and their targets."""

COLLECTIONS = (list, tuple, set, frozenset)


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
                label = int(label) if isinstance(label, float) else label
                if message := kinds_problem(label_name(label), label, kinds):
                    problem = problem or f"got the label {message}"
        except DataError as error:
            problem = str(error)
        if problem:
            raise DataError(problem, path=where, line=number)
    check_words(texts, where)
    return texts, names


def label_types(labels: Iterable[Any]) -> dict[str, str]:
    """Return what labels are that are no strings, by their names, as `LabelSet.types`."""
    types: dict[str, str] = {}
    for label in map(plain_label, labels):
        kind = next((name for name, kind in LABEL_TYPES.items() if isinstance(label, kind)), "")
        if isinstance(label, bool):
            kind = "boolean"
        if kind and types.get(name := label_name(label)) != "number":  # 1.0 beside 1
            types[name] = kind
    return types


def structured(targets: list[Any]) -> list[Any]:
    """Return targets with lists in place of arrays, of objects such as {"a": 1, "b": 0}, and of strings that are lists.

    Lists of one label each that were written as text are their labels, as in files.
    """
    targets = [item.tolist() if isinstance(item, np.ndarray) and item.ndim == 1 else item for item in targets]
    if not targets or not all(isinstance(item, str | dict) for item in targets):
        return targets
    lists = [found for item in targets if (found := labels_in(item)) is not None]
    if len(lists) < len(targets):
        return targets
    if all(len(item) == 1 for item in lists) and isinstance(targets[0], str):
        return [item[0] for item in lists]
    return lists


def numbered_rows(X: Iterable[Text], y: Iterable[Any], where: str) -> LabeledTexts:
    """Return texts, and their target numbers as floats.

    Raises:
        DataError: a text or number is invalid, or there are not as many texts as numbers.
    """
    texts, targets = _beside(X, y, where)
    numbers: list[Target] = []
    for row, (text, target) in enumerate(zip(texts, map(plain_label, targets), strict=True)):
        problem = _problem(text)
        number = as_number(target)
        if number is None:
            problem = f"got {shown(target)}; a finite number is required"
        elif abs(number) > LARGEST:
            problem = f"got {number:g}, which is too large to square; numbers up to {LARGEST:g} are allowed"
        if problem:
            raise DataError(problem, path=where, line=row)
        numbers.append(number)
    check_words(texts, where)
    return texts, numbers


def tagged_rows(X: Iterable[list[str]], y: Iterable[Sequence[str]], where: str) -> LabeledTexts:
    """Return sentences as lists of words, and their tags in IOB2; a warning describes conversions.

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


def unlabeled_texts(texts: Iterable[Text], *, number: int) -> list[Text]:
    """Return texts without targets as a list.

    Raises:
        DataError: an item is not a text, or has another number of texts than the labeled examples.
    """
    out = list(map(unpacked_words, listed(texts, "texts")))
    for row, text in enumerate(out):
        problem = _problem(text)
        if not problem and (got := len(text) if isinstance(text, tuple) else 1) != number:
            expected = texts_in_words(number)
            problem = f"got {texts_in_words(got)}; allowed: {expected}, like the labeled examples"
        if problem:
            raise DataError(problem, path="<unlabeled>", line=row)
    return out


def unpacked_words(text: Any) -> Any:
    """Convert an array of words to a list; return other values unchanged."""
    return list(text) if isinstance(text, np.ndarray) else text


def _beside(X: Any, y: Any, where: str) -> tuple[list[Any], list[Any]]:
    texts = listed(X, "texts")
    targets = listed(y, "targets")
    if len(texts) != len(targets):
        raise DataError(f"{len(texts)} texts but {len(targets)} targets; give each text one", path=where)
    return texts, targets


def listed(items: Any, what: str) -> list[Any]:
    """Return items as a list; raise an error as `check_many` does."""
    check_many(items, what)
    return list(column_values(items))  # polars' own items of a list are columns, Arrow's are no values of Python


def unpacked(words: Any) -> Any:
    """Convert a tuple or array of words, or a list that is written as text, to a list; return others unchanged."""
    if isinstance(words, str):
        found = read_cell(words)
        return found if isinstance(found, list) else words
    return list(words) if isinstance(words, tuple | np.ndarray) else words


def check_words(texts: Iterable[Any], where: str) -> None:
    """Check that lists of words are not pairs of texts, or parts of a text: the words of all of them contain blanks.

    Raises:
        DataError: they do.
    """
    if (first := words_with_blanks(texts)) is not None:
        got = f"each text is a list whose words contain blanks, such as {shown(first)}"
        remedy = "a pair of texts is a tuple: [tuple(pair) for pair in X]" if len(first) == 2 else "join the parts"
        raise DataError(f"{got}; {remedy}, or split each text into its words", path=where)


def check_no_pairs(texts: Any) -> None:
    """Check that texts to predict for are not pairs in lists, where both texts have several words.

    Raises:
        DataError: all of them are.
    """
    if isinstance(texts, list) and all(isinstance(text, list) and len(text) == 2 for text in texts):
        if not all(isinstance(part, str) and len(part.split()) > 1 for text in texts for part in text):
            return
        check_words(texts, "<predict>")


def store_rows(
    rows: LabeledTexts,
    where: str,
    *,
    number: int | None = None,
    types: Mapping[str, str] | None = None,
    columns: Sequence[str] = (),
) -> Dataset:
    """Return a data set of examples of a number of texts; `types` and `columns` as of `Dataset.from_examples`."""
    texts, targets = rows
    examples = (Example(text, target, where, i) for i, (text, target) in enumerate(zip(texts, targets, strict=True)))
    return Dataset.from_examples(examples, texts=number, label_types=types, label_columns=columns)


def _problem(text: Any) -> str:
    """Describe the problem with a text; return "" if there is none."""
    if isinstance(text, tuple) and not 2 <= len(text) <= MOST_TOGETHER:
        return f"got a tuple of {len(text)} items; allowed: 2 to {MOST_TOGETHER} texts that belong together"
    parts = text if isinstance(text, tuple | list) else [text]
    wrong = [part for part in parts if not isinstance(part, str)]
    return f"got {wrong[0]!r}, which is not a text; allowed: a str, a tuple of str, a list of str" if wrong else ""


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
        DataError: the label is neither a string, a whole number nor a boolean.
    """
    label = plain_label(label)
    if isinstance(label, str) and is_blank(label):
        raise DataError(f"the label is empty ({label!r}); give each text one, or leave the text out")
    if isinstance(label, bool):
        return "true" if label else "false"
    if isinstance(label, float) and label.is_integer():
        label = int(label)
    if problem := list_problem(label):
        raise DataError(f"the label {problem}")
    if isinstance(label, int | str):
        return str(label)
    allowed = "allowed: a string, a whole number or a boolean"
    if is_missing(label):
        raise DataError(f"the label is missing ({label}); give each text one, or leave the text out")
    if isinstance(label, float):
        raise DataError(
            f"label {label!r} has a fraction; {allowed}; of codes, such as versions, make strings with map(str, y); "
            "to predict numbers use TextRegressor"
        )
    remedy = "; decode it: label.decode()" if isinstance(label, bytes) else ""
    raise DataError(f"label {shown(label)} is of type {type(label).__name__}; {allowed}{remedy}")
