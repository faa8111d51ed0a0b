"""The base class of the estimators: from examples in memory to a run and its files."""

from __future__ import annotations

import sys
import tempfile
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from rich.console import Console
from sklearn.base import BaseEstimator, TransformerMixin

from mixling.artifacts.files import run_files
from mixling.config import merge
from mixling.data.dataset import Dataset
from mixling.data.examples import Example
from mixling.data.in_memory import LabeledTexts, checked_weights, label_name, store_rows, unlabeled_texts
from mixling.data.label_remarks import label_remarks
from mixling.data.splits import check_labels, split_validation
from mixling.errors import ConfigError, DataError, ModelFileError, NotFittedError, near_miss
from mixling.estimators.columns import TableColumns
from mixling.hub import on_hub
from mixling.metrics.base import Metrics
from mixling.runs.evaluation import columns_of, evaluate
from mixling.runs.resolve.config import RunConfig
from mixling.runs.resolve.spec import LABELS, resolve
from mixling.runs.training import fit
from mixling.runtime.hub_model import fetch_model
from mixling.runtime.predictor import Predictor
from mixling.runtime.quick import ONNX_FILE
from mixling.storage import write_atomic
from mixling.tasks import task_type
from mixling.teachers.base import FunctionTeacher, Teacher
from mixling.training.progress import TrainingProgress

# In place of a file name in messages about rows in memory; rows count from 0, like list items.
FIT = "<fit>"
VALIDATION = "<validation>"
SCORE = "<score>"
_MANY_FITS = ("sklearn.model_selection.", "joblib.")  # modules that call `fit` many times, or in a worker


