"""The scikit-learn face: `TextClassifier` and `TokenLabeller`."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from mixling.config import merge, parse
from mixling.data.in_memory import (
    COLLECTIONS,
    Rows,
    checked_weights,
    label_name,
    labelled_rows,
    listed,
    plain,
    score_weights,
    store_rows,
    tagged_rows,
    unlabelled_texts,
    unpacked,
)
from mixling.data.splits import check_labels, split_dev
from mixling.data.store import ExampleStore
from mixling.errors import ConfigError, DataError, ModelFileError, NotFittedError
from mixling.models.presets import DEFAULT_PRESET, model_config, preset_values
from mixling.runs import RunConfig, choose_model, fit
from mixling.runs.pretrained import FINE_TUNING, pretrained_config
from mixling.runs.teacher import DistillConfig
from mixling.runtime.predictor import Predictor
from mixling.runtime.session import FILE_NAME
from mixling.storage import write_atomic
from mixling.tasks.base import TaskName
from mixling.teachers.base import FunctionTeacher, Teacher
from mixling.text.encoder import Text
from mixling.text.predictions import Prediction

# What stands for the file in messages about rows that were given in memory; rows count from 0, as the items of a list.
_FIT, _DEV, _SCORE = "<fit>", "<dev>", "<score>"


class _Estimator(BaseEstimator, ABC):
    """What both estimators share: parameters, fitting through a run, saving and loading.

    A fitted estimator holds the content of its run folder as bytes (`files_`), so that it can be pickled, copied and
    moved; it predicts with the exported model, exactly as the command line and a server do.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        pretrained: str | None = None,
        epochs: int | None = None,
        time_budget: float | None = None,
        batch_size: int | None = None,
        lr: float | None = None,
        dev_fraction: float = 0.1,
        seed: int = 0,
        config: dict[str, Any] | None = None,
    ) -> None:
        self.model = model
        self.pretrained = pretrained
        self.epochs = epochs
        self.time_budget = time_budget
        self.batch_size = batch_size
        self.lr = lr
        self.dev_fraction = dev_fraction
        self.seed = seed
        self.config = config

    def _fit(
        self,
        task: TaskName,
        rows: Rows,
        dev_rows: Rows | None,
        sample_weight: Any,
        teacher: Any = None,
        unlabelled: Iterable[Any] = (),
    ) -> None:
        weights = checked_weights(sample_weight, len(rows[0]))
        pairs = bool(rows[0]) and isinstance(rows[0][0], tuple)
        train = store_rows(rows, _FIT, pairs)
        if dev_rows is None:
            train, dev = split_dev(train, fraction=self.dev_fraction, seed=self.seed)
            weights = None if weights is None else weights[train.indices()]
        else:
            dev = store_rows(dev_rows, _DEV, pairs)
        check_labels(train, dev)
        more = unlabelled_texts(unlabelled, pairs=pairs)
        if more and teacher is None and not (self.config or {}).get("distill"):
            raise DataError("unlabelled texts are for a teacher to label; give one with teacher=")
        config, teacher = self._run_config(task, train, teacher)
        with tempfile.TemporaryDirectory(prefix="mixling-") as folder:
            run = fit(config, train, dev, folder=Path(folder), weights=weights, teacher=teacher, unlabelled=more)
            assert run is not None
            self.files_ = {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir()) if path.is_file()}
        self.metrics_, self.history_ = run.metrics, run.history
        self._predictor_: Predictor | None = None

    def _run_config(self, task: TaskName, rows: ExampleStore, teacher: Any) -> tuple[RunConfig, Teacher | None]:
        optim = {} if self.lr is None else {"lr": self.lr}
        train = {"epochs": self.epochs, "time_budget": self.time_budget, "seed": self.seed, "optim": optim}
        if self.batch_size is not None:
            train["batch_size"] = self.batch_size

        def configure(model: str, changes: dict[str, Any]) -> RunConfig:
            if self.pretrained is not None:
                recipe: dict[str, Any] = {"train": FINE_TUNING, "start": {"pretrained": self.pretrained}}
                shape = pretrained_config(self.pretrained)
            else:
                recipe = {} if "start" in (self.config or {}) else preset_values(model)
                shape = model_config(model, changes).to_dict()
            values = merge(recipe, {"task": task, "model": shape, "train": train})
            return parse(RunConfig, merge(values, self.config or {}), where=type(self).__name__)

        if self.model is not None and self.pretrained is not None:
            raise ConfigError(f"pretrained={self.pretrained!r} is the model; leave out model={self.model!r}")
        config, asked = _taught(configure(self.model or DEFAULT_PRESET, {}), teacher)
        if self.model is not None or self.pretrained is not None:
            return config, asked
        choice = choose_model(rows, config)
        return configure(choice.name, choice.changes).model_copy(update={"distill": config.distill}), asked

    @property
    def predictor_(self) -> Predictor:
        """The fitted model, for single texts at full speed.

        Raises:
            NotFittedError: `fit` was not called.
        """
        if not hasattr(self, "files_"):
            name = type(self).__name__
            raise NotFittedError(f"this {name} is not fitted yet; call fit, or {name}.load(folder)")
        if self._predictor_ is None:
            self._predictor_ = Predictor.from_bytes(self.files_[FILE_NAME])
        return self._predictor_

    def save(self, folder: str | Path) -> None:
        """Write the run folder, which the command line and `load` read.

        Raises:
            StorageError: a file could not be written.
        """
        _ = self.predictor_
        for name, content in self.files_.items():
            write_atomic(Path(folder) / name, content)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a run folder, or a `model.onnx` alone; the labels come back as strings.

        Raises:
            ModelFileError: there is no model of this kind.
        """
        out, folder = cls(), Path(folder)
        out._predictor_ = Predictor(folder)
        try:
            if folder.is_dir():
                out.files_ = {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}
            else:
                out.files_ = {FILE_NAME: folder.read_bytes()}
        except OSError as error:
            raise ModelFileError(f"{folder}: cannot be read: {error.strerror}") from None
        out._loaded(folder)
        return out

    @abstractmethod
    def _loaded(self, folder: Path) -> None:
        """Check that what was read is a model of this kind.

        Raises:
            ModelFileError: it is not.
        """

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "files_")

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_predictor_": None}


class TextClassifier(ClassifierMixin, _Estimator):
    """Classifies texts, pairs of texts (tuples) or pre-split texts (lists of words).

    Targets are strings, integers or booleans, one each; or a collection of strings each, which makes it multi-label.

    Args:
        model: a preset's name, or a TOML file; None: chosen by the size and kind of the data.
        pretrained: the folder of a run, such as one of `mixling pretrain`, to begin with instead.
        epochs, time_budget (seconds), batch_size, lr, seed: of the training; None: the recipe's.
        dev_fraction: share of the examples that the best epoch is chosen on, where `fit` gets no `dev`.
        config: nested values of `RunConfig` laid over all that, such as `{"model": {"text": {"max_len": 128}}}`.

    Attributes:
        classes_: (C,) the labels, in the order of `predict_proba`'s columns.
        metrics_: of the exported model on dev.
    """

    def fit(
        self,
        X: Iterable[Text],
        y: Iterable[Any],
        sample_weight: Any = None,
        *,
        dev: tuple[Iterable[Text], Iterable[Any]] | None = None,
        teacher: Any = None,
        unlabelled: Iterable[Text] = (),
    ) -> Self:
        """Train.

        Args:
            sample_weight: (n,) numbers >= 0.
            dev: texts and labels to choose the best epoch on; by default a stratified share of the examples.
            teacher: learn from it, too: a saved model's folder, a `Teacher`, a fitted estimator with `predict_proba`
                and `classes_`, or a function from texts to probabilities (see `mixling.teachers.base`).
            unlabelled: texts for the teacher to label; those that stand in `dev` are left out.

        Raises:
            DataError: texts and labels that cannot be used.
        """
        targets = listed(y, "targets")
        many = bool(targets) and isinstance(targets[0], COLLECTIONS)
        rows = labelled_rows(X, targets, _FIT, many=many)
        dev_rows = None if dev is None else labelled_rows(*dev, _DEV, many=many)
        self._fit("multi_label" if many else "classification", rows, dev_rows, sample_weight, teacher, unlabelled)
        flat = [item for target in targets for item in target] if many else targets
        self._set_classes({label_name(item): plain(item) for item in flat})
        return self

    def predict(self, X: Iterable[Text]) -> Any:
        """The most probable label of each text, (n,); for multi-label a list of tuples."""
        if self.predictor_.labels.kind == "multi":
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
        many = self.predictor_.labels.kind == "multi"
        texts, targets = labelled_rows(X, y, _SCORE, many=many)
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

    def _loaded(self, folder: Path) -> None:
        if self.predictor_.labels.kind == "iob":
            raise ModelFileError(f"{folder}: holds a tagger; read it with TokenLabeller.load")
        self._set_classes({})


class TokenLabeller(_Estimator):
    """Labels words with IOB tags: slots, entities, any spans. Parameters as those of `TextClassifier`."""

    def fit(
        self,
        X: Iterable[list[str]],
        y: Iterable[Sequence[str]],
        sample_weight: Any = None,
        *,
        dev: tuple[Iterable[list[str]], Iterable[Sequence[str]]] | None = None,
        teacher: Any = None,
        unlabelled: Iterable[list[str]] = (),
    ) -> Self:
        """Train on words and their IOB2 tags; a teacher gives each word probabilities.

        Raises:
            DataError: words and tags of different numbers, or tags that are not IOB2.
        """
        dev_rows = None if dev is None else tagged_rows(*dev, _DEV)
        more = [unpacked(words) for words in listed(unlabelled, "sentences")]
        self._fit("tagging", tagged_rows(X, y, _FIT), dev_rows, sample_weight, teacher, more)
        return self

    def predict(self, X: Iterable[list[str]]) -> list[list[str]]:
        """The tags of each sentence's words; words beyond the model's length are tagged O."""
        sentences = [unpacked(words) for words in listed(X, "sentences")]
        for number, words in enumerate(sentences):
            if not isinstance(words, list):
                got = f"item {number} is of type {type(words).__name__}"
                raise DataError(f"{got}; a sentence is a list of words here, and predict_spans takes texts")
        found = self.predictor_.predict_stream(sentences)
        return [
            [*(item.tags or ()), *("O" for _ in words[len(item.tags or ()) :])]
            for words, item in zip(sentences, found, strict=True)
        ]

    def predict_spans(self, X: Iterable[Text]) -> list[Prediction]:
        """The spans of each text, with character offsets."""
        return list(self.predictor_.predict_stream(X))

    def score(self, X: Iterable[list[str]], y: Iterable[Sequence[str]], sample_weight: Any = None) -> float:
        """Word accuracy; `sample_weight` weighs sentences.

        Raises:
            DataError: words, tags and weights that cannot be used, or none.
        """
        sentences, gold = tagged_rows(X, y, _SCORE)
        weights = score_weights(sample_weight, len(sentences))
        lengths = [len(words) for words in sentences]
        pairs = zip(self.predict(sentences), gold, strict=True)
        right = [sum(a == b for a, b in zip(found, tags or (), strict=True)) for found, tags in pairs]
        return float((weights * right).sum() / (weights * lengths).sum())

    def _loaded(self, folder: Path) -> None:
        if self.predictor_.labels.kind != "iob":
            raise ModelFileError(f"{folder}: holds a classifier; read it with TextClassifier.load")


def _taught(config: RunConfig, teacher: Any) -> tuple[RunConfig, Teacher | None]:
    """A configuration that learns from a teacher, if there is one, and the teacher, where it is an object.

    Raises:
        DataError: it is neither.
    """
    if teacher is None:
        return config, None
    name = str(teacher) if isinstance(teacher, str | Path) else f"<{type(teacher).__name__}>"
    settled = (config.distill or DistillConfig(teacher=name)).model_copy(update={"teacher": name})
    if isinstance(teacher, str | Path):
        return config.model_copy(update={"distill": settled}), None
    if hasattr(teacher, "predict_proba"):
        if not hasattr(teacher, "classes_"):
            raise DataError(f"teacher: this {type(teacher).__name__} has no classes_: fit it first")
        teacher = FunctionTeacher(teacher.predict_proba, names=[label_name(item) for item in teacher.classes_])
    elif callable(teacher):
        teacher = FunctionTeacher(teacher)
    elif not isinstance(teacher, Teacher | None):
        raise DataError(
            f"teacher: got {type(teacher).__name__}; a model's folder, an estimator or a function is allowed"
        )
    return config.model_copy(update={"distill": settled}), teacher
