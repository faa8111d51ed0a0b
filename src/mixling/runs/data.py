"""The labeled examples of a run: read, split and checked, and what their labels are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mixling.data.batches import TextSet
from mixling.data.dataset import Dataset
from mixling.data.examples import read_examples
from mixling.data.near_duplicates import MIN_WORDS, count_near_duplicates
from mixling.data.readers import OnBadRow
from mixling.data.splits import check_labels, report_duplicates, split_validation
from mixling.runs.config import RunConfig
from mixling.tasks import task_type


def read_data(config: RunConfig, *, spool_dir: Path | None, log: Callable[[str], None]) -> tuple[Dataset, Dataset]:
    """Read, split and check the training and validation examples; what a user should know is said.

    Raises:
        DataError: rows, labels or files that cannot be used.
    """
    data = config.data
    on_bad_row = OnBadRow(data.on_bad_row)

    def load(sources: tuple[str, ...], *, grouped: bool = False) -> Dataset:
        examples = read_examples(
            sources,
            reader=task_type(config.task).reader,
            columns=data.columns,
            on_bad_row=on_bad_row,
            file_format=data.file_format,
            grouped=grouped,
        )
        return Dataset.from_examples(examples, spool_dir=spool_dir)

    train = load(data.train, grouped=not data.validation)
    if data.validation:
        validation = load(data.validation)
        repeated = report_duplicates(train, validation)
        if repeated:
            log(
                f"{repeated} of {len(validation)} validation texts stand in the training rows too: validation will "
                f"look too good"
            )
    else:
        train, validation = split_validation(train, fraction=data.validation_fraction, seed=config.train.seed)
    if on_bad_row.skipped:
        log(f"{on_bad_row.skipped} bad rows were skipped; the first: " + "; ".join(on_bad_row.messages[:3]))
    check_labels(train, validation)
    log(f"{len(train):,} training and {len(validation):,} validation examples")
    _report_near_duplicates(train, validation, config, log)
    return train, validation


def _report_near_duplicates(train: Dataset, validation: Dataset, config: RunConfig, log: Callable[[str], None]) -> None:
    found = count_near_duplicates(train, validation, seed=config.train.seed)
    if not found.count:
        return
    remedy = ""
    if not config.data.validation and not train.schema.grouped and train.schema.targets != "answers":
        remedy = "; --group COLUMN keeps rows that belong together on one side"
    log(
        f"{'' if found.complete else 'at least '}{found.count:,} of {found.looked_at:,} validation texts of "
        f"{MIN_WORDS} words or more have a near-duplicate in the training rows: on new text the model will be worse "
        f"than on these{remedy}"
    )


def log_truncated(texts: TextSet, max_len: int, log: Callable[[str], None]) -> None:
    """Tell how many texts are longer than the model reads."""
    sample = texts.encode(range(0, len(texts), max(1, len(texts) // 2000)))
    fraction = sum(item.truncated for item in sample) / len(sample)
    if fraction > 0.02:
        log(f"{fraction:.0%} of the texts are cut at {max_len} words; --set model.text.max_len=N reads more")
