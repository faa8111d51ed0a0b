"""What a run fits on validation data after its training: calibration, linear n-gram branch, threshold to abstain.

A refit trains a second model on the validation examples as well. They are no longer new to it, so that it gets what was
fitted for the first model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from mixling.export.onnx import amend
from mixling.metrics.abstention import Abstention, choose_abstention
from mixling.models.model import Model
from mixling.runs.ngrams import Fitted, LinearData, budget, fit_ngrams
from mixling.runs.validation import Outputs, Validation
from mixling.runtime.predictor import Predictor
from mixling.storage import write_atomic
from mixling.tasks.base import Task
from mixling.training.calibration import Calibration, CalibrationReport, fit_calibration, report_calibration
from mixling.training.callbacks import Log
from mixling.training.config import NgramConfig


class Adjustments:
    """Fits on the first call of each method, and repeats what was fitted on later calls, for the model of a refit."""

    def __init__(self, task: Task, validation: Validation, log: Log) -> None:
        self._task, self._validation, self._log = task, validation, log
        self._calibrated = self._chosen = False
        self._calibration: Calibration | None = None
        self._calibration_report: CalibrationReport | None = None
        self._branch: Fitted | None = None
        self._abstention: Abstention | None = None

    def calibrate(self, model: Model) -> None:
        """Fold the calibration into the last layer of a trained model."""
        if not self._task.calibrates:
            return
        if not self._calibrated:
            self._calibrated = True
            self._fit_calibration(model)
        if self._calibration is not None:
            self._calibration.fold(model)

    def _fit_calibration(self, model: Model) -> None:
        task, targets, outputs = self._validation.task, self._validation.targets, self._validation.of_model(model)
        if (calibration := fit_calibration(task, outputs, targets)) is None:
            return
        report = report_calibration(task, calibration, outputs, targets)
        self._log(f"calibration error on validation: {report.error_before:.4f}, calibrated {report.error:.4f}")
        self._calibration, self._calibration_report = calibration, report

    def add_branch(
        self, path: Path, outputs: Outputs, config: NgramConfig, data: Callable[[Outputs], LinearData]
    ) -> Outputs:
        """Add an n-gram branch to a model file if the configuration has one and it pays.

        Args:
            path: the file, without a branch.
            outputs: its logits for the validation examples.
            data: makes what the branch is fitted on, given these logits.

        Returns:
            The logits with a branch that was not fitted on the validation examples, as the file's is.
        """
        if config.use == "never" or not self._task.has_scores:
            return outputs
        content = path.read_bytes()
        if not self._chosen:
            self._chosen = True
            self._branch = fit_ngrams(config, data(outputs), max_bytes=budget(config, len(content)), log=self._log)
        if self._branch is None:
            return outputs
        write_atomic(path, amend(content, branch=(self._branch.branch, self._branch.metadata)))
        Predictor(path)  # opens what was written, as a user will
        return self._branch.combine(outputs)

    def choose_threshold(self, path: Path, outputs: Outputs, wanted: float | None) -> None:
        """Add the threshold to abstain to a model file; nothing if no threshold has the wanted accuracy.

        Args:
            path: the file, otherwise complete.
            outputs: the logits for the validation examples of a model that was not fitted on them.
            wanted: accuracy of what is answered; None: the model does not abstain.
        """
        if wanted is None:
            return
        if self._abstention is None:
            task = self._validation.task
            probabilities = task.probabilities(np.stack(outputs))
            right = probabilities.argmax(1) == np.asarray(self._validation.targets)
            found = self._abstention = choose_abstention(right, probabilities.max(1), wanted=wanted)
            task.threshold = found.threshold
            if found.threshold is not None:
                self._log(
                    f"abstains below a probability of {found.threshold:.4f}: on validation it answers "
                    f"{found.coverage:.1%}, of these {found.accuracy:.2%} right"
                )
        if (threshold := self._abstention.threshold) is not None:
            write_atomic(path, amend(path.read_bytes(), threshold=threshold))

    def to_dict(self) -> dict[str, Any]:
        """Return the entries of metrics.json."""
        return {
            "calibration": None if self._calibration_report is None else asdict(self._calibration_report),
            "abstention": None if self._abstention is None else asdict(self._abstention),
            "ngrams": None if self._branch is None else self._branch.report,
        }
