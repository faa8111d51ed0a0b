"""The parts of a model against loops, and the whole of it against padding and company."""

from __future__ import annotations

import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from torch import Tensor
from torch.nn import functional as F

from mixling import ConfigError, ModelConfig, TextConfig, TextEncoder, Vocabulary, build_model, model_config
from mixling.config import parse
from mixling.data import collate
from mixling.mixers import IdentityConfig, TokenMLPConfig
from mixling.models import Block, FeedForward, Model, PoolingHead, ProjectionEmbedding, TokenHead, tensors_of
from mixling.networks import BlockConfig, EmbeddingConfig, FeedForwardConfig, HeadConfig, Output
from mixling.text import AveragedEmbedding, Binary, MinHash, SimHash, Ternary, Text, Tsp
from mixling.training.initialization import read_embeddings

EXACT = {"rtol": 0.0, "atol": 1e-11}  # in float64
VOCABULARY = Vocabulary.train(["a", "film", "that", "the", "cat", "and", "dog", "saw", "was", "good", "bad", "long"])
TEXTS: list[Text] = [
    "a good film",
    "bad",
    "the cat and the dog saw a long film",
    ("a cat", "unheard of"),
    ["New York", "!"],
]
PROJECTIONS = [
    MinHash(num_features=32, num_hashes=6),
    Binary(num_features=32, num_hashes=6),
    SimHash(num_features=32),
    Tsp(num_features=32),
    Ternary(num_features=32, num_hashes=6),
    AveragedEmbedding(num_features=len(VOCABULARY), embedding_dim=5),
]
LAYER = BlockConfig(mixers=(TokenMLPConfig(hidden_dim=7),), feed_forward=FeedForwardConfig(ffn_dim=9))


def config(**values: object) -> ModelConfig:
    given = {"text": TextConfig(projection=PROJECTIONS[0], max_len=16), "dim": 6, "layers": (LAYER,), "num_layers": 2}
    return ModelConfig(**{**given, **values})


def built(made: ModelConfig, output: Output = "text") -> Model:
    model = build_model(made, num_outputs=3, output=output, seed=0).double().eval()
    if model.embedding.embeddings is not None:
        torch.nn.init.normal_(model.embedding.embeddings, generator=torch.Generator().manual_seed(1))
    return model


def collated(words: list[np.ndarray], encoder: TextEncoder) -> Any:
    """A batch as tensors."""
    names = ("features", "weights", "index", "mask", "starts")
    return SimpleNamespace(**dict(zip(names, tensors_of(collate(words, encoder).arguments), strict=True)))


def answer(model: Model, made: ModelConfig, texts: list[Text]) -> tuple[Tensor, Tensor]:
    encoder = TextEncoder(made.text, VOCABULARY)
    batch = collated([item.words for item in encoder.encode(texts)], encoder)
    weights = None if batch.weights is None else batch.weights.double()
    with torch.no_grad():
        return model(batch.features, weights, batch.index, batch.mask), batch.mask


# --- embedding layer ---


def window_by_loops(matrix: Tensor, bias: Tensor, features: Tensor, window: int, dim: int) -> Tensor:
    """x_i = [c_{i-w} | ... | c_{i+w}] W + b, with zero features beyond the ends; `matrix` is ((2w+1) m, D)."""
    length = len(features)
    out = torch.zeros(length, dim, dtype=features.dtype)
    for i in range(length):
        seen = [
            features[j] if 0 <= j < length else torch.zeros_like(features[0]) for j in range(i - window, i + window + 1)
        ]
        out[i] = torch.cat(seen) @ matrix + bias
    return out


