"""Comparisons from files to results: data, training, and then the rows that no system was trained or chosen on.

Without test files, a part of the training rows is held out before anything else, and all systems are trained, chosen
and, where `mixling train` does so, fitted again on the rest alone. It is one split, not a cross-validation: that would
take several times as long, and the models of its folds share most rows, so that their joint errors say less about new
rows than the interval over as many independent ones would. With few rows the interval is wide, as it should be.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mixling.comparison.benchmark import LabeledRows, TrainedSystem, chosen_systems, train_all
from mixling.comparison.embeddings import embeddings
from mixling.comparison.evaluation import SystemResult, evaluate_systems, robustness
from mixling.comparison.failures import Failure, Failures
from mixling.comparison.speed import Speed, time_predictions
from mixling.data.dataset import Dataset
from mixling.data.splits import describe_unseen, few_per_label, report_duplicates, split_validation
from mixling.errors import ConfigError
from mixling.metrics.robustness import Robustness
from mixling.runs.data import check_split, load_rows, load_test, split_rows
from mixling.runs.evaluation import aimed_task
from mixling.runs.initial_model import init_texts
from mixling.runs.resolve.config import RunConfig
from mixling.runs.resolve.spec import Resolved
from mixling.tasks import task_type
from mixling.tasks.base import Task
from mixling.text.noise import NoiseLevel
from mixling.text.vectors import WordVectors
from mixling.training.callbacks import Callback, Log

# A fifth of the rows is held out; of few as many as give intervals of about .1 on each side, but at most a third, so
# that the models are still those that the rows allow.
_LEAST_HELD_OUT = 0.2
_MOST_HELD_OUT = 1 / 3
_MANY_HELD_OUT = 100
# Lines on the data that a reader of results has no use for.
_COUNTS = re.compile(r" 0 skipped$|^[\d,]+ training and [\d,]+ validation examples$")


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The results; systems are in the order of the table.

    Attributes:
        reference: the name of the system that differences refer to, ours.
        split: the rows of `test`: "test", of files, or "held-out", a part of the training files.
        rows: number of rows per split.
        fits_validation: whether the systems were fitted on the validation rows in the end.
        held_out: the rows of `split`.
        test: by name, like `speeds`, on rows that no system was trained or chosen on.
        noisy: by name, on these rows with noise; empty without noise.
        few: the headline metric on these rows by examples per label, and by name; without those that fail there.
        failed: the systems that failed, in training or on these rows.
        remarks: caveats about the data and the machine.
    """

    task: Task
    reference: str
    split: Literal["test", "held-out"]
    rows: dict[str, int]
    seeds: tuple[int, ...]
    systems: tuple[TrainedSystem, ...]
    failed: tuple[Failure, ...]
    fits_validation: bool
    held_out: LabeledRows
    test: dict[str, SystemResult]
    speeds: dict[str, Speed]
    noisy: dict[str, Robustness]
    few: dict[int, dict[str, float]]
    remarks: tuple[str, ...]


