"""The tagging baseline: logistic regression on a word, its affixes and its neighbors."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import SGDClassifier

from mixling.comparison.baselines import Baseline, BaselineKind, Linear
from mixling.data.examples import Target, names_of
from mixling.tasks.base import Task
from mixling.text.encoder import Text

PENALTIES = (1e-5, 1e-6, 1e-7)
_MAX_EPOCHS = 30


def word_features(words: Sequence[str], index: int) -> dict[str, float]:
    """Return the features of one word: itself, affixes of up to 4 letters, its shape, two neighbors on each side."""
    around = [words[i].lower() if 0 <= i < len(words) else "" for i in range(index - 2, index + 3)]
    word = words[index]
    lower = around[2]
    names = [f"{offset}={text}" for offset, text in zip(range(-2, 3), around, strict=True)]
    names += [f"-1,0={around[1]} {lower}", f"0,1={lower} {around[3]}"]
    names += [f"prefix={lower[:n]}" for n in range(1, 5)] + [f"suffix={lower[-n:]}" for n in range(1, 5)]
    names.append(f"shape={word.istitle():d}{word.isupper():d}{any(c.isdigit() for c in word):d}{word.isalnum():d}")
    return dict.fromkeys(names, 1.0)


class WordFeatures:
    """`word_features` as matrix columns."""

    def __init__(self, sentences: Sequence[Text]) -> None:
        self._encode = DictVectorizer(dtype=np.float32)
        self._encode.fit(_rows(sentences))

    def transform(self, sentences: Sequence[Text]) -> csr_matrix:
        """Return one row per word of each sentence; unseen features are left out."""
        out = self._encode.transform(_rows(sentences))
        # DictVectorizer makes 64-bit indices, which SGDClassifier refuses.
        return csr_matrix((out.data, out.indices.astype(np.int32), out.indptr.astype(np.int32)), out.shape)

    def size(self) -> int:
        """Return the bytes of the names as lines of text."""
        return sum(len(name.encode("utf-8", "surrogatepass")) + 1 for name in self._encode.feature_names_)


def _rows(sentences: Sequence[Text]) -> Iterator[dict[str, float]]:
    return (word_features(words, index) for words in sentences for index in range(len(words)))


class WordRegression(Baseline):
    """Tags each word independently of its neighbors' tags.

    One regression per tag, fitted by averaged stochastic gradient descent.
    """

    def __init__(
        self, encode: WordFeatures, features: csr_matrix, tags: Sequence[str], alpha: float, seed: int
    ) -> None:
        begin = time.perf_counter()
        self.options = {"alpha": alpha, "columns": features.shape[1]}
        self._encode = encode
        model = SGDClassifier(
            loss="log_loss", alpha=alpha, average=True, max_iter=_MAX_EPOCHS, tol=1e-3, random_state=seed
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # validation decides
            model.fit(features, tags)
        self._names = [str(name) for name in model.classes_]
        self._linear = Linear([model], features.shape[1])
        self.parameters = self._linear.parameters
        self.seconds = time.perf_counter() - begin

    def predict(self, texts: Sequence[Text]) -> list[Target]:
        tags = iter(self._linear.classes(self._encode.transform(texts)))
        return [tuple(self._names[next(tags)] for _ in words) for words in texts]

    def size(self) -> int:
        return self._linear.bytes + self._encode.size()


def fit_word_tags(
    task: type[Task],
    texts: Sequence[Text],
    targets: Sequence[Target],
    *,
    seed: int,
    only: Mapping[str, Any] | None = None,
) -> Iterator[WordRegression]:
    """Yield one fit per penalty, or with `only`, the options of a fit, that one; its seconds include the features'."""
    begin = time.perf_counter()
    encode = WordFeatures(texts)
    encoded = encode.transform(texts)
    tags = [tag for target in targets for tag in names_of(target)]
    seconds = time.perf_counter() - begin
    for alpha in PENALTIES if only is None else (only["alpha"],):
        baseline = WordRegression(encode, encoded, tags, alpha, seed)
        baseline.seconds += seconds
        yield baseline


words = BaselineKind(
    title=lambda task: f"words + {task.linear[0]}",
    about=lambda task: f"{task.linear[1]} over a word, its affixes and two neighbors on each side; words apart",
    fit=fit_word_tags,
)
