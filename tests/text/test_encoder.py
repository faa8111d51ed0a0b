"""Texts -> rows of the word table: the table, special rows, truncation, offsets."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixling import ConfigError, DataError, TextConfig, TextEncoder, Vocabulary
from mixling.config import parse
from mixling.text import (
    SEPARATOR,
    AveragedEmbedding,
    Binary,
    MinHash,
    Projector,
    SimHash,
    SubwordEmbedding,
    Ternary,
    Text,
    Tsp,
    train_vocabulary,
)
from mixling.text.table import EMPTY, PADDING

VOCABULARY = Vocabulary.train(["the", "cat", "sat", "on", "the", "mat", "and", "a", "dog", "sat", "there"])
FIRST_ROW = 3
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=30)
PROJECTIONS = [
    MinHash(num_hashes=4),
    Binary(num_hashes=4),
    SimHash(num_features=32),
    Tsp(num_features=32),
    Ternary(num_features=32, num_hashes=6),
    AveragedEmbedding(num_features=len(VOCABULARY), embedding_dim=2),
    SubwordEmbedding(num_features=len(VOCABULARY)),
]


def encoder(max_table: int = 1 << 19, **values: object) -> TextEncoder:
    return TextEncoder(TextConfig(**{"projection": MinHash(num_hashes=4), **values}), VOCABULARY, max_table=max_table)


def rows(made: TextEncoder, text: Text) -> list[int]:
    return made.encode([text])[0].words.tolist()


def bag(made: TextEncoder, row: int) -> list[tuple[int, float]]:
    """Position and weight of all that the bag of a row holds."""
    bags = made.bags(np.array([row]))
    weights = np.ones(bags.features.shape[1]) if bags.weights is None else bags.weights[0]
    return [(int(p), float(w)) for p, w in zip(bags.features[0], weights, strict=True) if w != 0]


def test_equal_words_share_a_row_and_new_words_take_the_next() -> None:
    made = encoder()
    assert (PADDING, SEPARATOR, EMPTY, len(made)) == (0, 1, 2, FIRST_ROW)
    first, second = made.encode(["the cat the", "cat dog"])
    assert first.words.tolist() == [3, 4, 3]
    assert second.words.tolist() == [4, 5]
    assert first.words.dtype == np.int32
    assert rows(made, "dog bird the") == [5, 6, 3]
    assert len(made) == 7
    assert not first.truncated
    assert first.offsets is None


@pytest.mark.parametrize("projection", PROJECTIONS, ids=lambda projection: projection.type)
def test_the_bag_of_a_row_is_the_projection_of_its_word(projection: MinHash) -> None:
    made = encoder(projection=projection)
    words = ["the", "Cats", "unheard-of", "京", "sat", "x" * 150]
    for word in words:  # one at a time, so that the table grows in rows and in width
        made.encode([[word]])
    for row, word in enumerate(words, FIRST_ROW):
        normal = word.lower()[:100]
        bags = Projector(projection, VOCABULARY).bags([normal], VOCABULARY.subwords([normal]))
        weights = np.ones(bags.features.shape[1]) if bags.weights is None else bags.weights[0]
        alone = [(int(p), float(w)) for p, w in zip(bags.features[0], weights, strict=True) if w != 0]
        assert bag(made, row) == alone, word


def test_special_rows_have_bags_of_their_own() -> None:
    made = encoder()
    assert bag(made, SEPARATOR) != bag(made, EMPTY)


def test_positions_above_sixteen_bits_are_kept() -> None:
    made = encoder(projection=MinHash(num_features=2**24, num_hashes=64))
    made.encode(["cat"])
    assert made.bags(np.array([FIRST_ROW])).features.max() > 2**16
    assert made.bags(np.array([FIRST_ROW])).features.dtype == np.int32


def test_upper_and_lower_case_have_one_bag_or_two() -> None:
    folding, exact = encoder(), encoder(lowercase=False)
    for made in (folding, exact):
        made.encode(["Cat cat"])
    assert bag(folding, 3) == bag(folding, 4)
    assert bag(exact, 3) != bag(exact, 4)


def test_composed_and_decomposed_accents_have_one_bag() -> None:
    made = encoder()
    made.encode(["café cafe\u0301"])
    assert bag(made, 3) == bag(made, 4)


@pytest.mark.parametrize("empty", ["", "  \n", "\x00\ufeff", []])
def test_a_text_without_words_has_the_empty_row(empty: Text) -> None:
    made = encoder()
    assert rows(made, empty) == [EMPTY]
    assert not made.encode([empty], offsets=True)[0].truncated


def test_user_words_cannot_reach_the_special_rows_through_raw_text() -> None:
    made = encoder()
    assert min(rows(made, "[PAD] [SEP] [EMPTY]")) >= FIRST_ROW
    assert min(rows(made, ("[SEP]", "[SEP]"))[:3]) >= FIRST_ROW


@pytest.mark.parametrize(("count", "truncated"), [(4, False), (5, False), (6, True), (10_000, True)])
def test_words_beyond_the_limit_are_left_out(count: int, truncated: bool) -> None:
    made = encoder(max_len=5)
    text = " ".join(f"w{i}" for i in range(count))
    for offsets in (False, True):
        for item in (text, text.split()):
            got = made.encode([item], offsets=offsets)[0]
            assert len(got.words) == min(count, 5)
            assert got.truncated == truncated


def test_a_word_beyond_its_limit_is_cut_and_the_answer_states_so() -> None:
    made = encoder(max_word_chars=4)
    for text in ("cats abcd abcde", ["cats", "abcd", "abcde"]):
        got = made.encode([text])[0]
        assert got.truncated
        assert bag(made, got.words[1]) == bag(made, got.words[2])
    assert not made.encode(["cats abcd"])[0].truncated


def test_a_huge_text_is_cut_before_work_is_done() -> None:
    made = encoder()
    got = made.encode(["ab " * 4_000_000, "x" * 10_000_000, " " * 10_000_000 + "x"], offsets=True)
    assert [item.truncated for item in got] == [True, True, True]
    assert [len(item.words) for item in got] == [64, 1, 1]
    assert got[2].words.tolist() == [EMPTY]
    assert made.config.max_chars == 64 * 101


def test_offsets_are_positions_in_the_users_text() -> None:
    text = "\ufeffDon’t\x00stop 京都\ud800 now"
    got = encoder().encode([text], offsets=True)[0]
    assert got.offsets is not None
    assert [text[start:end] for start, end in got.offsets] == ["Don", "’", "t", "stop", "京", "都", "\ud800", "now"]
    assert len(got.offsets) == len(got.words)


def test_offsets_of_a_list_are_positions_in_its_words_joined_by_spaces() -> None:
    tokens = ["New York", "", "x" * 900, "a\x00", "end"]
    got = encoder(max_len=5, max_word_chars=10).encode([tokens], offsets=True)[0]  # 900 characters: more than are read
    assert got.offsets is not None
    assert [" ".join(tokens)[start:end] for start, end in got.offsets] == tokens


@given(ANY_TEXT, st.integers(1, 6))
def test_words_are_the_same_with_and_without_offsets(text: str, max_len: int) -> None:
    made = encoder(max_len=max_len, max_word_chars=3)
    plain, placed = made.encode([text])[0], made.encode([text], offsets=True)[0]
    assert plain.words.tolist() == placed.words.tolist()
    assert plain.truncated == placed.truncated
    assert placed.offsets is not None
    assert len(placed.offsets) == len(placed.words) or placed.words.tolist() == [EMPTY]
    assert len(plain.words) <= max_len


def test_a_list_is_one_row_per_item_whatever_the_item() -> None:
    made = encoder()
    assert rows(made, ["New York", "", "a b c"]) == [3, 4, 5]
    assert rows(made, "New York") == [6, 7]


def longest_first(first: list[str], second: list[str], space: int) -> tuple[list[str], list[str]]:
    """The common definition: while both are too long together, the longer one loses its last word."""
    first, second = list(first), list(second)
    while len(first) + len(second) > space:
        (second if len(second) > len(first) else first).pop()
    return first, second


def test_pairs_lose_words_of_the_longer_text_first() -> None:
    for max_len in range(1, 9):
        made = encoder(max_len=max_len)
        for a, b in itertools.product(range(7), range(7)):
            first, second = [f"a{i}" for i in range(a)], [f"b{i}" for i in range(b)]
            got = made.encode([(" ".join(first), " ".join(second))])[0]
            names = {made.encode([word])[0].words[0]: word for word in first + second}
            kept = ["[SEP]" if row == SEPARATOR else names[row] for row in got.words.tolist()]
            at = kept.index("[SEP]")
            short_a, short_b = longest_first(first, second, max_len - 1)
            assert {len(kept[:at]), len(kept[at + 1 :])} == {len(short_a), len(short_b)}
            assert kept[:at] == first[:at]
            assert kept[at + 1 :] == second[: len(kept) - at - 1]
            assert len(kept) == min(max_len, a + b + 1)
            assert got.truncated == (a + b + 1 > max_len)


def test_a_full_table_begins_anew_between_calls() -> None:
    made = encoder(max_table=10)
    texts = [f"w{i}" for i in range(20)]
    first = made.encode(texts)
    assert made.generation == 0  # the rows of one call are of one table
    bags = [bag(made, item.words[0]) for item in first]
    assert made.encode(["w7 w3"])[0].words.tolist() == [3, 4]
    assert (made.generation, len(made)) == (1, 5)
    assert [bag(made, 3), bag(made, 4)] == [bags[7], bags[3]]


def test_memory_of_subwords_is_bounded_by_the_table() -> None:
    made = encoder(max_table=100)
    for i in range(20):
        made.encode([" ".join(f"жук{i}и{j}" for j in range(60))])  # each its own subword: no letter of them is known
    assert len(made._projector._known) < 300


def test_the_digest_reports_encoders_that_give_words_other_bags() -> None:
    base = encoder()
    made = [
        base,
        encoder(lowercase=False),
        encoder(max_word_chars=7),
        encoder(projection=MinHash(num_hashes=5)),
        encoder(projection=MinHash(num_hashes=4, seed=1)),
        encoder(projection=Binary(num_hashes=4)),
        TextEncoder(base.config, Vocabulary.train(["other", "words"])),
    ]
    assert len({item.digest for item in made}) == len(made)
    base.encode(["words that were met do not count"])
    assert encoder(max_len=7, vocabulary="elsewhere").digest == base.digest


def test_training_words_are_the_words_that_are_encoded() -> None:
    config = TextConfig(max_word_chars=4, max_len=3)
    made = TextEncoder(config, VOCABULARY)
    assert made.normal_words(["Cats café\x00Elephants", "CATS cow"]) == ["cats", "café", "elep", "cow"]
    trained = train_vocabulary(["Aa bb", ("Cc", "dd"), ["ee ff", "aa"], "\x00"], config)
    assert trained.subwords(["aa", "dd", "ff"]) == [["aa"], ["dd"], ["ff"]]


@pytest.mark.parametrize("texts", [[], ["", " \n"], [[]], [("", "\x00")]])
def test_text_without_a_word_trains_no_vocabulary(texts: list[Text]) -> None:
    with pytest.raises(DataError, match="have no words"):
        train_vocabulary(texts, TextConfig())


def test_the_size_of_the_vocabulary_is_taken_from_the_configuration() -> None:
    words = " ".join("".join("abcdefghij"[int(d)] for d in str(i * 7919)) for i in range(500))
    config = TextConfig(vocabulary_size=150, max_len=1000)
    assert len(train_vocabulary([words], config)) == 150


def test_another_version_of_the_hashes_is_refused() -> None:
    with pytest.raises(ConfigError, match="hash_version: got 2"):
        parse(TextConfig, {"hash_version": 2}, where="x")


# Tokens that are subwords, and segments.


def test_the_vocabulary_is_of_the_kind_that_the_configuration_names() -> None:
    config = TextConfig(vocabulary_kind="unigram", vocabulary_size=100)
    vocabulary = train_vocabulary(["aa bb"] * 9, config, specials=("[MASK]",))
    assert vocabulary.subword_id("[MASK]") == 1
    assert vocabulary.subwords(["aa"]) == [["▁aa"]]
    with pytest.raises(DataError, match="have no words"):
        train_vocabulary(["  "], config, specials=("[MASK]",))
    wordpiece = config.model_copy(update={"vocabulary_kind": "wordpiece"})
    assert (
        TextEncoder(config, vocabulary).digest == TextEncoder(wordpiece, vocabulary).digest
    )  # of the subwords themselves


SUBWORDS = Vocabulary.parse("vocab.txt", "[UNK]\n[SEP]\na\ncat\n##s\nsit\n##ting\n")


def subword_encoder(**values: object) -> TextEncoder:
    projection = SubwordEmbedding(num_features=len(SUBWORDS))
    return TextEncoder(TextConfig(**{"projection": projection, "tokens": "subwords", **values}), SUBWORDS)


def subword_ids(made: TextEncoder, words: np.ndarray) -> list[int]:
    """The ids of subwords that tokens stand for."""
    bags = [bag(made, int(row)) for row in words]
    assert all(len(items) == 1 and items[0][1] == 1.0 for items in bags)
    return [items[0][0] for items in bags]


@pytest.mark.parametrize("text", ["a cats sitting zebra cat", ["a", "cats", "sitting", "zebra", "cat"]])
def test_each_subword_is_a_token_and_starts_are_those_of_words(text: Text) -> None:
    made = subword_encoder()
    for _ in range(2):  # words that are new, and known ones
        found = made.encode([text], offsets=True)[0]
        assert subword_ids(made, found.words) == [2, 3, 4, 5, 6, 0, 3]
        assert found.starts is not None
        assert found.starts.tolist() == [0, 1, 3, 5, 6]
        assert found.offsets == [(0, 1), (2, 6), (7, 14), (15, 20), (21, 24)]
        answers = np.arange(7)[:, None] * np.ones(3)
        assert found.of_words(answers)[:, 0].tolist() == [0, 1, 3, 5, 6]
        assert not found.truncated


@pytest.mark.parametrize(("max_len", "starts"), [(6, [0, 1, 3, 5]), (4, [0, 1, 3]), (3, [0, 1]), (1, [0])])
def test_subwords_beyond_the_length_are_cut_and_words_without_a_first_subword_left_out(
    max_len: int, starts: list
) -> None:
    found = subword_encoder(max_len=max_len).encode(["a cats sitting zebra cat"], offsets=True)[0]
    assert len(found.words) == max_len
    assert found.starts is not None
    assert found.starts.tolist() == starts
    assert found.offsets is not None
    assert len(found.offsets) == len(starts)
    assert found.truncated


def test_a_text_without_words_has_one_token_of_subwords_too() -> None:
    found = subword_encoder().encode([""], offsets=True)[0]
    assert found.words.tolist() == [EMPTY]
    assert found.offsets == []


@pytest.mark.parametrize(
    ("max_len", "expected"), [(64, [3, 4, 1, 5, 6, 5, 6]), (5, [3, 4, 1, 5, 6]), (4, [3, 4, 1, 5])]
)
def test_a_pair_of_subwords_is_cut_by_subwords(max_len: int, expected: list[int]) -> None:
    made = subword_encoder(max_len=max_len)
    found = made.encode([("cats", "sitting sitting")])[0]
    assert subword_ids(made, found.words) == expected
    assert found.truncated == (max_len < 64)
    assert found.starts is None


def test_a_word_spelled_like_the_separator_does_not_make_a_pair() -> None:
    found = subword_encoder().encode([["cat", "[SEP]", "a"]], offsets=True)[0]
    assert found.starts is not None
    assert found.starts.tolist() == [0, 1, 2]


@pytest.mark.parametrize("tokens", ["words", "subwords"])
@pytest.mark.parametrize(
    "projection", [MinHash(num_features=100, num_hashes=4), SubwordEmbedding(num_features=len(SUBWORDS))]
)
def test_segments_add_one_of_two_rows_to_each_bag(tokens: str, projection: MinHash | SubwordEmbedding) -> None:
    plain = TextEncoder(TextConfig(projection=projection, tokens=tokens), SUBWORDS)
    made = TextEncoder(TextConfig(projection=projection, tokens=tokens, segments=True), SUBWORDS)
    m = projection.num_features
    assert m is not None
    assert made.config.num_rows == m + 2
    assert made.digest != plain.digest
    for text, segments in [("cat a", [0, 0]), (("cat a", "a cat"), [0, 0, 0, 1, 1])]:
        (with_segments,), (without,) = made.encode([text]), plain.encode([text])
        for row, bare, segment in zip(with_segments.words, without.words, segments, strict=True):
            assert sorted(bag(made, int(row))) == sorted([*bag(plain, int(bare)), (m + segment, 1.0)])


@pytest.mark.parametrize("tokens", ["words", "subwords"])
@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize(
    "projection", [MinHash(num_features=100, num_hashes=4), SubwordEmbedding(num_features=len(SUBWORDS))]
)
def test_overlap_marks_the_words_of_both_texts(
    tokens: str, projection: MinHash | SubwordEmbedding, segments: bool
) -> None:
    plain = TextEncoder(TextConfig(projection=projection, tokens=tokens), SUBWORDS)
    made = TextEncoder(TextConfig(projection=projection, tokens=tokens, overlap=True, segments=segments), SUBWORDS)
    m = projection.num_features
    assert m is not None
    first = m + 2 * segments
    assert made.config.num_rows == first + 2
    assert len({made.digest, plain.digest}) == 2
    pair = ("Cat a dog", "a cat")  # whatever their case
    for text, shared, seconds in [("cat a", [0, 0], [0, 0]), (pair, [1, 1, 0, 0, 1, 1], [0, 0, 0, 0, 1, 1])]:
        (found,), (without,) = made.encode([text]), plain.encode([text])
        words = found.words
        if tokens == "subwords":  # of a word with several subwords each has its marks
            assert len(words) == len(without.words)
            if len(words) != len(shared):
                continue
        for row, bare, both, second in zip(words, without.words, shared, seconds, strict=True):
            marks = [(first + both, 1.0)] + [(m + second, 1.0)] * segments
            assert sorted(bag(made, int(row))) == sorted([*bag(plain, int(bare)), *marks])
    beside = made.encode([("cat", "dog"), ("cat", "cat")])  # the same word with other marks is another row
    assert beside[0].words[0] != beside[1].words[0]


def test_the_vocabulary_resolves_the_size_of_a_table_of_subwords() -> None:
    config = TextConfig(projection=SubwordEmbedding())
    with pytest.raises(ConfigError, match="num_features is unknown until there is a vocabulary"):
        _ = config.num_rows
    assert config.for_vocabulary(SUBWORDS).num_rows == len(SUBWORDS)
    with pytest.raises(ConfigError, match="num_features is 5, but the vocabulary has 7 subwords"):
        TextConfig(projection=SubwordEmbedding(num_features=5)).for_vocabulary(SUBWORDS)
    assert TextConfig().for_vocabulary(SUBWORDS) == TextConfig()


@pytest.mark.slow
def test_long_words_of_many_hashes_take_little_memory_and_the_same_features() -> None:
    words = ["".join(chr(97 + i * j % 26) for j in range(1, 900)) for i in range(1, 8)]
    for projection in (MinHash(num_hashes=4096), SimHash(num_features=2**16)):
        config = TextConfig(projection=projection, max_word_chars=1000)
        vocabulary = Vocabulary.parse("vocab.txt", "[UNK]\n")
        together, alone = (TextEncoder(config, vocabulary) for _ in range(2))
        tracemalloc.start()
        entered = together.encode([words])[0].words
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 256 << 20
        for word, row in zip(words[:3], entered, strict=False):
            one, other = alone.bags(alone.encode([word])[0].words), together.bags(np.array([row]))
            width = one.features.shape[1]  # in the larger table bags are filled up
            np.testing.assert_array_equal(other.features[:, :width], one.features)
            assert not other.features[:, width:].any()


def test_texts_are_split_once_and_encoded_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    import mixling.text.encoder as module

    texts: list[Text] = ["what a film!", "naïve größe " * 20, "", ("what a film!", "a pair"), ["three", "words"]]
    config = TextConfig(max_len=8)
    vocabulary = train_vocabulary(["what a film", "naïve größe"], config)
    plain, keeping = TextEncoder(config, vocabulary), TextEncoder(config, vocabulary)
    keeping.keep_splits(12)
    split, calls = module.split_words, []
    monkeypatch.setattr(module, "split_words", lambda text, **options: calls.append(text) or split(text, **options))

    def reverse(words: Sequence[str]) -> list[str]:
        return list(words)[::-1]

    for changes in (None, [reverse] * len(texts), None):
        del calls[:]
        expected = plain.encode(texts, changes=changes)
        number = len(calls)
        for found, wanted in zip(keeping.encode(texts, changes=changes), expected, strict=True):
            np.testing.assert_array_equal(found.words, wanted.words)
            assert found.truncated == wanted.truncated
    assert number == 5
    assert calls[number:] == ["a pair"], "4 + 8 + 0 words are kept, there is no room for 2 more"
