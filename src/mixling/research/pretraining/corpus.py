"""Training data of masked language models."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch

from mixling.data.batches import Batch, Indices, collate, pad_targets, training_batches
from mixling.data.masking import choose_masked, replace_masked
from mixling.errors import TrainingError
from mixling.models.tensors import tensor_of
from mixling.research.pretraining.masked_lm import MaskedLM, MaskedLMConfig, count_hits
from mixling.research.pretraining.packing import Packing
from mixling.research.pretraining.prepared import Tokens
from mixling.tasks.objective import NO_TARGET
from mixling.text.config import TextConfig
from mixling.text.encoder import TextEncoder
from mixling.text.table import FIRST, SEPARATOR
from mixling.text.vocabulary import Vocabulary
from mixling.training.backends.pytorch import Forward, TorchBackend
from mixling.training.dataset_adapter import Targeted, TrainingData

MASK_WORD = "[MASK]"  # the first word of a document encoder's table: row `FIRST`
_VALIDATION_BATCH = 64
_MAX_DOCUMENT = 1_000_000  # words
_MAX_WORDS = 1 << 22  # different words


def document_encoder(text: TextConfig, vocabulary: Vocabulary) -> TextEncoder:
    """Return an encoder of whole documents whose table keeps all words, beginning with `MASK_WORD`.

    If tokens are subwords, the whole vocabulary is added, so that random replacements do not depend on the text.
    """
    whole = text.model_copy(update={"max_len": _MAX_DOCUMENT})
    encoder = TextEncoder(whole, vocabulary, max_table=_MAX_WORDS, keep=True)
    subwords = vocabulary.names() if text.tokens == "subwords" else []
    encoder.learn([MASK_WORD, *(subword for subword in subwords if subword != MASK_WORD)])
    return encoder


def subword_targets(encoder: TextEncoder) -> npt.NDArray[np.int64]:
    """Return the subword (id) of each row of the encoder's table; negative for rows that are never hidden."""
    assert encoder.config.projection.trained_rows, "only an embedding table has a row for each subword"
    targets = encoder.bags(np.arange(len(encoder))).features[:, 0].astype(np.int64)
    targets[: FIRST + 1] = -1
    return targets


def named_targets(encoder: TextEncoder, words: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return the index in `words` of each row of the encoder's table; negative for words that are not listed."""
    ids = {word: index for index, word in enumerate(words)}
    return np.array([-1] * FIRST + [ids.get(word, -1) for word in encoder.table_words()], np.int64)


def word_targets(encoder: TextEncoder, tokens: Tokens, count: int) -> npt.NDArray[np.int64]:
    """Return the rank of each row of the encoder's table among the `count` most frequent words; negative for others."""
    frequency = np.bincount(tokens.rows, minlength=len(encoder))
    frequency[: FIRST + 1] = 0
    best = np.argsort(-frequency, kind="stable")[: min(count, np.count_nonzero(frequency))]
    targets = np.full(len(encoder), -1, np.int64)
    targets[best] = np.arange(len(best))
    return targets


@dataclass(frozen=True, kw_only=True)
class MaskedText(TrainingData):
    """Blocks of `length` tokens from prepared documents, masked anew in each epoch but always alike for validation.

    Whether a block may hold several documents, and how, the configuration decides; see `Packing`.

    Args:
        targets: the class to predict for each row of the encoder's table; negative for rows that are never hidden.
    """

    objective: MaskedLM
    config: MaskedLMConfig
    encoder: TextEncoder
    train: Tokens
    validation: Tokens
    length: int
    targets: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self._training)

    def epoch(self, number: int, batch_size: int, *, seed: int) -> list[Indices]:
        if not self.config.cross_documents:  # batches of texts of about the same length
            return training_batches(self._training.widths, batch_size, seed=seed, epoch=number)
        order = np.random.default_rng([seed, number]).permutation(len(self))
        return [order[first : first + batch_size] for first in range(0, len(order), batch_size)]

    def batch(self, indices: Indices, chosen: Indices, *, seed: int, step: int) -> Targeted:
        return *self._masked(self.train, self._training, indices, chosen, seed=[seed, 2, step]), None

    def evaluate(self, model: TorchBackend) -> tuple[dict[str, float], float]:
        return evaluate_masked(self.masked_validation(), model.forward)

    def masked_validation(self) -> Iterator[tuple[Batch, npt.NDArray[np.int64]]]:
        """Yield masked batches of the validation text and their targets, always the same."""
        packing = self._packing(self.validation)
        count = len(packing)
        for number, first in enumerate(range(0, count, _VALIDATION_BATCH)):
            indices = np.arange(first, min(first + _VALIDATION_BATCH, count))
            yield self._masked(self.validation, packing, indices, np.arange(len(indices)), seed=[0, 3, number])

    @cached_property
    def _training(self) -> Packing:
        return self._packing(self.train)

    def _packing(self, tokens: Tokens) -> Packing:
        return Packing(tokens, self.length, separator=None if self.config.cross_documents else SEPARATOR)

    def _masked(
        self, tokens: Tokens, packing: Packing, indices: Indices, chosen: Indices, *, seed: list[int]
    ) -> tuple[Batch, npt.NDArray[np.int64]]:
        config = self.config
        rng = np.random.default_rng(seed)
        texts: list[slice] = []
        mine: list[int] = []
        wanted = set(chosen.tolist())
        for number, index in enumerate(indices):
            parts = packing.texts(int(index))
            mine += range(len(texts), len(texts) + len(parts)) if number in wanted else ()
            texts += parts
        lengths = [text.stop - text.start for text in texts]
        rows = np.zeros((len(texts), max(lengths)), np.int32)
        starts = np.ones(rows.shape, bool)
        for i, text in enumerate(texts):
            rows[i, : lengths[i]] = tokens.rows[text]
            if tokens.starts is not None:
                starts[i, : lengths[i]] = tokens.starts[text]
        targets = self.targets[rows]
        hidden = choose_masked(targets, starts, fraction=config.fraction, whole_words=config.whole_words, rng=rng)
        known = np.flatnonzero(self.targets >= 0).astype(np.int32)
        others = known[np.argsort(self.targets[known], kind="stable")]
        read = replace_masked(
            rows, hidden, mask_row=FIRST, others=others, masked=config.masked, random=config.random, rng=rng
        )
        positions = [np.flatnonzero(hidden[i]).astype(np.int32) for i in mine]
        batch = collate([read[i, : lengths[i]] for i in mine], self.encoder, positions)
        classes = [targets[i, at] for i, at in zip(mine, positions, strict=True)]
        return batch, pad_targets(classes, batch.num_answers, NO_TARGET)


@torch.inference_mode()
def evaluate_masked(
    batches: Iterator[tuple[Batch, npt.NDArray[np.int64]]], forward: Forward
) -> tuple[dict[str, float], float]:
    """Return perplexity and accuracy on hidden tokens, and the mean loss.

    Raises:
        TrainingError: the loss is not finite.
    """
    objective = MaskedLM()
    sums = np.zeros(3)
    for batch, targets in batches:
        logits = forward(batch).float()
        expected = tensor_of(targets, logits.device)
        loss, count = objective.loss(logits, expected, None)
        sums += [float(loss), float(count_hits(logits, expected)), float(count)]
    loss_mean, accuracy = (sums[:2] / max(sums[2], 1)).tolist()
    if not math.isfinite(loss_mean):
        raise TrainingError("an output on validation data is not finite")
    return {"perplexity": math.exp(min(loss_mean, 700)), "accuracy": accuracy}, loss_mean
