"""The text sets of the experiments: their files, splits and rows.

GLUE's test labels are not public: there the validation split is the test, and a tenth of train is validation. `sst2`
has the whole sentences among GLUE's phrases (a phrase that stands in no longer one), as the original task has them;
`sst2_glue` has all phrases. `mtop_intents` are the intents of MTOP.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from mixling import Dataset, Example, read_examples
from mixling.data import ColumnsConfig, OnBadRow, split_validation
from mixling.tasks import task_type

NONE: Mapping[str, str] = MappingProxyType({})


class Set(NamedTuple):
    """Files without .jsonl.gz; `validation` is None where a tenth of train chooses. unlabeled: a file of the same
    kind."""

    folder: str
    validation: str | None
    test: str
    task: str = "classification"
    columns: Mapping[str, str] = NONE
    unlabeled: str | None = None


class Rows(NamedTuple):
    """Texts and targets."""

    texts: list[Any]
    targets: list[Any]


REVIEWS = "imdb_unsup_lm/train.txt.gz"
SETS = {
    "sst2": Set("sst2_glue", None, "dev", unlabeled=REVIEWS),
    "sst2_glue": Set("sst2_glue", None, "dev", unlabeled=REVIEWS),
    "imdb": Set("imdb", None, "test", unlabeled=REVIEWS),
    "clinc150": Set("clinc150", "val", "test"),
    "snips": Set("snips", "dev", "test", columns={"text": "tokens", "label": "intent"}),
    "cola": Set("cola", None, "dev"),
    "mrpc": Set("mrpc", None, "dev", columns={"text_pair": "text_pair"}),
    "rte": Set("rte", None, "dev", columns={"text_pair": "text_pair"}),
    "mtop_intents": Set("mtop_en", "dev", "test", columns={"text": "utterance", "label": "intent"}),
    "mtop_en": Set("mtop_en", "dev", "test", task="tagging"),
}


def load(name: str, data: Path) -> tuple[Dataset, Dataset, Dataset]:
    """Train, validation and test."""
    about = SETS[name]

    def read(split: str) -> Dataset:
        path = data / about.folder / f"{split}.jsonl.gz"
        columns = ColumnsConfig(**about.columns)
        return Dataset.from_examples(
            read_examples([path], reader=task_type(about.task).reader, columns=columns, on_bad_row=OnBadRow("error"))
        )

    train = Dataset.from_examples(sentences(data)) if name == "sst2" else read("train")
    if about.validation is not None:
        return train, read(about.validation), read(about.test)
    train, validation = split_validation(train, fraction=0.1, seed=0)
    return train, validation, read(about.test)


def sentences(data: Path) -> Iterator[Example]:
    """The rows of SST-2 that are no part of a longer row."""
    with gzip.open(data / "sst2_glue" / "train.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [(number, json.loads(line)) for number, line in enumerate(lines, 1)]
    rows.sort(key=lambda row: -len(row[1]["text"].split()))
    parts: set[str] = set()
    for number, row in rows:
        words = row["text"].split()
        if " ".join(words) not in parts:
            yield Example(row["text"], row["label"], "sst2_glue/train", number)
            parts |= {" ".join(words[i:j]) for i in range(len(words)) for j in range(i + 1, len(words) + 1)}


def rows_of(store: Dataset) -> Rows:
    """Return the rows of a data set."""
    return Rows(list(store.texts), list(store.targets))
