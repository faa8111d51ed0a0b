"""JSON lines are read as Python's json reads them one by one, however many are decoded at a time."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import threading
from pathlib import Path
from typing import Any

import pytest

from mixling.data import (
    ColumnsConfig,
    OnBadRow,
    PlainTexts,
    RowBlock,
    file_items,
    plain_or_items,
    read_row_blocks,
    read_rows,
)
from mixling.data.readers import lines
from mixling.errors import DataError
from mixling.tasks import LabelReader

GOOD = [
    '{"text": "a film"}', '{"text":"a \\"quoted\\": film","label":"good"}\r', '{"text" : "spaces"}',
    '{"text": "ça 🙂 \\u00e9\\ud800", "label": null, "other": [1, {"text": "inner"}]}  ', '{"a": 1, "b": 1.0, "c": -0}',
    '{"label": "x", "text": "key\\":value : 1"}', '{"text":  "a"}', '{"text": "{\\"text\\": \\"inner\\"}"}',
    '{"text": "ça\x7f🙂\u2028b\x85"}', ' {"text": "a"}\t', '{"text": ["a", "list"], "b": {"c": {"d": []}}}', "{}",
    '{"big": 123456789012345678901234567890, "small": 1e-400, "large": 1e400, "f": 0.1000000000000000055511151231}',
    '{"text": "\\udc00x\\/\\b\\f", "true": true, "": ""}', '{"te\\u0078t": "escaped key"}', '\t{"text"\t:"a"}',
]  # fmt: skip
BLANK = ["", "  ", "\t\r"]
BAD = [
    "[1]", '"text"', "3", "null", '{"text": "a", "text": "b"}', '{"text" : "a", "text":"b"}', '{"text": "a"} x',
    '{"text": NaN}', '{"a": Infinity}', '{"text": "a"', "{'text': 'a'}", '{"text": "a\x00"}', "[" * 100_000,
    '{"text": "a", "b": {"c": 1, "c": 2}}', '{"text": "a"b"}', '{"text": "}', '{"text": "a\tb"}', '{"text": "a\\"}',
    '{"text": "a"}}', '{{"text": "a"}', '{"a": 01}', '{"a": 1.}', '{"text": "a"},', '{"te\\u0078t": 1, "text": 2}',
    '{"text": "a"}{"text": "b"}', '{"text":', '"a", "label": "x"}', '{"a": tru}', '{"a": "\\x"}', '{"a": "\\u12"}',
    '{"a": ' + "1" * 5000 + "}",
]  # fmt: skip


def by_json(line: str) -> Any:
    """The object of a line; None if it is bad; "" if it is blank."""
    if not line.strip():
        return ""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(items)) < len(items):
            raise ValueError
        return dict(items)

    def constant(name: str) -> None:
        raise ValueError

    try:
        value = json.loads(line, object_pairs_hook=pairs, parse_constant=constant)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


@pytest.fixture(params=[50, 1 << 18])
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_CHUNK", request.param)


@pytest.mark.parametrize("line", [*GOOD, *BAD])
def test_a_line_is_read_as_json_reads_it(tmp_path: Path, line: str) -> None:
    assert (by_json(line) is not None) == (line in GOOD)
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join([GOOD[0], line, GOOD[1]]), "utf-8", newline="")
    bad = OnBadRow("skip")
    found = list(read_rows(path, on_bad_row=bad))
    wanted = [(number, by_json(text)) for number, text in enumerate([GOOD[0], line, GOOD[1]], 1)]
    assert [(row.line, row.values) for row in found] == [item for item in wanted if item[1] is not None]
    assert repr([row.values for row in found]) == repr([item for _, item in wanted if item is not None])
    assert bad.skipped == (line in BAD)


def test_random_files(tmp_path: Path, chunk: None) -> None:
    rng = random.Random(0)
    for number in range(100):
        texts = rng.choices(GOOD, k=rng.randint(1, 30))
        for _ in range(rng.choice([0, 0, 1, 3])):
            texts.insert(rng.randint(0, len(texts)), rng.choice([*BAD, *BLANK]))
        content = (rng.choice(["", "\ufeff"]) + "\n".join(texts) + rng.choice(["", "\n", "\r\n", "\n\n"])).encode()
        if number % 3 == 0:
            content = content.decode().encode("utf-16")
        path = tmp_path / "rows.jsonl"
        path.write_bytes(gzip.compress(content) if number % 2 else content)
        bad = OnBadRow("skip")
        found = [(row.line, row.values) for row in read_rows(path, on_bad_row=bad)]
        wanted = [(number, by_json(text)) for number, text in enumerate(texts, 1)]
        assert found == [item for item in wanted if isinstance(item[1], dict)]
        assert bad.skipped == sum(item is None for _, item in wanted)


def test_most_rows_are_decoded_many_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "a \\"b\\" c :)", "label": "x"}\n' * 20_000)
    blocks = list(read_row_blocks(path, on_bad_row=OnBadRow()))
    assert all(isinstance(block, RowBlock) for block in blocks)
    assert len(blocks) < 10


def test_the_lines_of_a_pipe_are_rows_as_they_arrive(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    arrived = threading.Event()

    def write() -> None:
        with path.open("w", buffering=1) as file:
            file.write('{"text": "one"}\n{"text": "tw')
            file.flush()
            assert arrived.wait(30)
            file.write('o"}\n')

    writer = threading.Thread(target=write)
    writer.start()
    rows = read_rows(path, on_bad_row=OnBadRow())
    assert next(rows).values == {"text": "one"}
    arrived.set()
    assert [row.values for row in rows] == [{"text": "two"}]
    writer.join()


def test_texts_alone_and_other_rows_alternate(tmp_path: Path, chunk: None) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [json.dumps({"text": f"text {number}"}) for number in range(50)]
    rows[40] = json.dumps({"text": ["a", "list"]})
    rows[45] = "{"
    path.write_text("\n".join(rows) + "\n")
    windows = list(plain_or_items(str(path), reader=LabelReader, columns=ColumnsConfig(), skip=True))
    got = [item if isinstance(item, str) else item.text for window in windows for item in window]
    assert got == [*(f"text {i}" for i in range(40)), ["a", "list"], *(f"text {i}" for i in range(41, 45)), None] + [
        f"text {i}" for i in range(46, 50)
    ]
    seen = []
    with pytest.raises(DataError, match="column 2: bad JSON") as caught:
        seen.extend(plain_or_items(str(path), reader=LabelReader, columns=ColumnsConfig(), skip=False))
    assert caught.value.line == 46
    assert sum(map(len, seen)) == 45


def test_texts_alone_are_those_of_items(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"text": f"a {n} \u3000é", "label": "ü"}) + "\n" for n in range(9)))
    plain = list(plain_or_items(str(path), reader=LabelReader, columns=ColumnsConfig(), skip=False))
    items = file_items([str(path)], reader=LabelReader, columns=ColumnsConfig(), skip=False)
    assert [type(window) for window in plain] == [PlainTexts]
    assert plain[0] == [item.text for window in items for item in window]
    text = path.with_suffix(".txt")
    text.write_text("a line\n")
    assert next(plain_or_items(str(text), reader=LabelReader, columns=ColumnsConfig(), skip=False))[0].text == "a line"  # type: ignore[union-attr]


def test_a_damaged_gzip_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"text": "a"}\n' * 20_000)[:-20])
    with pytest.raises(DataError, match="gzip file is truncated"):
        list(plain_or_items(str(path), reader=LabelReader, columns=ColumnsConfig(), skip=False))


@pytest.mark.parametrize("limit", [10, 40])
def test_a_line_without_an_end_is_an_error_at_its_number(limit: int, chunk: None) -> None:
    content = "ab\n" * 5 + "é" * 50 + "\nab\n"
    for data in (content.encode(), content.encode("utf-16")):
        found = lines.read_line_blocks(io.BufferedReader(io.BytesIO(data)), "f", max_line=limit)  # type: ignore[type-var,arg-type]
        got = []
        with pytest.raises(DataError, match="longer than") as caught:
            got.extend(found)
        assert caught.value.line == 6
        assert "".join(text for _, text in got) == "ab\n" * 5
