"""A small file whose content is large: read in bounded memory, or refused in one line."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mixling.data.inputs import MAX_WINDOW, Item, in_windows

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

READ = """
import json, resource, sys
from pathlib import Path
from mixling import DataError
from mixling.data import OnBadRow, read_rows
from mixling.config import read_toml
from mixling.serving.keys import ApiKeys
from mixling import Vocabulary
import mixling.data.readers.squad
readers = {".toml": read_toml, ".keys": ApiKeys.read, ".txt": Vocabulary.load}
def read(name):
    if Path(name).suffix in readers:
        return readers[Path(name).suffix](Path(name))
    return f"{sum(1 for _ in read_rows(name, on_bad_row=OnBadRow('error')))} rows"
read(sys.argv[1])  # imports what it needs
in_use = 4096 * int(Path("/proc/self/statm").read_text().split()[0])
for name in sys.argv[2:]:
    much = (2 if name.endswith(".json.gz") else 1) << 30  # a document is read whole
    resource.setrlimit(resource.RLIMIT_AS, (in_use + much, resource.RLIM_INFINITY))
    try:
        print(json.dumps(str(read(name))), flush=True)
    except Exception as error:
        print(json.dumps(f"{type(error).__name__}: {error}"), flush=True)
"""
MIB = 1 << 20


def table(columns: dict, **options: object) -> Callable[[Path], None]:
    return lambda path: pq.write_table(pa.table(columns), path, **options)


def packed(begin: str, unit: str, size: int = 40 * MIB) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = gzip.compress((unit * max(MIB // len(unit), 1)).encode(), 1)
        repeated = part * (size // max(len(unit), MIB // len(unit) * len(unit)))
        path.write_bytes(gzip.compress(begin.encode()) + repeated)

    return write


def sparse(begin: str, size: int) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_text(begin)
        with path.open("rb+") as file:
            file.truncate(size)

    return write


def brat(folder: Path) -> None:
    packed("", "a b c\n")(folder / "a.txt")
    (folder / "a.ann").write_text("T1\tX 0 1\ta\n")


FILES: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "equal texts": ("a.parquet", table({"text": ["a" * 1_000_000] * 1200}), "1200 rows"),  # 1.2 GB in a file of 2 kB
    "a large text": ("b.parquet", table({"text": [None, "a" * (16 * MIB + 100)]}), "b.parquet:2: 'text': has a value"),
    "the largest text": ("c.parquet", table({"text": ["a" * (16 * MIB), ""]}), "2 rows"),
    "texts without a dictionary": ("d.parquet", table({"text": ["a" * MIB] * 200}, use_dictionary=False), "200 rows"),
    "a list of texts": ("e.parquet", table({"text": ["a"], "label": [["a" * MIB] * 17]}), "has a value of 17"),
    "a list of numbers": ("f.parquet", table({"label": [[False] * 2_000_000]}), "has a list of 2,000,001 values"),
    "lists of numbers": ("g.parquet", table({"label": [[False] * 1_900_000] * 8}), "8 rows"),
    "a line of CSV": ("a.csv.gz", packed("text,label\n", "a"), "csv.gz:2: the line is longer than 16 MiB"),
    "a field of CSV": ("b.csv.gz", packed('text,label\n"', "a" * 99 + "\n"), "a quoted field is longer than 16 MiB"),
    "a row of CSV": ("c.csv.gz", packed("text,label\n", '"\n",'), "csv.gz:2: a row is longer than 32 MiB"),
    "a line of JSON": ("a.jsonl.gz", packed('{"text": "', "a"), "the line is longer than 16 MiB"),
    "lists in a line": (
        "b.jsonl.gz",
        packed("", '{"label": [' + "[]," * 2_500_000 + "[]]}\n"),
        "gz:1: 'label': has lists",
    ),
    "objects in a line": ("c.jsonl.gz", packed("", '{"a": 1, "b": [' + "{}," * 2_500_000 + "{}]}\n"), "'b': has lists"),
    "lists of a line": (
        "d.jsonl.gz",
        packed("", '{"a": [[' + "1," * 10**6 + "1],[" + "1," * 10**6 + "1]]}\n"),
        "'a': has",
    ),
    "commas of a line": ("e.jsonl.gz", packed("", '{"a": "' + "," * 2_500_000 + '"}\n', 3 * MIB), " rows"),
    "a document of JSON": ("a.json.gz", packed("[", " ", 520 * MIB), "longer than 512 MiB"),
    "SQuAD": ("b.json.gz", packed('{"data": [{"title": "a",', " ", 520 * MIB), "is larger than 512 MiB"),
    "columns of a token": ("d.conll.gz", packed("", "aa " * 5_000_000 + "O\n\n"), "allowed: up to 1,000"),
    "a sentence": ("a.conll.gz", packed("", "a O\n"), "a sentence of more than 100,000 tokens"),
    "a sentence of long words": ("b.conll.gz", packed("", "a" * MIB + " O\n", 100 * MIB), "more than 64 MiB"),
    "long sentences": ("c.conll.gz", packed("", "a" * (8 * MIB) + " O\n\n", 1100 * MIB), "rows"),
    "a text of a folder": (
        "texts",
        lambda folder: packed("", "a b c\n")(folder / "good" / "a.txt"),
        "more than 16 MiB",
    ),
    "a text of brat": ("brat", brat, "more than 16 MiB"),
    "a configuration": ("a.toml", sparse("a = 1\n", 3 << 30), "more than 1,048,576 bytes"),
    "dots of a configuration": (
        "b.toml",
        lambda path: path.write_text("a" + ".a" * 500_000 + " = 1") and None,
        "a key of",
    ),
    "keys": ("a.keys", sparse("key", 3 << 30), "more than 1,048,576 bytes"),
    "a vocabulary": ("vocab.txt", sparse("[UNK]\n", 3 << 30), "more than 67,108,864 bytes"),
}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space")
def test_each_reader_has_a_limit(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "small.parquet")
    for file, write, _ in FILES.values():
        write(tmp_path / file)
    files = [str(tmp_path / file) for file, _, _ in FILES.values()]
    command = [sys.executable, "-c", READ, str(tmp_path / "small.parquet"), *files]
    done = subprocess.run(command, capture_output=True, text=True)
    found = dict(zip(FILES, map(json.loads, done.stdout.splitlines()), strict=False))
    assert {
        name: found.get(name, done.stderr) for name, (_, _, says) in FILES.items() if says not in found.get(name, "")
    } == {}


def test_a_window_ends_by_the_size_of_its_texts() -> None:
    items = [
        Item("a" * (MAX_WINDOW // 4)),
        Item(("b" * (MAX_WINDOW // 2), "c")),
        Item(None, kept={"x": "d" * MAX_WINDOW}),
    ]
    sizes = [len(window) for window in in_windows(iter([*items, Item("e"), *items]))]
    assert sizes == [3, 4]