class Estimator(TableColumns, TransformerMixin, BaseEstimator, ABC):
    """Base class: parameters, fitting by a run, saving and loading.

    A fitted estimator holds the content of its run folder as bytes (`files_`), so that it can be pickled, copied and
    moved; it predicts with the exported model, as the command line does.
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
        validation_fraction: float = 0.1,
        seed: int = 0,
        config: dict[str, Any] | None = None,
        verbose: int | None = None,
    ) -> None:
        self.model = model
        self.pretrained = pretrained
        self.epochs = epochs
        self.time_budget = time_budget
        self.batch_size = batch_size
        self.lr = lr
        self.validation_fraction = validation_fraction
        self.seed = seed
        self.config = config
        self.verbose = verbose

    def __new__(cls, *args: Any, **parameters: Any) -> Self:
        """Refuse an unknown parameter, suggesting the closest name.

        Raises:
            TypeError: a parameter is unknown.
        """
        known = cls._get_param_names()
        for name in parameters:
            if name not in known:
                raise TypeError(f"{cls.__name__} has no parameter {name!r}; {near_miss(name, known)}")
        estimator: Self = super().__new__(cls)
        return estimator

    def _fit(
        self,
        task: str,
        rows: LabeledTexts,
        validation_rows: LabeledTexts | None,
        sample_weight: Any,
        teacher: Any = None,
        unlabeled: Iterable[Any] = (),
        types: Mapping[str, str] | None = None,
        columns: Sequence[str] = (),
    ) -> None:
        weights = checked_weights(sample_weight, len(rows[0]))
        train = store_rows(rows, FIT, types=types, columns=columns)
        if (kind := task_type(task)).has_labels:
            for line in label_remarks(train, several=not kind.exclusive, in_python=True):
                warnings.warn(f"{FIT}: {line}", stacklevel=3)
        number = train.schema.texts
        if validation_rows is None:
            train, validation = split_validation(
                train, fraction=self.validation_fraction, seed=self.seed, own="validation=(X, y)"
            )
            weights = None if weights is None else weights[train.indices()]
        else:
            validation = store_rows(validation_rows, VALIDATION, number=number)
        check_labels(train, validation)
        more = unlabeled_texts(unlabeled, number=number)
        if more and teacher is None and not (self.config or {}).get("distill"):
            raise DataError("unlabeled texts are for a teacher to label; give one with teacher=")
        config, teacher = self._run_config(task, train, teacher, split_off=validation_rows is None)
        with tempfile.TemporaryDirectory(prefix="mixling-") as folder:
            verbose = _is_watched() if self.verbose is None else self.verbose
            progress = TrainingProgress(silent=not verbose, verbose=verbose > 1)
            progress.metric = config.metric_key
            run = fit(
                config, train, validation,
                folder=Path(folder), weights=weights, teacher=teacher, unlabeled=more,
                callback=progress, log=progress.log if verbose > 1 else lambda message: None,
            )  # fmt: skip
            assert run is not None
            self.files_ = run_files(Path(folder))
        self.metrics_ = run.metrics
        self.history_ = run.history
        self._predictor_: Predictor | None = None

    def _run_config(
        self, task: str, rows: Dataset, teacher: Any, *, split_off: bool
    ) -> tuple[RunConfig, Teacher | None]:
        if self.model is not None and self.pretrained is not None:
            raise ConfigError(f"pretrained={self.pretrained!r} is the model; leave out model={self.model!r}")
        name, asked = _teacher(teacher)
        options = {
            "task": task,
            "data": {"columns": self._named_columns()},
            "ngrams": {"refit": split_off or None},  # on rows that are given as `validation`, nothing is fitted
            "model": self.model,
            "init": {"pretrained": self.pretrained},
            "train": {
                "epochs": self.epochs,
                "time_budget": self.time_budget,
                "seed": self.seed,
                "optim": {"lr": self.lr},
                "batch_size": self.batch_size,
            },
        }
        overrides = merge(self.config or {}, {} if name is None else {"distill": {"teacher": name}})
        resolved = resolve(options, spec=LABELS, overrides=overrides, where=type(self).__name__)
        return resolved.for_examples(rows).config, asked

    @property
    def predictor_(self) -> Predictor:
        """The `Predictor` of the fitted model, the fastest way to single predictions.

        Raises:
            NotFittedError: `fit` was not called.
        """
        if not hasattr(self, "files_"):
            name = type(self).__name__
            raise NotFittedError(f"this {name} is not fitted yet; call fit, or {name}.load(folder)")
        if self._predictor_ is None:
            self._predictor_ = Predictor(self.files_[ONNX_FILE])
        return self._predictor_

    def transform(self, X: Any) -> npt.NDArray[np.float32]:
        """Return a vector (n, R) for each text, see `Predictor.encode`; after `set_output` a table."""
        return self.predictor_.encode(self._texts(X))

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Return the names (R,) of the columns of `transform`."""
        name = type(self).__name__.lower()
        return np.array([f"{name}{place}" for place in range(self.predictor_.encode([]).shape[1])], object)

    def report(self, X: Any, y: Any = None) -> Metrics:
        """Return all metrics of the model on labeled texts, as `mixling evaluate` has them.

        `print(...)` shows the scores of each class, a notebook a table of them; `to_dict()` has all values.

        Args:
            X, y: as of `fit`; without y, X is a table with the columns that `fit` read.

        Raises:
            DataError: the texts or targets cannot be used, or there are none.
        """
        texts, targets = self._scored_rows(X, y)
        pairs = enumerate(zip(texts, targets, strict=True))
        evaluation = evaluate(self.predictor_, (Example(text, target, SCORE, row) for row, (text, target) in pairs))
        if evaluation.unseen:
            warnings.warn(f"{SCORE}: {evaluation.unseen}", stacklevel=2)
        return evaluation.metrics

    @abstractmethod
    def _scored_rows(self, X: Any, y: Any) -> LabeledTexts:
        """Return texts and targets to score, as `fit` reads them."""

    def save(self, folder: str | Path) -> None:
        """Write the run folder, for `load` and the command line.

        Raises:
            StorageError: a file could not be written.
        """
        _ = self.predictor_
        for name, content in self.files_.items():
            write_atomic(Path(folder) / name, content)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Load a run folder, a `model.onnx` or `hf:NAME[@REVISION]`; of `mixling train`, labels are strings.

        Only files that a run writes are read, and no links, so that pickles and `save` contain nothing else.

        Raises:
            ModelFileError: there is no model for this estimator, or a file is too large.
        """
        out = cls()
        out.text_ = None
        out.label_ = None
        out.features_ = ()
        folder = fetch_model(str(folder)) if on_hub(folder) else Path(folder)
        out._predictor_ = Predictor(folder)
        out.features_ = out._predictor_.features
        try:
            out.files_ = run_files(folder) if folder.is_dir() else {ONNX_FILE: folder.read_bytes()}
        except OSError as error:
            raise ModelFileError(f"{folder}: cannot be read: {error.strerror}") from None
        task = out.predictor_.task
        if task.estimator != cls.__name__:
            reader = f"{task.estimator}.load" if task.estimator else "Predictor"
            raise ModelFileError(f"{folder}: its model gives {task.gives}; read it with {reader}")
        if folder.is_dir():
            out._remember(columns_of(folder, {}))
        out._loaded()
        return out

    def _loaded(self) -> None:
        """Complete a loaded estimator."""

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "files_")

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_predictor_": None}


def _is_watched() -> bool:
    """Return whether standard error is a terminal or a notebook, and this is not one of a search's many trainings."""
    if not (sys.stderr.isatty() or Console(stderr=True).is_jupyter):
        return False
    frame: FrameType | None = sys._getframe()
    while frame is not None and not frame.f_globals.get("__name__", "").startswith(_MANY_FITS):
        frame = frame.f_back
    return frame is None


def _teacher(teacher: Any) -> tuple[str | None, Teacher | None]:
    """Return the teacher's name for the configuration, and the teacher itself if it is an object.

    Raises:
        DataError: `teacher` is none of the allowed kinds.
    """
    if teacher is None or isinstance(teacher, str | Path):
        return None if teacher is None else str(teacher), None
    name = f"<{type(teacher).__name__}>"
    if hasattr(teacher, "predict_proba"):
        if not hasattr(teacher, "classes_"):
            raise DataError(f"teacher: this {type(teacher).__name__} has no classes_: fit it first")
        return name, FunctionTeacher(teacher.predict_proba, names=[label_name(item) for item in teacher.classes_])
    if isinstance(teacher, Teacher):
        return name, teacher
    if not callable(teacher):
        raise DataError(
            f"teacher: got {type(teacher).__name__}; a model's folder, an estimator or a function is allowed"
        )
    return name, FunctionTeacher(teacher)
