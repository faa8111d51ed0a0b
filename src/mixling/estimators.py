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
from mixling.data.examples import Example
from mixling.data.splits import check_labels, split_dev
from mixling.data.store import ExampleStore
from mixling.errors import DataError, ModelFileError, NotFittedError
from mixling.models.presets import DEFAULT_PRESET, model_config
from mixling.runs import RunConfig, fit
from mixling.runtime.predictor import Predictor
from mixling.storage import write_atomic
from mixling.tasks.base import TaskName
from mixling.text.encoder import Text
from mixling.text.labels import Prediction

_ROWS = "<fit>"  # stands for the file in messages about rows that were given in memory


class _Estimator(BaseEstimator, ABC):
    """What both estimators share: parameters, fitting through a run, saving and loading.

    A fitted estimator holds the content of its run folder as bytes (`files_`), so that it can be pickled, copied and
    moved; it predicts with the exported model, exactly as the command line and a server do.
    """

    def __init__(
        self,
        model: str = DEFAULT_PRESET,
        *,
        epochs: int | None = None,
        time_budget: float | None = None,
        batch_size: int | None = None,
        lr: float | None = None,
        dev_fraction: float = 0.1,
        seed: int = 0,
        config: dict[str, Any] | None = None,
    ) -> None:
        self.model = model
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
        texts: Iterable[Text],
        targets: Sequence[Any],
        sample_weight: Any,
        dev: tuple[Iterable[Text], Sequence[Any]] | None,
    ) -> None:
        config = self._run_config(task)
        store, weights = _store(texts, targets), _weights(sample_weight, len(targets))
        if dev is None:
            train, dev_store = split_dev(store, fraction=self.dev_fraction, seed=self.seed)
            weights = None if weights is None else weights[train.indices()]
        else:
            train, dev_store = store, _store(*dev)
        check_labels(train, dev_store)
        with tempfile.TemporaryDirectory(prefix="mixling-") as folder:
            run = fit(config, train, dev_store, folder=Path(folder), weights=weights)
            assert run is not None
            self.files_ = {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}
        self.metrics_, self.history_ = run.metrics, run.history
        self._predictor_: Predictor | None = None

    def _run_config(self, task: TaskName) -> RunConfig:
        optim = {} if self.lr is None else {"lr": self.lr}
        train = {"epochs": self.epochs, "time_budget": self.time_budget, "seed": self.seed, "optim": optim}
        if self.batch_size is not None:
            train["batch_size"] = self.batch_size
        values = {"task": task, "model": model_config(self.model).to_dict(), "train": train}
        return parse(RunConfig, merge(values, self.config or {}), where=type(self).__name__)

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
            self._predictor_ = Predictor.from_bytes(self.files_["model.onnx"])
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
        """Read a run folder; its labels come back as strings.

        Raises:
            ModelFileError: the folder has no model of this kind.
        """
        out = cls()
        try:
            out.files_ = {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir()) if path.is_file()}
        except OSError as error:
            raise ModelFileError(f"{folder}: cannot be read: {error.strerror}") from None
        if "model.onnx" not in out.files_:
            raise ModelFileError(f"{folder}: has no model.onnx")
        out._predictor_ = None
        out._loaded(folder)
        return out

    @abstractmethod
    def _loaded(self, folder: str | Path) -> None:
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
        model: a preset's name, or a TOML file.
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
    ) -> Self:
        """Train.

        Args:
            sample_weight: (n,) numbers >= 0.
            dev: texts and labels to choose the best epoch on; by default a stratified share of the examples.

        Raises:
            DataError: texts and labels that cannot be used.
        """
        targets = list(y)
        many = bool(targets) and isinstance(targets[0], list | tuple | set | frozenset)
        names = [tuple(sorted(_name(i) for i in item)) if many else _name(item) for item in targets]
        dev_data = None
        if dev is not None:
            dev_data = dev[0], [tuple(map(_name, i)) if many else _name(i) for i in dev[1]]
        self._fit("multi_label" if many else "classification", X, names, sample_weight, dev_data)
        flat = [item for target in targets for item in target] if many else targets
        self._set_classes({_name(item): _plain(item) for item in flat})
        return self

    def predict(self, X: Iterable[Text]) -> Any:
        """The most probable label of each text, (n,); for multi-label a list of tuples."""
        if self.predictor_.labels.kind == "multi":
            return [tuple(self._original[name] for name in item.labels or ()) for item in self._predictions(X)]
        return self.classes_[self.predict_proba(X).argmax(1)]

    def predict_proba(self, X: Iterable[Text]) -> np.ndarray:
        """Probabilities (n, C), columns in the order of `classes_`."""
        return self.predictor_.predict_proba(list(X))[:, self._columns]

    def _predictions(self, X: Iterable[Text]) -> list[Prediction]:
        return list(self.predictor_.predict_stream(list(X)))

    def _set_classes(self, original: dict[str, Any]) -> None:
        names = self.predictor_.labels.names
        self._original = {name: original.get(name, name) for name in names}
        values = list(self._original.values())
        kinds = {type(value) for value in values}
        order = sorted(range(len(values)), key=lambda i: values[i] if len(kinds) == 1 else names[i])
        self._columns = np.array(order)
        self.classes_ = np.array([values[i] for i in order], dtype=None if len(kinds) == 1 else object)

    def _loaded(self, folder: str | Path) -> None:
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
    ) -> Self:
        """Train on words and their IOB2 tags.

        Raises:
            DataError: words and tags of different numbers, or tags that are not IOB2.
        """
        dev_data = None if dev is None else (dev[0], [tuple(tags) for tags in dev[1]])
        self._fit("tagging", X, [tuple(tags) for tags in y], sample_weight, dev_data)
        return self

    def predict(self, X: Iterable[list[str]]) -> list[list[str]]:
        """The tags of each sentence's words; words beyond the model's length are tagged O."""
        sentences = [list(words) for words in X]
        found = self.predictor_.predict_stream(sentences)
        return [
            [*(item.tags or ()), *("O" for _ in words[len(item.tags or ()) :])]
            for words, item in zip(sentences, found, strict=True)
        ]

    def predict_spans(self, X: Iterable[Text]) -> list[Prediction]:
        """The spans of each text, with character offsets."""
        return list(self.predictor_.predict_stream(list(X)))

    def score(self, X: Iterable[list[str]], y: Iterable[Sequence[str]], sample_weight: Any = None) -> float:
        """Word accuracy; `sample_weight` weighs sentences."""
        right = [[a == b for a, b in zip(*pair, strict=True)] for pair in zip(self.predict(X), y, strict=True)]
        weights = _weights(sample_weight, len(right))
        shares = np.ones(len(right)) if weights is None else weights
        total = sum(share * len(marks) for share, marks in zip(shares, right, strict=True))
        return float(sum(share * sum(marks) for share, marks in zip(shares, right, strict=True)) / total)

    def _loaded(self, folder: str | Path) -> None:
        if self.predictor_.labels.kind != "iob":
            raise ModelFileError(f"{folder}: holds a classifier; read it with TextClassifier.load")


