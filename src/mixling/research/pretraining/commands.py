"""Pretrained models on the command line; `mixling pretrain` is a command of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mixling.cli.command import given_options
from mixling.cli.kinds import KindCommands, refuse_options
from mixling.errors import ConfigError, TrainingError, command_line

if TYPE_CHECKING:
    from mixling.cli.evaluate_options import EvaluateOptions, Report, ReportOptions
    from mixling.cli.output import Stopwatch
    from mixling.cli.predict_options import PredictOptions
    from mixling.cli.train_options import TrainOptions
    from mixling.data.readers.rows import OnBadRow


class _PretrainingCommands(KindCommands):
    def train(self, options: TrainOptions, started: Stopwatch) -> None:
        resume = command_line("mixling", "pretrain", "--resume", "-o", options.out)
        raise TrainingError(f"{options.out}: holds a pretraining run; resume it with: {resume}")

    def evaluate(self, model: str, options: EvaluateOptions, report: ReportOptions, *, bad: OnBadRow) -> Report:
        from mixling.research.pretraining.evaluation import evaluate_text

        given = [*given_options(options), *given_options(report)]
        refuse_options(given, models="models of unlabeled text", allowed={"--text"})
        return hidden_tokens(evaluate_text(model, options.files, text=(options.text or ["text"])[0]))

    def predict(self, model: str, options: PredictOptions) -> None:
        command = command_line("mixling", "train", "ROWS", "--from", model, "-o", "DIR")
        raise ConfigError(f"{model}: is pretrained and has no task yet; fine-tune it: {command}")


def hidden_tokens(values: Mapping[str, float]) -> Report:
    """Return the report of a model of unlabeled text."""
    accuracy = f"accuracy {values['accuracy']:.4f} on hidden tokens"
    return f"perplexity {values['perplexity']:.3f}, {accuracy}, {values['tokens']:,.0f} tokens", dict(values), None
