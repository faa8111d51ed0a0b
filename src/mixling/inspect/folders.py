"""Models of run folders, with texts encoded for them, as `mixling.inspect.weights` reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from torch import Tensor

from mixling.data.batches import Batch, collate
from mixling.data.pair_batches import pad_sources
from mixling.errors import ConfigError, DataError, ModelFileError
from mixling.inspect.weights import Inspected, of_encoder_decoder, of_model
from mixling.runs.artifact import CONFIG_FILE, PRETRAINING, TEXT_TO_TEXT, TRAINING, read_config, read_folder
from mixling.runs.folder import load_model
from mixling.runs.generator import TextGenerator
from mixling.runs.pretrained import load_pretraining
from mixling.text.encoder import Text, TextEncoder
from mixling.text.table import SPECIAL

_BATCH = 8  # texts; each layer's weights of all of them are held at a time


def load_inspected(folder: str | Path, texts: Sequence[Text] = ()) -> Inspected:
    """Return the model of a finished run of any kind, and the encoded texts; of long ones the part that it reads.

    Raises:
        ConfigError: there is no finished run in the folder.
        ModelFileError: it is not complete, damaged, or of a kind that this version does not know.
    """
    return _LOADERS[_kind(Path(folder))](Path(folder), texts)


def _trained(folder: Path, texts: Sequence[Text]) -> Inspected:
    model, encoder, _, _ = load_model(folder)
    return of_model(model, _batches(encoder, texts), tokens=_tokens(encoder, texts[:1]))


def _pretrained(folder: Path, texts: Sequence[Text]) -> Inspected:
    model, encoder = load_pretraining(folder)
    return of_model(model, _batches(encoder, texts), tokens=_tokens(encoder, texts[:1]))


def _writing(folder: Path, texts: Sequence[Text]) -> Inspected:
    """The decoder reads what the model itself writes for the texts."""
    generator = TextGenerator(folder)
    prefix = generator.task().prefix if len(generator.tasks) == 1 else ""
    if empty := [number for number, text in enumerate(texts, 1) if not str(text).strip()]:
        raise DataError(f"text {empty[0]}: is empty; give a text")
    coder, most = generator.coder, generator.config.max_target_len - 1

    def batches() -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
        for first in range(0, len(texts), _BATCH):
            sources = generator.encode([prefix + str(text) for text in texts[first : first + _BATCH]], cut=True)
            answers = coder.encode_many([written.text for written in generator.answers(sources)])
            source, mask = pad_sources(sources, pad=coder.pad_id)
            target, target_mask = pad_sources(
                [np.array([coder.pad_id, *units[:most]]) for units in answers], pad=coder.pad_id
            )
            yield source, mask, target, target_mask

    return of_encoder_decoder(generator.model, batches(), written=coder.piece)


# A folder's kind, as its config.json says it, decides here and nowhere else.
_LOADERS: dict[str, Callable[[Path, Sequence[Text]], Inspected]] = {
    TRAINING: _trained,
    PRETRAINING: _pretrained,
    TEXT_TO_TEXT: _writing,
}


def _kind(folder: Path) -> str:
    try:
        kind = read_folder(folder, read_config).get("kind", TRAINING)
    except FileNotFoundError:
        raise ConfigError(
            f"{folder}: is no folder of a finished run; give one that `mixling train` or `mixling pretrain` wrote"
        ) from None
    if kind not in _LOADERS:
        raise ModelFileError(
            f"{folder / CONFIG_FILE}: got kind {kind!r}; this version can look into {', '.join(_LOADERS)}"
        )
    return str(kind)


def _tokens(encoder: TextEncoder, texts: Sequence[Text]) -> list[str]:
    """The tokens of texts as the encoder reads them."""
    rows = [int(row) for item in encoder.encode(texts) for row in item.words]
    names = ["", *SPECIAL.values(), *encoder.table_words()]
    return [names[row] for row in rows]


def _batches(encoder: TextEncoder, texts: Sequence[Text]) -> Iterator[Batch]:
    for first in range(0, len(texts), _BATCH):
        yield collate([item.words for item in encoder.encode(texts[first : first + _BATCH])], encoder)
