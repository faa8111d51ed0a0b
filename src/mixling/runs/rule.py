"""Choosing which label is the answer, by the metric that a model is made for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.answers.decision import DecisionRule, offsets_of
from mixling.metrics.base import metric_title
from mixling.tasks.base import Task
from mixling.training.callbacks import Log

_TAUS = tuple(round(0.05 * number, 2) for number in range(31))  # 1 is best for balanced accuracy, by theory
# A gain must show in two thirds of resamples of the examples. With no such test, 4 rare rows of 200 chose an offset
# that lost 13 points of accuracy and 2 of macro F1 on new rows (benchmarks/imbalance.py).
_DRAWS = 100
_SURE = 2 / 3
_MOST_DRAWN = 2_000
_OFFSETS = tuple(round(0.1 * number, 1) for number in range(-30, 31))  # of one label, whose F1 is the metric


def choose_rule(
    task: Task,
    aim: str | None,
    outputs: Sequence[Any],
    targets: Any,
    counts: npt.NDArray[np.int64],
    log: Log,
) -> DecisionRule | None:
    """Choose the offsets of labels with one number for all of them, on validation examples, or by cross-fitting on all.

    For accuracy none is needed: the most probable label is the answer. One number, since offsets of each label overfit
    a validation part, in which a rare label has a handful of rows.

    Args:
        task: with the metric, and with unknown labels of validation examples; its rule stays, where it
            follows costs or levels.
        aim: the name of the metric.
        outputs: logits (C,) for examples, of models that were fitted on none of them.
        counts: (C,) training examples of each label.
    """
    if task.rule is not None:
        return task.rule.of(task.labels.names[: len(counts)])
    if aim is None or aim == "accuracy" or not task.abstains:
        return None
    chosen: tuple[float, DecisionRule | None, str] = (-np.inf, None, "")
    before = task.evaluate(outputs, targets, tables=False).numbers()
    for rule, what in _candidates(task, counts):
        task.rule = rule.of(task.labels.names)
        value = task.evaluate(outputs, targets, tables=False).value(task.metric)
        if value > chosen[0] + 1e-9:
            chosen = (value, rule, what)
    _, best, what = chosen
    assert best is not None
    if any(best.offsets) and not _holds(task, best, outputs, targets):
        task.rule = None
        examples = f"{len(targets):,} unseen examples"
        log(f"answers: the most probable label; offsets for rare labels gain no more than chance on {examples}")
        return None
    task.rule = best.of(task.labels.names)
    after = task.evaluate(outputs, targets, tables=False).numbers()
    task.rule = None
    shown = dict.fromkeys((task.metric, "accuracy", "macro_f1"))
    changes = (f"{metric_title(key)} {after[key]:.4f} ({before[key]:.4f} without)" for key in shown)
    log(f"answers: {what}; on unseen examples: {', '.join(changes)}")
    return best if any(best.offsets) else None


def _holds(task: Task, rule: DecisionRule, outputs: Sequence[Any], targets: Any) -> bool:
    """Whether the rule is better than none in most of the samples that are drawn from the examples with replacement."""
    draw = np.random.default_rng(0)
    logits = np.stack(outputs)
    gold = np.asarray(targets)
    size = min(len(gold), _MOST_DRAWN)
    better = 0
    for _ in range(_DRAWS):
        rows = draw.integers(len(gold), size=size)
        values = []
        for one in (rule.of(task.labels.names), None):
            task.rule = one
            values.append(task.evaluate(list(logits[rows]), gold[rows], tables=False).value(task.metric))
        better += values[0] > values[1]
    return better >= _SURE * _DRAWS


def _candidates(task: Task, counts: npt.NDArray[np.int64]) -> Iterator[tuple[DecisionRule, str]]:
    """Yield rules, the weakest first, with a description of each."""
    if task.aimed_label is not None:
        index = task.labels.names.index(task.aimed_label)
        for offset in sorted(_OFFSETS, key=abs):
            offsets = [0.0] * len(counts)
            offsets[index] = offset
            yield DecisionRule(offsets=tuple(offsets)), f"log-probability of {task.aimed_label!r} {offset:+g}"
        return
    priors = counts / counts.sum()
    for tau in _TAUS:
        yield DecisionRule(offsets=offsets_of(priors, tau)), f"log-probabilities - {tau:g} log(frequency of the label)"
