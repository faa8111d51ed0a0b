"""Choosing on validation examples when a model abstains, which labels it predicts, and its conformal sets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mixling.answers.conformal import ConformalSets, Method, fit_conformal
from mixling.answers.decision import DecisionRule, answers_by_level, targets_by_level
from mixling.data.dataset import Dataset
from mixling.errors import ConfigError
from mixling.metrics.abstention import Abstention, choose_abstention, risk_coverage
from mixling.metrics.base import metric_title
from mixling.metrics.label_thresholds import MIN_EXAMPLES, LabelThreshold, choose_label_threshold
from mixling.metrics.out_of_scope import OutOfScope, choose_rejection, out_of_scope_report
from mixling.runs.validation import Outputs, Validation
from mixling.runtime.predictor import Predictor
from mixling.tasks.base import Task
from mixling.text.encoder import Text
from mixling.training.callbacks import Log

_THRESHOLDS = tuple(round(0.05 * number, 2) for number in range(1, 20))


def choose_certainty(
    wanted: float | None,
    validation: Validation,
    outputs: Outputs,
    outside: Sequence[Text],
    predictor: Predictor | None,
    rule: DecisionRule | None,
    log: Log,
) -> tuple[tuple[Abstention, ...] | None, Abstention | None, OutOfScope | None]:
    """Choose the threshold to abstain.

    It is chosen for the accuracy of answers, where answers to out-of-scope texts are wrong; without a wanted
    accuracy, by the rates of right answers and of rejected out-of-scope texts.

    Args:
        wanted: the accuracy of answers.
        outputs: the logits for the validation examples of a model that was not fitted on them.
        predictor: the model with its branch; None: there are no out-of-scope texts.

    Returns:
        Thresholds for usual accuracies, the chosen one, and a report on out-of-scope texts.
    """
    task = validation.task
    if not task.abstains:
        return None, None, None
    probabilities = task.probabilities(np.stack(outputs))
    answers, inside = answers_by_level(probabilities, task.rule)
    right = answers == targets_by_level(np.asarray(validation.targets), task.rule)
    risks = risk_coverage(right, inside)
    if wanted is None and not outside:
        return risks, None, None
    rejectable = np.zeros((0, inside.shape[1]))
    if predictor is not None and outside:
        _, rejectable = answers_by_level(predictor.predict_proba(outside), rule)
    if wanted is None:
        lowest = choose_rejection(right[:, 0], inside[:, 0], rejectable[:, 0])
        depth = (inside >= lowest).sum(1)
        answered = depth > 0
        accuracy = float(right[answered, depth[answered] - 1].mean()) if answered.any() else 0.0
        chosen = Abstention(None, lowest, float(answered.mean()), accuracy)
    else:
        joined = np.concatenate([right, np.zeros(rejectable.shape, bool)])
        chosen = choose_abstention(joined, np.concatenate([inside, rejectable]), wanted=wanted)
    if chosen.threshold is not None:
        joint = " and the out-of-scope texts" if outside and wanted is not None else ""
        log(
            f"abstains below a probability of {chosen.threshold:.4f}: on validation{joint} it answers "
            f"{chosen.coverage:.1%}, of these {chosen.accuracy:.2%} right"
        )
    if not outside:
        return risks, chosen, None
    report = out_of_scope_report(inside[:, 0], rejectable[:, 0], threshold=chosen.threshold)
    log(report.summary())
    return risks, chosen, report


def choose_common_threshold(validation: Validation, outputs: Outputs, log: Log) -> dict[str, LabelThreshold]:
    """Choose one threshold for all labels by the metric of the task."""
    task = validation.task
    names = _known(task)
    values: dict[float, float] = {}
    for threshold in _THRESHOLDS:
        task.label_thresholds = dict.fromkeys(names, threshold)
        values[threshold] = task.evaluate(outputs, validation.targets, tables=False).value(task.metric)
    best = max(values, key=lambda threshold: (values[threshold], -abs(threshold - 0.5)))
    title = metric_title(task.metric)
    log(f"labels are predicted from a probability of {best:g}: {title} {values[best]:.4f} ({values[0.5]:.4f} from 0.5)")
    predicted = task.probabilities(np.stack(outputs)) >= best
    truth = np.asarray(validation.targets) > 0
    hits = (predicted & truth).sum(0)
    precision = hits / np.maximum(predicted.sum(0), 1)
    recall = hits / np.maximum(truth.sum(0), 1)
    return {name: LabelThreshold(best, float(precision[i]), float(recall[i])) for i, name in enumerate(names)}


def fit_sets(predictor: Predictor, task: Task, held_out: Dataset, *, coverage: float, method: Method) -> ConformalSets:
    """Fit conformal sets on examples that neither trained nor chose anything."""
    ids = {name: index for index, name in enumerate(_known(task))}
    targets = np.array([ids.get(str(target), len(ids)) for target in held_out.targets])
    return fit_conformal(predictor.predict_proba(held_out.texts), targets, method=method, coverage=coverage)


def _known(task: Task) -> Sequence[str]:
    """Return the labels of the training data, without those that only validation examples have."""
    return task.labels.names[: len(task.labels) - task.unseen]


def choose_label_thresholds(
    by: float | str, validation: Validation, outputs: Outputs, log: Log
) -> dict[str, LabelThreshold]:
    """Choose the thresholds of labels.

    Args:
        outputs: as of `choose_certainty`.
        by: "f1", or the wanted precision.
    """
    precision = None if isinstance(by, str) else by
    task = validation.task
    probabilities = task.probabilities(np.stack(outputs)).T
    truth = np.asarray(validation.targets).T > 0
    chosen = {
        name: choose_label_threshold(truth[index], probabilities[index], precision=precision)
        for index, name in enumerate(_known(task))
    }
    if rare := [name for name, item in chosen.items() if item.threshold is None]:
        log(
            f"{len(rare)} labels have fewer than {MIN_EXAMPLES} validation examples and keep the "
            f"threshold 0.5, such as {rare[0]!r}"
        )
    if short := [name for name, item in chosen.items() if item.threshold is not None and not item.reached]:
        best = chosen[short[0]]
        log(
            f"{len(short)} labels do not reach the precision {by:g} on validation, such as {short[0]!r}: "
            f"the most that can be had is {best.precision:.4f}, at a recall of {best.recall:.4f}"
        )
    return chosen


def check_abstention(chosen: Mapping[str, Any] | None, folder: Path) -> None:
    """Check that a wanted threshold to abstain was found.

    Args:
        chosen: the entry "abstention" of metrics.json; None: none was wanted.
        folder: of the run.

    Raises:
        ConfigError: no threshold has the accuracy.
    """
    if chosen is not None and chosen["threshold"] is None:
        highest = math.floor(10_000 * chosen["accuracy"]) / 10_000  # which can be had, so it is not rounded up
        raise ConfigError(
            f"decisions.abstain_at: no threshold gives an accuracy of {chosen['wanted']:g} on the validation "
            f"examples; the most that can be had is {highest:g}, answering {chosen['coverage']:.1%} of them. The model "
            f"in {folder} is complete but never abstains; pass a lower value, or a threshold to `mixling predict`"
        )
