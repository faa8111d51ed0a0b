"""Look at labels before a training: sets that were read as one label, look-alikes, and texts with different labels."""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from mixling.data.config import LABEL_DELIMITER
from mixling.data.dataset import Dataset
from mixling.data.examples import names_of
from mixling.data.similar_labels import similar_labels, with_escapes
from mixling.text.clean import normalize
from mixling.text.encoder import Text
from mixling.text.words import split_words

_DELIMITERS = (LABEL_DELIMITER, ";", ",", "\t", "\n", "/", "+", "&", "#")
_NUMBERS = re.compile(r"\d+[,/]\d+")  # a fraction


def label_remarks(*parts: Dataset, several: bool, in_python: bool = False) -> list[str]:
    """Return lines on labels that are probably not what was meant.

    Args:
        parts: all examples, whose targets are labels, sets of labels or tags.
        several: the targets are sets of labels.
        in_python: the examples are not from files, so that options do not help.
    """
    counts = Counter[str]()
    for part in parts:
        counts.update(part.label_counts())
    if "O" in counts and parts[0].schema.targets == "labels" and not several:
        slots = Counter[str]()
        for tag, count in counts.items():
            slots[tag[2:]] += count
        return similar_labels({name: count for name, count in slots.items() if name})
    return [*similar_labels(counts), *_joined_labels(counts, several=several, in_python=in_python)]


def _joined_labels(counts: Mapping[str, int], *, several: bool, in_python: bool = False) -> Iterator[str]:
    """Yield a line if labels are joined by a delimiter: the parts of most of them occur in other labels, too."""
    best: tuple[int, str, list[str]] = (0, "", [])
    for delimiter in (*_DELIMITERS, " ") if several else _DELIMITERS:
        parts = {name: [part.strip() for part in name.split(delimiter)] for name in counts}
        joined = [name for name in counts if len(parts[name]) > 1 and all(parts[name])]
        if not joined or all(map(_NUMBERS.fullmatch, joined)):
            continue
        times = Counter(part for split in parts.values() for part in set(split))
        sets = [name for name in joined if all(times[part] > 1 for part in parts[name])]
        rows = sum(counts[name] for name in sets)
        least = len(joined) if delimiter == " " else len(joined) / 2
        if len(sets) >= least and rows > best[0]:
            best = (rows, delimiter, sets)
    rows, delimiter, sets = best
    if sets:
        example = with_escapes(max(sets, key=lambda name: counts[name]))
        sign = delimiter.encode("unicode_escape").decode()
        option = "" if delimiter == LABEL_DELIMITER else f"--set data.columns.label_delimiter={shlex.quote(sign)}"
        remedy = " ".join(filter(None, ["" if several else "--task multi_label", option])) + " divides them"
        if in_python:
            remedy = f"y = [[part.strip() for part in label.split('{sign}')] for label in y] divides them"
        got = "1 label looks" if len(sets) == 1 else f"{len(sets):,} labels look"
        yield f"{got} like several that are joined by '{sign}', such as '{example}' ({rows:,} examples): {remedy}"


def conflict_line(examples: Dataset) -> str:
    """Return words that count the texts that occur with different labels; "" if there are none."""
    found = conflicting(examples)
    if not found:
        return ""
    texts = "1 text occurs" if len(found) == 1 else f"{len(found):,} texts occur"
    return f"{texts} with different labels ({sum(map(len, found)):,} examples)"


def conflicting(examples: Dataset) -> tuple[tuple[int, ...], ...]:
    """Return the indices of examples whose words are equal and whose labels are not, by text.

    Case and the spaces between words make no difference; a text without words equals no other.
    """
    alike: dict[int, list[int]] = defaultdict(list)  # equal but for case and spaces, which is found faster
    for index, text in enumerate(examples.texts):
        alike[hash(_characters(text))].append(index)
    members: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for group in alike.values():
        for index in group if len(group) > 1 else ():
            if any(words := _words(examples.texts[index])):
                members[words].append(index)
    targets = examples.targets
    found = sorted(group for group in members.values() if len(group) > 1)
    return tuple(tuple(group) for group in found if len({frozenset(names_of(targets[i])) for i in group}) > 1)


def _characters(text: Text) -> str:
    """Return a string that is equal for texts with equal words, and for few others."""
    joined = text if isinstance(text, str) else " ".join(text)
    return "".join(unicodedata.normalize("NFD", joined).casefold().split())


def _words(text: Text) -> tuple[str, ...]:
    """Return each text of a pair, or the one text, as its words joined by spaces."""
    parts = text if isinstance(text, tuple) else (text if isinstance(text, str) else " ".join(text),)
    return tuple(" ".join(split_words(normalize(part, lowercase=True))) for part in parts)
