"""What a run fits on validation data after its training, and what model.onnx stores beside the network.

Calibration, linear n-gram branch, threshold to abstain, thresholds of labels and conformal sets are decided together,
for the model of the first training. A second training, the refit, is on the validation examples as well. They are no
longer new to its model, so that it gets the same decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.answers.conformal import ConformalSets
from mixling.answers.decision import DecisionRule
from mixling.data.dataset import Dataset
from mixling.drift.profile import Profile
from mixling.errors import DataError
from mixling.export.onnx import amend
from mixling.features.columns import Columns
from mixling.metrics.abstention import Abstention
from mixling.metrics.base import Metrics
from mixling.metrics.label_thresholds import LabelThreshold
from mixling.metrics.out_of_scope import OutOfScope
from mixling.metrics.quantization import QuantizationCheck
from mixling.networks.network import TextNetwork
from mixling.ngrams.choose import budget, fit_ngrams
from mixling.ngrams.data import LinearData
from mixling.ngrams.fitted import Fitted
from mixling.runs.resolve.config import DecisionsConfig
from mixling.runs.rule import choose_rule
from mixling.runs.thresholds import choose_certainty, choose_common_threshold, choose_label_thresholds, fit_sets
from mixling.runs.validation import Export, ExportedNetwork, Outputs, Validation, export_network
from mixling.runtime.onnx.session import Precision
from mixling.runtime.predictor import Predictor
from mixling.tasks.base import Task
from mixling.text.encoder import Text
from mixling.text.windows import ReadingConfig
from mixling.threads import num_threads
from mixling.training.calibration import Calibration, CalibrationReport, fit_calibration, report_calibration
from mixling.training.callbacks import Detail, Log
from mixling.training.config import NgramConfig


@dataclass(frozen=True, kw_only=True)
class Decisions:
    """What was fitted on validation examples, None where nothing was.

    Attributes:
        risk_coverage: thresholds to abstain for usual accuracies, which are reported in any case.
        abstention: the one that the model has.
        out_of_scope: how it does on texts that no label fits.
        held_out: the number of examples that conformal sets were fitted on.
        profile: of the texts and answers, for `mixling drift`.
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
    profile: Profile | None = None

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
        if self.profile is not None:
            values["profile"] = self.profile.to_dict()
        return _with_branch(content, self.branch, values)

    def apply_to(self, task: Task) -> None:
        """Let a task decide in this way, as a model that has these decisions does."""
        if self.rule is not None:
            task.rule = self.rule.of(task.labels.names)
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
            "risk_coverage": None if self.risk_coverage is None else list(map(asdict, self.risk_coverage)),
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
    def loss(self) -> float:
        """The loss on validation of a model with an n-gram branch; without one, its log-loss or its metric."""
        if self.decisions.branch is None:
            values = self.metrics.numbers()
            return values.get("log_loss", next(iter(values.values())))
        return float(self.decisions.branch.report["mixture_loss"])

    @property
    def content(self) -> bytes:
        """The content of model.onnx."""
        return self.decisions.add_to(self.network.content)

    def of_refit(self, model: TextNetwork, validation: Validation, export: Export, log: Log) -> Decided:
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
        return amend(content, branch=(branch.branch, branch.metadata), columns=branch.columns, **values)
    return amend(content, **values) if values else content


