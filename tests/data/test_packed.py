"""Compressed files are read like others, in bounded memory; damaged ones are named as what they are."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import random
import threading
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mixling.data import OnBadRow, read_rows
from mixling.data.readers import packed
from mixling.errors import DataError

ROWS = [(f"text {random.Random(i).random()}", "x" if i % 2 else "y") for i in range(2000)]
CSV = ("text,label\n" + "".join(f"{text},{label}\n" for text, label in ROWS)).encode()


def zipped(content: bytes, *names: str, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name in names or ("data.csv",):
            archive.writestr(name, content)
    return out.getvalue()


PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zip": zipped,
}


def read(path: Path) -> list[Any]:
    return [tuple(row.values.values()) for row in read_rows(path, on_bad_row=OnBadRow())]


@pytest.mark.parametrize("suffix", PACK)
def test_compressed_files_are_read_like_others(tmp_path: Path, suffix: str) -> None:
    for name in (f"a.csv{suffix}", f"a.CSV{suffix.upper()}", "a.csv"):
        (tmp_path / name).write_bytes(PACK[suffix](CSV))
        assert read(tmp_path / name) == ROWS
    (tmp_path / f"a.jsonl{suffix}").write_bytes(PACK[suffix](b'{"text": "a"}\n'))
    assert read(tmp_path / f"a.jsonl{suffix}") == [("a",)]
    (tmp_path / f"b.csv{suffix}").write_bytes(PACK[suffix](CSV.decode().encode("utf-16")))
    assert read(tmp_path / f"b.csv{suffix}") == ROWS


@pytest.mark.parametrize("suffix", PACK)
def test_a_bad_row_of_an_intact_file_is_named(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"a.csv{suffix}").write_bytes(PACK[suffix](CSV + b"a\n"))
    with pytest.raises(DataError, match=r":2002: 1 field, but the header has 2"):
        read(tmp_path / f"a.csv{suffix}")


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_several_streams_and_pipes(tmp_path: Path, suffix: str) -> None:
    half = len(CSV) // 2
    content = PACK[suffix](CSV[:half]) + PACK[suffix](CSV[half:])
    (tmp_path / f"a.csv{suffix}").write_bytes(content + (bytes(8) if suffix == ".xz" else b""))
    assert read(tmp_path / f"a.csv{suffix}") == ROWS
    path = tmp_path / "pipe.csv"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=[content])
    writer.start()
    assert read(path) == ROWS
    writer.join()


@pytest.mark.parametrize("suffix", PACK)
def test_damaged_files(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.csv{suffix}"
    content = PACK[suffix](CSV)
    for cut in (len(content) // 2, len(content) - 5):
        path.write_bytes(content[:cut])
        with pytest.raises(DataError, match=r"truncated|damaged|cannot be read"):
            read(path)
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 0x55
    path.write_bytes(flipped)
    with pytest.raises(DataError, match="damaged"):
        read(path)
    path.write_bytes(CSV)
    with pytest.raises(DataError, match=f"ends in {suffix} but is not"):
        read(path)


def test_archives(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(zipped(CSV, "folder/data.csv", "__MACOSX/folder/._data.csv"))
    assert read(path) == ROWS
    path.write_bytes(zipped(b'{"text": "a"}', "data.jsonl", method=zipfile.ZIP_LZMA))
    assert read(path) == [("a",)]
    path.write_bytes(zipped(CSV, "a.csv", "b.csv"))
    with pytest.raises(DataError, match=r"a zip archive of 2 files \(a.csv, b.csv\); one is allowed: unzip "):
        read(path)
    path.write_bytes(zipped(CSV, "[Content_Types].xml", "xl/workbook.xml"))
    with pytest.raises(DataError, match="unknown extension"):
        read(path)
    (tmp_path / "a.csv").write_bytes(path.read_bytes())
    with pytest.raises(DataError, match=r"workbook \(.xlsx\); save the sheet as CSV"):
        read(tmp_path / "a.csv")
    encrypted = bytearray(zipped(CSV))
    for at in (encrypted.find(b"PK\x03\x04") + 6, encrypted.find(b"PK\x01\x02") + 8):
        encrypted[at] |= 1
    path.write_bytes(encrypted)
    with pytest.raises(DataError, match=r"cannot be read \(.*encrypted"):
        read(path)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", PACK)
def test_a_file_that_expands_a_thousand_times_is_read_in_bounded_memory(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.csv{suffix}"
    path.write_bytes(PACK[suffix](b"text,label\n" + b"a,x\n" * 8_000_000))
    assert path.stat().st_size < 300_000
    tracemalloc.start()
    rows = read_rows(path, on_bad_row=OnBadRow())
    for _ in range(1000):
        next(rows)
    assert tracemalloc.get_traced_memory()[1] < 16_000_000  # of which xz has a dictionary of 8 MiB
    tracemalloc.stop()


def test_xz_that_asks_for_much_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.csv.xz"
    path.write_bytes(lzma.compress(CSV))
    monkeypatch.setattr(packed, "MAX_DICTIONARY", 1 << 20)
    with pytest.raises(DataError, match=r"damaged \(Memory usage limit"):
        read(path)
