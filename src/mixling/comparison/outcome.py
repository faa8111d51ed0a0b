"""From files to the outcome of a benchmark: data, training, and then the test rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mixling.comparison import fast_text
from mixling.comparison.benchmark import (
    Contestant,
    Log,
    Rows,
    Standing,
    rankings,
    reference_name,
    speeds,
    train_all,
)
from mixling.comparison.speed import Speed
from mixling.data.dataset import Dataset
from mixling.data.examples import read_examples
from mixling.data.readers.rows import OnBadRow
from mixling.data.splits import report_duplicates, unseen
from mixling.errors import ConfigError
from mixling.runs import RunConfig, read_data
from mixling.runs.spec import Resolved
from mixling.runs.start import start_texts
from mixling.tasks import task_type
from mixling.tasks.base import Task
from mixling.text.vectors import WordVectors
from mixling.training.callbacks import Callback


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All that was measured; contestants are in the order of the table.

    Attributes:
        reference: the name of the baseline that differences are to.
        rows: how many each split has.
        test: by name, as `validation` and `speeds`; empty where there were no test rows.
        remarks: what a reader must know of these data and this machine.
    """

    task: Task
    reference: str
    rows: dict[str, int]
    seeds: tuple[int, ...]
    contestants: tuple[Contestant, ...]
    validation: dict[str, Standing]
    test: dict[str, Standing]
    speeds: dict[str, Speed]
    remarks: tuple[str, ...]


def compare(
    resolved: Resolved[RunConfig],
    *,
    test: Sequence[str],
    models: Sequence[str],
    seeds: Sequence[int],
    folder: Path,
    log: Log,
    callback: Callable[[], Callback],
) -> Comparison:
    """Train everyone, and measure.

    Args:
        resolved: data and training of all, and the library's own model for them; its seed splits the rows
            where there are no validation rows.
        test: files; they are looked at first, so that a bad row is told early, and asked about last.
        models: names or TOML files, beside those that always take part.
        folder: for run folders.
        callback: makes one for each training.

    Raises:
        ConfigError: the task is question answering.
        UserError: of the kind that fits, for rows, models and trainings that cannot be used.
    """
    config = resolved.config
    kind = task_type(config.task)
    if not kind.baselines:
        got = f"no baseline gives {kind.gives}"
        raise ConfigError(f"{got}; use `mixling train` and `mixling evaluate` for the task {kind.name}")
    _check_start(config)
    train_rows, validation_rows = read_data(config, spool_dir=None, log=log)
    test_rows = _read_test(config, test, log) if test else None
    contestants = train_all(
        resolved, train_rows, validation_rows, models=models, seeds=seeds, folder=folder, log=log, callback=callback
    )
    task = kind(kind.label_set(train_rows))
    validation = Rows.of(validation_rows)
    last = validation if test_rows is None else Rows.of(test_rows)
    log("== measuring")
    return Comparison(
        task=task,
        reference=reference_name(task),
        rows={
            "training": len(train_rows),
            "validation": len(validation_rows),
            **({} if test_rows is None else {"test": len(test_rows)}),
        },
        seeds=tuple(seeds),
        contestants=tuple(contestants),
        validation=rankings(contestants, task, validation),
        test={} if test_rows is None else rankings(contestants, task, last),
        speeds=speeds(contestants, last),
        remarks=tuple(_remarks(config, task, seeds, contestants, train_rows, validation_rows, test_rows)),
    )


def _check_start(config: RunConfig) -> None:
    """Open what our models begin with: a training would find a mistake in it only after the baselines."""
    if config.start.vectors is not None:
        WordVectors.load(config.start.vectors)
    next(start_texts(config), None)


def _read_test(config: RunConfig, files: Sequence[str], log: Log) -> Dataset:
    data = config.data
    on_bad_row = OnBadRow(data.on_bad_row)
    examples = read_examples(
        files,
        reader=task_type(config.task).reader,
        columns=data.columns,
        on_bad_row=on_bad_row,
        file_format=data.file_format,
    )
    store = Dataset.from_examples(examples)
    if on_bad_row.skipped:
        log(f"{on_bad_row.skipped} bad test rows were skipped; the first: " + "; ".join(on_bad_row.messages[:3]))
    return store


def _remarks(
    config: RunConfig,
    task: Task,
    seeds: Sequence[int],
    contestants: Sequence[Contestant],
    train: Dataset,
    validation: Dataset,
    test: Dataset | None,
) -> list[str]:
    out = []
    if repeated := report_duplicates(train, validation):
        out.append(
            f"{repeated:,} of {len(validation):,} validation texts stand in the training rows too: validation "
            f"looks too good."
        )
    if test is not None:
        if repeated := report_duplicates(train, test):
            out.append(f"{repeated:,} of {len(test):,} test texts stand in the training rows too: test looks too good.")
        if unknown := len(unseen(test, task.labels.names)):
            out.append(f"{unknown:,} test rows have a label that no training row has: an error for everyone.")
    if train.schema.pairs:
        out.append("Pairs: the baselines have features of each text by itself, side by side, and none of both.")
    if config.start.vectors is not None or config.start.texts:
        out.append("Our models and the Transformer begin with word vectors; the baselines read the rows only.")
    for one in contestants:
        kept = [
            str(seed) for seed, kind in zip(seeds, one.options.get("precision", ()), strict=False) if kind != "int8"
        ]
        if kept:
            out.append(f"{one.name}, seed {', '.join(kept)}: float32 weights, since 8 bits changed too many answers.")
    if "fasttext" not in task.baselines:
        out.append(f"fasttext does not give {task.gives}, and was left out.")
    elif not fast_text.is_installed():
        out.append(f"{fast_text.MISSING}.")
    return out