def compare(
    resolved: Resolved[RunConfig],
    *,
    test: Sequence[str],
    models: Sequence[str] = (),
    systems: Sequence[str] = (),
    seeds: Sequence[int],
    folder: Path,
    log: Log,
    callback: Callable[[], Callback],
    noise: Sequence[NoiseLevel] = (),
    few: Sequence[int] = (),
    encoder: str | None = None,
) -> Comparison:
    """Train all systems and evaluate them.

    Args:
        resolved: data and training of all, and the default model for them; its seed splits the rows.
        test: files; read first, so that bad rows are reported early, and evaluated last. Without them, a part of the
            training rows is held out; groups stay on one side.
        models: presets or TOML files, in addition to the systems.
        systems: what our model is compared with, see `mixling.comparison.benchmark.chosen_systems`.
        folder: where run folders are written.
        callback: makes a callback for each training.
        noise: noise to add to the texts of the last rows, each level separately.
        few: numbers of examples per label; for each all systems are trained anew.
        encoder: a sentence encoder for one more baseline, see `mixling.teachers.encoder.SentenceEncoder`.

    Raises:
        ConfigError: the task is question answering, or `few` is given for a task without classes.
        UserError: rows, models or trainings cannot be used.
    """
    config = resolved.config
    kind = task_type(config.task)
    if not kind.baselines:
        got = f"no baseline gives {kind.gives}"
        raise ConfigError(f"{got}; use `mixling train` and `mixling evaluate` for the task {kind.name}")
    if few and not kind.has_classes:
        raise ConfigError(f"--few: {kind.name} has no examples per label; it is for classification")
    columns = bool(config.data.columns.features)
    chosen_systems(kind, systems, columns=columns)  # report mistakes before files are read
    if config.init.vectors is not None:
        WordVectors.load(config.init.vectors)  # only to refuse it before the baselines are fitted
    next(init_texts(config), None)
    extra = None
    if encoder is not None:
        from mixling.teachers.encoder import SentenceEncoder

        extra = embeddings(encoder, SentenceEncoder(encoder))
    notes: list[str] = []
    train_rows, validation_rows, test_rows = _read(config, test, notes.append)
    for line in notes:
        log(line)
    notes = [line for line in notes if not _COUNTS.search(line)]

    def train_on(
        train: Dataset, validation: Dataset, folder: Path, failures: Failures, *, split_off: bool = False
    ) -> list[TrainedSystem]:
        return train_all(
            resolved,
            train,
            validation,
            models=models,
            systems=systems,
            seeds=seeds,
            folder=folder,
            log=log,
            callback=callback,
            failures=failures,
            encoder=extra,
            split_off=split_off,
        )

    failures = Failures(log)
    trained = train_on(train_rows, validation_rows, folder, failures)
    task = aimed_task(config, train_rows)
    last = LabeledRows.of(test_rows)
    curve = {}
    for count in few:
        log(f"== {count} examples per label")
        rows = few_per_label(train_rows, count, seed=seeds[0])
        some = split_validation(rows, fraction=config.data.validation_fraction, seed=seeds[0])
        failed = Failures(log)
        few_trained = train_on(*some, folder / f"few-{count}", failed, split_off=True)
        curve[count] = {name: found.mean for name, found in evaluate_systems(few_trained, task, last, failed).items()}
    log("== measuring")
    results = evaluate_systems(trained, task, last, failures)
    noisy = robustness(trained, task, last, noise, failures) if noise else {}
    trained = [one for one in trained if one.name not in failures.found]
    split: Literal["test", "held-out"] = "test" if test else "held-out"
    return Comparison(
        task=task,
        reference=trained[0].name,
        split=split,
        rows={"training": len(train_rows), "validation": len(validation_rows), split: len(test_rows)},
        seeds=tuple(seeds),
        systems=tuple(trained),
        failed=tuple(failures.found.values()),
        fits_validation=config.fits_validation,
        held_out=last,
        test={one.name: results[one.name] for one in trained},
        speeds=time_predictions({one.name: one.answerers[0] for one in trained}, last.texts),  # of the first seed
        noisy={one.name: noisy[one.name] for one in trained if noise},
        few=curve,
        remarks=(
            *resolved.remarks,
            *notes,
            *_remarks(config, task, seeds, trained, train_rows, validation_rows, test_rows, split),
        ),
    )


def _read(config: RunConfig, test: Sequence[str], log: Log) -> tuple[Dataset, Dataset, Dataset]:
    """Return the training and validation rows and, last, those that nothing is trained or chosen on."""
    rows, validation = load_rows(config, spool_dir=None, log=log)
    if test:
        test_rows = load_test(config, test, log)
    else:
        fraction = min(max(_LEAST_HELD_OUT, _MANY_HELD_OUT / max(len(rows), 1)), _MOST_HELD_OUT)
        rows, test_rows = split_validation(rows, fraction=fraction, seed=config.train.seed, own="--test FILE")
    train, validation = split_rows(config, rows, validation, log=log)
    check_split(config, train, validation, log=log)
    return train, validation, test_rows


def _remarks(
    config: RunConfig,
    task: Task,
    seeds: Sequence[int],
    systems: Sequence[TrainedSystem],
    train: Dataset,
    validation: Dataset,
    test: Dataset,
    split: str,
) -> list[str]:
    out = []
    if repeated := report_duplicates(train, validation):
        out.append(
            f"{repeated:,} of {len(validation):,} validation texts are also in the training rows: choices that were "
            "made on them favor models that learn by heart."
        )
    for name, rows in (("training", train), ("validation", validation)):
        if repeated := report_duplicates(rows, test):
            out.append(
                f"{repeated:,} of {len(test):,} {split} texts are also in the {name} rows: {split} metrics are too "
                "optimistic."
            )
    if split == "held-out" and len(test) < _MANY_HELD_OUT:
        out.append(f"{len(test):,} held-out rows are few, so that the intervals are wide: compare on more with --test.")
    for name, rows in (("validation", validation), (split, test)):
        if unknown := describe_unseen(rows.targets, task.labels.names):
            out.append(f"{name}: {unknown}, for everyone.")
    if config.data.columns.features and (blind := [one.name for one in systems[1:] if not one.reads_columns]):
        out.append(f"The columns beside the texts are not read by {', '.join(blind)}.")
    if train.schema.pairs:
        out.append("Several texts: the baselines have features of each by itself, side by side, and none of all.")
    if config.init.vectors is not None or config.init.texts:
        out.append("Our models and the Transformer begin with word vectors; the baselines read the rows only.")
    for one in systems:
        kept = [
            str(seed) for seed, kind in zip(seeds, one.options.get("precision", ()), strict=False) if kind != "int8"
        ]
        if kept:
            out.append(f"{one.name}, seed {', '.join(kept)}: float32 weights, since 8 bits changed too many answers.")
    return out
