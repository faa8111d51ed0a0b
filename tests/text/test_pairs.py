"""Pairs that are joined together are those that are joined one by one."""

from __future__ import annotations

import random

import numpy as np
import pytest

from mixling import TextConfig, TextEncoder
from mixling.text import SubwordEmbedding, train_vocabulary
from mixling.text.encoder import TextSplitter
from mixling.text.pairs import LoweredWords, join_pairs


def pairs(number: int) -> list[tuple[str, str]]:
    chance = random.Random(1)
    words = ["play", "Play", "BOOK", "book", "it's", "caf\u00e9", "CAF\u00c9", "\u03a3\u03a3", "\u03c3\u03c2", "x" * 30]

    def text() -> str:
        return " ".join(chance.choices(words, k=chance.randrange(12)))

    return [("", ""), ("", "play"), ("Play it", ""), *((text(), text()) for _ in range(number))]


@pytest.mark.parametrize("tokens", ["words", "subwords"])
@pytest.mark.parametrize("marks", [{}, {"segments": True}, {"overlap": True}, {"segments": True, "overlap": True}])
@pytest.mark.parametrize("max_len", [2, 3, 9, 64])
def test_together_they_are_what_each_is_alone(tokens: str, marks: dict[str, bool], max_len: int) -> None:
    projection = {"projection": SubwordEmbedding()} if tokens == "subwords" else {}
    config = TextConfig(tokens=tokens, max_len=max_len, max_word_chars=20, contractions=True, **projection, **marks)
    texts, splitter = pairs(200), TextSplitter(config)
    together = splitter(texts)
    parts = together.parts(together.index)
    for text, index, cut in zip(texts, parts, together.cut.tolist(), strict=True):
        words, _, was_cut = splitter._split(text, False)
        assert [together.words[i] for i in index] == list(words)
        assert cut == was_cut
    assert together.index.dtype == np.int32
    in_order = dict.fromkeys(word for text in texts for word in splitter._split(text, False)[0])
    assert together.words == list(in_order)


def test_many_are_encoded_as_few() -> None:
    texts = pairs(100)
    config = TextConfig(segments=True, overlap=True, max_len=9)
    vocabulary = train_vocabulary(texts, config)
    many, few = (TextEncoder(config, vocabulary) for _ in range(2))
    expected = [item for text in texts for item in few.encode([text])]
    for found, wanted in zip(many.encode(texts), expected, strict=True):
        assert found.words.tolist() == wanted.words.tolist()
        assert found.truncated == wanted.truncated
    assert many.table_words() == few.table_words()


def test_no_pairs() -> None:
    joined = join_pairs(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int64), TextConfig(overlap=True))
    assert [len(item) for item in (joined.index, joined.marks, joined.lengths, joined.shortened)] == [0, 0, 0, 0]


def test_words_in_lower_case_keep_their_numbers() -> None:
    lowered = LoweredWords()
    assert lowered.of(["Play", "it", "play"]).tolist() == [0, 1, 0]
    assert lowered.of(["IT", "caf\u00c9", "caf\u00e9"]).tolist() == [1, 2, 2]
