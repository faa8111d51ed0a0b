"""Masked language modeling: what the model reads and what it is asked, and a loss with an independent statement."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from mixling import ModelConfig, TextConfig, TextEncoder, TrainConfig, build_model
from mixling.mixers import HyperMixingConfig
from mixling.models import tensors_of
from mixling.networks import BlockConfig, EmbeddingConfig, FeedForwardConfig
from mixling.research.pretraining import (
    MASK_WORD,
    MaskedLM,
    MaskedLMConfig,
    MaskedText,
    Packing,
    Tokens,
    subword_targets,
    word_targets,
)
from mixling.tasks import NO_TARGET
from mixling.text import FIRST, SEPARATOR, MinHash, SubwordEmbedding, train_vocabulary
from mixling.training import OptimConfig, Trainer

LENGTH = 16
# A language in which every word tells the next one: what is hidden can be told from its neighbors.
WORDS = [f"{first}{second}" for first in "bdfgklmnprst" for second in ("a", "e", "i")]


def documents(seed: int, count: int) -> list[str]:
    rng = np.random.default_rng(seed)
    starts = rng.integers(len(WORDS), size=count)
    return [" ".join(WORDS[(start + 5 * i) % len(WORDS)] for i in range(20)) for start in starts]


def model_config(subwords: bool) -> ModelConfig:
    text = TextConfig(
        projection=SubwordEmbedding() if subwords else MinHash(num_features=256, num_hashes=8),
        tokens="subwords" if subwords else "words",
        max_len=LENGTH,
        vocabulary_size=100,
    )
    layer = BlockConfig(mixers=(HyperMixingConfig(hidden_dim=32),), feed_forward=FeedForwardConfig(ffn_dim=32))
    embedding = EmbeddingConfig(bias=not subwords)
    return ModelConfig(text=text, embedding=embedding, dim=32, layers=(layer, layer), final_norm=True)


def data(subwords: bool, *, whole_words: bool = True) -> tuple[MaskedText, ModelConfig]:
    config = model_config(subwords)
    vocabulary = train_vocabulary(documents(0, 200), config.text, specials=("[SEP]", MASK_WORD))
    text = config.text.for_vocabulary(vocabulary)
    encoder = TextEncoder(text.model_copy(update={"max_len": 1000}), vocabulary, keep=True)
    encoder.learn([MASK_WORD])
    parts = []
    for seed, count in ((1, 150), (2, 20)):
        rows, starts = [], []
        for encoded in encoder.encode(documents(seed, count)):
            begins = np.ones(len(encoded.words) + 1, bool)
            if encoded.starts is not None:
                begins[:-1] = np.isin(np.arange(len(encoded.words)), encoded.starts)
            rows.append(np.append(encoded.words, SEPARATOR))
            starts.append(begins)
        parts.append(Tokens(np.concatenate(rows).astype(np.uint32), np.concatenate(starts)))
    targets = subword_targets(encoder) if subwords else word_targets(encoder, parts[0], 30)
    made = MaskedText(
        objective=MaskedLM(),
        config=MaskedLMConfig(whole_words=whole_words),
        encoder=encoder,
        train=parts[0],
        validation=parts[1],
        length=LENGTH,
        targets=targets,
    )
    return made, config.model_copy(update={"text": text})


def outputs(made: MaskedText, subwords: bool) -> int:
    return len(made.encoder.vocabulary) if subwords else int(made.targets.max()) + 1


def test_packed_texts_are_of_one_document_each_and_fill_a_batch_without_a_token_too_many() -> None:
    rng = np.random.default_rng(0)
    lengths = [0, 1, 2, 3, 5, LENGTH - 1, LENGTH, LENGTH + 1, 3 * LENGTH, *rng.integers(1, 9, 60)]
    # The number of a document and of the token in it, so that a text shows where it is from.
    rows = [np.append(100 * document + 100 + np.arange(length), SEPARATOR) for document, length in enumerate(lengths)]
    tokens = Tokens(np.concatenate(rows).astype(np.uint32))
    packing = Packing(tokens, LENGTH, separator=SEPARATOR)
    seen: list[int] = []
    for block in range(len(packing)):
        texts = [tokens.rows[text].tolist() for text in packing.texts(block)]
        assert len(texts) * max(map(len, texts)) <= LENGTH
        assert packing.widths[block] == max(map(len, texts))
        for text in texts:
            words = text[:-1] if text[-1] == SEPARATOR else text
            assert SEPARATOR not in words
            assert words == list(range(words[0], words[0] + len(words)))
            assert len({word // 100 for word in words}) == 1
            seen += words
    assert sorted(seen) == sorted(row for part in rows for row in part[:-1])
    assert len(packing) * LENGTH < 1.35 * len(tokens.rows)  # little padding


@pytest.mark.parametrize("subwords", [True, False])
def test_packed_batches_are_alike_for_any_number_of_processes_and_learn(subwords: bool) -> None:
    made, config = data(subwords)
    whole = replace(made, config=made.config.model_copy(update={"cross_documents": False}))
    batches = whole.epoch(0, 8, seed=0)
    assert len(batches) == -(-len(whole) // 8)
    assert sorted(np.concatenate(batches)) == list(range(len(whole)))
    indices = batches[0]
    batch, targets, _ = whole.batch(indices, np.arange(len(indices)), seed=0, step=0)
    assert batch.mask.size <= 8 * LENGTH
    halves = [whole.batch(indices, np.arange(len(indices))[rank::2], seed=0, step=0) for rank in (0, 1)]
    assert sum(half.num_tokens for half, _, _ in halves) == batch.num_tokens
    asked = [half[half != NO_TARGET] for _, half, _ in halves]
    assert sorted(np.concatenate(asked)) == sorted(targets[targets != NO_TARGET])
    model = build_model(config, outputs(whole, subwords), output="subwords", seed=0)
    history = Trainer(model, whole, TrainConfig(steps=8, evaluations=2, batch_size=8, optim=OptimConfig(lr=0.01))).fit()
    assert history[-1]["val_loss"] < history[0]["val_loss"]


@pytest.mark.parametrize("subwords", [True, False])
def test_what_is_asked_is_what_stood_there(subwords: bool) -> None:
    made, _ = data(subwords)
    indices = np.arange(40)
    batch, targets, weights = made.batch(indices, indices, seed=4, step=9)
    assert weights is None
    assert batch.starts is not None
    names = made.encoder.table_words()
    for row, index in enumerate(indices):
        block, _ = made.train.block(int(index), LENGTH)
        asked = targets[row] != NO_TARGET
        locations = batch.starts[row][asked]
        for location, target in zip(locations, targets[row][asked].tolist(), strict=True):
            assert block[location] > FIRST, "neither a separator nor what is hidden already"
            word = names[block[location] - FIRST]
            assert target == (made.encoder.vocabulary.subword_id(word) if subwords else made.targets[block[location]])
        # Elsewhere the model reads what stands there.
        bags = made.encoder.bags(block).features
        read = batch.features[batch.index[row] - 1][:, : bags.shape[1]]
        same = (read == bags).all(1)
        assert same[np.setdiff1d(np.arange(LENGTH), locations)].all()
    again = made.batch(indices, indices, seed=4, step=9)
    other = made.batch(indices, indices, seed=4, step=10)
    assert np.array_equal(batch.index, again[0].index)
    assert not np.array_equal(targets, other[1]) or not np.array_equal(batch.starts, other[0].starts)


def test_most_hidden_tokens_are_the_mask_and_none_is_reported_by_itself() -> None:
    made, _ = data(True)
    mask = made.encoder.bags(np.array([FIRST])).features[0]
    assert mask[0] == made.encoder.vocabulary.subword_id(MASK_WORD)
    count, masked, kept = 0, 0, 0
    for step in range(60):
        indices = np.arange(32)
        batch, targets, _ = made.batch(indices, indices, seed=0, step=step)
        assert batch.starts is not None
        asked = targets != NO_TARGET
        rows = np.nonzero(asked)[0]
        read = batch.features[batch.index[rows, batch.starts[asked]] - 1, 0]
        count += len(read)
        masked += int((read == int(mask[0])).sum())
        kept += int((read == targets[asked]).sum())
    assert masked / count == pytest.approx(0.8, abs=0.02)
    assert kept / count == pytest.approx(0.1 + 0.1 / 36, abs=0.02)


def test_shards_hide_what_the_whole_batch_does() -> None:
    made, _ = data(True)
    indices = np.array([5, 1, 8, 2])
    whole, targets, _ = made.batch(indices, np.arange(4), seed=1, step=3)
    part, some, _ = made.batch(indices, np.array([1, 3]), seed=1, step=3)
    for mine, location in enumerate((1, 3)):
        reported = some[mine][some[mine] != NO_TARGET]
        assert np.array_equal(reported, targets[location][targets[location] != NO_TARGET])
        assert np.array_equal(part.features[part.index[mine] - 1, 0], whole.features[whole.index[location] - 1, 0])


def test_the_loss_is_the_mean_cross_entropy_of_hidden_tokens() -> None:
    rng = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 5, 7, generator=rng, dtype=torch.float64)
    targets = torch.randint(7, (3, 5), generator=rng)
    targets[0, 2:] = targets[2] = NO_TARGET
    weights = torch.tensor([1.0, 0.5, 1.0], dtype=torch.float64)
    total, count = 0.0, 0.0
    for b in range(3):
        for n in range(5):
            if targets[b, n] != NO_TARGET:
                total -= float(weights[b] * math.log(float(logits[b, n].softmax(-1)[targets[b, n]])))
                count += float(weights[b])
    loss, weight = MaskedLM().loss(logits, targets, weights)
    assert float(loss) == pytest.approx(total, rel=1e-12)
    assert float(weight) == count


def test_tied_logits_are_products_with_the_rows_of_subwords() -> None:
    made, config = data(True)
    model = build_model(config, num_outputs=outputs(made, True), output="subwords", seed=0).double().eval()
    batch, _, _ = made.batch(np.arange(4), np.arange(4), seed=0, step=0)
    assert batch.starts is not None
    features, _, index, mask, starts = tensors_of(batch.arguments)
    logits = model(features, None, index, mask, starts)
    table = model.embedding.weight
    x = model.encoder(table[features[index - 1, 0].long()], mask)
    for b in range(4):
        for location, row in zip(batch.starts[b].tolist(), logits[b], strict=True):
            normed = F.layer_norm(x[b, location], (32,), model.head.norm.weight, model.head.norm.bias)
            expected = torch.stack([normed @ subword for subword in table[: logits.shape[-1]]])
            torch.testing.assert_close(row, expected)
    assert not any(name.startswith("head.weight") for name in model.state_dict())


@pytest.mark.slow
@pytest.mark.parametrize("subwords", [True, False])
def test_it_learns_and_its_perplexity_is_that_of_the_loss(subwords: bool) -> None:
    made, config = data(subwords)
    model = build_model(config, num_outputs=outputs(made, subwords), output="subwords", seed=0)
    optim = OptimConfig(lr=1e-2, embedding_lr=1.0, weight_decay=0.0)
    train = TrainConfig(steps=150, batch_size=32, precision="float32", optim=optim, token_dropout=0.0, evaluations=3)
    history = Trainer(model, made, train).fit()
    best = min(record["val_perplexity"] for record in history)
    assert best < 0.5 * outputs(made, subwords), "chance is the number of words"
    assert history[-1]["val_perplexity"] == pytest.approx(math.exp(history[-1]["val_loss"]), rel=1e-4)
    assert [record["best"] for record in history][-1] == (history[-1]["val_perplexity"] == best)


def test_frequent_words_are_targets() -> None:
    made, _ = data(False)
    counts = np.bincount(made.train.rows, minlength=len(made.encoder))
    reported = made.targets >= 0
    assert reported.sum() == 30
    rest = ~reported
    rest[: FIRST + 1] = False
    assert counts[reported].min() >= counts[rest].max()
    assert sorted(made.targets[reported]) == list(range(30))
