"""Text as tokens on the disk: nothing lost, nothing twice, held-out documents apart."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from mixling import ConfigError, DataError, TextConfig, TextEncoder
from mixling.errors import StorageError
from mixling.research.pretraining import (
    CorpusConfig,
    Tokens,
    WordReader,
    is_prepared,
    open_prepared,
    prepare,
    sample_documents,
)
from mixling.text import FIRST, SEPARATOR, MinHash, SubwordEmbedding, split_words, train_vocabulary

DOCUMENTS = [f"document {n} has wordiness{n % 7} and unseenness" + " more" * (n % 5) for n in range(300)]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt.gz"
    path.write_bytes(gzip.compress("\n\n".join(DOCUMENTS).encode()))
    return path


def encoder(subwords: bool) -> TextEncoder:
    projection = SubwordEmbedding() if subwords else MinHash(num_features=64, num_hashes=4)
    text = TextConfig(
        projection=projection, tokens="subwords" if subwords else "words", max_len=10_000, vocabulary_size=100
    )
    vocabulary = train_vocabulary(DOCUMENTS, text, specials=("[SEP]", "[MASK]"))
    made = TextEncoder(text.for_vocabulary(vocabulary), vocabulary, max_table=1 << 20, keep=True)
    made.learn(["[MASK]"])
    return made


def reader(subwords: bool) -> WordReader:
    return WordReader(encoder(subwords))


def documents_of(tokens: Tokens, encoder: TextEncoder) -> list[list[str]]:
    """The documents as lists of words, put together from their tokens."""
    names = encoder.table_words()
    out: list[list[str]] = [[]]
    for row, starts in zip(tokens.rows.tolist(), tokens.starts.tolist(), strict=True):
        if row == SEPARATOR:
            out.append([])
        elif starts:
            out[-1].append(names[row - FIRST])
        else:
            out[-1][-1] += names[row - FIRST].removeprefix("##")
    assert out.pop() == []
    return out


@pytest.mark.parametrize("subwords", [True, False])
def test_every_document_is_there_once(corpus: Path, tmp_path: Path, subwords: bool) -> None:
    made = encoder(subwords)
    config = CorpusConfig(files=(str(corpus),), validation_fraction=0.2)
    outputs: list[str] = []
    prepared = prepare(config, WordReader(made), tmp_path / "out", outputs.append)
    train, validation = (documents_of(part, made) for part in (prepared.train, prepared.validation))
    assert len(train) + len(validation) == len(DOCUMENTS)
    assert 30 < len(validation) < 90
    expected = list(map(split_words, DOCUMENTS))
    assert sorted(train + validation) == sorted(expected)
    assert train == [words for words in expected if words in train], "in their order"
    assert outputs[-1].startswith(f"{len(train)} documents, {len(prepared.train.rows):,} tokens")

    again = encoder(subwords)
    opened = open_prepared(tmp_path / "out", WordReader(again))
    assert is_prepared(tmp_path / "out")
    assert again.table_words() == made.table_words()
    assert np.array_equal(opened.train.rows, prepared.train.rows)
    assert opened.digest == prepared.digest
    rows = np.arange(len(made))
    assert np.array_equal(again.bags(rows).features, made.bags(rows).features)


def test_the_same_text_in_other_files_is_held_out_alike(corpus: Path, tmp_path: Path) -> None:
    parts = [tmp_path / "b.txt", tmp_path / "a.txt"]
    parts[0].write_text("\n".join(DOCUMENTS[:100]))
    parts[1].write_text("\n".join(DOCUMENTS[100:]))
    made = [
        prepare(CorpusConfig(files=files, validation_fraction=0.2), reader(True), tmp_path / name, print)
        for name, files in (("one", (str(corpus),)), ("two", tuple(map(str, parts))))
    ]
    assert made[0].digest == made[1].digest
    other = prepare(
        CorpusConfig(files=(str(parts[0]),), validation=(str(parts[1]),)), reader(True), tmp_path / "three", print
    )
    assert np.count_nonzero(other.validation.rows == SEPARATOR) == 200
    assert np.count_nonzero(other.train.rows == SEPARATOR) == 100


def test_a_full_table_reads_new_words_as_none() -> None:
    text = TextConfig(projection=MinHash(num_features=64, num_hashes=4), max_len=100, vocabulary_size=100)
    small = TextEncoder(text, train_vocabulary(DOCUMENTS, text), max_table=10, keep=True)
    first = small.encode(["one two three four five six seven eight"])[0].words
    after = small.encode(["one nine two"])[0].words
    assert after.tolist() == [first[0], 2, first[1]]
    assert small.generation == 0


def test_blocks_are_the_text_in_order() -> None:
    tokens = Tokens(np.arange(10, dtype=np.uint32), np.ones(10, bool))
    assert [tokens.block(i, 4)[0].tolist() for i in range(tokens.blocks(4))] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert tokens.blocks(20) == 1
    assert len(tokens.block(0, 20)[0]) == 10


def test_a_sample_is_of_all_documents_whatever_their_order(tmp_path: Path) -> None:
    lines = [f"{n} " + "x" * 100 for n in range(2000)]
    chosen = []
    for name, order in (("a", lines), ("b", lines[::-1])):
        (tmp_path / f"{name}.txt").write_text("\n".join(order))
        chosen.append(sorted(sample_documents(CorpusConfig(files=(str(tmp_path / f"{name}.txt"),)), limit=20_000)))
    assert chosen[0] == chosen[1]
    numbers = [int(line.split()[0]) for line in chosen[0]]
    assert 50 < len(numbers) < 200
    assert 800 < np.mean(numbers) < 1200


def test_what_cannot_be_used_is_reported(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("a single line\n")
    with pytest.raises(DataError, match="no document is held out of 1"):
        prepare(CorpusConfig(files=(str(tmp_path / "one.txt"),)), reader(True), tmp_path / "out", print)
    assert not is_prepared(tmp_path / "out")
    (tmp_path / "empty.txt").write_text("\n\n")
    with pytest.raises(DataError, match=r"empty\.txt: contains no text"):
        prepare(CorpusConfig(files=(str(tmp_path / "empty.txt"),)), reader(True), tmp_path / "out", print)
    (tmp_path / "binary.txt").write_bytes(bytes(range(256)))
    with pytest.raises(DataError, match=r"binary\.txt:\d+: "):
        prepare(CorpusConfig(files=(str(tmp_path / "binary.txt"),)), reader(True), tmp_path / "out", print)
    with pytest.raises(DataError, match="no such file"):
        prepare(CorpusConfig(files=(str(corpus), "gone.txt")), reader(True), tmp_path / "out", print)
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="could not be written"):
        prepare(CorpusConfig(files=(str(corpus),)), reader(True), tmp_path / "file" / "out", print)


def test_text_that_was_read_otherwise_or_is_damaged_is_refused(corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    prepare(CorpusConfig(files=(str(corpus),), validation_fraction=0.2), reader(True), folder, print)
    with pytest.raises(ConfigError, match=r"'tokens': 'subwords'.* this model needs .*'tokens': 'words'"):
        open_prepared(folder, reader(False))
    (folder / "train.rows").write_bytes((folder / "train.rows").read_bytes()[:-4])
    with pytest.raises(DataError, match="is damaged"):
        open_prepared(folder, reader(True))