@pytest.mark.parametrize("window", [0, 1, 4])
def test_the_bottleneck_reads_the_features_of_the_window_side_by_side(window: int) -> None:
    torch.manual_seed(0)
    m, dim, lengths = 11, 4, [6, 2, 1]
    embedding = ProjectionEmbedding(EmbeddingConfig(window=window), num_features=m, dim=dim, max_len=9).double()
    torch.nn.init.normal_(embedding.bias)
    positions = torch.randint(0, m, (5, 3))
    features = torch.stack([torch.bincount(row, minlength=m) for row in positions]).double()  # the dense counters
    index = torch.zeros(3, 6, dtype=torch.long)
    for i, length in enumerate(lengths):
        index[i, :length] = torch.randint(1, 6, (length,))
    index[0, 2] = 0  # a word that was dropped: zero features inside a text
    mask = torch.arange(6) < torch.tensor(lengths)[:, None]
    x = embedding(embedding.word_rows(positions, None), index, mask)
    # Rows of one big matrix, from the parameter (m, (2w+1) D): first the leftmost word's.
    matrix = torch.cat([embedding.weight[:, o * dim : (o + 1) * dim] for o in range(2 * window + 1)])
    padded = torch.cat([torch.zeros(1, m, dtype=torch.float64), features])
    for i, length in enumerate(lengths):
        expected = window_by_loops(matrix, embedding.bias, padded[index[i, :length]], window, dim)
        torch.testing.assert_close(x[i, :length], expected, **EXACT)
    assert sum(p.numel() for p in embedding.parameters()) == ((2 * window + 1) * m + 1) * dim


def test_a_factorized_window_is_a_full_one_whose_matrices_share_their_rows() -> None:
    torch.manual_seed(0)
    shared = ProjectionEmbedding(EmbeddingConfig(window=2, window_type="factorized"), num_features=11, dim=4, max_len=9)
    full = ProjectionEmbedding(EmbeddingConfig(window=2), num_features=11, dim=4, max_len=9)
    assert shared.spread is not None
    full.weight.data = shared.weight @ shared.spread
    positions, index = torch.randint(0, 11, (5, 3)), torch.tensor([[1, 2, 3, 4, 5, 2], [5, 0, 1, 0, 0, 0]])
    rows = shared.word_rows(positions, None)
    torch.testing.assert_close(rows, full.word_rows(positions, None))
    torch.testing.assert_close(shared(rows, index, index > 0), full(rows, index, index > 0))
    assert sum(p.numel() for p in shared.parameters()) == (11 + 5 * 4 + 1) * 4
    # at first it reads the word in the middle, and its neighbors a little
    alone = full.weight.view(11, 5, 4)
    size = alone.pow(2).mean((0, 2)).sqrt()
    assert size[2] > 5 * size[[0, 1, 3, 4]].max()


def test_weights_of_a_bag_are_counted() -> None:
    embedding = ProjectionEmbedding(EmbeddingConfig(window=0), num_features=5, dim=2, max_len=9).double()
    positions = torch.tensor([[0, 3, 0], [4, 4, 1]])
    weights = torch.tensor([[1.0, -1.0, 0.0], [0.5, 0.5, 2.0]], dtype=torch.float64)
    w = embedding.weight
    expected = torch.stack([torch.zeros(2, dtype=torch.float64), w[0] - w[3], w[4] + 2 * w[1]])
    torch.testing.assert_close(embedding.word_rows(positions, weights), expected, **EXACT)


