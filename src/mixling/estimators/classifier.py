"""Texts and their labels, as an estimator of scikit-learn."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin

from mixling.data.in_memory import COLLECTIONS, label_name, labeled_rows, listed, plain, score_weights
from mixling.estimators.base import FIT, SCORE, VALIDATION, Estimator
from mixling.tasks.classification import Classification
from mixling.tasks.multi_label import MultiLabel
from mixling.text.encoder import Text


class TextClassifier(ClassifierMixin, Estimator):
    """Classifies texts, pairs of texts (tuples) or pre-split texts (lists of words).

    Targets are strings, integers or booleans, one each; or a collection of strings each, which makes it multi-label.

    Args:
        model: a preset's name, or a TOML file; None: chosen by the size and kind of the data.
        pretrained: the folder of a run, such as one of `mixling pretrain`, to begin with instead.
        epochs, time_budget (seconds), batch_size, lr, seed: of the training; None: the defaults's.
        validation_fraction: share of the examples that the best epoch is chosen on, where `fit` gets no `validation`.
        verbose: 1 shows the progress of `fit` on standard error, 2 what is read and made, too.
        config: nested values of `RunConfig` laid over all that, such as `{"model": {"text": {"max_len": 128}}}`.

    Attributes:
        classes_: (C,) the labels, in the order of `predict_proba`'s columns.
        metrics_: of the exported model on validation.
    """

    def fit(
        self,
        X: Iterable[Text],
        y: Iterable[Any],
        sample_weight: Any = None,
        *,
        validation: tuple[Iterable[Text], Iterable[Any]] | None = None,
        teacher: Any = None,
        unlabeled: Iterable[Text] = (),
    ) -> Self:
        """Train.

        Args:
            sample_weight: (n,) numbers >= 0.
            validation: texts and labels to choose the best epoch on; by default a stratified share of the examples.
            teacher: learn from it, too: a saved model's folder, a `Teacher`, a fitted estimator with `predict_proba`
                and `classes_`, or a function from texts to probabilities (see `mixling.teachers.base`).
            unlabeled: texts for the teacher to label; those that stand in `validation` are left out.

        Raises:
            DataError: texts and labels that cannot be used.
        """
        targets = listed(y, "targets")
        many = bool(targets) and isinstance(targets[0], COLLECTIONS)
        rows = labeled_rows(X, targets, FIT, many=many)
        validation_rows = None if validation is None else labeled_rows(*validation, VALIDATION, many=many)
        self._fit(
            (MultiLabel if many else Classification).name, rows, validation_rows, sample_weight, teacher, unlabeled
        )
        flat = [item for target in targets for item in target] if many else targets
        self._set_classes({label_name(item): plain(item) for item in flat})
        return self

    def predict(self, X: Iterable[Text]) -> Any:
        """The most probable label of each text, (n,); for multi-label a list of tuples."""
        if not self.predictor_.task.exclusive:
            found = self.predictor_.predict_stream(X)
            return [tuple(self._original[name] for name in item.labels or ()) for item in found]
        return self.classes_[self.predict_proba(X).argmax(1)]

    def predict_proba(self, X: Iterable[Text]) -> np.ndarray:
        """Probabilities (n, C), columns in the order of `classes_`."""
        return self.predictor_.predict_proba(X)[:, self._columns]

    def score(self, X: Iterable[Text], y: Iterable[Any], sample_weight: Any = None) -> float:
        """The share of texts whose label is right; for multi-label, whose whole set of labels is right.

        Raises:
            DataError: texts, targets and weights that cannot be used, or none.
        """
        many = not self.predictor_.task.exclusive
        texts, targets = labeled_rows(X, y, SCORE, many=many)
        weights = score_weights(sample_weight, len(texts))
        found = self.predictor_.predict_stream(texts)
        names = [tuple(sorted(item.labels or ())) if many else item.label for item in found]
        return float(np.average([name == target for name, target in zip(names, targets, strict=True)], weights=weights))

    def _set_classes(self, original: dict[str, Any]) -> None:
        names = self.predictor_.labels.names
        self._original = {name: original.get(name, name) for name in names}
        values = list(self._original.values())
        kinds = {type(value) for value in values}
        order = sorted(range(len(values)), key=lambda i: values[i] if len(kinds) == 1 else names[i])
        self._columns = np.array(order)
        self.classes_ = np.array([values[i] for i in order], dtype=None if len(kinds) == 1 else object)

    def _loaded(self) -> None:
        self._set_classes({})
