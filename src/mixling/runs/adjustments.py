"""What a run fits on validation data after its training: calibration, linear n-gram branch, threshold to abstain.

A refit trains a second model on the validation examples as well. They are no longer new to it, so that it gets what was
fitted for the first model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from mixling.answers.conformal import ConformalSets, Method, fit_conformal
from mixling.data.dataset import Dataset
from mixling.errors import ConfigError
from mixling.export.onnx import amend
from mixling.metrics.abstention import Abstention, choose_abstention, risk_coverage
from mixling.metrics.label_thresholds import MIN_EXAMPLES, LabelThreshold, choose_label_threshold
from mixling.metrics.out_of_scope import OutOfScope, choose_rejection, out_of_scope_report
from mixling.models.model import Model
from mixling.ngrams.choose import Fitted, budget, fit_ngrams
from mixling.ngrams.data import LinearData
from mixling.runs.validation import Outputs, Validation
from mixling.runtime.predictor import Predictor
from mixling.storage import write_atomic
from mixling.tasks.base import Task
from mixling.text.encoder import Text
from mixling.training.calibration import Calibration, CalibrationReport, fit_calibration, report_calibration
from mixling.training.callbacks import Detail, Log
from mixling.training.config import NgramConfig


class Adjustments:
    """Fits on the first call of each method, and repeats what was fitted on later calls, for the model of a refit."""

    def __init__(self, task: Task, validation: Validation, log: Log) -> None:
        self._task, self._validation, self._log = task, validation, log
        self._calibrated = self._chosen = False
        self._calibration: Calibration | None = None
        self._calibration_report: CalibrationReport | None = None
        self._branch: Fitted | None = None
        self._risk_coverage: tuple[Abstention, ...] | None = None
        self._abstention: Abstention | None = None
        self._outside: OutOfScope | None = None
        self._sets: ConformalSets | None = None
        self._held_out = 0
        self._thresholds: dict[str, LabelThreshold] | None = None

    @property
    def has_branch(self) -> bool:
        """Whether there is an n-gram branch."""
        return self._branch is not None

    @property
    def network_weight(self) -> float:
        """The weight of the network's logits beside those of the n-gram branch, 1 without one."""
        return 1.0 if self._branch is None else self._branch.metadata.network

    def calibrate(self, model: Model) -> Outputs | None:
        """Fold the calibration into the last layer of a trained model.

        Returns:
            The calibrated model's outputs for the validation examples, if they had to be computed.
        """
        outputs = None
        if self._task.calibrates and not self._calibrated:
            self._calibrated, outputs = True, self._validation.of_model(model)
            self._fit_calibration(outputs)
        if self._calibration is not None:
            self._calibration.fold(model)
            outputs = outputs and [self._calibration.apply(item) for item in outputs]
        return outputs

    def _fit_calibration(self, outputs: Outputs) -> None:
        task, targets = self._validation.task, self._validation.targets
        if (calibration := fit_calibration(task, outputs, targets)) is None:
            return
        report = report_calibration(task, calibration, outputs, targets)
        change = f"{report.error_before:.4f}, calibrated {report.error:.4f}"
        self._log(Detail(f"calibration error on validation: {change}"))
        self._calibration, self._calibration_report = calibration, report

    def add_branch(
        self, path: Path, outputs: Outputs, config: NgramConfig, data: Callable[[Path, Outputs], LinearData]
    ) -> Outputs:
        """Add an n-gram branch to a model file if the configuration has one and it pays.

        Args:
            path: the file, without a branch.
            outputs: its logits for the validation examples.
            data: makes what the branch is fitted on, given both.

        Returns:
            The logits with a branch that was not fitted on the validation examples, which the file's may be.
        """
        if config.use == "never" or not self._task.has_scores:
            return outputs
        content, first = path.read_bytes(), not self._chosen
        if first:
            self._chosen = True
            max_bytes = budget(config, len(content))
            self._branch = fit_ngrams(config, data(path, outputs), max_bytes=max_bytes, log=self._log)
        if self._branch is None:
            return outputs
        write_atomic(path, amend(content, branch=(self._branch.branch, self._branch.metadata)))
        written = Predictor(path, num_threads=torch.get_num_threads())  # opens what was written, as a user will
        unseen = self._branch.combine(outputs)
        combined = self._validation.of_file(written) if unseen is None else unseen
        if first:
            self._log(self._sum_line(outputs, combined))
        return combined

    def _sum_line(self, network: Outputs, combined: Outputs) -> str:
        """Return a line with the metric of the network alone, as the epochs show it, and of the whole model."""
        metric = self._task.metric
        alone, whole = (getattr(self._validation.metrics(part), metric) for part in (network, combined))
        return f"network {alone:.4f} + n-grams = {whole:.4f} {metric.replace('_', ' ')} on validation"

    def choose_threshold(self, path: Path, outputs: Outputs, *, wanted: float | None, outside: Sequence[Text]) -> None:
        """Add the threshold to abstain to a model file; nothing if no threshold has the wanted accuracy.

        It is chosen for the accuracy of what is answered, where answers to out-of-scope texts are wrong; without a
        wanted accuracy, by the rates of right answers and of rejected out-of-scope texts. Thresholds for usual
        accuracies are reported in any case.

        Args:
            path: the file, otherwise complete.
            outputs: the logits for the validation examples of a model that was not fitted on them.
            wanted: the accuracy of what is answered.
            outside: out-of-scope texts; with neither these nor a wanted accuracy, the model does not abstain.
        """
        task = self._validation.task
        if not task.abstains:
            return
        if self._risk_coverage is None:
            probabilities = task.probabilities(np.stack(outputs))
            right, inside = probabilities.argmax(1) == np.asarray(self._validation.targets), probabilities.max(1)
            self._risk_coverage = risk_coverage(right, inside)
            if wanted is not None or outside:
                self._abstention = self._choose_abstention(path, right, inside, wanted, outside)
        if self._abstention is not None and (threshold := self._abstention.threshold) is not None:
            write_atomic(path, amend(path.read_bytes(), threshold=threshold))

    def _choose_abstention(
        self,
        path: Path,
        right: npt.NDArray[np.bool_],
        inside: npt.NDArray[np.floating],
        wanted: float | None,
        outside: Sequence[Text],
    ) -> Abstention:
        rejectable = Predictor(path).predict_proba(outside).max(1) if outside else np.zeros(0)
        if wanted is None:
            lowest = choose_rejection(right, inside, rejectable)
            answered = inside >= lowest
            accuracy = float(right[answered].mean()) if answered.any() else 0.0
            found = Abstention(None, lowest, float(answered.mean()), accuracy)
        else:
            joined = np.concatenate([right, np.zeros(len(outside), bool)])
            found = choose_abstention(joined, np.concatenate([inside, rejectable]), wanted=wanted)
        self._validation.task.threshold = found.threshold
        if found.threshold is not None:
            joint = " and the out-of-scope texts" if outside and wanted is not None else ""
            self._log(
                f"abstains below a probability of {found.threshold:.4f}: on validation{joint} it answers "
                f"{found.coverage:.1%}, of these {found.accuracy:.2%} right"
            )
        if outside:
            self._outside = out_of_scope_report(inside, rejectable, threshold=found.threshold)
            self._log(self._outside.summary())
        return found

    def fit_sets(self, path: Path, held_out: Dataset, *, coverage: float, method: Method) -> None:
        """Add conformal sets to a model file, fitted on examples that neither trained nor chose anything."""
        task, predictor = self._task, Predictor(path)
        ids = {name: index for index, name in enumerate(task.labels.names)}
        targets = np.array([ids.get(str(target), len(ids)) for target in held_out.targets])
        self._sets = fit_conformal(predictor.predict_proba(held_out.texts), targets, method=method, coverage=coverage)
        self._validation.task.conformal, self._held_out = self._sets, len(held_out)
        self._log(f"conformal sets are fitted on {len(held_out):,} validation examples that chose nothing")
        write_atomic(path, amend(path.read_bytes(), conformal=self._sets.to_dict()))

    def choose_label_thresholds(self, path: Path, outputs: Outputs, by: float | str | None) -> None:
        """Add the thresholds of labels to a model file.

        Args:
            path, outputs: as of `choose_threshold`.
            by: "f1", or the wanted precision; None: all are 0.5.
        """
        if by is None:
            return
        task = self._validation.task
        names = task.labels.names[: len(task.labels) - task.unseen]
        if self._thresholds is None:
            precision = None if isinstance(by, str) else by
            columns = zip(
                names, task.probabilities(np.stack(outputs)).T, np.asarray(self._validation.targets).T, strict=False
            )
            found = {
                name: choose_label_threshold(truth > 0, values, precision=precision) for name, values, truth in columns
            }
            self._thresholds = found
            if rare := [name for name, item in found.items() if item.threshold is None]:
                self._log(
                    f"{len(rare)} labels have fewer than {MIN_EXAMPLES} validation examples and keep the "
                    f"threshold 0.5, such as {rare[0]!r}"
                )
            if short := [name for name, item in found.items() if item.threshold is not None and not item.reached]:
                best = found[short[0]]
                self._log(
                    f"{len(short)} labels do not reach the precision {by:g} on validation, such as {short[0]!r}: "
                    f"the most that can be had is {best.precision:.4f}, at a recall of {best.recall:.4f}"
                )
        chosen = {name: item.threshold for name, item in self._thresholds.items() if item.threshold is not None}
        task.label_thresholds = chosen
        write_atomic(path, amend(path.read_bytes(), label_thresholds=chosen))

    def to_dict(self) -> dict[str, Any]:
        """Return the entries of metrics.json."""
        return {
            "calibration": None if self._calibration_report is None else asdict(self._calibration_report),
            "abstention": None if self._abstention is None else asdict(self._abstention),
            "risk_coverage": None if self._risk_coverage is None else [asdict(item) for item in self._risk_coverage],
            "label_thresholds": None
            if self._thresholds is None
            else {name: asdict(item) for name, item in self._thresholds.items()},
            "out_of_scope": None if self._outside is None else asdict(self._outside),
            "conformal": None if self._sets is None else {**self._sets.to_dict(), "examples": self._held_out},
            "ngrams": None if self._branch is None else self._branch.report,
        }


def check_abstention(found: Mapping[str, Any] | None, folder: Path) -> None:
    """Check that a wanted threshold to abstain was found.

    Args:
        found: the entry "abstention" of metrics.json; None: none was wanted.
        folder: of the run.

    Raises:
        ConfigError: no threshold has the accuracy.
    """
    if found is not None and found["threshold"] is None:
        highest = math.floor(10_000 * found["accuracy"]) / 10_000  # which can be had, so it is not rounded up
        raise ConfigError(
            f"abstain_at: no threshold gives an accuracy of {found['wanted']:g} on the validation examples; the most "
            f"that can be had is {highest:g}, answering {found['coverage']:.1%} of them. The model in {folder} is "
            "complete but never abstains; pass a lower value, or a threshold to `mixling predict`"
        )
