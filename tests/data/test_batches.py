"""Examples -> batches: nothing lost, nothing mixed up, nothing that depends on more than the arguments."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixling import Dataset, Example, TextConfig, TextEncoder, Vocabulary
from mixling.data import Batch, TextSet, collate, shard, training_batches
from mixling.data.batches import drop_words, length_batches, pad_targets
from mixling.text import Binary, MinHash, Projection, SimHash, Text

VOCABULARY = Vocabulary.train(["the", "cat", "sat", "on", "the", "mat", "and", "a", "dog", "sat", "there"])
TEXTS: list[Text] = ["the cat sat", "", ("a dog", "a cat"), ["New York", "the"], "the the dog and the cat and the mat"]
SINGLE = [text for text in TEXTS if not isinstance(text, tuple)]
LENGTHS = np.array([3, 9, 1, 4, 4, 2, 8, 1, 64, 5, 5, 7] * 40 + [2], np.int32)


def encoder(projection: Projection = MinHash(num_hashes=4), max_table: int = 1 << 19) -> TextEncoder:
    return TextEncoder(TextConfig(projection=projection), VOCABULARY, max_table=max_table)


def store(texts: list[Text]) -> Dataset:
    return Dataset.from_examples(Example(text, None, "x", line) for line, text in enumerate(texts, 1))


def token_bag(batch: Batch, i: int, j: int) -> Counter[int]:
    """What the token holds: position -> weight; nothing for padding."""
    found: Counter[int] = Counter()
    number = int(batch.index[i, j])
    if number:
        for location, position in enumerate(batch.features[number - 1].tolist()):
            weight = 1.0 if batch.weights is None else float(batch.weights[number - 1, location])
            if weight:
                found[position] += weight  # type: ignore[assignment]
    return found


@pytest.mark.parametrize("projection", [MinHash(num_hashes=4), Binary(num_hashes=4), SimHash(num_features=32)])
def test_a_batch_holds_each_texts_words_in_order(projection: Projection) -> None:
    made = encoder(projection)
    words = [item.words for item in made.encode(TEXTS)]
    batch = collate(words, made)
    lengths = [len(item) for item in words]
    assert batch.mask.tolist() == [[j < length for j in range(max(lengths))] for length in lengths]
    assert (batch.index[~batch.mask] == 0).all()
    assert len(batch.features) == len({int(row) for item in words for row in item})  # each distinct word once
    for i, item in enumerate(words):
        alone = collate([item], made)
        assert alone.mask.all()
        for j in range(len(item)):
            assert token_bag(batch, i, j) == token_bag(alone, 0, j) != Counter()


def test_a_dropped_word_is_a_zero_vector_that_keeps_its_position() -> None:
    made = encoder()
    (words,) = (item.words for item in made.encode(["the cat sat"]))
    batch = collate([np.where([False, True, False], 0, words).astype(np.int32), words[:1]], made)
    assert batch.mask.tolist() == [[True, True, True], [True, False, False]]
    assert (batch.index[0] == 0).tolist() == [False, True, False]
    assert len(batch.features) == 2
    whole = collate([words], made)
    assert token_bag(batch, 0, 2) == token_bag(whole, 0, 2)


def test_a_batch_whose_words_are_all_dropped() -> None:
    batch = collate([np.zeros(2, np.int32), np.zeros(1, np.int32)], encoder())
    assert batch.mask.tolist() == [[True, True], [True, False]]
    assert not batch.index.any()
    assert batch.features.shape[0] == 0


def test_words_are_numbered_as_they_come_and_not_as_they_were_met() -> None:
    fresh, used = encoder(), encoder()
    used.encode(["mat dog sat the"])
    batches = [collate([item.words for item in made.encode(TEXTS)], made) for made in (fresh, used)]
    assert np.array_equal(batches[0].index, batches[1].index)
    assert np.array_equal(batches[0].features, batches[1].features)
    seen = batches[0].index[batches[0].mask].tolist()
    assert list(dict.fromkeys(seen)) == list(range(1, len(set(seen)) + 1))


@given(st.integers(0, 400), st.integers(1, 70), st.integers(0, 2**32 - 1), st.integers(0, 5))
def test_an_epoch_has_each_example_once(count: int, size: int, seed: int, epoch: int) -> None:
    batches = training_batches(LENGTHS[:count], size, seed=seed, epoch=epoch)
    assert sorted(int(i) for batch in batches for i in batch) == list(range(count))
    assert len(batches) == -(-count // size)
    assert all(1 <= len(batch) <= size for batch in batches)
    assert sum(len(batch) < size for batch in batches) <= 1


def test_an_epoch_is_a_function_of_its_arguments() -> None:
    def order(seed: int, epoch: int) -> list[list[int]]:
        return [batch.tolist() for batch in training_batches(LENGTHS, 8, seed=seed, epoch=epoch)]

    np.random.seed(1)
    first = order(3, 1)
    np.random.seed(2)
    assert order(3, 1) == first
    assert order(3, 2) != first
    assert order(4, 1) != first


def test_batches_hold_texts_of_like_length_in_random_order() -> None:
    batches = training_batches(LENGTHS, 8, seed=0, epoch=0)
    tokens = sum(len(batch) * int(LENGTHS[batch].max()) for batch in batches)
    assert tokens < 1.15 * LENGTHS.sum()  # padding; without buckets it is several times as much
    means = [float(LENGTHS[batch].mean()) for batch in batches]
    assert means != sorted(means)


@given(st.integers(0, 100), st.integers(1, 20))
def test_evaluation_sees_each_example_once_by_length(count: int, size: int) -> None:
    batches = list(length_batches(LENGTHS[:count], size))
    order = [int(i) for batch in batches for i in batch]
    assert sorted(order) == list(range(count))
    assert LENGTHS[order].tolist() == sorted(LENGTHS[:count].tolist())
    assert all(len(batch) == size for batch in batches[:-1])


def test_words_are_dropped_at_the_rate_and_by_the_seed() -> None:
    texts = [np.arange(3, 1003, dtype=np.int32), np.arange(3, 5003, dtype=np.int32)]
    both = {"chosen": np.arange(2), "size": 2}
    dropped = drop_words(texts, 0.3, **both, seed=[1, 2, 3])
    for before, after in zip(texts, dropped, strict=True):
        assert after.dtype == np.int32
        assert np.all((after == 0) | (after == before))
        assert abs(np.mean(after == 0) - 0.3) < 5 * (0.21 / len(before)) ** 0.5
    again, other = (drop_words(texts, 0.3, **both, seed=[1, 2, last]) for last in (3, 4))
    assert all(np.array_equal(a, b) for a, b in zip(dropped, again, strict=True))
    assert not np.array_equal(dropped[0], other[0])
    assert not np.array_equal(dropped[0] == 0, dropped[1][:1000] == 0)
    assert all(np.array_equal(a, b) for a, b in zip(drop_words(texts, 0.0, **both, seed=[1]), texts, strict=True))
    assert texts[0][0] == 3  # the texts themselves stay
    first = drop_words(texts[:1], 0.3, chosen=np.array([0]), size=2, seed=[1, 2, 3])
    assert np.array_equal(first[0], dropped[0])
    second = drop_words(texts[1:], 0.3, chosen=np.array([1]), size=2, seed=[1, 2, 3])
    assert np.array_equal(second[0], dropped[1])  # whoever else works on the batch


def test_targets_are_padded_with_a_value_that_is_reported() -> None:
    rows = [np.array([1, 2, 3]), np.array([4]), np.array([], np.int64)]
    assert pad_targets(rows, 4, -100).tolist() == [[1, 2, 3, -100], [4, -100, -100, -100], [-100] * 4]


@pytest.mark.parametrize("world", [1, 2, 3, 7])
def test_processes_divide_a_batch_completely(world: int) -> None:
    parts = [shard(np.array([5, 8, 2, 9, 4]), rank, world).tolist() for rank in range(world)]
    assert sorted(i for part in parts for i in part) == [2, 4, 5, 8, 9]
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("pairs", [True, False])
def test_a_text_set_gives_what_the_encoder_gives_kept_or_not(pairs: bool, keep: bool) -> None:
    texts: list[Text] = [("a dog", "a cat"), ("", "the mat"), ("the", "the the")] if pairs else SINGLE
    expected = [item.words.tolist() for item in encoder().encode(texts)]
    made = TextSet(store(texts), encoder(), keep=keep)
    assert len(made) == len(texts)
    order = np.random.default_rng(0).permutation(len(texts))
    bags = collate(made.words(order), made.encoder)
    again = encoder()
    wanted = collate([item.words for item in again.encode([texts[i] for i in order])], again)
    assert np.array_equal(bags.index, wanted.index)
    assert np.array_equal(bags.features, wanted.features)
    assert made.lengths.tolist() == ([len(item) for item in expected] if keep else [64] * len(texts))


def test_offsets_can_be_asked_for() -> None:
    made = TextSet(store(SINGLE), encoder())
    assert made.encode([0], offsets=True)[0].offsets == [(0, 3), (4, 7), (8, 11)]


def test_kept_rows_are_not_used_once_the_encoder_began_a_new_table() -> None:
    shared = encoder(max_table=30)
    texts: list[Text] = [f"w{i} w{i + 1}" for i in range(10)]
    train = TextSet(store(texts), shared)
    TextSet(store([" ".join(f"v{i}" for i in range(40))]), shared)
    shared.encode(["one more"])
    assert shared.generation == 1
    indices = np.array([7, 2])
    found = collate(train.words(indices), shared)
    fresh = encoder()
    wanted = collate([item.words for item in fresh.encode([texts[7], texts[2]])], fresh)
    assert np.array_equal(found.features, wanted.features)
    assert np.array_equal(found.index, wanted.index)
    assert train.lengths.tolist() == [2] * 10  # lengths stay, and with them the order of an epoch


def test_a_table_too_small_for_its_own_texts_keeps_nothing() -> None:
    texts: list[Text] = [f"w{i}" for i in range(9000)]
    made = TextSet(store(texts), encoder(max_table=4000))
    assert made.lengths.tolist() == [64] * 9000
    found = collate(made.words(np.array([1])), made.encoder)
    fresh = encoder()
    assert np.array_equal(found.features, collate([fresh.encode(["w1"])[0].words], fresh).features)


@pytest.mark.parametrize(("batch_size", "max_tokens"), [(512, 1 << 14), (4, 100), (100, 60), (3, 5)])
def test_batches_for_evaluation_have_bounds(batch_size: int, max_tokens: int) -> None:
    lengths = np.random.default_rng(0).integers(1, 40, 200).astype(np.int32)
    batches = list(length_batches(lengths, batch_size, max_tokens=max_tokens))
    assert sorted(np.concatenate(batches).tolist()) == list(range(200))
    for batch, following in itertools.pairwise(batches):
        assert len(batch) <= batch_size
        assert len(batch) == 1 or len(batch) * lengths[batch].max() <= max_tokens
        assert lengths[batch].max() <= lengths[following].min()
        grown = len(batch) + 1  # no room was left
        assert grown > batch_size or grown * lengths[following[0]] > max_tokens
