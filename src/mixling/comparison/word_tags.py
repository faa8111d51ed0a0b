"""The tagging baseline: linear support vector machines on a word, its affixes and its neighbors."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mixling.comparison.baselines import Baseline, BaselineKind, Linear
from mixling.data.examples import Target, names_of
from mixling.native.margins import fit_margins
from mixling.native.sparse import SparseRows
from mixling.tasks.base import Task
from mixling.text.encoder import Text
from mixling.threads import num_threads

TAG_STRENGTHS = (0.03, 0.1, 0.3, 1.0)  # the inverse of the regularization


def word_features(words: Sequence[str], index: int) -> Iterable[str]:
    """Return the features of one word: itself, affixes of up to 4 letters, its shape, two neighbors on each side."""
    around = [words[i].lower() if 0 <= i < len(words) else "" for i in range(index - 2, index + 3)]
    word = words[index]
    lower = around[2]
    names = [f"{offset}={text}" for offset, text in zip(range(-2, 3), around, strict=True)]
    names += [f"-1,0={around[1]} {lower}", f"0,1={lower} {around[3]}"]
    names += [f"prefix={lower[:n]}" for n in range(1, 5)] + [f"suffix={lower[-n:]}" for n in range(1, 5)]
    names.append(f"shape={word.istitle():d}{word.isupper():d}{any(c.isdigit() for c in word):d}{word.isalnum():d}")
    return dict.fromkeys(names)


class WordFeatures:
    """`word_features` as matrix columns."""

    def __init__(self, sentences: Sequence[Text]) -> None:
        self._columns: dict[str, int] = {}
        for names in _rows(sentences):
            for name in names:
                self._columns.setdefault(name, len(self._columns))

    def transform(self, sentences: Sequence[Text]) -> SparseRows:
        """Return one row per word of each sentence; unseen features are left out."""
        columns = self._columns
        found = [[columns[name] for name in names if name in columns] for names in _rows(sentences)]
        starts = np.append(0, np.cumsum(list(map(len, found)), dtype=np.int32)).astype(np.int32)
        indices = np.fromiter(itertools.chain.from_iterable(found), np.int32, int(starts[-1]))
        return SparseRows(np.ones(len(indices), np.float32), indices, starts, (len(found), len(columns)))

    def size(self) -> int:
        """Return the bytes of the names as lines of text."""
        return sum(len(name.encode("utf-8", "surrogatepass")) + 1 for name in self._columns)


def _rows(sentences: Sequence[Text]) -> Iterator[Iterable[str]]:
    return (word_features(words, index) for words in sentences for index in range(len(words)))


class WordTags(Baseline):
    """Tags each word independently of its neighbors' tags, by a linear support vector machine for each tag."""

    def __init__(self, encode: WordFeatures, features: SparseRows, tags: Sequence[str], strength: float) -> None:
        begin = time.perf_counter()
        self.options = {"C": strength, "columns": features.shape[1]}
        self._encode = encode
        names, ids = np.unique(tags, return_inverse=True)
        self._names = list(map(str, names))
        marks = ids == np.arange(len(names))[:, None]
        fitted = fit_margins(features, marks, np.ones(len(tags)), strength, threads=num_threads())
        self._linear = Linear(*fitted)
        self.parameters = self._linear.parameters
        self.seconds = time.perf_counter() - begin

    def predict(self, texts: Sequence[Text]) -> list[Target]:
        tags = iter(self._linear.scores(self._encode.transform(texts)).argmax(1).tolist())
        return [tuple(self._names[next(tags)] for _ in words) for words in texts]

    def size(self) -> int:
        return self._linear.bytes + self._encode.size()


def fit_word_tags(
    task: type[Task],
    texts: Sequence[Text],
    targets: Sequence[Target],
    *,
    seed: int,
    only: Sequence[Mapping[str, Any]] = (),
) -> Iterator[WordTags]:
    """Yield one fit per strength, or of the choices `only`; its seconds include the features'."""
    begin = time.perf_counter()
    encode = WordFeatures(texts)
    encoded = encode.transform(texts)
    tags = [tag for target in targets for tag in names_of(target)]
    seconds = time.perf_counter() - begin
    for strength in [choice["C"] for choice in only] or TAG_STRENGTHS:
        baseline = WordTags(encode, encoded, tags, strength)
        baseline.seconds += seconds
        yield baseline


words = BaselineKind(
    title=lambda task: f"words + {task.linear[0]}",
    about=lambda task: f"{task.linear[1]} over a word, its affixes and two neighbors on each side; words apart",
    fit=fit_word_tags,
)
