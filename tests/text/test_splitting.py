"""Texts that several processes split are encoded in the order and to the bytes of one process."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mixling import TextConfig, TextEncoder, UserError, use_workers
from mixling.research.pretraining import CorpusConfig, WordReader, prepare
from mixling.text import (
    SubwordEmbedding,
    Text,
    VectorConfig,
    splitting,
    train_vectors,
    train_vocabulary,
)
from mixling.text.splitting import split_in_order


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


@pytest.fixture
def two_processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Split in two processes, however few the texts are; the numbers of processes that were started."""
    started: list[int] = []

    class Pool(ProcessPoolExecutor):
        def __init__(self, number: int, *options: Any) -> None:
            started.append(number)
            super().__init__(number, *options)

    monkeypatch.setattr(splitting, "_WORTH", 1)
    monkeypatch.setattr(splitting, "ProcessPoolExecutor", Pool)
    with use_workers(2):
        yield started


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a table that is emptied", "marked pairs"])
def test_processes_give_the_rows_of_one(name: str, two_processes: list[int]) -> None:
    one, other = encoder(name), encoder(name)
    items = CONFIGS[name][2]
    with use_workers(1):
        expected = [item for chunk in one.encode_stream(chunks(items)) for item in chunk]
    assert two_processes == []
    found = [item for chunk in other.encode_stream(chunks(items)) for item in chunk]
    assert two_processes == [2]
    assert all(map(equal, found, expected))
    assert other.table_words() == one.table_words()


@pytest.mark.slow
def test_prepared_text_and_vectors_have_the_bytes_of_one_process(tmp_path: Path, two_processes: list[int]) -> None:
    (tmp_path / "text.txt").write_text(
        "\n".join(text.replace("\ud800", "").replace("\0", "") for text in TEXTS), "utf-8"
    )
    corpus = CorpusConfig(files=(str(tmp_path / "text.txt"),), validation_fraction=0.1)
    config = VectorConfig(dim=8, max_tokens=9000)
    contents, vectors = [], []
    for number in (1, 2):
        with use_workers(number):
            folder = tmp_path / str(number)
            prepare(corpus, WordReader(encoder("words")), folder, lambda message: None)
            contents.append({path.name: path.read_bytes() for path in folder.iterdir()})
            vectors.append(train_vectors(TEXTS, config))
    assert two_processes == [2, 2]
    assert contents[0] == contents[1]
    assert "train.rows" in contents[0]
    assert vectors[0].words == vectors[1].words
    assert vectors[0].num_tokens == vectors[1].num_tokens < sum(len(text.split()) for text in TEXTS)
    np.testing.assert_array_equal(vectors[0].vectors, vectors[1].vectors)


def test_vectors_are_counted_up_to_the_document_that_reaches_the_limit() -> None:
    documents = ["a b c", "a b", "c d e f", "never read"]
    config = VectorConfig(dim=1, min_count=1, max_tokens=6)
    assert train_vectors(documents, config).num_tokens == 9
    assert set(train_vectors(documents, config).words) == set("abcdef")


@pytest.mark.slow
def test_a_process_that_dies_ends_the_run(two_processes: list[int]) -> None:
    with pytest.raises(UserError, match=r"a process that split texts died; .*OMP_NUM_THREADS=1"):
        list(split_in_order(partial(os._exit, 1), chunks(TEXTS)))


def test_few_texts_start_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitting, "ProcessPoolExecutor", None)
    with use_workers(8):
        assert len(list(encoder("words").encode_stream(chunks(TEXTS)))) == 10