def test_averaged_embeddings_are_averaged_before_the_bottleneck() -> None:
    made = config(text=TextConfig(projection=PROJECTIONS[-1], max_len=16), embedding=EmbeddingConfig(window=1))
    model = built(made)
    table = model.embedding.embeddings
    assert table is not None
    encoder = TextEncoder(made.text, VOCABULARY)
    batch = collated([item.words for item in encoder.encode(["cat unheard", "good"])], encoder)
    assert batch.weights is not None
    rows = model.embedding.word_rows(batch.features, batch.weights.double())
    for row, word in zip(rows[1:], ["cat", "unheard", "good"], strict=True):
        subwords = VOCABULARY.subwords([word])[0]
        mean = sum(table[VOCABULARY.subword_id(subword)] for subword in subwords) / len(subwords)
        torch.testing.assert_close(row, mean @ model.embedding.weight, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(model.embedding.table(), table @ model.embedding.weight)
    assert "embedding.embeddings" not in dict(model.named_parameters())


@pytest.mark.parametrize("projection", PROJECTIONS, ids=lambda projection: projection.type)
def test_word_rows_are_features_times_matrix(projection: MinHash) -> None:
    made = config(text=TextConfig(projection=projection, max_len=16))
    model, encoder = built(made), TextEncoder(made.text, VOCABULARY)
    batch = collated([item.words for item in encoder.encode(TEXTS)], encoder)
    dense = torch.zeros(len(batch.features), projection.num_features, dtype=torch.float64)
    weights = torch.ones(batch.features.shape) if batch.weights is None else batch.weights
    for i, j in np.ndindex(*batch.features.shape):
        dense[i, batch.features[i, j]] += weights[i, j]
    rows = model.embedding.word_rows(batch.features, None if batch.weights is None else weights.double())
    torch.testing.assert_close(rows[1:], dense @ model.embedding.table(), **EXACT)
    assert not rows[0].any()


# --- block ---


def layer_norm(x: Tensor, norm: torch.nn.Module) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + 1e-5) * norm.weight + norm.bias


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("mixers", [(), ("token_mlp",), ("token_mlp", "identity")])
@pytest.mark.parametrize("with_ffn", [True, False])
def test_a_block_is_residual_sublayers_with_the_norm_before_or_after(norm: str, mixers: tuple, with_ffn: bool) -> None:
    torch.manual_seed(0)
    values = {"mixers": [{"type": name} for name in mixers], "norm": norm}
    values["feed_forward"] = {"ffn_dim": 5} if with_ffn else None
    block = Block(parse(BlockConfig, values, where="x"), dim=4, max_len=8).double().eval()
    for parameter in block.parameters():
        torch.nn.init.normal_(parameter)
    x, mask = torch.randn(2, 6, 4, dtype=torch.float64), torch.arange(6) < torch.tensor([[6], [3]])
    ffn = block.feed_forward
    sublayers = [
        (lambda z, mixer=mixer: mixer(z, mask), n) for mixer, n in zip(block.mixers, block.mixer_norms, strict=True)
    ]
    sublayers += [(ffn, block.feed_forward_norm)] if with_ffn else []
    assert len(sublayers) == len(mixers) + with_ffn
    expected = x
    for f, n in sublayers:
        expected = expected + f(layer_norm(expected, n)) if norm == "pre" else layer_norm(expected + f(expected), n)
    torch.testing.assert_close(block(x, mask), expected, **EXACT)


def test_the_feed_forward_is_its_equation() -> None:
    ffn, x = FeedForward(dim=3, ffn_dim=4).double(), torch.randn(1, 2, 3, dtype=torch.float64)
    w1, b1, w2, b2 = (p.tolist() for p in (ffn.expand.weight, ffn.expand.bias, ffn.contract.weight, ffn.contract.bias))
    for i in range(2):
        inner = [b1[h] + sum(w1[h][c] * float(x[0, i, c]) for c in range(3)) for h in range(4)]
        hidden = [0.5 * value * (1 + math.erf(value / math.sqrt(2))) for value in inner]
        expected = [b2[c] + sum(w2[c][h] * hidden[h] for h in range(4)) for c in range(3)]
        torch.testing.assert_close(ffn(x)[0, i].tolist(), expected, **EXACT)


def test_dropout_is_on_the_update_and_in_training_only() -> None:
    block = Block(BlockConfig(mixers=(IdentityConfig(),), dropout=0.5), dim=400, max_len=4).eval()
    x, mask = torch.randn(1, 2, 400), torch.ones(1, 2, dtype=torch.bool)
    still = block(x, mask)
    torch.testing.assert_close(still, x + F.layer_norm(x, (400,)))
    block.train()
    torch.manual_seed(0)
    update = block(x, mask) - x
    assert 0.4 < float((update == 0).float().mean()) < 0.6
    kept = update != 0
    torch.testing.assert_close(update[kept], 2 * (still - x)[kept], rtol=1e-3, atol=1e-4)


