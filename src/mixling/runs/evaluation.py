"""How good a saved model is on labeled rows, and which of their columns it reads; without torch."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mixling.config import parse
from mixling.data.examples import ColumnsConfig, Example
from mixling.data.inputs import WINDOW
from mixling.data.readers.rows import OnBadRow
from mixling.errors import DataError, ModelFileError
from mixling.metrics.base import Metrics
from mixling.runs.artifact import RUN_FILE, read_run
from mixling.runtime.predictor import Predictor


def columns_of(model: str | Path, given: Mapping[str, str | None]) -> ColumnsConfig:
    """Return the columns that were given, else those that the model of a run folder was trained on, else the defaults.

    Args:
        model: a run folder or a model.onnx, for which no columns are known.
        given: names of `ColumnsConfig`; None: not given.

    Raises:
        ModelFileError: the folder's run.json is damaged.
    """
    path = Path(model) / RUN_FILE
    known = {}
    try:
        known = dict(read_run(Path(model))["config"]["data"]["columns"])
    except FileNotFoundError:
        pass  # a model.onnx alone
    except (ValueError, KeyError, TypeError) as error:
        raise ModelFileError(f"{path}: is damaged: {error}") from None
    known.pop("group", None)  # only splits the training rows
    given = {key: value for key, value in given.items() if value is not None}
    return parse(ColumnsConfig, {**known, **given}, where=str(path))


def evaluate(predictor: Predictor, examples: Iterable[Example], *, on_bad_row: OnBadRow) -> Metrics:
    """Return the metrics of a model on examples, which are read in windows.

    Raises:
        DataError: a label that the model does not know, unless `on_bad_row` skips it; no example is left.
    """
    outputs: list[Any] = []
    targets: list[Any] = []
    known = (example for example in examples if _is_known(predictor, example, on_bad_row))
    task = predictor.task
    while window := list(itertools.islice(known, WINDOW)):
        if task.windows:
            outputs += [item.answer.text for item in predictor.predict_stream(e.text for e in window) if item.answer]
            targets += [example.answers for example in window]
            continue
        outputs += predictor.logits(predictor.encode([example.text for example in window]))
        targets += [example.target for example in window]
    if not targets:
        raise DataError(f"no row is left to measure on, {on_bad_row.skipped} were skipped: {on_bad_row.messages[0]}")
    return task.evaluate(outputs, targets if task.windows else task.targets(targets))


def _is_known(predictor: Predictor, example: Example, on_bad_row: OnBadRow) -> bool:
    if example.answers is not None:
        return True
    try:
        predictor.task.targets([example.target])
    except DataError as error:
        on_bad_row(DataError(f"{error}; the model never saw it", path=example.path, line=example.line))
        return False
    return True
