"""Models of run folders, with texts encoded for them, as `mixling.inspect.weights` reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from mixling.data.batches import Batch, collate
from mixling.inspect.weights import Inspected, of_model
from mixling.runs.artifact import load_object, read_artifact
from mixling.runs.pretrained import load_pretraining
from mixling.runs.weights import load_model
from mixling.text.encoder import Text, TextEncoder
from mixling.text.table import SPECIAL

_BATCH = 8  # texts; each layer's weights of all of them are held at a time


def load_inspected(folder: str | Path, texts: Sequence[Text] = ()) -> Inspected:
    """Return the model of a finished run of any kind, and the encoded texts; of long ones the part that it reads.

    Raises:
        ConfigError: there is no finished run in the folder.
        ModelFileError: it is not complete, damaged, or of a kind that this version does not know.
    """
    hint = "give one that `mixling train` or `mixling pretrain` wrote"
    name = read_artifact(folder, lambda artifact: artifact.kind.inspect, hint=hint)
    inspected: Inspected = load_object(name)(Path(folder), texts)
    return inspected


def of_trained(folder: Path, texts: Sequence[Text]) -> Inspected:
    """Return the model that `mixling train` made."""
    model, encoder, _, _ = load_model(folder)
    return of_model(model, _batches(encoder, texts), tokens=_tokens(encoder, texts[:1]))


def of_pretrained(folder: Path, texts: Sequence[Text]) -> Inspected:
    """Return the model that `mixling pretrain` made."""
    model, encoder = load_pretraining(folder)
    return of_model(model, _batches(encoder, texts), tokens=_tokens(encoder, texts[:1]))


def _tokens(encoder: TextEncoder, texts: Sequence[Text]) -> list[str]:
    """The tokens of texts as the encoder reads them."""
    rows = [int(row) for item in encoder.encode(texts) for row in item.words]
    names = ["", *SPECIAL.values(), *encoder.table_words()]
    return [names[row] for row in rows]


def _batches(encoder: TextEncoder, texts: Sequence[Text]) -> Iterator[Batch]:
    for first in range(0, len(texts), _BATCH):
        yield collate([item.words for item in encoder.encode(texts[first : first + _BATCH])], encoder)