def decide(
    config: DecisionsConfig,
    ngrams: NgramConfig,
    model: TextNetwork,
    validation: Validation,
    *,
    export: Export,
    linear: Callable[[ExportedNetwork, Calibration | None], LinearData],
    counts: npt.NDArray[np.int64],
    outside: Sequence[Text],
    held_out: Dataset | None,
    profile: Callable[[Outputs, Outputs, Any], Profile],
    columns: Columns | None = None,
    log: Log,
) -> Decided:
    """Calibrate a trained model, export it, and make all decisions on the validation examples.

    Args:
        model: with the weights of the best evaluation, into whose last layer the calibration is folded.
        linear: makes what an n-gram branch is fitted on.
        counts: (C,) training examples of each label.
        outside: out-of-scope texts; with neither these nor a wanted accuracy, the model does not abstain.
        columns: beside the texts, which a branch reads in any case; None: there are none.
        held_out: examples that choose nothing, for conformal sets; None: there are none.
        profile: of the data, given the outputs for the validation examples, and outputs and targets of these or more
            examples that were new to the models.
    """
    task = validation.task
    if ngrams.use == "alone":
        calibration = None
        calibration_report = None
        network = ExportedNetwork.unread(export(model, precision=config.precision), validation, config.precision)
    else:
        calibration, calibration_report, float_outputs = _calibrate(model, validation, log)
        network = export_network(model, validation, export, config.precision, log, float_outputs=float_outputs)
    branch, outputs = _fit_branch(
        ngrams, network, validation, lambda: linear(network, calibration), log, columns=columns
    )
    logits = outputs
    targets = validation.targets
    if branch is not None and branch.out_of_fold is not None:  # more examples than validation's
        logits = list(branch.out_of_fold[0])
        targets = branch.out_of_fold[1]
    rule = choose_rule(task, config.metric, logits, targets, counts, log)
    if rule is not None:
        task.rule = rule.of(task.labels.names)
    predictor = None
    if outside or held_out is not None:
        predictor = Predictor(_with_branch(network.content, branch, {}))
    risks, abstention, report = choose_certainty(config.abstain_at, validation, outputs, outside, predictor, rule, log)
    thresholds = None
    if task.has_label_thresholds and config.metric is not None:
        thresholds = choose_common_threshold(validation, outputs, log)
    if config.label_thresholds is not None:
        thresholds = choose_label_thresholds(config.label_thresholds, validation, outputs, log)
    sets = None
    if held_out is not None:
        assert predictor is not None
        assert config.conformal is not None
        sets = fit_sets(predictor, task, held_out, coverage=config.conformal, method=config.conformal_method)
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
        decisions=replace(decisions, profile=profile(outputs, logits, targets)),
        metrics=validation.metrics(outputs),
        wanted=config.precision,
        quantization=network.quantization,
        reading=validation.reading,
    )


def _calibrate(
    model: TextNetwork, validation: Validation, log: Log
) -> tuple[Calibration | None, CalibrationReport | None, Outputs | None]:
    """Fold the calibration into the last layer of a trained model.

    Returns:
        The calibration, its report, and the calibrated model's outputs, if they had to be computed.
    """
    task = validation.task
    targets = validation.targets
    if not task.calibrates:
        return None, None, None
    outputs = validation.of_model(model)
    if (calibration := fit_calibration(task, outputs, targets)) is None:
        return None, None, outputs
    report = report_calibration(task, calibration, outputs, targets)
    change = f"{report.error_before:.4f}, calibrated {report.error:.4f}"
    log(Detail(f"calibration error on validation: {change}"))
    for network in (model, *validation.networks):
        calibration.fold(network)
    return calibration, report, [calibration.apply(item) for item in outputs]


def _fit_branch(
    config: NgramConfig,
    network: ExportedNetwork,
    validation: Validation,
    data: Callable[[], LinearData],
    log: Log,
    *,
    columns: Columns | None,
) -> tuple[Fitted | None, Outputs]:
    """Fit an n-gram branch if the configuration has one and it pays.

    Returns:
        The branch, and the logits of both together for the validation examples, on which the branch of the file may be
        fitted: these are of one that was not.
    """
    task = validation.task
    if (config.use == "never" and columns is None) or not task.has_scores:
        return None, network.outputs
    max_bytes = budget(config, len(network.content), task.num_scores)
    branch = fit_ngrams(config, data(), max_bytes=max_bytes, log=log)
    if branch is None and config.use == "alone":
        raise DataError("the n-gram model has no terms: no text has a word; give texts with words")
    if branch is None:
        return None, network.outputs
    combined = branch.combine(network.outputs)
    if combined is None:
        written = Predictor(_with_branch(network.content, branch, {}), num_threads=num_threads())
        combined = list(validation.of_file(written))
    if config.use == "alone":
        return branch, combined
    alone, whole = (validation.metrics(part).value(task.metric) for part in (network.outputs, combined))
    metric = task.metric.replace("_", " ")
    parts = [] if config.use == "never" else ["n-grams"]
    added = " + ".join(parts if columns is None else [*parts, "columns"])
    log(f"network {alone:.4f}, with {added} {whole:.4f} {metric} on {validation.what}")
    return branch, combined
