"""Unlabeled text: lines of text files, cells of tables, and what is wrong with them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from mixling import ConfigError, DataError
from mixling.data import read_texts


def test_lines_and_cells_are_documents(tmp_path: Path) -> None:
    plain, zipped = tmp_path / "a.txt", tmp_path / "b.TXT.gz"
    plain.write_bytes("\ufeffone line\r\n\n  \nanother one".encode())
    zipped.write_bytes(gzip.compress("größe\n".encode()))
    rows = tmp_path / "c.jsonl"
    lines = [{"text": "said", "x": 1}, {"text": ["two", "words"]}, {"text": None}, {"text": ""}, {"text": "end"}]
    rows.write_text("".join(json.dumps(line) + "\n" for line in lines))
    table = tmp_path / "d.csv"
    table.write_text('body,n\n"a, b",1\n')
    found = [text.strip() for text in read_texts([plain, zipped, str(rows)])]
    assert found == ["one line", "another one", "größe", "said", "two words", "end"]
    assert list(read_texts([table], text="body")) == ["a, b"]


@pytest.mark.parametrize(
    ("name", "content", "reported"),
    [
        ("a.txt", b"fine\nbad \xff\n", "a.txt:2: byte 0xff"),
        ("a.txt", b"fine\nnul \0\n", "a.txt:2: contains a NUL byte"),
        ("a.txt", b"\n \n", "a.txt: contains no text; remove it"),
        ("a.txt.gz", gzip.compress(b"much text\n" * 99, mtime=0)[:-10], "truncated"),
        ("a.csv", b"body,n\nx,1\n", "a.csv: no column 'text'; allowed: body, n; choose a column with --text"),
        ("a.jsonl", b'{"text": "x"}\n{"text": 7}\n', "a.jsonl:2: column 'text' is of type int: '7'; allowed: a string"),
        ("a.doc", b"text", "unknown extension '.doc'"),
    ],
)
def test_what_is_wrong_is_reported_with_file_and_line(tmp_path: Path, name: str, content: bytes, reported: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        list(read_texts([path]))
    assert reported in str(caught.value)


def test_something_must_be_named() -> None:
    with pytest.raises(ConfigError, match="name at least one file"):
        list(read_texts([]))