# --- heads ---


def pooled_by_loops(head: PoolingHead, tokens: list[Tensor]) -> Tensor:
    """The vector of one text from its real tokens."""
    if head.pooling == "all":
        pools = []
        for head.pooling in ("attention", "mean", "max"):
            pools.append(pooled_by_loops(head, tokens))
        head.pooling = "all"
        return torch.cat(pools)
    if head.pooling == "mean":
        return sum(tokens) / len(tokens)
    if head.pooling == "max":
        return torch.tensor(
            [max(float(token[c]) for token in tokens) for c in range(len(tokens[0]))], dtype=torch.float64
        )
    assert head.score is not None
    scores = [math.exp(float(token @ head.score.weight[0] + head.score.bias[0])) for token in tokens]
    return sum(score / sum(scores) * token for score, token in zip(scores, tokens, strict=True))


@pytest.mark.parametrize("pooling", ["attention", "mean", "max", "all"])
@torch.no_grad()
def test_pooling_is_over_real_tokens(pooling: str) -> None:
    torch.manual_seed(0)
    head = PoolingHead(parse(HeadConfig, {"pooling": pooling}, where="x"), dim=4, num_outputs=3).double()
    lengths = [5, 1, 3]
    x, mask = torch.randn(3, 5, 4, dtype=torch.float64) - 3, torch.arange(5) < torch.tensor(lengths)[:, None]
    x[~mask] = 1e4
    logits = head(x, mask)
    for i, length in enumerate(lengths):
        expected = head.output.weight @ pooled_by_loops(head, list(x[i, :length])) + head.output.bias
        torch.testing.assert_close(logits[i], expected, **EXACT)
    half = head.half()(x.half(), mask)
    assert half.isfinite().all()


@pytest.mark.parametrize("pooling", ["attention", "mean", "max", "all"])
@torch.no_grad()
def test_pooling_of_no_token_and_of_many_in_half_precision(pooling: str) -> None:
    torch.manual_seed(0)
    head = PoolingHead(parse(HeadConfig, {"pooling": pooling}, where="x"), dim=4, num_outputs=3).double()
    nothing = head(torch.full((1, 5, 4), 7.0, dtype=torch.float64), torch.zeros(1, 5, dtype=torch.bool))
    torch.testing.assert_close(nothing[0], head.output.bias)
    many = torch.full((1, 2000, 4), 100.0, dtype=torch.float16)  # their sum is beyond float16, their mean is not
    head, mask = head.half(), torch.ones(1, 2000, dtype=torch.bool)
    found, one = head(many, mask), head(many[:, :1], mask[:, :1])
    assert found.dtype == torch.float16
    torch.testing.assert_close(found, one, rtol=0.01, atol=0.1)


def test_the_head_of_a_tagger_answers_for_every_token() -> None:
    head = TokenHead(HeadConfig(), dim=4, num_outputs=3).double()
    x, mask = torch.randn(2, 5, 4, dtype=torch.float64), torch.ones(2, 5, dtype=torch.bool)
    torch.testing.assert_close(head(x, mask)[1, 2], head.output.weight @ x[1, 2] + head.output.bias, **EXACT)


# --- the whole ---


@pytest.mark.parametrize("output", ["text", "tokens"])
@pytest.mark.parametrize("window", [0, 2])
@pytest.mark.parametrize("projection", PROJECTIONS, ids=lambda projection: projection.type)
def test_padding_and_other_texts_change_no_answer(projection: MinHash, window: int, output: Output) -> None:
    made = config(text=TextConfig(projection=projection, max_len=16), embedding=EmbeddingConfig(window=window))
    model = built(made, output)
    together, mask = answer(model, made, TEXTS)
    for i, text in enumerate(TEXTS):
        alone = answer(model, made, [text])[0][0]
        found = together[i] if output == "text" else together[i][mask[i]]
        torch.testing.assert_close(alone, found, **EXACT)
    assert (together[0] - together[1]).abs().max() > 1e-3  # not one answer for all


