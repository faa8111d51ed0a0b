"""Text classification as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin

from mixling.answers.decision import answers_of
from mixling.data.frames import Frame, Names, texts_of
from mixling.data.in_memory import (
    COLLECTIONS,
    LabeledTexts,
    check_no_pairs,
    label_name,
    label_types,
    labeled_rows,
    listed,
    score_weights,
    structured,
)
from mixling.errors import DataError, shown
from mixling.estimators.base import FIT, SCORE, VALIDATION, Estimator
from mixling.estimators.indicators import IndicatorFormat
from mixling.tasks.classification import Classification
from mixling.tasks.multi_label import MultiLabel


class TextClassifier(ClassifierMixin, Estimator):
    """Classify texts, pairs of texts (tuples) or pre-split texts (lists of words).

    A target is a string, a whole number or a boolean. For multi-label classification it is a collection of these, or a
    row of an indicator matrix (n, C) of 0 and 1: a NumPy array, a SciPy sparse matrix or a list of lists, whose labels
    are the column numbers, or a table such as `df[["billing", "login"]]`, whose labels are the names of the columns.
    Strings that are lists, as in a cell of a file, are read as such. Saved models keep the kind of the labels.

    Args:
        model: the name of a preset, or a TOML file; None: chosen by the number and length of the examples.
        pretrained: the folder of a run to start from, such as one of `mixling pretrain`.
        epochs: passes over the examples; None: by their number.
        time_budget: seconds within which the training ends; None: no limit.
        batch_size: examples of a step; None: the default.
        lr: the learning rate; None: the default.
        seed: of all randomness.
        validation_fraction: fraction of the examples set aside to choose the best epoch, if `fit` gets no `validation`.
        verbose: 0: silent; 1: progress of `fit` on standard error; 2: also files read and written; None: 1 on a
            terminal or in a notebook, but 0 where scikit-learn's cross-validation or joblib calls, and elsewhere.
        config: nested values of `RunConfig` that override all others, such as `{"model": {"text": {"max_len": 128}}}`.

    Attributes:
        classes_: (C,) the labels in the order of `predict_proba`'s columns; an indicator matrix's column names.
        metrics_: on the validation examples. The exported model is then fitted on those that were set aside as well, so
            that `score` on them is too good; on those that `fit` gets it is not.
    """

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        text: Names | None = None,
        label: Any = None,
        features: str | Sequence[str] = (),
        validation: Any = None,
        teacher: Any = None,
        unlabeled: Any = (),
    ) -> Self:
        """Train on texts and their labels, or on a table that has both.

        Args:
            X: texts, or a table: a DataFrame of pandas or Polars, a table of Arrow, a data set of Hugging Face, a
                dictionary of columns, or rows that are dictionaries. `df[["review"]]` is a table, too.
            y: the labels; None: they are in the table.
            sample_weight: (n,) numbers >= 0.
            text: the table's column of the text, or several that belong together; by default the only one left, or
                "text". Later methods read the same columns of tables that they get.
            label: the table's column of the labels; by default "label". A list of names: columns of 0 and 1, one for
                each label.
            features: the table's columns beside the text that the model reads, too: numbers, categories or dates, with
                the kind where it is not to be guessed, as ["price", "zip:category"].
            validation: (X, y), or a table as X, to choose the best epoch on; default: a stratified fraction of the
                examples.
            teacher: a model to learn from as well: a saved model's folder, a `Teacher`, a fitted estimator with
                `predict_proba` and `classes_`, or a function from texts to probabilities (see `mixling.teachers.base`).
            unlabeled: texts for the teacher to label; those that occur in `validation` are left out.

        Raises:
            DataError: the texts or labels cannot be used.
        """
        X, y = self._read(X, y, FIT, text=text, label=label, features=features)
        names = self._labels_of_columns()
        indicators = IndicatorFormat.of(y, FIT) if names is None else IndicatorFormat(names)
        targets = structured(listed(y, "targets")) if indicators is None else indicators.sets(y, FIT)
        many = indicators is not None or (bool(targets) and isinstance(targets[0], COLLECTIONS))
        if many and (self.config or {}).get("task") == Classification.name:
            targets = _single(targets, FIT)
            many = False
        if indicators is not None and targets and not any(targets):
            raise DataError("the indicator matrix has no 1; give a text with a label", path=FIT)
        rows = labeled_rows(X, targets, FIT, many=many)
        validation_rows = None
        if validation is not None:
            held_out, right = self._read_validation(validation, VALIDATION)
            right = self._targets(right, VALIDATION, indicators, many=many)
            validation_rows = labeled_rows(held_out, right, VALIDATION, many=many)
        columns = () if indicators is None else indicators.labels
        flat = [*(item for target in targets for item in target), *columns] if many else targets
        self._fit(
            (MultiLabel if many else Classification).name,
            rows,
            validation_rows,
            sample_weight,
            teacher,
            texts_of(unlabeled, self.text_, "<unlabeled>", beside=self._beside) if Frame.of(unlabeled) else unlabeled,
            types=label_types(flat),
            columns=tuple(map(label_name, columns)),
        )
        self._set_classes(indicators)
        return self

    def predict(self, X: Any) -> Any:
        """Return the labels (n,) of the answers; for multi-label a list of tuples, or a matrix if `fit` got one.

        After `set_output(transform="pandas")` or "polars": a table with label, confidence and a column a class.

        Args:
            X: texts, or a table with the columns that `fit` read.
        """
        if (library := self._output()) is not None:
            return self._as_table(library, self.predictor_.columns(self._texts(X)), X)
        X = self._texts(X)
        check_no_pairs(X)
        if not self.predictor_.task.exclusive:
            found = self.predictor_.predict_stream(X)
            sets = [tuple(self._original[name] for name in item.labels or ()) for item in found]
            return sets if self._indicators is None else self._indicators.matrix(sets)
        best = answers_of(self.predictor_.predict_proba(X), self.predictor_.task.rule)
        return self.classes_[np.argsort(self._columns)[best]]

    def predict_proba(self, X: Any) -> Any:
        """Return probabilities (n, C), columns as in `classes_`; 0 for a label without examples in training.

        After `set_output`: a table with a column a class.
        """
        texts = self._texts(X)
        check_no_pairs(texts)
        out = found = self.predictor_.predict_proba(texts)
        if self._indicators is None:
            out = found[:, self._columns]
        else:
            out = np.zeros((len(found), len(self._indicators.labels)), found.dtype)
            out[:, [self._indicators.labels.index(label) for label in self._original.values()]] = found
        if (library := self._output()) is None:
            return out
        return self._as_table(library, {str(name): out[:, place] for place, name in enumerate(self.classes_)}, X)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy; for multi-label, the fraction of texts whose whole set of labels is right.

        Args:
            X, y: as of `fit`; without y, X is a table with the columns that `fit` read.

        Raises:
            DataError: the texts, targets or weights cannot be used, or there are none.
        """
        many = not self.predictor_.task.exclusive
        texts, targets = self._scored_rows(X, y)
        weights = score_weights(sample_weight, len(texts))
        found = self.predictor_.predict_stream(texts)
        names = [tuple(sorted(item.labels or ())) if many else item.label for item in found]
        return float(np.average([name == target for name, target in zip(names, targets, strict=True)], weights=weights))

    def _scored_rows(self, X: Any, y: Any) -> LabeledTexts:
        many = not self.predictor_.task.exclusive
        texts, targets = self._read_again(X, y, SCORE)
        return labeled_rows(texts, self._targets(targets, SCORE, self._indicators, many=many), SCORE, many=many)

    @staticmethod
    def _targets(y: Any, where: str, indicators: IndicatorFormat | None, *, many: bool) -> list[Any]:
        """Return targets like those that `fit` got."""
        if indicators is not None:
            return indicators.sets(y, where)
        if many and IndicatorFormat.of(y, where) is not None:
            raise DataError("got an indicator matrix, but the model was fitted on sets of labels", path=where)
        targets = structured(listed(y, "targets"))
        return (
            targets if many or not any(isinstance(item, COLLECTIONS) for item in targets) else _single(targets, where)
        )

    def _set_classes(self, indicators: IndicatorFormat | None = None) -> None:
        """Set the labels from the model file, in which they have the kind that they had in `fit`."""
        labels = self.predictor_.labels
        names = labels.names
        self._original = {name: labels.value(name) for name in names}
        values = list(self._original.values())
        kinds = {type(value) for value in values}
        order = sorted(range(len(values)), key=lambda i: values[i] if len(kinds) == 1 else names[i])
        self._columns = np.array(order)
        self.classes_ = np.array([values[i] for i in order], dtype=None if len(kinds) == 1 else object)
        if indicators is None and labels.columns:
            indicators = IndicatorFormat(tuple(map(labels.value, labels.columns)))
        self._indicators = indicators
        if indicators is not None:
            self.classes_ = np.array(indicators.labels)

    def _loaded(self) -> None:
        self._set_classes()


def _single(targets: list[Any], where: str) -> list[Any]:
    """Return the label of each list of one label.

    Raises:
        DataError: a list has none, or several.
    """
    for row, target in enumerate(targets):
        if not isinstance(target, COLLECTIONS) or len(target) != 1:
            needed = "one label is required: targets are either single labels or collections of labels, not both"
            raise DataError(f"got {shown(target)}; {needed}", path=where, line=row)
    return [next(iter(target)) for target in targets]
