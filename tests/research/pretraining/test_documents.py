"""Documents as numbers: rows of words and subwords, in memory and in the files of prepared text."""

from __future__ import annotations

import hashlib
import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from mixling import ConfigError, DataError, TextConfig, TextEncoder
from mixling.research.pretraining import (
    CorpusConfig,
    DocumentReader,
    Prepared,
    SubwordReader,
    Tokens,
    WordReader,
    encode_documents,
    open_prepared,
    prepare,
)
from mixling.text import SEPARATOR, SubwordEmbedding, SubwordTokenizer, train_vocabulary

DOCUMENTS = [f"Document  {n} has wordiness{n % 7}, and </s> unseenness" + " more" * (n % 5) for n in range(300)]
CODER = SubwordTokenizer.train(DOCUMENTS, size=100, sentinels=4)


def word_encoder(max_len: int = 1000) -> TextEncoder:
    text = TextConfig(projection=SubwordEmbedding(), tokens="subwords", max_len=max_len, vocabulary_size=100)
    vocabulary = train_vocabulary(DOCUMENTS, text, specials=("[SEP]",))
    return TextEncoder(text.for_vocabulary(vocabulary), vocabulary, keep=True)


def word_reader() -> WordReader:
    return WordReader(word_encoder())


def prepared(folder: Path, reader: DocumentReader) -> Prepared:
    path = folder / "text.txt"
    path.write_text("\n".join(DOCUMENTS))
    return prepare(CorpusConfig(files=(str(path),), validation_fraction=0.2), reader, folder / "out", print)


def texts_of(tokens: Tokens, coder: SubwordTokenizer) -> list[str]:
    ends = np.flatnonzero(tokens.rows == coder.eos_id)
    assert ends[-1] == len(tokens.rows) - 1
    return [coder.decode(part) for part in np.split(tokens.rows.tolist(), ends[:-1] + 1)]


def test_documents_come_back_from_subwords(tmp_path: Path) -> None:
    made = prepared(tmp_path, SubwordReader(CODER))
    train, validation = texts_of(made.train, CODER), texts_of(made.validation, CODER)
    normal = [CODER.normal(text) for text in DOCUMENTS]
    assert sorted(train + validation) == sorted(normal)
    assert train == [text for text in normal if text in train], "in their order"
    assert 30 < len(validation) < 90
    assert made.train.starts is None
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "corpus.json",
        "train.rows",
        "validation.rows",
    ]

    again = open_prepared(tmp_path / "out", SubwordReader(SubwordTokenizer.parse(*CODER.serialize())))
    assert np.array_equal(again.train.rows, made.train.rows)
    assert np.array_equal(again.validation.rows, made.validation.rows)
    assert again.digest == made.digest

    rows, starts = made.train.block(2, 7)
    assert rows.tolist() == made.train.rows[14:21].tolist()
    assert rows.dtype == np.int32
    assert starts.tolist() == [True] * 7


def test_the_same_documents_are_held_out_however_they_are_read(tmp_path: Path) -> None:
    for name in ("words", "tokenizer"):
        (tmp_path / name).mkdir()
    by_words = prepared(tmp_path / "words", word_reader())
    by_subwords = prepared(tmp_path / "tokenizer", SubwordReader(CODER))
    counts = [
        np.count_nonzero(by_words.validation.rows == SEPARATOR),
        np.count_nonzero(by_subwords.validation.rows == CODER.eos_id),
    ]
    assert counts[0] == counts[1]


