"""Pairs as training data: epochs, batches that do not depend on processes, and measures against loops and a search."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor

from mixling.data import shard
from mixling.errors import TrainingError
from mixling.models import tensors_of
from mixling.research.seq2seq import (
    EncoderDecoder,
    GenerationConfig,
    MixingConfig,
    Pair,
    PairData,
    Shape,
    SubwordIds,
    TextToText,
    build_encoder_decoder,
    draws,
    generate,
    mixer,
    t5,
)
from mixling.research.seq2seq import training as pairs_module
from mixling.research.seq2seq.batches import PairBatch
from mixling.research.seq2seq.training import PairPart, Part, evaluate_pairs
from mixling.tasks import NO_TARGET, LossConfig

SUBWORDS, PAD, END = 13, 0, 1
Encoded = list[tuple[SubwordIds, SubwordIds]]


def encoded(count: int, *, seed: int = 0, longest: int = 9) -> Encoded:
    """Pairs of subwords; the first two of a source tell which it is."""
    rng = np.random.default_rng(seed)

    def subwords(begin: Sequence[int]) -> SubwordIds:
        return np.array([*begin, *rng.integers(2, SUBWORDS, rng.integers(0, longest - 2)), END], np.int32)

    return [(subwords(divmod(number, SUBWORDS)), subwords([])) for number in range(count)]


def part(name: str, count: int, *, seed: int = 0, validation: Encoded | None = None) -> PairPart:
    locations = [Pair(source="", target="", path=f"{name}.csv", line=number + 2) for number in range(count)]
    return PairPart(
        name=name,
        train=encoded(count, seed=seed),
        validation=validation or encoded(5, seed=seed + 1),
        pairs=locations,
    )


class Noisy(Part):
    """A task whose examples are drawn anew each time."""

    name = "noisy"

    def __init__(self, count: int) -> None:
        self.lengths = np.full(count, 9, np.int32)
        self.validation = encoded(4, seed=5)

    def pair(self, index: int, rng: np.random.Generator) -> tuple[SubwordIds, SubwordIds]:
        source, target = (np.append(rng.integers(2, SUBWORDS, 4), END).astype(np.int32) for _ in range(2))
        source[0] = index
        return source, target


def mixture(*parts: Part, mixing: MixingConfig | None = None) -> PairData:
    return PairData(objective=TextToText(), parts=parts, mixing=mixing or MixingConfig(), pad=PAD)


def rows_of(batch: PairBatch, targets: Tensor) -> list[tuple[list[int], list[int], list[int]]]:
    """Of each pair what the encoder reads, what the decoder reads and what is to be told, without padding."""
    out = []
    for source, mask, shifted, right in zip(batch.source, batch.source_mask, batch.target, targets, strict=True):
        reported = right >= 0
        assert torch.equal(reported, reported.sort(descending=True).values)  # padding is behind
        assert torch.equal(mask, mask.sort(descending=True).values)
        assert not shifted[~reported].any()
        out.append((source[mask].tolist(), shifted[reported].tolist(), right[reported].tolist()))
    return out


@pytest.mark.parametrize("batch_size", [1, 7, 16, 1000])
def test_an_epoch_of_one_task_is_an_order_of_its_pairs(batch_size: int) -> None:
    data = mixture(part("one", 100))
    epochs = [data.epoch(number, batch_size, seed=3) for number in range(3)]
    for batches in epochs:
        assert sorted(np.concatenate(batches).tolist()) == list(range(100))
        assert len(batches) == math.ceil(len(data) / batch_size)
    if batch_size < 100:
        orders = {tuple(np.concatenate(batches).tolist()) for batches in epochs}
        orders.add(tuple(np.concatenate(data.epoch(0, batch_size, seed=4)).tolist()))
        assert len(orders) == 4
    again = data.epoch(2, batch_size, seed=3)
    assert all(np.array_equal(one, other) for one, other in zip(epochs[2], again, strict=True))


def test_batches_are_of_like_length() -> None:
    made = part("one", 400)
    lengths = made.lengths
    assert lengths.tolist() == [len(source) + len(target) for source, target in made.train]
    batches = mixture(made).epoch(0, 20, seed=0)
    spread = np.mean([np.ptp(lengths[batch]) for batch in batches])
    assert spread < np.ptp(lengths) / 5


def test_rates_are_kept_over_epochs_and_every_pair_has_its_turn() -> None:
    mixing = MixingConfig(temperature=2, limit=64)
    parts = part("small", 9), Noisy(300), part("middle", 36)
    data = mixture(*parts, mixing=mixing)
    # Roots of 9, 64 and 36: 3, 8 and 6 of 17, times 345 pairs.
    counts = draws(mixing, {"small": 9, "noisy": 300, "middle": 36})
    assert counts == [61, 162, 122]
    assert len(data) == 345
    edges = np.array([0, 9, 309, 345])
    times = np.zeros(345, int)
    for epoch in range(7):
        drawn = np.concatenate(data.epoch(epoch, 16, seed=0))
        assert len(drawn) == len(data)
        assert np.histogram(drawn, edges)[0].tolist() == counts
        times += np.bincount(drawn, minlength=345)
    for first, last, count in zip(edges[:-1], edges[1:], counts, strict=True):
        own = times[first:last]
        assert own.sum() == 7 * count
        assert np.ptp(own) <= 1


def test_tasks_of_one_size_are_drawn_in_orders_of_their_own() -> None:
    mixing = MixingConfig(weights={"one": 1, "two": 1, "noisy": 10})
    data = mixture(part("one", 30), part("two", 30), Noisy(60), mixing=mixing)
    drawn = np.concatenate(data.epoch(0, 16, seed=0))
    one, two = (set((drawn[(drawn >= first) & (drawn < first + 30)] - first).tolist()) for first in (0, 30))
    assert len(one) == len(two) == 10
    assert one != two


def test_a_batch_is_of_the_pairs_that_it_names() -> None:
    one, two = part("one", 20), part("two", 10, seed=7)
    indices = np.array([3, 25, 19, 20, 0, 29])
    batch, targets, weights = mixture(one, two).batch(indices, np.array([1, 4, 5, 2, 3]), seed=0, step=0)
    assert weights is None
    expected = [two.train[5], one.train[0], two.train[9], one.train[19], two.train[0]]
    for (source, shifted, right), pair in zip(rows_of(batch, targets), expected, strict=True):
        assert source == pair[0].tolist()
        assert right == pair[1].tolist()
        assert shifted == [PAD, *right[:-1]]
    assert batch.num_tokens == sum(len(source) + len(target) for source, target in expected)


@pytest.mark.parametrize("world", [2, 3, 5])
def test_a_batch_is_the_same_however_it_is_split(world: int) -> None:
    data = mixture(part("one", 40), Noisy(40))
    indices = data.epoch(0, 16, seed=2)[1]
    whole = rows_of(*data.batch(indices, np.arange(16), seed=2, step=5)[:2])
    for rank in range(world):
        mine = shard(np.arange(16), rank, world)
        assert rows_of(*data.batch(indices, mine, seed=2, step=5)[:2]) == [whole[location] for location in mine]
    assert {index for index in indices if index >= 40}, "some are drawn anew"
    assert rows_of(*data.batch(indices, np.arange(16), seed=2, step=6)[:2]) != whole
    assert rows_of(*data.batch(indices, np.arange(16), seed=3, step=5)[:2]) != whole


def test_one_example_twice_in_a_batch_is_drawn_twice() -> None:
    data = mixture(Noisy(3))
    one, other = rows_of(*data.batch(np.array([2, 2]), np.arange(2), seed=0, step=0)[:2])
    assert one[2] != other[2]


def test_where_a_pair_stands() -> None:
    data = mixture(part("one", 20), Noisy(5), part("two", 10))
    assert data.where(0) == ("one.csv", 2)
    assert data.where(19) == ("one.csv", 21)
    assert data.where(22) is None
    assert data.where(25) == ("two.csv", 2)
    assert data.where(34) == ("two.csv", 11)
    with pytest.raises(IndexError):
        data.where(35)


# What a fake model tells depends on the sum of the source, and the subword and the place that the decoder is at.
TABLE = torch.randn(5, 9, SUBWORDS, SUBWORDS, generator=torch.Generator().manual_seed(0)).double()


def fake(batch: PairBatch) -> Tensor:
    kinds = (batch.source * batch.source_mask).sum(1) % 5
    locations = torch.arange(batch.target.shape[1]) % 9
    return TABLE[kinds[:, None], locations, batch.target]


def reported(source: SubwordIds, right: Sequence[int]) -> list[Tensor]:
    """The logits of each place, one after another."""
    before = [PAD, *right[:-1]]
    return [TABLE[int(source.sum()) % 5, location % 9, subword] for location, subword in enumerate(before)]


def easy(pairs: Encoded, every: int) -> Encoded:
    """Pairs of which some have the targets that the fake model tells."""
    out = []
    for number, (source, target) in enumerate(pairs):
        if number % every == 0:
            subwords: list[int] = []
            for _ in target:
                subwords.append(int(reported(source, [*subwords, 0])[-1].argmax()))
            target = np.array(subwords, np.int32)
        out.append((source, target))
    return out


def loops(pairs: Encoded) -> dict[str, float]:
    """Sums over pairs and subwords."""
    loss, subwords, hits, exact = 0.0, 0, 0, 0
    for source, target in pairs:
        right = target.tolist()
        answers = reported(source, right)
        for logits, subword in zip(answers, right, strict=True):
            loss -= math.log(math.exp(logits[subword]) / sum(math.exp(value) for value in logits.tolist()))
            subwords += 1
            hits += int(logits.argmax()) == subword
        exact += all(int(logits.argmax()) == subword for logits, subword in zip(answers, right, strict=True))
    return {"loss": loss, "subwords": subwords, "hits": hits, "exact": exact, "pairs": len(pairs)}


@pytest.mark.parametrize("logits_at_once", [1, 700, 1 << 26])
def test_metrics_are_those_of_loops(monkeypatch: pytest.MonkeyPatch, logits_at_once: int) -> None:
    monkeypatch.setattr(pairs_module, "_VALIDATION_LOGITS", logits_at_once)
    pairs = easy(encoded(150, longest=12), 3)
    scores = evaluate_pairs(pairs, fake, pad=PAD)
    expected = loops(pairs)
    assert 50 <= expected["exact"] < 150
    assert expected["hits"] < expected["subwords"]
    found = {**vars(scores), "exact": len(scores.exact)}
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-6)
    assert scores.exact_match == expected["exact"] / 150
    numbers = scores.numbers()
    assert numbers["perplexity"] == pytest.approx(math.exp(expected["loss"] / expected["subwords"]), rel=1e-6)
    assert numbers["accuracy"] == expected["hits"] / expected["subwords"]
    assert numbers["exact_match"] == scores.exact_match


def test_smoothing_is_of_training_and_not_of_metrics() -> None:
    logits, targets = torch.randn(2, 3, 5), torch.tensor([[4, 2, 0], [1, NO_TARGET, NO_TARGET]])
    objective = TextToText("exact_match", LossConfig(label_smoothing=0.3))
    total = 0.0
    for row, right in zip(logits.flatten(0, 1), targets.flatten().tolist(), strict=True):
        if right != NO_TARGET:
            wanted = [0.3 / 5 + 0.7 * (subword == right) for subword in range(5)]
            total -= sum(fraction * float(row.log_softmax(0)[subword]) for subword, fraction in enumerate(wanted))
    loss, count = objective.loss(logits, targets, None)
    assert float(loss) == pytest.approx(total, rel=1e-5)
    assert count == 4
    one = part("one", 20)
    data = PairData(objective=objective, parts=[one], mixing=MixingConfig(), pad=PAD)
    sums = loops(one.validation)
    assert data.evaluate(SimpleNamespace(forward=fake))[1] == pytest.approx(sums["loss"] / sums["subwords"], rel=1e-6)


def test_metrics_of_a_mixture_are_of_all_and_of_each() -> None:
    devs = easy(encoded(30), 2), easy(encoded(8, seed=3), 4)
    noisy = Noisy(10)
    data = mixture(part("one", 20, validation=devs[0]), noisy, part("two", 20, validation=devs[1]))
    values, loss = data.evaluate(SimpleNamespace(forward=fake))
    each = {
        name: loops(validation)
        for name, validation in (("one", devs[0]), ("noisy", noisy.validation), ("two", devs[1]))
    }
    sums = {key: sum(item[key] for item in each.values()) for key in ("loss", "subwords", "hits")}
    assert loss == pytest.approx(sums["loss"] / sums["subwords"], rel=1e-6)
    assert values["perplexity"] == pytest.approx(math.exp(loss), rel=1e-6)
    assert values["accuracy"] == sums["hits"] / sums["subwords"]
    # What is not of pairs has no answers that are right or wrong as a whole.
    matches = [each[name]["exact"] / each[name]["pairs"] for name in ("one", "two")]
    assert values["exact_match"] == pytest.approx(sum(matches) / 2)
    assert matches[0] != matches[1]
    for name, item in each.items():
        assert values[f"{name}_exact_match"] == item["exact"] / item["pairs"]
        assert values[f"{name}_accuracy"] == item["hits"] / item["subwords"]
        assert values[f"{name}_perplexity"] == pytest.approx(math.exp(item["loss"] / item["subwords"]), rel=1e-6)
    assert set(mixture(part("one", 20)).evaluate(SimpleNamespace(forward=fake))[0]) == {
        "exact_match",
        "perplexity",
        "accuracy",
    }
    alone = mixture(noisy).evaluate(SimpleNamespace(forward=fake))[0]
    assert alone["perplexity"] == values["noisy_perplexity"]


def test_an_answer_that_is_not_finite_is_reported() -> None:
    with pytest.raises(TrainingError, match="an output on validation data is not finite"):
        mixture(part("one", 20)).evaluate(SimpleNamespace(forward=lambda batch: fake(batch) * math.nan))


def small(family: str, seed: int) -> EncoderDecoder:
    """A model with weights of some size everywhere, some of whose answers end."""
    shape = Shape(
        dim=8, ffn_dim=10, num_heads=2, head_dim=3, num_layers=2, num_decoder_layers=2,
        max_source_len=12, max_target_len=12,
    )  # fmt: skip
    config = t5(shape) if family == "t5" else mixer(shape, window=None)
    model = build_encoder_decoder(config, vocab_size=SUBWORDS).double().eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)
        model.output.weight[END] *= 3
    return model


@pytest.mark.slow
@pytest.mark.parametrize("family", ["t5", "mixer"])
def test_exact_match_without_a_search_is_that_of_greedy_search(family: str) -> None:
    """Half of the targets are what the model writes; of the others some differ in their last subwords only."""
    found = set()
    for seed in range(4):
        model, rng = small(family, seed), np.random.default_rng(seed)
        sources = [source for source, _ in encoded(40, seed=seed)]
        written = []
        for source in sources:  # each by itself, without padding
            ids = torch.from_numpy(source).long()[None]
            config = GenerationConfig(max_len=12)
            (answer,) = generate(model, ids, torch.ones_like(ids, dtype=torch.bool), config, start=PAD, stop=END)
            written.append([*answer.subwords, *([END] if answer.stopped else [])])
        pairs, matches = [], []
        for number, (source, subwords) in enumerate(zip(sources, written, strict=True)):
            target = list(subwords)
            if number % 2:
                location = len(target) - 1 if number % 4 == 1 else int(rng.integers(len(target)))
                target[location] = int(rng.integers(SUBWORDS))
            matches += [number] * (target == subwords)
            pairs.append((source, np.array(target, np.int32)))

        def forward(batch: PairBatch, model: EncoderDecoder = model) -> Tensor:
            return model(*tensors_of(batch.arguments))

        scores = evaluate_pairs(pairs, forward, pad=PAD)
        assert sorted(scores.exact) == matches
        assert 20 <= len(matches) < 40
        found |= {len(subwords) for subwords in written}
    assert len(found) > 2, "answers of several lengths"
