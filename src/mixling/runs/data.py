"""The labelled examples of a run: read, split and checked, and what their labels are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mixling.data.batches import TextSet
from mixling.data.dataset import Dataset
from mixling.data.examples import read_examples
from mixling.data.near_duplicates import MIN_WORDS, count_near_duplicates
from mixling.data.readers import OnBadRow
from mixling.data.splits import check_labels, describe_unseen, report_duplicates, split_dev
from mixling.runs.config import RunConfig
from mixling.tasks import task_type


def read_data(config: RunConfig, *, spool_dir: Path | None, say: Callable[[str], None]) -> tuple[Dataset, Dataset]:
    """Read, split and check the training and dev examples; what a user should know is said.

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

    train = load(data.train, grouped=not data.dev)
    if data.dev:
        dev = load(data.dev)
        repeated = report_duplicates(train, dev)
        if repeated:
            say(f"{repeated} of {len(dev)} dev texts stand in the training rows too: dev will look too good")
    else:
        train, dev = split_dev(train, fraction=data.dev_fraction, seed=config.train.seed)
    if on_bad_row.skipped:
        say(f"{on_bad_row.skipped} bad rows were skipped; the first: " + "; ".join(on_bad_row.messages[:3]))
    check_labels(train, dev)
    say(f"{len(train):,} training and {len(dev):,} validation examples")
    kind = task_type(config.task)
    if kind.has_labels and (unseen := describe_unseen(dev.targets, kind.label_set(train).names)):
        say(f"validation: {unseen}")
    _report_near_duplicates(train, dev, config, say)
    return train, dev


def _report_near_duplicates(train: Dataset, dev: Dataset, config: RunConfig, say: Callable[[str], None]) -> None:
    found = count_near_duplicates(train, dev, seed=config.train.seed)
    if not found.count:
        return
    remedy = ""
    if not config.data.dev and not train.schema.grouped and train.schema.targets != "answers":
        remedy = "; --group COLUMN keeps rows that belong together on one side"
    say(
        f"{'' if found.complete else 'at least '}{found.count:,} of {found.looked_at:,} validation texts of "
        f"{MIN_WORDS} words or more have a near-duplicate in the training rows: on new text the model will be worse "
        f"than on these{remedy}"
    )


def say_truncated(texts: TextSet, max_len: int, say: Callable[[str], None]) -> None:
    """Tell how many texts are longer than the model reads."""
    sample = texts.encode(range(0, len(texts), max(1, len(texts) // 2000)))
    share = sum(item.truncated for item in sample) / len(sample)
    if share > 0.02:
        say(f"{share:.0%} of the texts are cut at {max_len} words; --set model.text.max_len=N reads more")
