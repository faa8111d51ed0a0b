"""Baselines that read the columns beside the texts: the task's linear model, and gradient-boosted trees."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mixling.arrays import Float32, Float64
from mixling.comparison.baselines import Baseline, BaselineKind, fit_tfidf, tfidf
from mixling.comparison.column_features import ColumnFeatures
from mixling.comparison.tfidf_features import TfidfFeatures
from mixling.data.examples import Target, names_of
from mixling.errors import DataError
from mixling.installation import install_command, is_installed
from mixling.native.sparse import SparseRows
from mixling.tasks.base import Task
from mixling.text.encoder import Text

WITH_COLUMNS = ("tf-idf+columns", "trees+columns")
COMPONENTS = (50, 200)  # of reduced TF-IDF
ITERATIONS = (25, 50, 100, 200, 400)
_MOST_TREES = 10_000  # of all labels together, but for the fewest iterations
_MOST_LABELS = 400
_LEAVES = 31
_NODE_BYTES = 16  # the column, the threshold or value, and two children
_MOST_VALUES = 254  # of a category that trees know, the most frequent ones
_POWERS = 3  # iterations of the randomized singular value decomposition


def column_baselines(kinds: Mapping[str, str | None]) -> dict[str, BaselineKind]:
    """Return the baselines that read the columns of these names and kinds, by the names in `WITH_COLUMNS`."""
    linear = replace(
        tfidf,
        title=lambda task: f"tf-idf and columns + {task.linear[0]}",
        about=lambda task: f"{tfidf.about(task)}, beside columns: one-hot, standardized, missing, weekday and month",
        fit=partial(fit_tfidf, encoder=lambda features: TextAndColumns(features, kinds)),
        reads_columns=True,
    )
    trees = BaselineKind(
        title=lambda task: "tf-idf and columns + trees",
        about=lambda task: (
            f"scikit-learn's HistGradientBoosting, {_LEAVES} leaves and rate .1, on words' TF-IDF in few dimensions "
            "and the columns; dimensions and iterations chosen"
        ),
        fit=partial(_fit_trees, kinds),
        missing=lambda: "" if is_installed("sklearn") else f"not installed; {install_command('estimators')}",
        reads_columns=True,
    )
    return dict(zip(WITH_COLUMNS, (linear, trees), strict=True))


class TextAndColumns:
    """TF-IDF features, and beside them the features of columns."""

    parameters = 0

    def __init__(self, features: str, kinds: Mapping[str, str | None]) -> None:
        self._texts = TfidfFeatures(features)
        self._columns = ColumnFeatures(kinds)

    def fit_transform(self, texts: Sequence[Text]) -> SparseRows:
        return SparseRows.beside([self._texts.fit_transform(texts), self._columns.learn(texts).matrix(texts)])

    def transform(self, texts: Sequence[Text]) -> SparseRows:
        return SparseRows.beside([self._texts.transform(texts), self._columns.matrix(texts)])

    def size(self) -> int:
        return self._texts.size() + self._columns.size()


class _Reduced:
    """Words' TF-IDF in few dimensions, one after another the most telling ones, and the columns as numbers.

    Attributes:
        categories: of each feature, whether it is a category.
    """

    def __init__(self, kinds: Mapping[str, str | None], seed: int) -> None:
        self._texts = TfidfFeatures("word")
        self._columns = ColumnFeatures(kinds)
        self._seed = seed

    def fit_transform(self, texts: Sequence[Text]) -> tuple[Float32, Float64]:
        """Learn both; return the dimensions (R, D) and the columns (R, P)."""
        from scipy.sparse import csr_matrix
        from sklearn.decomposition import TruncatedSVD

        features = self._texts.fit_transform(texts)
        number = min(max(COMPONENTS), *(size - 1 for size in features.shape))
        self._axes = np.zeros((features.shape[1], 0), np.float32)
        if number > 0:
            matrix = csr_matrix((features.data, features.indices, features.indptr), features.shape)
            reduce = TruncatedSVD(number, n_iter=_POWERS, random_state=self._seed).fit(matrix)
            self._axes = np.ascontiguousarray(reduce.components_.T, np.float32)
        columns = self._columns.learn(texts).numbers(texts)
        self._kept = [min(part.values, _MOST_VALUES) for part in self._columns.parts]
        return features @ self._axes, self._merged(columns)

    def transform(self, texts: Sequence[Text]) -> tuple[Float32, Float64]:
        return self._texts.transform(texts) @ self._axes, self._merged(self._columns.numbers(texts))

    def _merged(self, columns: Float64) -> Float64:
        """Return columns whose new and rare values are missing, as the trees have no more values."""
        for place, most in enumerate(self._kept):
            if most:
                columns[~((columns[:, place] >= 0) & (columns[:, place] < most)), place] = np.nan
        return columns

    @property
    def categories(self) -> list[bool]:
        return [bool(most) for most in self._kept]

    def size(self, components: int) -> int:
        return self._texts.size() + self._columns.size() + 4 * len(self._axes) * components

    def parameters(self, components: int) -> int:
        return len(self._axes) * components


class Trees(Baseline):
    """Trees after some of their iterations; of several labels, trees for each."""

    def __init__(self, fitted: _Fitted, encode: _Reduced, components: int, iterations: int, seconds: float) -> None:
        self.options = {"components": components, "iterations": iterations}
        self._fitted = fitted
        self._encode = encode
        self.nodes = iterations * fitted.each * (2 * _LEAVES - 1)
        self.parameters = encode.parameters(components) + self.nodes
        self.seconds = seconds

    def predict(self, texts: Sequence[Text]) -> list[Target]:
        features = _beside(*self._encode.transform(texts), self.options["components"])
        return self._fitted.predict(features, self.options["iterations"])

    def size(self) -> int:
        """Return the bytes of terms, dimensions and trees, as if each tree had all of its leaves."""
        return self._encode.size(self.options["components"]) + _NODE_BYTES * self.nodes


class _Fitted:
    """Models of trees, and how their answers are a task's.

    Attributes:
        each: number of trees of an iteration.
    """

    def __init__(self, models: Sequence[Any], each: int, answers: Callable[[list[Any]], list[Target]]) -> None:
        self._models = models
        self.each = each
        self._answers = answers

    def predict(self, features: Float64, iterations: int) -> list[Target]:
        found = [next(itertools.islice(model.staged_predict(features), iterations - 1, None)) for model in self._models]
        return self._answers(found)


def _beside(dimensions: Float32, columns: Float64, components: int) -> Float64:
    return np.concatenate([dimensions[:, :components], columns], axis=1)


def _fit_trees(
    kinds: Mapping[str, str | None],
    task: type[Task],
    texts: Sequence[Text],
    targets: Sequence[Target],
    *,
    seed: int,
    only: Sequence[Mapping[str, Any]] = (),
) -> Iterator[Trees]:
    """Yield trees for each choice of dimensions and iterations, fewer first, or of the choices `only`."""
    each = len({name for target in targets for name in names_of(target)}) if task.has_labels else 1
    if each > _MOST_LABELS:
        raise DataError(f"{each:,} labels need as many trees in each iteration; allowed: {_MOST_LABELS}")
    each = 1 if each == 2 and task.exclusive else each
    begin = time.perf_counter()
    encode = _Reduced(kinds, seed)
    encoded = encode.fit_transform(texts)
    seconds = time.perf_counter() - begin
    iterations = [number for number in ITERATIONS if number * each <= _MOST_TREES] or [ITERATIONS[0]]
    known = min(encoded[0].shape[1], max(COMPONENTS))
    for components in [choice["components"] for choice in only] or sorted(
        {min(number, known) for number in COMPONENTS}
    ):
        begin = time.perf_counter()
        wanted = [choice["iterations"] for choice in only] or iterations
        categories = [False] * min(components, known) + encode.categories
        fitted = _fit(
            task, _beside(*encoded, components), targets, categories, each=each, iterations=max(wanted), seed=seed
        )
        spent = seconds + time.perf_counter() - begin
        for number in wanted:
            yield Trees(fitted, encode, components, number, spent)
            seconds = spent = 0.0  # one fit has all iterations


def _fit(
    task: type[Task],
    features: Float64,
    targets: Sequence[Target],
    categories: list[bool],
    *,
    each: int,
    iterations: int,
    seed: int,
) -> _Fitted:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    how: dict[str, Any] = {
        "max_iter": iterations,
        "max_leaf_nodes": _LEAVES,
        "categorical_features": categories,
        "early_stopping": False,  # validation chooses
        "random_state": seed,
    }
    if not task.has_labels:
        model = HistGradientBoostingRegressor(**how).fit(features, np.array(targets, np.float64))
        return _Fitted([model], 1, lambda found: found[0].tolist())
    if task.exclusive:
        model = HistGradientBoostingClassifier(**how).fit(features, list(map(str, targets)))
        return _Fitted([model], each, lambda found: list(map(str, found[0])))
    rows = list(map(names_of, targets))
    names = sorted({name for row in rows for name in row})
    marks = np.array([[name in row for name in names] for row in rows])
    always = tuple(name for name, column in zip(names, marks.T, strict=True) if column.all())
    models = [HistGradientBoostingClassifier(**how).fit(features, column) for column in marks.T if not column.all()]
    names = [name for name in names if name not in always]

    def answers(found: list[Any]) -> list[Target]:
        return [(*always, *itertools.compress(names, row)) for row in zip(*found, strict=True)]

    return _Fitted(models, len(models), answers)
