"""Preparing the models of run folders for `mixling.research.inspect.weights`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from mixling.artifacts.artifact import read_artifact
from mixling.data.batches import Batch, collate
from mixling.research.inspect.weights import Inspected, of_model
from mixling.research.kind import ResearchKind
from mixling.research.pretraining.evaluation import load_pretraining
from mixling.research.saved import load_model
from mixling.text.encoder import Text, TextEncoder
from mixling.text.table import SPECIAL

_BATCH = 8  # texts; the weights of a layer are held in memory for all of them


def load_inspected(folder: str | Path, texts: Sequence[Text] = ()) -> Inspected:
    """Return the model of a finished run of any kind, with encoded texts, which are truncated to its maximum length.

    Raises:
        ConfigError: the folder holds no finished run.
        ModelFileError: the folder is incomplete, damaged, or of a kind that this version does not know.
    """
    hint = "give one that `mixling train` or `mixling pretrain` wrote"
    kind = read_artifact(folder, lambda artifact: artifact.kind, hint=hint)
    return kind.inspect(Path(folder), texts) if isinstance(kind, ResearchKind) else of_trained(Path(folder), texts)


def of_trained(folder: Path, texts: Sequence[Text]) -> Inspected:
    """Return the model of a `mixling train` run."""
    model, encoder, _, _ = load_model(folder)
    return of_model(model, _batches(encoder, texts), tokens=_tokens(encoder, texts[:1]))


def of_pretrained(folder: Path, texts: Sequence[Text]) -> Inspected:
    """Return the model of a `mixling pretrain` run."""
    model, encoder = load_pretraining(folder)
    return of_model(model, _batches(encoder, texts), tokens=_tokens(encoder, texts[:1]))


def _tokens(encoder: TextEncoder, texts: Sequence[Text]) -> list[str]:
    """Return the tokens of texts as strings."""
    rows = [int(row) for item in encoder.encode(texts) for row in item.words]
    names = ["", *SPECIAL.values(), *encoder.table_words()]
    return [names[row] for row in rows]


def _batches(encoder: TextEncoder, texts: Sequence[Text]) -> Iterator[Batch]:
    for first in range(0, len(texts), _BATCH):
        yield collate([item.words for item in encoder.encode(texts[first : first + _BATCH])], encoder)
