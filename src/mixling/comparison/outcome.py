"""Comparisons from files to results: data, training, and then the test rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mixling.comparison import fast_text
from mixling.comparison.benchmark import LabeledRows, TrainedSystem, reference_name, train_all
from mixling.comparison.embeddings import embeddings
from mixling.comparison.evaluation import SystemResult, evaluate_systems, robustness
from mixling.comparison.speed import Speed, time_predictions
from mixling.data.dataset import Dataset
from mixling.data.examples import read_examples
from mixling.data.readers.rows import OnBadRow
from mixling.data.splits import describe_unseen, few_per_label, report_duplicates, split_validation
from mixling.errors import ConfigError
from mixling.metrics.robustness import Robustness
from mixling.runs.config import RunConfig
from mixling.runs.data import read_data
from mixling.runs.initialization import init_texts
from mixling.runs.spec import Resolved
from mixling.tasks import task_type
from mixling.tasks.base import Task
from mixling.teachers.encoder import SentenceEncoder
from mixling.text.noise import NoiseLevel
from mixling.text.vectors import WordVectors
from mixling.training.callbacks import Callback, Log


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The results; systems are in the order of the table.

    Attributes:
        reference: the name of the baseline that differences refer to.
        rows: number of rows per split.
        test: by name, like `validation` and `speeds`; empty without test rows.
        noisy: by name, on the test (else validation) rows with noise; empty without noise.
        few: the headline metric on the test (else validation) rows by examples per label, and by name.
        remarks: caveats about the data and the machine.
    """

    task: Task
    reference: str
    rows: dict[str, int]
    seeds: tuple[int, ...]
    systems: tuple[TrainedSystem, ...]
    validation: dict[str, SystemResult]
    test: dict[str, SystemResult]
    speeds: dict[str, Speed]
    noisy: dict[str, Robustness]
    few: dict[int, dict[str, float]]
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
    noise: Sequence[NoiseLevel] = (),
    few: Sequence[int] = (),
    encoder: str | None = None,
) -> Comparison:
    """Train all systems and evaluate them.

    Args:
        resolved: data and training of all, and the default model for them; its seed splits the rows if there are no
            validation rows.
        test: files; read first, so that bad rows are reported early, and evaluated last.
        models: presets or TOML files, in addition to the standard ones.
        folder: where run folders are written.
        callback: makes a callback for each training.
        noise: noise to add to the texts of the last rows, each level separately.
        few: numbers of examples per label; for each all systems are trained anew on so many.
        encoder: a sentence encoder for one more baseline, see `mixling.teachers.encoder.SentenceEncoder`.

    Raises:
        ConfigError: the task is question answering, `few` is given for a task without classes, or `refit` is
            configured without test rows.
        UserError: rows, models or trainings cannot be used.
    """
    config = resolved.config
    kind = task_type(config.task)
    if not kind.baselines:
        got = f"no baseline gives {kind.gives}"
        raise ConfigError(f"{got}; use `mixling train` and `mixling evaluate` for the task {kind.name}")
    if few and not kind.has_classes:
        raise ConfigError(f"--few: {kind.name} has no examples per label; it is for classification")
    if config.refit and not test:
        raise ConfigError("--refit: the refitted models have seen the validation rows; name other rows with --test")
    _check_start(config)
    extra = None if encoder is None else embeddings(encoder, SentenceEncoder(encoder))
    train_rows, validation_rows = read_data(config, spool_dir=None, log=log)
    test_rows = _read_test(config, test, log) if test else None

    def train_on(train: Dataset, validation: Dataset, folder: Path) -> list[TrainedSystem]:
        return train_all(
            resolved,
            train,
            validation,
            models=models,
            seeds=seeds,
            folder=folder,
            log=log,
            callback=callback,
            encoder=extra,
        )

    systems = train_on(train_rows, validation_rows, folder)
    task = kind(kind.label_set(train_rows))
    validation = LabeledRows.of(validation_rows)
    last = validation if test_rows is None else LabeledRows.of(test_rows)
    curve = {}
    for count in few:
        log(f"== {count} examples per label")
        rows = few_per_label(train_rows, count, seed=seeds[0])
        some = split_validation(rows, fraction=config.data.validation_fraction, seed=seeds[0])
        trained = train_on(*some, folder / f"few-{count}")
        curve[count] = {name: found.mean for name, found in evaluate_systems(trained, task, last).items()}
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
        systems=tuple(systems),
        validation={} if config.refit else evaluate_systems(systems, task, validation),
        test={} if test_rows is None else evaluate_systems(systems, task, last),
        speeds=time_predictions({one.name: one.answerers[0] for one in systems}, last.texts),  # of the first seed
        noisy=robustness(systems, task, last, noise) if noise else {},
        few=curve,
        remarks=tuple(_remarks(config, task, seeds, systems, train_rows, validation_rows, test_rows)),
    )


def _check_start(config: RunConfig) -> None:
    """Open the models' initialization, so that mistakes are reported before the baselines are fitted."""
    if config.init.vectors is not None:
        WordVectors.load(config.init.vectors)
    next(init_texts(config), None)


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
    for line in on_bad_row.lines("bad test rows"):
        log(line)
    return store


def _remarks(
    config: RunConfig,
    task: Task,
    seeds: Sequence[int],
    systems: Sequence[TrainedSystem],
    train: Dataset,
    validation: Dataset,
    test: Dataset | None,
) -> list[str]:
    out = []
    if repeated := report_duplicates(train, validation):
        out.append(
            f"{repeated:,} of {len(validation):,} validation texts are also in the training rows: validation metrics "
            "are too optimistic."
        )
    if test is not None and (repeated := report_duplicates(train, test)):
        out.append(
            f"{repeated:,} of {len(test):,} test texts are also in the training rows: test metrics are too optimistic."
        )
    for name, rows in (("validation", validation), ("test", test)):
        if rows is not None and (unknown := describe_unseen(rows.targets, task.labels.names)):
            out.append(f"{name}: {unknown}, for everyone.")
    if train.schema.pairs:
        out.append("Pairs: the baselines have features of each text by itself, side by side, and none of both.")
    if config.init.vectors is not None or config.init.texts:
        out.append("Our models and the Transformer begin with word vectors; the baselines read the rows only.")
    for one in systems:
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