def test_the_files_are_the_rows_and_starts_of_documents(tmp_path: Path) -> None:
    """The format, put together by hand from what the encoder gives."""
    prepared(tmp_path, word_reader())
    content = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    meta = json.loads(content["corpus.json"])
    assert list(meta) == ["format_version", "reading", "digest", "files", "words", "sha256"]
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in content.items() if name != "corpus.json"}
    assert meta["files"] == sums
    assert meta["reading"] == {"tokens": "subwords", "max_word_chars": 100, "lowercase": True, "contractions": False}
    encoder = word_encoder()
    encoder.learn(meta["words"])
    expected = []
    for encoded in encoder.encode(DOCUMENTS):
        assert encoded.starts is not None
        begins = [location in encoded.starts for location in range(len(encoded.words))]
        expected.append(([*encoded.words.tolist(), SEPARATOR], [*begins, True]))
    digest, found = b"", []
    for name in ("train", "validation"):
        documents = np.frombuffer(content[f"{name}.rows"], "<u4")
        starts = np.frombuffer(content[f"{name}.starts"], bool)
        ends = (np.flatnonzero(documents == SEPARATOR) + 1).tolist()
        hashed = hashlib.sha256()
        for first, last in itertools.pairwise([0, *ends]):
            hashed.update(documents[first:last].tobytes() + starts[first:last].tobytes())
            found.append((documents[first:last].tolist(), starts[first:last].tolist()))
        digest += hashed.digest()
        assert ends[-1] == len(documents) == len(starts)
    assert sorted(found) == sorted(expected)
    assert meta["digest"] == hashlib.sha256(digest).hexdigest()


@pytest.mark.parametrize("make", [word_reader, lambda: SubwordReader(CODER)])
def test_documents_in_memory_are_those_of_the_files(tmp_path: Path, make: type) -> None:
    reader = make()
    made = prepared(tmp_path, reader)
    tokens = encode_documents(DOCUMENTS, reader)
    assert tokens.rows.dtype == np.uint32
    kept = len(made.train.rows) + len(made.validation.rows)
    assert len(tokens.rows) == kept
    assert (tokens.starts is None) == (made.train.starts is None)
    if tokens.starts is not None and made.train.starts is not None and made.validation.starts is not None:
        assert tokens.starts.sum() == made.train.starts.sum() + made.validation.starts.sum()
    assert np.array_equal(
        np.bincount(tokens.rows), np.bincount(np.concatenate([made.train.rows, made.validation.rows]))
    )


def test_what_was_cut_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(DOCUMENTS))
    outputs: list[str] = []
    config = CorpusConfig(files=(str(path),), validation_fraction=0.2)
    prepare(config, WordReader(word_encoder(max_len=10)), tmp_path / "out", outputs.append)
    assert outputs[0].endswith(" documents are truncated to 10 words")
    reader, outputs = SubwordReader(CODER), []
    prepare(config, reader, tmp_path / "out", outputs.append)
    assert len(outputs) == 1
    assert f"tokens, {len(CODER)} distinct ones; " in outputs[0]


def test_text_of_other_subwords_or_words_is_refused(tmp_path: Path) -> None:
    prepared(tmp_path, SubwordReader(CODER))
    other = SubwordTokenizer.train(DOCUMENTS, size=90, sentinels=4)
    with pytest.raises(
        ConfigError, match=rf"the text was encoded with .*'tokenizer': {len(CODER)}.* this model needs .*90"
    ):
        open_prepared(tmp_path / "out", SubwordReader(other))
    with pytest.raises(
        ConfigError,
        match=r"the text was encoded with .*'tokenizer'.* this model needs .*'tokens': "
        r"'subwords'",
    ):
        open_prepared(tmp_path / "out", word_reader())


def test_a_damaged_file_of_subwords_is_refused(tmp_path: Path) -> None:
    prepared(tmp_path, SubwordReader(CODER))
    rows, meta = tmp_path / "out" / "train.rows", tmp_path / "out" / "corpus.json"
    whole = rows.read_bytes()
    for content in (whole[:-4], whole[:-1], b"", whole + (len(CODER)).to_bytes(4, "little") + whole[-4:]):
        rows.write_bytes(content)
        with pytest.raises(DataError, match="the prepared text is damaged"):
            open_prepared(tmp_path / "out", SubwordReader(CODER))
    rows.write_bytes(whole)
    values = json.loads(meta.read_text())
    meta.write_text(json.dumps({**values, "words": ["a"]}))
    with pytest.raises(DataError, match="the prepared text is damaged"):
        open_prepared(tmp_path / "out", SubwordReader(CODER))
