"""What a run fits on validation data after its training, and what model.onnx stores beside the network.

Calibration, linear n-gram branch, threshold to abstain, thresholds of labels and conformal sets are decided together,
for the model of the first training. A second training, the refit, is on the validation examples as well. They are no
longer new to its model, so that it gets the same decisions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from mixling.answers.conformal import ConformalSets, Method, fit_conformal
from mixling.answers.decision import DecisionRule
from mixling.data.dataset import Dataset
from mixling.errors import ConfigError
from mixling.export.onnx import amend
from mixling.export.quantize import quantization_problem
from mixling.metrics.abstention import Abstention, choose_abstention, risk_coverage
from mixling.metrics.base import Metrics, metric_title
from mixling.metrics.label_thresholds import MIN_EXAMPLES, LabelThreshold, choose_label_threshold
from mixling.metrics.out_of_scope import OutOfScope, choose_rejection, out_of_scope_report
from mixling.metrics.quantization import QuantizationCheck
from mixling.models.model import Model
from mixling.ngrams.choose import Fitted, budget, fit_ngrams
from mixling.ngrams.data import LinearData
from mixling.runs.resolve.config import DecisionsConfig
from mixling.runs.rule import choose_rule
from mixling.runs.validation import Outputs, Validation
from mixling.runtime.onnx.session import Precision
from mixling.runtime.predictor import Predictor
from mixling.tasks.base import Task
from mixling.text.encoder import Text
from mixling.text.windows import ReadingConfig
from mixling.training.calibration import Calibration, CalibrationReport, fit_calibration, report_calibration
from mixling.training.callbacks import Detail, Log
from mixling.training.config import NgramConfig
from mixling.training.memory import release

_THRESHOLDS = tuple(round(0.05 * number, 2) for number in range(1, 20))

Export = Callable[..., bytes]  # takes a model, `precision` and `reading`, as `mixling.export.onnx.export_onnx`


@dataclass(frozen=True, kw_only=True)
class ExportedNetwork:
    """A calibrated network as the content of an ONNX file.

    Attributes:
        outputs: of the file, for the validation examples.
        quantization: what 8-bit weights cost; None: the weights were wanted in float32.
    """

    content: bytes
    outputs: Outputs
    precision: Precision
    quantization: QuantizationCheck | None


@dataclass(frozen=True, kw_only=True)
class Decisions:
    """What was fitted on validation examples, None where nothing was.

    Attributes:
        risk_coverage: thresholds to abstain for usual accuracies, which are reported in any case.
        abstention: the one that the model has.
        out_of_scope: how it does on texts that no label fits.
        held_out: the number of examples that conformal sets were fitted on.
    """

    calibration: Calibration | None
    calibration_report: CalibrationReport | None
    branch: Fitted | None
    rule: DecisionRule | None
    risk_coverage: tuple[Abstention, ...] | None
    abstention: Abstention | None
    out_of_scope: OutOfScope | None
    label_thresholds: dict[str, LabelThreshold] | None
    conformal: ConformalSets | None
    held_out: int

    @property
    def network_weight(self) -> float:
        """The weight of the network's logits beside the n-gram branch's, 1 without one."""
        return 1.0 if self.branch is None else self.branch.metadata.network

    @property
    def thresholds(self) -> dict[str, float]:
        """The probability from which each label is predicted, where it is not 0.5."""
        chosen = self.label_thresholds or {}
        return {name: item.threshold for name, item in chosen.items() if item.threshold is not None}

    def add_to(self, content: bytes) -> bytes:
        """Return the file of a calibrated network with all decisions in it."""
        values: dict[str, Any] = {} if self.rule is None else {"rule": self.rule.to_dict()}
        if self.abstention is not None and self.abstention.threshold is not None:
            values["threshold"] = self.abstention.threshold
        if self.label_thresholds is not None:
            values["label_thresholds"] = self.thresholds
        if self.conformal is not None:
            values["conformal"] = self.conformal.to_dict()
        return _with_branch(content, self.branch, values)

    def apply_to(self, task: Task) -> None:
        """Let a task decide in this way, as a model that has these decisions does."""
        if self.rule is not None:
            task.rule = self.rule.with_unknown(task.unseen)
        if self.abstention is not None:
            task.threshold = self.abstention.threshold
        if self.label_thresholds is not None:
            task.label_thresholds = self.thresholds
        task.conformal = self.conformal

    def to_dict(self) -> dict[str, Any]:
        """Return the entries of metrics.json."""
        thresholds = self.label_thresholds
        return {
            "calibration": _entry(self.calibration_report),
            "rule": None if self.rule is None else self.rule.to_dict(),
            "abstention": _entry(self.abstention),
            "risk_coverage": None if self.risk_coverage is None else [asdict(item) for item in self.risk_coverage],
            "label_thresholds": None if thresholds is None else {name: asdict(one) for name, one in thresholds.items()},
            "out_of_scope": _entry(self.out_of_scope),
            "conformal": None if self.conformal is None else {**self.conformal.to_dict(), "examples": self.held_out},
            "ngrams": None if self.branch is None else self.branch.report,
        }


@dataclass(frozen=True, kw_only=True)
class Decided:
    """A network with its decisions, and how they do.

    Attributes:
        network: of the exported model.
        metrics: of the network's file with all decisions for the validation examples, which it was not fitted on.
        wanted: the precision of the weights, if 8 bits do not cost too much.
        quantization: what they cost the first model; None: they were not tried.
        reading: how questions are answered; None: the task has none.
    """

    network: ExportedNetwork
    decisions: Decisions
    metrics: Metrics
    wanted: Precision
    quantization: QuantizationCheck | None
    reading: ReadingConfig | None

    @property
    def content(self) -> bytes:
        """The content of model.onnx."""
        return self.decisions.add_to(self.network.content)

    def of_refit(self, model: Model, validation: Validation, export: Export, log: Log) -> Decided:
        """Return the same decisions for a model that was trained on the validation examples, too.

        The metrics still describe the first model, to which these examples were new.
        """
        if self.decisions.calibration is not None:
            self.decisions.calibration.fold(model)
        return replace(self, network=export_network(model, validation, export, self.wanted, log))

    def to_dict(self) -> dict[str, Any]:
        """Return the entries of metrics.json."""
        return {
            "validation": self.metrics.to_dict(),
            "precision": self.network.precision,
            "quantization": _entry(self.quantization),
            **self.decisions.to_dict(),
            "reading": None if self.reading is None else self.reading.to_dict(),
            "file_bytes": len(self.content),
        }


def _entry(value: Any) -> dict[str, Any] | None:
    return None if value is None else asdict(value)


def _with_branch(content: bytes, branch: Fitted | None, values: Mapping[str, Any]) -> bytes:
    if branch is not None:
        return amend(content, branch=(branch.branch, branch.metadata), **values)
    return amend(content, **values) if values else content


def decide(
    config: DecisionsConfig,
    ngrams: NgramConfig,
    model: Model,
    validation: Validation,
    *,
    export: Export,
    linear: Callable[[ExportedNetwork, Calibration | None], LinearData],
    counts: npt.NDArray[np.int64],
    outside: Sequence[Text],
    held_out: Dataset | None,
    log: Log,
) -> Decided:
    """Calibrate a trained model, export it, and make all decisions on the validation examples.

    Args:
        model: with the weights of the best evaluation, into whose last layer the calibration is folded.
        linear: makes what an n-gram branch is fitted on.
        counts: (C,) training examples of each label.
        outside: out-of-scope texts; with neither these nor a wanted accuracy, the model does not abstain.
        held_out: examples that choose nothing, for conformal sets; None: there are none.
    """
    task = validation.task
    calibration, calibration_report, float_outputs = _calibrate(model, validation, log)
    network = export_network(model, validation, export, config.precision, log, float_outputs=float_outputs)
    branch, outputs = _fit_branch(ngrams, network, validation, lambda: linear(network, calibration), log)
    logits, targets = outputs, validation.targets
    if branch is not None and branch.out_of_fold is not None:  # more examples than validation's
        logits, targets = list(branch.out_of_fold[0]), branch.out_of_fold[1]
    rule = choose_rule(task, config.metric, logits, targets, counts, log)
    if rule is not None:
        task.rule = rule.with_unknown(task.unseen)
    predictor = None
    if outside or held_out is not None:
        predictor = Predictor(_with_branch(network.content, branch, {}))
    risks, abstention, report = _choose_abstention(
        config.abstain_at, validation, outputs, outside, predictor, rule, log
    )
    thresholds = None
    if task.has_label_thresholds and config.metric is not None:
        thresholds = _choose_threshold(validation, outputs, log)
    if config.label_thresholds is not None:
        thresholds = _choose_label_thresholds(config.label_thresholds, validation, outputs, log)
    sets = None
    if held_out is not None:
        assert predictor is not None
        assert config.conformal is not None
        sets = _fit_sets(predictor, task, held_out, coverage=config.conformal, method=config.conformal_method)
        log(f"conformal sets are fitted on {len(held_out):,} validation examples that chose nothing")
    decisions = Decisions(
        calibration=calibration,
        calibration_report=calibration_report,
        branch=branch,
        rule=rule,
        risk_coverage=risks,
        abstention=abstention,
        out_of_scope=report,
        label_thresholds=thresholds,
        conformal=sets,
        held_out=0 if held_out is None else len(held_out),
    )
    decisions.apply_to(task)
    return Decided(
        network=network,
        decisions=decisions,
        metrics=validation.metrics(outputs),
        wanted=config.precision,
        quantization=network.quantization,
        reading=validation.reading,
    )


def export_network(
    model: Model,
    validation: Validation,
    export: Export,
    precision: Precision,
    log: Log,
    *,
    float_outputs: Outputs | None = None,
) -> ExportedNetwork:
    """Export a calibrated model, in float32 if 8-bit weights cost too much.

    Args:
        float_outputs: the model's outputs for the validation examples; None: they are computed.
    """
    before = validation.of_model(model) if float_outputs is None else float_outputs

    def exported(precision: Precision) -> tuple[bytes, Outputs]:
        content = export(model, precision=precision, reading=validation.reading)
        outputs = validation.of_file(Predictor(content, num_threads=torch.get_num_threads()))
        release()  # what the predictor had
        return content, outputs

    content, outputs = exported(precision)
    quantization = None
    if precision == "int8":
        quantization = validation.compare_quantized(before, outputs)
        if (problem := quantization_problem(quantization)) is not None:
            log(f"{problem}; model.onnx holds float32 weights")
            precision = "float32"
            content, outputs = exported(precision)
    return ExportedNetwork(content=content, outputs=outputs, precision=precision, quantization=quantization)


def _calibrate(
    model: Model, validation: Validation, log: Log
) -> tuple[Calibration | None, CalibrationReport | None, Outputs | None]:
    """Fold the calibration into the last layer of a trained model.

    Returns:
        The calibration, its report, and the calibrated model's outputs, if they had to be computed.
    """
    task, targets = validation.task, validation.targets
    if not task.calibrates:
        return None, None, None
    outputs = validation.of_model(model)
    if (calibration := fit_calibration(task, outputs, targets)) is None:
        return None, None, outputs
    report = report_calibration(task, calibration, outputs, targets)
    change = f"{report.error_before:.4f}, calibrated {report.error:.4f}"
    log(Detail(f"calibration error on validation: {change}"))
    calibration.fold(model)
    return calibration, report, [calibration.apply(item) for item in outputs]


def _fit_branch(
    config: NgramConfig, network: ExportedNetwork, validation: Validation, data: Callable[[], LinearData], log: Log
) -> tuple[Fitted | None, Outputs]:
    """Fit an n-gram branch if the configuration has one and it pays.

    Returns:
        The branch, and the logits of both together for the validation examples, on which the branch of the file may be
        fitted: these are of one that was not.
    """
    task = validation.task
    if config.use == "never" or not task.has_scores:
        return None, network.outputs
    max_bytes = budget(config, len(network.content))
    branch = fit_ngrams(config, data(), max_bytes=max_bytes, log=log)
    if branch is None:
        return None, network.outputs
    combined = branch.combine(network.outputs)
    if combined is None:
        written = Predictor(_with_branch(network.content, branch, {}), num_threads=torch.get_num_threads())
        combined = list(validation.of_file(written))
    alone, whole = (getattr(validation.metrics(part), task.metric) for part in (network.outputs, combined))
    metric = task.metric.replace("_", " ")
    log(f"network {alone:.4f} + n-grams = {whole:.4f} {metric} on validation")
    return branch, combined


def _choose_abstention(
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
    answers = probabilities.argmax(1) if task.rule is None else task.rule.answers_of(probabilities)
    right = answers == np.asarray(validation.targets)
    inside = probabilities[np.arange(len(answers)), answers]
    risks = risk_coverage(right, inside)
    if wanted is None and not outside:
        return risks, None, None
    rejectable: npt.NDArray[np.floating] = np.zeros(0)
    if predictor is not None and outside:
        rejectable = _certainty(predictor.predict_proba(outside), rule)
    if wanted is None:
        lowest = choose_rejection(right, inside, rejectable)
        answered = inside >= lowest
        accuracy = float(right[answered].mean()) if answered.any() else 0.0
        chosen = Abstention(None, lowest, float(answered.mean()), accuracy)
    else:
        joined = np.concatenate([right, np.zeros(len(outside), bool)])
        chosen = choose_abstention(joined, np.concatenate([inside, rejectable]), wanted=wanted)
    if chosen.threshold is not None:
        joint = " and the out-of-scope texts" if outside and wanted is not None else ""
        log(
            f"abstains below a probability of {chosen.threshold:.4f}: on validation{joint} it answers "
            f"{chosen.coverage:.1%}, of these {chosen.accuracy:.2%} right"
        )
    if not outside:
        return risks, chosen, None
    report = out_of_scope_report(inside, rejectable, threshold=chosen.threshold)
    log(report.summary())
    return risks, chosen, report


def _certainty(probabilities: npt.NDArray[np.floating], rule: DecisionRule | None) -> npt.NDArray[np.floating]:
    """Return the probabilities (B,) of the answers."""
    answers = probabilities.argmax(1) if rule is None else rule.answers_of(probabilities)
    return np.asarray(probabilities[np.arange(len(probabilities)), answers])


def _choose_threshold(validation: Validation, outputs: Outputs, log: Log) -> dict[str, LabelThreshold]:
    """Choose one threshold for all labels by the metric of the task."""
    task = validation.task
    names = _known(task)
    values: dict[float, float] = {}
    for threshold in _THRESHOLDS:
        task.label_thresholds = dict.fromkeys(names, threshold)
        values[threshold] = task.evaluate(outputs, validation.targets, tables=False).numbers()[task.metric]
    best = max(values, key=lambda threshold: (values[threshold], -abs(threshold - 0.5)))
    title = metric_title(task.metric)
    log(f"labels are predicted from a probability of {best:g}: {title} {values[best]:.4f} ({values[0.5]:.4f} from 0.5)")
    predicted = task.probabilities(np.stack(outputs)) >= best
    truth = np.asarray(validation.targets) > 0
    hits = (predicted & truth).sum(0)
    precision = hits / np.maximum(predicted.sum(0), 1)
    recall = hits / np.maximum(truth.sum(0), 1)
    return {name: LabelThreshold(best, float(precision[i]), float(recall[i])) for i, name in enumerate(names)}


def _fit_sets(predictor: Predictor, task: Task, held_out: Dataset, *, coverage: float, method: Method) -> ConformalSets:
    """Fit conformal sets on examples that neither trained nor chose anything."""
    ids = {name: index for index, name in enumerate(_known(task))}
    targets = np.array([ids.get(str(target), len(ids)) for target in held_out.targets])
    return fit_conformal(predictor.predict_proba(held_out.texts), targets, method=method, coverage=coverage)


def _known(task: Task) -> Sequence[str]:
    """Return the labels of the training data, without those that only validation examples have."""
    return task.labels.names[: len(task.labels) - task.unseen]


def _choose_label_thresholds(
    by: float | str, validation: Validation, outputs: Outputs, log: Log
) -> dict[str, LabelThreshold]:
    """Choose the thresholds of labels.

    Args:
        outputs: as of `_choose_abstention`.
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
