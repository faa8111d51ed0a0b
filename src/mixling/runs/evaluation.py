"""Evaluating a saved model on labeled examples, without torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.answers.decision import answers_by_level
from mixling.answers.predictions import Prediction
from mixling.artifacts.files import RUN_FILE, read_run
from mixling.config import parse
from mixling.data.config import ColumnsConfig
from mixling.data.dataset import Dataset
from mixling.data.examples import Example, names_of
from mixling.data.inputs import WINDOW, in_windows
from mixling.data.splits import describe_unseen
from mixling.data.unlabeled import read_unlabeled
from mixling.errors import ConfigError, DataError, ModelFileError, near_miss
from mixling.metrics.base import Metrics
from mixling.metrics.out_of_scope import OutOfScope, out_of_scope_report
from mixling.metrics.reports import MAX_TABLE_LABELS
from mixling.metrics.robustness import Robustness
from mixling.runs.resolve.config import RunConfig
from mixling.runtime.predictor import Predictor
from mixling.runtime.windows import TooLong, too_long_for
from mixling.samples.sets import DEMO_COLUMNS, demo_model
from mixling.tasks import task_type
from mixling.tasks.base import Task
from mixling.text.noise import NoiseLevel, noisy_texts

# Where labels are very many: the probabilities of a prediction that are kept, and the scores that are read together.
_KEPT = 10
_MANY_SCORES = 1 << 22


def columns_of(model: str | Path, given: Mapping[str, Any], features: Sequence[str] = ()) -> ColumnsConfig:
    """Return the columns to read: as given, else those that the model was trained on, else the defaults.

    Args:
        model: a run folder, or a model.onnx, which does not record columns.
        given: values of `ColumnsConfig`; None: not given.
        features: the model's columns beside the text, see `Predictor.features`.

    Raises:
        ModelFileError: the folder's run.json is damaged.
    """
    known: dict[str, Any] = dict(_recorded(model, "data", "columns") or {})
    if Path(model) == demo_model():
        known = DEMO_COLUMNS
    known = {key: value for key, value in known.items() if key != "group"}  # which splits the training data only
    given = {key: value for key, value in given.items() if value is not None}
    return parse(ColumnsConfig, {**known, **given, "features": tuple(features)}, where=str(Path(model) / RUN_FILE))


def aim_as_trained(task: Task, model: str | Path) -> None:
    """Let the task of a saved model have the metric that chose it, if its run recorded one; raises as `columns_of`."""
    if (metric := _recorded(model, "decisions", "metric")) is not None:
        task.aim_at(metric)


def _recorded(model: str | Path, *keys: str) -> Any:
    """Return a value of the configuration of a model's run; None: it is a model.onnx alone."""
    path = Path(model) / RUN_FILE
    try:
        found: Any = read_run(Path(model))["config"]
        for key in keys:
            found = found[key]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise ModelFileError(f"{path}: is damaged: {error}") from None
    return found


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Metrics of a model on labeled examples.

    Attributes:
        metrics: on the examples as they are.
        unseen: a sentence about labels that the model does not know, which count as errors; "" if there are none.
        robustness: the headline metric on texts with noise.
        confidence: (B,) the probability of each text's answer, of labels with levels of its top.
        predictions: for the examples (B,), if they were to be kept.
    """

    metrics: Metrics
    unseen: str
    robustness: Robustness
    confidence: npt.NDArray[np.float64] | None = None
    predictions: Sequence[Prediction] = ()


def evaluate(
    predictor: Predictor, examples: Iterable[Example], *, noise: Sequence[NoiseLevel] = (), keep: bool = False
) -> Evaluation:
    """Evaluate a model on examples.

    Args:
        noise: noise to add to the texts, each level separately.
        keep: the predictions.

    Raises:
        ConfigError: noise is given, and the task is question answering.
        DataError: there is no example, or the model knows none of the labels.
    """
    outputs: list[Any] = []
    targets: list[Any] = []
    predictions: list[Prediction] = []
    noisy: dict[NoiseLevel, list[Any]] = {level: [] for level in noise}
    task = predictor.task
    path = ""
    many = task.has_classes and len(task.labels) > MAX_TABLE_LABELS
    if noise and task.windows:
        raise ConfigError(f"--noise: {task.name} has answers that are words of the text; noise would change them")
    most = _MANY_SCORES // len(task.labels) + 1 if many else WINDOW
    for window in in_windows(iter(examples), most):
        if task.windows:
            answers = list(predictor.predict_stream(example.text for example in window))
            outputs += [item.answer.text for item in answers if item.answer]
            predictions += answers if keep else ()
            targets += [example.answers for example in window]
            continue
        texts = [example.text for example in window]
        try:
            if keep:
                logits, answers = predictor.predict_with_logits(texts)
                outputs += logits
                predictions += [one.top(_KEPT) for one in answers] if many else answers
            else:
                outputs += predictor.text_logits(texts)
        except TooLong as error:
            example = window[error.number]
            problem = too_long_for(error.max_len)
            raise DataError(
                f"the text {problem}; use --too-long windows", path=example.path, line=example.line
            ) from None
        for level, found in noisy.items():
            found += predictor.text_logits(noisy_texts(texts, level, first=len(targets)))
        targets += [example.target for example in window]
        path = window[0].path
    if task.windows:
        return Evaluation(metrics=task.evaluate(outputs, targets), unseen="", robustness={}, predictions=predictions)
    known = task.labels.names
    given = {name for target in targets for name in names_of(target)}
    if given and given.isdisjoint(known):
        label = min(given)
        got = f"the model knows none of the labels, such as {label!r}; {near_miss(label, known)}"
        raise DataError(f"{got}; choose the column of the label with --label", path=path)
    full = task.with_unknown(targets)
    truth = full.targets(targets)
    return Evaluation(
        metrics=full.evaluate(outputs, truth),
        confidence=np.concatenate([_certainty(task, part) for part in task.probability_parts(outputs)])
        if task.abstains
        else None,
        predictions=predictions,
        unseen=describe_unseen(targets, known) if full.unseen else "",
        robustness={
            level: full.evaluate(found, truth, tables=False).numbers()[task.headline] for level, found in noisy.items()
        },
    )


def evaluate_out_of_scope(
    predictor: Predictor, sources: Sequence[str], inside: npt.NDArray[np.float64] | None, *, columns: ColumnsConfig
) -> OutOfScope:
    """Compare the certainty about texts that no label fits with that about texts in scope.

    Args:
        sources: files of texts out of scope; labels in them are ignored.
        inside: probabilities (B,) of the answers to texts in scope; None: the model has none.

    Raises:
        ConfigError: texts do not have one label each.
        DataError: a file cannot be used, or has no text.
    """
    task = predictor.task
    if inside is None:
        raise ConfigError(f"--out-of-scope: the model gives {task.gives}; out of scope is for one label a text")
    texts = list(read_unlabeled(sources, reader=task.reader, columns=columns))
    if not texts:
        raise DataError("has no texts; out-of-scope texts are needed", path=sources[0])
    return out_of_scope_report(inside, _certainty(task, predictor.predict_proba(texts)), threshold=task.threshold)


def _certainty(task: Task, probabilities: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Return what (B,) has to reach the threshold for any answer: the probability of the answer of the top level."""
    return answers_by_level(probabilities, task.rule)[1][:, 0]


def aimed_task(config: RunConfig, train: Dataset) -> Task:
    """Return the task of a comparison: the metric of our models chooses the options of the baselines, too."""
    kind = task_type(config.task)
    task = kind(kind.label_set(train))
    if config.decisions.costs is None:  # no baseline knows the costs of errors
        task.aim_at(config.decisions.metric)
        if config.decisions.metric is not None:
            task.headline = task.metric
    return task
