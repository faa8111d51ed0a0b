"""The file of the worst mistakes, for `mixling evaluate`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixling.errors import ConfigError

if TYPE_CHECKING:
    from mixling.answers.predictions import Prediction
    from mixling.audit.mistakes import Mistake
    from mixling.data.examples import Example
    from mixling.runtime.predictor import Predictor

_COLUMNS = ["path", "line", "text", "target", "predicted", "severity", "words", "nearest"]
_WORDS = 5  # of an explanation
_SHOWN_CHARS = 100  # of a training text


def check_mistakes_file(path: Path) -> None:
    """Refuse a file of another format.

    Raises:
        ConfigError: its name ends neither in .csv nor in .jsonl.
    """
    if path.suffix.lower() not in (".csv", ".jsonl"):
        raise ConfigError(f"--errors: {path} ends neither in .csv nor in .jsonl")


def write_mistakes(
    model: str, predictor: Predictor, examples: Sequence[Example], predictions: Sequence[Prediction], path: Path
) -> None:
    """Write the worst mistakes, with the words that explain them, to a CSV or JSONL file.

    Args:
        predictions: for the examples.

    Raises:
        ConfigError: the model has no such answers.
        StorageError: the file cannot be written.
    """
    from mixling.audit.mistakes import find_mistakes
    from mixling.audit.neighbors import training_or_reason
    from mixling.cli.predictions import open_output

    train, reason = training_or_reason(model, predictor)
    if train is None:
        print(f"--errors: without the nearest training examples: {reason}", file=sys.stderr)
    mistakes = find_mistakes(predictor, examples, predictions, train=train)
    with open_output(path) as write:
        write(_csv(mistakes) if path.suffix.lower() == ".csv" else "".join(map(_json_line, mistakes)))


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
