"""A stream of texts is encoded as one text after the other."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from mixling import TextConfig, TextEncoder
from mixling.text import (
    SubwordEmbedding,
    Text,
    VectorConfig,
    train_vectors,
    train_vocabulary,
)


def texts() -> list[str]:
    """Texts with new words up to the end, empty ones, long words, and what is cleaned."""
    chance = random.Random(0)
    words = [chance.choice(["play", "book", "it", "caf\u00e9", "W\u00d6RTER"]) + str(i) for i in range(3000)]
    out = [" ".join(chance.choices(words[: 300 + i], k=chance.randrange(12))) for i in range(2500)]
    out[7], out[99] = "", "x" * 500 + " it isn't\x00 \ud800 so"
    return out


TEXTS = texts()
CONFIGS: dict[str, tuple[TextConfig, dict[str, Any], list[Text]]] = {
    "words": (TextConfig(contractions=True, max_len=9), {}, list(TEXTS)),
    "a table that is emptied": (TextConfig(), {"max_table": 700}, list(TEXTS)),
    "a table that is full": (TextConfig(), {"max_table": 700, "keep": True}, list(TEXTS)),
    "marked pairs": (
        TextConfig(segments=True, overlap=True, max_len=12),
        {},
        list(pairwise(TEXTS)),
    ),
    "subwords": (
        TextConfig(projection=SubwordEmbedding(), tokens="subwords"),
        {},
        [*TEXTS[:999], *map(str.split, TEXTS)],
    ),
    "subwords of pairs": (
        TextConfig(projection=SubwordEmbedding(), tokens="subwords", segments=True, max_len=16),
        {},
        list(pairwise(TEXTS)),
    ),
}


def chunks(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (items[first : first + 256] for first in range(0, len(items), 256))


def encoder(name: str) -> TextEncoder:
    config, options, _ = CONFIGS[name]
    vocabulary = train_vocabulary(TEXTS, config)
    return TextEncoder(config.for_vocabulary(vocabulary), vocabulary, **options)


def equal(first: Any, second: Any) -> bool:
    starts = first.starts is second.starts is None or np.array_equal(first.starts, second.starts)
    same = (first.truncated, first.generation, first.words.dtype) == (
        second.truncated,
        second.generation,
        second.words.dtype,
    )
    return same and starts and np.array_equal(first.words, second.words)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_a_stream_is_encoded_as_its_chunks_are(name: str) -> None:
    one, other = encoder(name), encoder(name)
    items = CONFIGS[name][2]
    expected = [item for chunk in chunks(items) for item in one.encode(chunk)]
    found = [item for chunk in other.encode_stream(chunks(items)) for item in chunk]
    assert len(found) == len(items)
    assert all(map(equal, found, expected))
    assert other.table_words() == one.table_words()
    if "emptied" in name:
        assert found[-1].generation > 0


def test_vectors_are_counted_up_to_the_document_that_reaches_the_limit() -> None:
    documents = ["a b c", "a b", "c d e f", "never read"]
    config = VectorConfig(dim=1, min_count=1, max_tokens=6)
    assert train_vectors(documents, config).num_tokens == 9
    assert set(train_vectors(documents, config).words) == set("abcdef")
