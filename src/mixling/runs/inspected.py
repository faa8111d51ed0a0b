"""The models of run folders, with texts encoded for them, as `mixling.inspect.weights` looks at them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from mixling.data.batches import Batch, collate
from mixling.errors import ConfigError, ModelFileError
from mixling.inspect.weights import Inspected, of_model
from mixling.runs.config import CONFIG_FILE
from mixling.runs.folder import load_model
from mixling.runs.pretrained import KIND, load_pretraining
from mixling.text.encoder import Text, TextEncoder

_BATCH = 8  # texts; each layer's weights of all of them are held at a time


def load_inspected(folder: str | Path, texts: Sequence[Text] = ()) -> Inspected:
    """The model of a finished run of any kind, and the texts on their way to it; of long ones what it reads.

    Raises:
        ConfigError: there is no finished run in the folder.
        ModelFileError: it is not complete, damaged, or of a kind that this version does not know.
    """
    return _LOADERS[_kind(Path(folder))](Path(folder), texts)


def _trained(folder: Path, texts: Sequence[Text]) -> Inspected:
    model, encoder, _, _ = load_model(folder)
    return of_model(model, _batches(encoder, texts))


def _pretrained(folder: Path, texts: Sequence[Text]) -> Inspected:
    model, encoder = load_pretraining(folder)
    return of_model(model, _batches(encoder, texts))


# A folder's kind, as its config.json says it, decides here and nowhere else.
_LOADERS: dict[str, Callable[[Path, Sequence[Text]], Inspected]] = {"training": _trained, KIND: _pretrained}


def _kind(folder: Path) -> str:
    path = folder / CONFIG_FILE
    try:
        kind = json.loads(path.read_text("utf-8")).get("kind", "training")
    except (FileNotFoundError, NotADirectoryError):
        raise ConfigError(
            f"{folder}: is no folder of a finished run; give one that `mixling train` or `mixling pretrain` wrote"
        ) from None
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise ModelFileError(f"{path}: is damaged: {error}") from None
    if kind not in _LOADERS:
        raise ModelFileError(f"{path}: got kind {kind!r}; this version can look into {', '.join(_LOADERS)}")
    return str(kind)


def _batches(encoder: TextEncoder, texts: Sequence[Text]) -> Iterator[Batch]:
    for first in range(0, len(texts), _BATCH):
        yield collate([item.words for item in encoder.encode(texts[first : first + _BATCH])], encoder)