def test_the_class_token_is_mixed_and_read() -> None:
    made = config(head=HeadConfig(pooling="class"))
    model = built(made)
    assert model.class_token is not None
    found, _ = answer(model, made, TEXTS)
    encoder = TextEncoder(made.text, VOCABULARY)
    for row, text in zip(found, TEXTS, strict=True):
        batch = collated([item.words for item in encoder.encode([text])], encoder)
        with torch.no_grad():
            tokens = model.embedding.embed(batch.features, None, batch.index, batch.mask)[0][batch.mask[0]]
            x = torch.stack([model.class_token, *tokens])[None]
            for layer in model.encoder.layers:
                x = layer(x, torch.ones(1, x.shape[1], dtype=torch.bool))
            expected = model.head.output.weight @ x[0, 0] + model.head.output.bias
        torch.testing.assert_close(row, expected, **EXACT)
    assert build_model(made, num_outputs=3, output="tokens").class_token is None
    nothing = torch.zeros(2, 0, dtype=torch.int64)
    with torch.no_grad():
        alone = model(batch.features, None, nothing, nothing.bool())
    torch.testing.assert_close(alone[0], alone[1], **EXACT)
    assert alone.isfinite().all()


@pytest.mark.parametrize("pooling", ["attention", "mean", "max", "all", "class"])
def test_the_order_of_a_batch_does_not_matter(pooling: str) -> None:
    made = config(head=parse(HeadConfig, {"pooling": pooling}, where="x"))
    model = built(made)
    forwards, backwards = answer(model, made, TEXTS)[0], answer(model, made, TEXTS[::-1])[0]
    torch.testing.assert_close(backwards.flip(0), forwards, **EXACT)


@pytest.mark.parametrize("max_len", [1, 5])
def test_more_tokens_than_learned_positions_are_refused(max_len: int) -> None:
    """A table of one position would be added to all tokens."""
    made = config(
        embedding=EmbeddingConfig(positions="learned"),
        num_layers=0,
        text=TextConfig(max_len=max_len, projection=PROJECTIONS[0]),
    )
    model = built(made)
    features, index = torch.zeros(1, 2, dtype=torch.int64), torch.ones(2, max_len + 1, dtype=torch.int64)
    assert model(features, None, index[:, :max_len]).shape == (2, 3)
    with pytest.raises(ConfigError, match=f"^learned positions: got {max_len + 1} tokens, built for at most {max_len}"):
        model(features, None, index)


def test_one_projection_feeds_several_models() -> None:
    slots, intents = config(dim=4), config(embedding=EmbeddingConfig(window=1), num_layers=1)
    encoder = TextEncoder(slots.text, VOCABULARY)
    assert encoder.digest == TextEncoder(intents.text, VOCABULARY).digest
    batch = collated([item.words for item in encoder.encode(TEXTS)], encoder)
    for made, output in ((slots, "tokens"), (intents, "text")):
        model = built(made, output)
        with torch.no_grad():
            found = model(batch.features, batch.weights, batch.index, batch.mask)
        torch.testing.assert_close(found, answer(model, made, TEXTS)[0], **EXACT)


def test_rows_of_words_may_come_from_a_cache() -> None:
    made = config(embedding=EmbeddingConfig(window=1))
    model, encoder = built(made), TextEncoder(made.text, VOCABULARY)
    batch = collated([item.words for item in encoder.encode(TEXTS)], encoder)
    rows = model.embedding.word_rows(batch.features, batch.weights)
    order = torch.randperm(len(rows) - 1, generator=torch.Generator().manual_seed(0)) + 1
    cache = torch.zeros(len(rows) + 7, rows.shape[1], dtype=rows.dtype)
    cache[order + 7] = rows[1:]
    moved = torch.where(batch.index > 0, order[(batch.index - 1).clamp_min(0)] + 7, 0)
    expected = model(batch.features, batch.weights, batch.index, batch.mask)
    torch.testing.assert_close(model.from_rows(cache, moved, batch.mask), expected, **EXACT)


