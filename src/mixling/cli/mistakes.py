"""Options and output of mistakes and slices, for `mixling evaluate`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from mixling.cli.command import OUTPUT
from mixling.errors import ConfigError

if TYPE_CHECKING:
    from mixling.audit.mistakes import Mistake, Slice
    from mixling.data.examples import Example
    from mixling.runtime.predictor import Predictor

_COLUMNS = ["path", "line", "text", "target", "predicted", "severity", "words", "nearest"]
_WORDS = 5  # of an explanation
_SHOWN_CHARS = 100  # of a training text


@dataclass(frozen=True, kw_only=True)
class MistakeOptions:
    """Where a model is wrong."""

    panel: ClassVar[str] = OUTPUT
    errors: Annotated[
        Path | None,
        typer.Option(
            "--errors", metavar="FILE", help="Write the worst mistakes, explained, to this file (.csv or .jsonl)."
        ),
    ] = None
    slices: Annotated[
        bool, typer.Option("--slices", help="Also report the metric by length and by words that no other text has.")
    ] = False

    def check(self) -> None:
        """Refuse a file of another format.

        Raises:
            ConfigError: its name ends neither in .csv nor in .jsonl.
        """
        if self.errors is not None and self.errors.suffix.lower() not in (".csv", ".jsonl"):
            raise ConfigError(f"--errors: {self.errors} ends neither in .csv nor in .jsonl")


def report_mistakes(
    model: str, predictor: Predictor, examples: Sequence[Example], options: MistakeOptions
) -> tuple[str, dict[str, Any]]:
    """Write the mistakes, and return the slices as text and as values.

    Raises:
        ConfigError: the model has no such answers.
        StorageError: the file cannot be written.
    """
    from mixling.audit.mistakes import find_mistakes, slices
    from mixling.audit.neighbors import training_or_reason
    from mixling.cli.predictions import open_output
    from mixling.metrics.robustness import format_columns

    predictions = list(predictor.predict_stream(example.text for example in examples))
    if options.errors is not None:
        train, reason = training_or_reason(model, predictor)
        if train is None:
            print(f"--errors: without the nearest training examples: {reason}", file=sys.stderr)
        found = find_mistakes(predictor, examples, predictions, train=train)
        with open_output(options.errors) as write:
            write(_csv(found) if options.errors.suffix.lower() == ".csv" else "".join(map(_json_line, found)))
    if not options.slices:
        return "", {}
    parts = slices(predictor, examples, predictions)
    return format_columns(_cells(parts, predictor.task.headline)), {"slices": [part.to_dict() for part in parts]}


def _cells(parts: Sequence[Slice], metric: str) -> list[list[str]]:
    rows = [["slice", "examples", metric.replace("_", " "), "95% interval"]]
    for part in parts:
        interval = f"{part.interval.low:.4f} to {part.interval.high:.4f}"
        rows.append([part.name, f"{part.count:,}", f"{part.value:.4f}", interval])
    return rows


def _csv(mistakes: Sequence[Mistake]) -> str:
    from mixling.data.csv_lines import csv_line

    lines = [csv_line(list(_COLUMNS))]
    for mistake in mistakes:
        example = mistake.example
        text = example.text if isinstance(example.text, str) else json.dumps(example.text, ensure_ascii=False)
        top = [word for word in mistake.explanation.top(_WORDS) if word.effect]
        words = "; ".join(f"{word.word} {word.effect:+.2f}" for word in top)
        fields = [_plain(example.target), _plain(mistake.answer), f"{mistake.severity:.4f}", words, _near(mistake)]
        lines.append(csv_line([example.path, example.line, text, *fields]))
    return "".join(lines)


def _near(mistake: Mistake) -> str:
    parts = []
    for item in mistake.neighbors:
        text = item.example.text if isinstance(item.example.text, str) else " ".join(item.example.text)
        parts.append(f"{_plain(item.example.target)}: {text[:_SHOWN_CHARS]} ({item.similarity:.2f})")
    return "; ".join(parts)


def _plain(target: Any) -> str:
    return "|".join(target) if isinstance(target, tuple) else str(target)


def _json_line(mistake: Mistake) -> str:
    example = mistake.example
    values = {
        "path": example.path,
        "line": example.line,
        "text": example.text,
        "target": example.target,
        "predicted": mistake.answer,
        "severity": mistake.severity,
        "explanation": mistake.explanation.to_dict(),
        "nearest": [
            {
                "path": item.example.path,
                "line": item.example.line,
                "text": item.example.text,
                "target": item.example.target,
                "similarity": item.similarity,
            }
            for item in mistake.neighbors
        ],
    }
    return json.dumps(values, ensure_ascii=False, allow_nan=False) + "\n"
