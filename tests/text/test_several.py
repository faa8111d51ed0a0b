"""Texts that belong together: joined at once as one by one, marked by their place, and shortened fairly."""

from __future__ import annotations

import random

import numpy as np
import pytest

from mixling import TextConfig, TextEncoder
from mixling.text import SubwordEmbedding, train_vocabulary
from mixling.text.encoder import TextSplitter
from mixling.text.several import LoweredWords, fit_texts, join_texts


def rows(number: int, together: int = 2) -> list[tuple[str, ...]]:
    chance = random.Random(1)
    words = ["play", "Play", "BOOK", "book", "it's", "caf\u00e9", "CAF\u00c9", "\u03a3\u03a3", "\u03c3\u03c2", "x" * 30]

    def text() -> str:
        return " ".join(chance.choices(words, k=chance.randrange(12)))

    edges = [("",) * together, ("", "play") * (together // 2) + ("",) * (together % 2)]
    return [*edges, *(tuple(text() for _ in range(together)) for _ in range(number))]


@pytest.mark.parametrize("tokens", ["words", "subwords"])
@pytest.mark.parametrize("marks", [{}, {"segments": 8}, {"overlap": True}, {"segments": 8, "overlap": True}])
@pytest.mark.parametrize(("max_len", "together"), [(2, 2), (3, 2), (9, 2), (64, 2), (9, 3), (64, 3), (8, 8)])
def test_together_they_are_what_each_is_alone(tokens: str, marks: dict[str, int], max_len: int, together: int) -> None:
    projection = {"projection": SubwordEmbedding()} if tokens == "subwords" else {}
    config = TextConfig(tokens=tokens, max_len=max_len, max_word_chars=20, contractions=True, **projection, **marks)
    texts, splitter = rows(200, together), TextSplitter(config)
    together = splitter(texts)
    parts = together.parts(together.index)
    for text, index, cut in zip(texts, parts, together.cut.tolist(), strict=True):
        words, _, was_cut = splitter._split(text, False)
        assert [together.words[i] for i in index] == list(words)
        assert cut == was_cut
    assert together.index.dtype == np.int32
    in_order = dict.fromkeys(word for text in texts for word in splitter._split(text, False)[0])
    assert together.words == list(in_order)


@pytest.mark.parametrize("together", [2, 3])
def test_many_are_encoded_as_few(together: int) -> None:
    texts = rows(100, together)
    config = TextConfig(segments=together, overlap=True, max_len=9)
    vocabulary = train_vocabulary(texts, config)
    many, few = (TextEncoder(config, vocabulary) for _ in range(2))
    expected = [item for text in texts for item in few.encode([text])]
    for found, wanted in zip(many.encode(texts), expected, strict=True):
        assert found.words.tolist() == wanted.words.tolist()
        assert found.truncated == wanted.truncated
    assert many.table_words() == few.table_words()


def test_no_pairs() -> None:
    none = np.zeros(0, np.int32)
    joined = join_texts(none, none, 2, np.zeros(0, np.int64), TextConfig(overlap=True))
    assert [len(item) for item in (joined.index, joined.marks, joined.lengths, joined.shortened)] == [0, 0, 0, 0]


def test_words_in_lower_case_keep_their_numbers() -> None:
    lowered = LoweredWords()
    assert lowered.of(["Play", "it", "play"]).tolist() == [0, 1, 0]
    assert lowered.of(["IT", "caf\u00c9", "caf\u00e9"]).tolist() == [1, 2, 2]


def test_a_pair_loses_words_at_the_end_of_the_longer_text() -> None:
    sizes = np.array([(a, b) for a in range(12) for b in range(12)])
    for max_len in range(1, 12):
        space = max_len - 1
        for (a, b), kept in zip(sizes.tolist(), fit_texts(sizes, max_len).tolist(), strict=True):
            last = min(b, max(space - a, space // 2))
            assert kept == [min(a, space - last), last]


@pytest.mark.parametrize("number", [1, 3, 5])
def test_the_longest_texts_are_shortened_to_the_same_length(number: int) -> None:
    sizes = np.random.default_rng(0).integers(0, 20, (200, number))
    for max_len in (number, 13, 40, 101):
        space = max_len - (number - 1)
        for wanted, kept in zip(sizes.tolist(), fit_texts(sizes, max_len).tolist(), strict=True):
            assert sum(kept) == min(sum(wanted), space)
            cut = [left for size, left in zip(wanted, kept, strict=True) if left < size]
            assert all(left >= max(kept) - 1 for left in cut)
            assert cut == sorted(cut, reverse=True)  # what is left over is for the first of them


def test_words_have_the_mark_of_their_text_and_whether_another_has_them() -> None:
    encoder = TextEncoder(TextConfig(segments=3, overlap=True), train_vocabulary(["a b c"], TextConfig()))
    marks = encoder.marked(["a", "b"], ["c"], ["B", "d"])
    assert marks == [["a", ("b", 2)], [("c", 1)], [("B", 4 | 2), ("d", 4)]]
    bags = encoder.bags(np.array(encoder.rows([word for text in marks for word in text])))
    first = encoder.config.num_rows - 5
    assert (bags.features[:, -2] - first).tolist() == [0, 0, 1, 2, 2]
    assert (bags.features[:, -1] - first - 3).tolist() == [0, 1, 0, 1, 0]
