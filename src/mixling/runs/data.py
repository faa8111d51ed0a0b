"""Reading, splitting and checking the labeled examples of a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mixling.answers.conformal import min_examples
from mixling.answers.levels import level_problems
from mixling.data.batches import TextSet
from mixling.data.config import text_options
from mixling.data.dataset import Dataset
from mixling.data.examples import read_blocks, read_examples
from mixling.data.label_remarks import conflict_line, label_remarks
from mixling.data.near_duplicates import MIN_WORDS, count_near_duplicates
from mixling.data.number_codes import as_number
from mixling.data.readers import OnBadRow, read_rows
from mixling.data.splits import check_labels, describe_unseen, report_duplicates, split_validation
from mixling.data.unlabeled import read_unlabeled
from mixling.data.values import row_error, words_with_blanks
from mixling.errors import ConfigError, DataError, command_line, shown
from mixling.metrics.reports import MAX_TABLE_LABELS
from mixling.runs.replay import with_replay
from mixling.runs.resolve.config import RunConfig
from mixling.tasks import task_type
from mixling.text.encoder import Text
from mixling.training.callbacks import Detail

_MAX_SCORES = 1 << 25  # of labels for validation examples; examples
_LEAST_VALIDATION = 500
_MAX_TEST_SCORES = 1 << 28  # of labels for test examples that are held out: a gigabyte


def read_data(config: RunConfig, *, spool_dir: Path | None, log: Callable[[str], None]) -> tuple[Dataset, Dataset]:
    """Return the training and validation examples of `read_splits`."""
    return read_splits(config, spool_dir=spool_dir, log=log)[:2]


def read_splits(
    config: RunConfig, *, spool_dir: Path | None, log: Callable[[str], None]
) -> tuple[Dataset, Dataset, Dataset | None]:
    """Read, split and check the training and validation examples, those that are replayed included, and test examples.

    Test examples that are held out are taken first, so that nothing else depends on them; None: there are none.

    Args:
        spool_dir: where large data sets are spooled to disk; None: the system's temporary folder.
        log: receives counts and warnings, such as skipped rows and duplicates.

    Raises:
        DataError: a file, row or label cannot be used.
    """
    rows, validation = load_rows(config, spool_dir=spool_dir, log=log)
    test = None
    if config.data.test:
        test = load_test(config, config.data.test, log)
    elif fraction := config.data.test_fraction:
        most = max(_MAX_TEST_SCORES // _num_labels(config, rows), _LEAST_VALIDATION)
        rows, test = split_validation(rows, fraction=fraction, seed=config.train.seed, own="--test FILE", most=most)
    train, validation = split_rows(config, rows, validation, log=log)
    train, validation = with_replay(
        config.init,
        (train, validation),
        lambda old: read_data(old, spool_dir=spool_dir, log=lambda message: None),
        log,
        task=config.task,
        beside=config.data.columns.beside,
        seed=config.train.seed,
        spool_dir=spool_dir,
    )
    check_split(config, train, validation, log=log, test=test)
    return train, validation, test


def load_test(config: RunConfig, files: Sequence[str], log: Callable[[str], None]) -> Dataset:
    """Return the rows of test files; raises as `read_examples`."""
    data = config.data
    on_bad_row = OnBadRow(data.on_bad_row)
    reader = task_type(config.task).reader
    how: dict[str, Any] = {"columns": data.columns, "on_bad_row": on_bad_row, "file_format": data.file_format}
    store = Dataset.from_examples(read_examples(files, reader=reader, **how))
    for line in on_bad_row.lines("bad test rows"):
        log(line)
    return store


def check_split(
    config: RunConfig,
    train: Dataset,
    validation: Dataset,
    *,
    log: Callable[[str], None],
    test: Dataset | None = None,
) -> None:
    """Check that labels can be learned and evaluated, and log counts and warnings; raises as `check_labels`."""
    check_labels(train, validation)
    if test is None:
        log(f"{len(train):,} training and {len(validation):,} validation examples")
    else:
        held_out = " (--test-fraction)" if config.data.test_fraction else ""
        log(f"{len(train):,} training, {len(validation):,} validation and {len(test):,} test examples{held_out}")
        for rows, name in ((train, "training"), (validation, "validation")):
            if repeated := report_duplicates(rows, test):
                number = f"{repeated:,} of {len(test):,}"
                log(f"{number} test texts are also {name} texts: test metrics will be too optimistic")
    kind = task_type(config.task)
    if kind.has_labels and (unseen := describe_unseen(validation.targets, kind.label_set(train).names)):
        log(f"validation: {unseen}")
    _report_near_duplicates(train, validation, test, config, log)


def load_rows(
    config: RunConfig, *, spool_dir: Path | None, log: Callable[[str], None]
) -> tuple[Dataset, Dataset | None]:
    """Return the rows of the training files and of the validation files, None without such."""
    data = config.data
    on_bad_row = OnBadRow(data.on_bad_row)

    def load(sources: tuple[str, ...], *, grouped: bool = False) -> Dataset:
        examples = read_blocks(
            sources,
            reader=task_type(config.task).reader,
            columns=data.columns,
            on_bad_row=on_bad_row,
            file_format=data.file_format,
            grouped=grouped,
        )
        return Dataset.from_examples(examples, spool_dir=spool_dir)

    rows = load(data.train, grouped=not data.validation)
    validation = load(data.validation) if data.validation else None
    for line in on_bad_row.lines():
        log(Detail(line) if line in on_bad_row.counts and not on_bad_row.skipped else line)
    task = task_type(config.task)
    if not task.per_word and (first := words_with_blanks(rows.texts)) is not None:
        got = f"each text is a list whose words contain blanks, such as {shown(first)}"
        remedy = (
            "write a pair of texts in two columns (--text twice)" if len(first) == 2 else "join the parts of a text"
        )
        raise DataError(f"{got}; {remedy}, or split each text into its words", path=rows.where(0)[0])
    if task.has_labels:
        for line in label_remarks(*filter(None, (rows, validation)), several=not task.exclusive):
            log(line)
        if not task.per_word and (line := conflict_line(rows)):
            log(f"{line}; to list them: {_audit_command(config)}")
    return rows, validation


def split_rows(
    config: RunConfig, rows: Dataset, validation: Dataset | None, *, log: Callable[[str], None]
) -> tuple[Dataset, Dataset]:
    """Return training and validation examples: those that are named, else a part of the rows.

    Of many labels there are fewer validation examples, so that the scores of all labels for all of them fit into
    memory.
    """
    labels = _num_labels(config, rows)
    most = max(_MAX_SCORES // labels, _LEAST_VALIDATION)
    if validation is None:
        return split_validation(rows, fraction=config.data.validation_fraction, seed=config.train.seed, most=most)
    if len(validation) > most and labels > MAX_TABLE_LABELS:
        log(f"validation: {most:,} of the {len(validation):,} examples are read, as there are {labels:,} labels")
        validation = validation.subset(np.linspace(0, len(validation) - 1, most).astype(np.int64))
    if repeated := report_duplicates(rows, validation):
        log(
            f"{repeated} of {len(validation)} validation texts are also in the training data: validation metrics will "
            "be too optimistic"
        )
    return rows, validation


def _num_labels(config: RunConfig, rows: Dataset) -> int:
    return max(len(rows.label_counts()), 1) if task_type(config.task).has_labels else 1


def hold_out(config: RunConfig, validation: Dataset) -> tuple[Dataset, Dataset | None]:
    """Divide validation examples into those that choose, and those that conformal sets are fitted on, if wanted.

    Raises:
        ConfigError: there are too few for the wanted coverage.
    """
    if (coverage := config.decisions.conformal) is None:
        return validation, None
    order = np.random.default_rng(config.train.seed).permutation(len(validation))
    half = len(validation) // 2
    if half < (needed := min_examples(coverage)):
        raise ConfigError(
            f"decisions.conformal: half of the {len(validation)} validation examples are kept apart, and {half} are "
            f"too few for a coverage of {coverage:g}, which needs {needed}; provide more (--validation FILE, --set "
            f"data.validation_fraction=X), or a coverage of at most {math.floor(1000 * half / (half + 1)) / 1000:g}"
        )
    chosen = np.sort(order[half:])
    held = np.sort(order[:half])
    return validation.subset(chosen), validation.subset(held)


def read_out_of_scope(config: RunConfig) -> list[Text]:
    """Return the out-of-scope texts, which no label fits, that a configuration names.

    Raises:
        DataError: a file cannot be used, or has no text.
    """
    reader = task_type(config.task).reader
    data = config.data
    files = config.decisions.out_of_scope
    if not files:
        return []
    texts = list(read_unlabeled(files, reader=reader, columns=data.columns, on_bad_row=data.on_bad_row))
    if not texts:
        raise DataError("has no texts; out-of-scope texts are needed", path=files[0])
    return texts


def read_costs(path: str, labels: Sequence[str]) -> tuple[tuple[float, ...], ...]:
    """Return the costs (C, C) of answers (columns) for texts of each label (rows), in the order of the labels.

    Args:
        path: a table whose first column has the labels of texts, and whose other columns are named as the answers.

    Raises:
        DataError: the file cannot be read, or a cost is missing or no number.
    """
    costs: dict[tuple[str, str], float] = {}
    rows = list(read_rows(path, on_bad_row=OnBadRow()))
    for row in rows:
        cells = list(row.values.items())
        truth = str(cells[0][1]).strip() if cells else ""
        for answer, value in cells[1:]:
            number = as_number(value)
            if number is None or not math.isfinite(number):
                raise row_error(row, f"column {answer!r}: got {shown(value)}; a cost is a number")
            costs[truth, answer.strip()] = number
    for truth in labels:
        for answer in labels:
            if (truth, answer) not in costs:
                known = {key for key, _ in costs} | {key for _, key in costs}
                missing = truth if truth not in known else answer if answer not in known else f"{truth} as {answer}"
                got = f"has no cost of {missing!r}; a table needs a row and a column for each label, such as"
                raise DataError(f"{got} {', '.join(labels[:3])}", path=path)
    return tuple(tuple(costs[truth, answer] for answer in labels) for truth in labels)


def check_levels(separator: str, train: Dataset) -> None:
    """Check that the labels of training examples have levels.

    Raises:
        DataError: a label has no place in the tree; states the line of its first row.
    """
    names = train.label_counts().keys()
    for name, problem in level_problems(names, separator):
        path, line = train.where(list(train.targets).index(name))
        raise DataError(f"label {shown(name)}: {problem}", path=path, line=line)


def check_abstention_data(config: RunConfig, validation: Dataset) -> None:
    """Check that the examples that a threshold is chosen on are enough for the wanted accuracy, if all are right.

    Raises:
        ConfigError: they are not.
    """
    wanted = config.decisions.abstain_at
    number = len(validation)
    if wanted is not None and number < (needed := min_examples(wanted)):
        raise ConfigError(
            f"decisions.abstain_at: {number} validation examples are too few to show an accuracy of {wanted:g}, which "
            f"needs {needed}; provide more (--validation FILE, --set data.validation_fraction=X), or an accuracy of "
            f"at most {math.floor(1000 * number / (number + 1)) / 1000:g}"
        )


def _audit_command(config: RunConfig) -> str:
    """Return the command that lists suspicious rows of the training files."""
    columns = config.data.columns
    named = (*text_options(columns.texts), "--label", columns.label)
    task = () if config.task == "classification" else ("--task", config.task)
    return command_line("mixling", "audit", *config.data.train, *named, *task, "-o", "audit/")


def _report_near_duplicates(
    train: Dataset, validation: Dataset, test: Dataset | None, config: RunConfig, log: Callable[[str], None]
) -> None:
    """Log how many texts of the test, or of validation where there is no test, nearly equal one of training."""
    name = "validation" if test is None else "test"
    files = config.data.validation if test is None else config.data.test
    found = count_near_duplicates(train, validation if test is None else test, seed=config.train.seed)
    if not found.count:
        return
    remedy = ""
    if not files and not train.schema.grouped and train.schema.targets != "answers":
        remedy = "; --set data.columns.group=COLUMN keeps related rows on one side of the split"
    log(
        f"{'' if found.complete else 'at least '}{found.count:,} of {found.looked_at:,} {name} texts with at least "
        f"{MIN_WORDS} words have a near-duplicate in the training data: expect worse results on new text{remedy}"
    )


def log_truncated(texts: TextSet, max_len: int, log: Callable[[str], None]) -> None:
    """Log the fraction of training texts that are truncated, if it is above 2%."""
    sample = texts.encode(range(0, len(texts), max(1, len(texts) // 2000)))
    fraction = sum(item.truncated for item in sample) / len(sample)
    if fraction > 0.02:
        log(
            f"{fraction:.0%} of the texts are longer than {max_len} words: training reads their beginning, validation "
            "and predictions read them to the end in windows; --set model.text.max_len=N reads more at a time"
        )
