"""Preparing text-to-text models for `mixling.research.inspect.weights`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from torch import Tensor

from mixling.errors import DataError
from mixling.research.inspect.weights import Inspected, Pass
from mixling.research.seq2seq.batches import pad_sources
from mixling.research.seq2seq.generator import TextGenerator
from mixling.research.seq2seq.model import EncoderDecoder
from mixling.text.encoder import Text

_BATCH = 8  # texts; the weights of a layer are held in memory for all of them


def of_encoder_decoder(
    model: EncoderDecoder,
    batches: Iterable[tuple[Tensor, Tensor, Tensor, Tensor]],
    *,
    decode: Callable[[int], str] | None = None,
) -> Inspected:
    """Return an encoder-decoder prepared for inspection.

    Args:
        batches: source subwords and mask (B, N), target subwords and mask (B, T).
        decode: returns the text of a subword; None: subwords have no text.
    """

    def tokens(subwords: Tensor) -> list[str]:
        return [] if decode is None else [decode(number) for number in subwords[0].tolist()]

    passes = (
        Pass(
            lambda s=source, m=mask, t=target: model(s, m, t),  # type: ignore[misc]
            {"encoder": mask, "decoder": target_mask},
            {"encoder": tokens(source), "decoder": tokens(target)},
        )
        for source, mask, target, target_mask in batches
    )
    return Inspected(model, {"encoder": model.encoder, "decoder": model.decoder}, passes)


def of_generator(folder: Path, texts: Sequence[Text]) -> Inspected:
    """Return the model of a text-to-text run; its decoder reads the texts that the model generates.

    Raises:
        DataError: a text is empty.
    """
    generator = TextGenerator(folder)
    prefix = generator.task().prefix if len(generator.tasks) == 1 else ""
    if empty := [number for number, text in enumerate(texts, 1) if not str(text).strip()]:
        raise DataError(f"text {empty[0]}: is empty; give a text")
    coder = generator.coder
    most = generator.config.max_target_len - 1

    def batches() -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
        for first in range(0, len(texts), _BATCH):
            sources = generator.encode([prefix + str(text) for text in texts[first : first + _BATCH]], cut=True)
            generated = coder.encode_many([item.text for item in generator.generate_encoded(sources)])
            source, mask = pad_sources(sources, pad=coder.pad_id)
            target, target_mask = pad_sources(
                [np.array([coder.pad_id, *subwords[:most]]) for subwords in generated], pad=coder.pad_id
            )
            yield source, mask, target, target_mask

    return of_encoder_decoder(generator.model, batches(), decode=coder.subword)