def _store(texts: Iterable[Text], targets: Iterable[Any]) -> ExampleStore:
    rows, names = list(texts), list(targets)
    if len(rows) != len(names):
        raise DataError(f"{len(rows)} texts but {len(names)} targets; give each text one", path=_ROWS)
    for number, (text, target) in enumerate(zip(rows, names, strict=True)):
        fault = _fault(text)
        if isinstance(target, tuple) and isinstance(text, list) and not fault and _is_tagged(target):
            fault = "" if len(text) == len(target) else f"{len(text)} words but {len(target)} tags"
        if fault:
            raise DataError(fault, path=_ROWS, line=number)
    examples = (Example(t, n, _ROWS, i) for i, (t, n) in enumerate(zip(rows, names, strict=True)))
    return ExampleStore.from_examples(examples)


def _is_tagged(target: tuple[str, ...]) -> bool:
    return any(tag == "O" or tag[:2] in ("B-", "I-") for tag in target)


def _fault(text: Any) -> str:
    """What is wrong with a text, or nothing."""
    if isinstance(text, tuple) and len(text) != 2:
        return f"a tuple is a pair of texts; got {len(text)} items"
    parts = text if isinstance(text, tuple | list) else [text]
    wrong = next((part for part in parts if not isinstance(part, str)), None)
    return (
        ""
        if wrong is None
        else f"got {wrong!r} where a text is needed; a text is a str, a pair of str or a list of str"
    )


def _weights(sample_weight: Any, count: int) -> np.ndarray | None:
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, np.float32)
    if weights.shape != (count,) or not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise DataError(
            f"sample_weight: got shape {weights.shape}; {count} finite numbers >= 0, not all zero, are needed"
        )
    return weights


def _plain(label: Any) -> Any:
    """A NumPy scalar as the Python value that it is."""
    return label.item() if isinstance(label, np.generic) else label


def _name(label: Any) -> str:
    """The name under which a label is saved.

    Raises:
        DataError: the label is neither a string, an integer nor a boolean.
    """
    label = _plain(label)
    if isinstance(label, bool):
        return "true" if label else "false"
    if isinstance(label, int | str):
        return str(label)
    raise DataError(f"label {label!r} is of type {type(label).__name__}; a string, an integer or a boolean is allowed")
