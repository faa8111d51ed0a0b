"""What a run fits on validation data after its training: the calibration and the linear n-gram branch.

A refit trains a second model on the validation examples as well. They are no longer new to it, so that it gets what was
fitted for the first model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mixling.export.onnx import add_branch
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
        write_atomic(path, add_branch(content, self._branch.branch, self._branch.metadata))
        Predictor(path)  # opens what was written, as a user will
        return self._branch.combine(outputs)

    def to_dict(self) -> dict[str, Any]:
        """Return the entries of metrics.json."""
        return {
            "calibration": None if self._calibration_report is None else asdict(self._calibration_report),
            "ngrams": None if self._branch is None else self._branch.report,
        }