def test_a_seed_decides_the_first_weights_and_disturbs_no_other_random_numbers() -> None:
    made = config()
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    first = build_model(made, num_outputs=3, output="text", seed=5).state_dict()
    assert torch.equal(torch.rand(3), expected)
    again, other = (build_model(made, num_outputs=3, output="text", seed=seed).state_dict() for seed in (5, 6))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["embedding.weight"], other["embedding.weight"])


def test_layers_do_not_share_weights() -> None:
    names = dict(built(config()).named_parameters())
    one, two = (names[f"encoder.layers.{i}.mixers.0.expand.weight"] for i in (0, 1))
    assert not torch.equal(one, two)


# Golden of the saved format: files of saved models hold tensors under these names.
LAYER_KEYS = [
    "mixers.0.expand.weight",
    "mixers.0.expand.bias",
    "mixers.0.contract.weight",
    "mixers.0.contract.bias",
    "mixer_norms.0.weight",
    "mixer_norms.0.bias",
    "feed_forward.expand.weight",
    "feed_forward.expand.bias",
    "feed_forward.contract.weight",
    "feed_forward.contract.bias",
    "feed_forward_norm.weight",
    "feed_forward_norm.bias",
]
HEAD_KEYS = ["head.score.weight", "head.score.bias", "head.output.weight", "head.output.bias"]


@pytest.mark.parametrize(("output", "head"), [("text", HEAD_KEYS), ("tokens", HEAD_KEYS[2:])])
def test_golden_names_of_a_saved_models_tensors(output: Output, head: list[str]) -> None:
    model = build_model(model_config("pnlp-mixer-x-small"), num_outputs=2, output=output)
    layers = [f"encoder.layers.{i}.{key}" for i in range(2) for key in LAYER_KEYS]
    assert list(model.state_dict()) == ["embedding.weight", "embedding.bias", *layers, *head]


def test_subword_embeddings_come_from_a_file_of_the_right_shape(tmp_path: Path) -> None:
    values = np.arange(18, dtype=np.float32).reshape(6, 3)
    np.save(tmp_path / "units.npy", values)
    save_file({"embeddings": values + 1}, tmp_path / "units.safetensors")
    np.testing.assert_array_equal(read_embeddings(str(tmp_path / "units.npy"), (6, 3)), values)
    np.testing.assert_array_equal(read_embeddings(str(tmp_path / "units.safetensors"), (6, 3)), values + 1)
    np.save(tmp_path / "wrong.npy", values.T)
    np.save(tmp_path / "pickled.npy", np.array([{}]), allow_pickle=True)
    for name, message in (("wrong", "(3, 6)"), ("pickled", "pickle"), ("missing", "No such file")):
        with pytest.raises(ConfigError, match=re.escape(message)):
            read_embeddings(str(tmp_path / f"{name}.npy"), (6, 3))
    with pytest.raises(ConfigError, match=r"model\.embedding\.embeddings"):
        read_embeddings(None, (6, 3))


@pytest.mark.parametrize(("window", "length"), [(1, 1), (1, 5), (2, 3), (4, 2)])
def test_the_gradient_of_summed_windows_is_that_of_loops(window: int, length: int) -> None:
    dim, parts = 3, 2 * window + 1
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, length, parts * dim, generator=generator, dtype=torch.float64, requires_grad=True)
    grad = torch.randn(2, length, dim, generator=generator, dtype=torch.float64)
    config = EmbeddingConfig(window=window, bias=False)
    layer = ProjectionEmbedding(config, num_features=4, dim=dim, max_len=8)
    index = torch.arange(2 * length).view(2, length)
    layer(x.flatten(0, 1), index, torch.ones(2, length, dtype=torch.bool)).backward(grad)
    expected = torch.zeros(2, length, parts, dim, dtype=torch.float64)
    for i in range(length):
        for part in range(parts):
            if 0 <= i + part - window < length:
                expected[:, i + part - window, part] += grad[:, i]
    assert x.grad is not None
    torch.testing.assert_close(x.grad, expected.flatten(2))
