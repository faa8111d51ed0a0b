"""What `plain_rows` reads is what `read_examples` reads; what it leaves has something that only the latter handles."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from mixling.data import ColumnsConfig
from mixling.data import plain_rows as module
from mixling.data.inputs import PlainTexts, file_items, plain_or_items
from mixling.data.plain_rows import plain_rows
from mixling.errors import DataError
from mixling.tasks.classification import LabelReader

PLAIN = [
    '{"text": "a film"}',
    '{"text":"a \\"quoted\\": film","label":"good"}\r',
    ' '.join(('{"text"', ':', '"spaces"', '}')),
    '{"text": "ça 🙂 \\u00e9\\ud800", "label": null, "other": [1, {"text": "inner"}]}  ',
    '{"label": "x", "text": "key\\":value : 1"}',
    '{"text":"no space"}', '{"text":  "spaces"}', '{"text": "{\\"text\\": \\"inner\\"}"}', '{"text": "ça\x7f🙂"}',
]  # fmt: skip
NOT_PLAIN = [
    "", "  ", '{"text": ""}', '{"text": " \\t"}', '{"text": ["a", "list"]}', '{"text": 3}', '{"other": "x"}', "[1]",
    '"text"', '{"text": "a", "text": "b"}', '{"text" : "a", "text":"b"}', '{"text": "a"} x', '{"text": NaN}',
    '{"text": "a", "b": NaN}', '{"text": "a", "label": 1}', '{"text": "a", "label": " "}', '{"text": "a"',
    "{'text': 'a'}", '{"text": "a\x00"}', ' {"text": "a"}', "[" * 100_000, '{"text": "a", "b": {"c": 1, "c": 2}}',
    '{"text": "x", "label": "\\ud800"}', '{"text": "a"b"}', '{"text": "}', '{"text": "\u3000"}', '{"text": "a\tb"}',
    '{"text": "a\\"}', '{"text": "a"}}', '{{"text": "a"}', '{"tent": "a"}', '{"text": "a", "text": ""}',
]  # fmt: skip


def read(path: Path) -> list[list[str] | None]:
    return list(plain_rows(str(path), text="text", label="label"))


def test_plain_rows_are_read_as_examples_are(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(PLAIN), "utf-8", newline="")
    found = read(path)
    assert None not in found
    texts = [text for window in found for text in window or []]
    windows = list(file_items([str(path)], reader=LabelReader, columns=ColumnsConfig(), skip=False))
    assert texts == [item.text for window in windows for item in window]
    packed = tmp_path / "rows.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read(packed) == found


@pytest.mark.parametrize("line", NOT_PLAIN)
def test_other_rows_are_left(tmp_path: Path, line: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(f"{PLAIN[0]}\n{line}\n", "utf-8")
    assert read(path) == [None]


def test_no_utf8_no_such_format_no_row(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"text": "\xff"}\n')
    assert read(path) == [None]
    path.write_bytes(b"")
    assert read(path) == [None]
    path.with_suffix(".csv").write_text("text\na")
    assert read(path.with_suffix(".csv")) == [None]


def test_rows_after_the_plain_ones_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK", 100)
    path = tmp_path / "rows.jsonl"
    rows = [json.dumps({"text": f"text {number}"}) for number in range(50)]
    rows[40] = json.dumps({"text": ["a", "list"]})
    rows[45] = "{"
    path.write_text("\n".join(rows) + "\n")
    windows = list(plain_or_items(str(path), reader=LabelReader, columns=ColumnsConfig(), skip=True))
    assert sum(isinstance(window, PlainTexts) for window in windows) > 3
    got = [item if isinstance(item, str) else item.text for window in windows for item in window]
    assert got == [*(f"text {i}" for i in range(40)), ["a", "list"], *(f"text {i}" for i in range(41, 45)), None] + [
        f"text {i}" for i in range(46, 50)
    ]
    seen = []
    with pytest.raises(DataError, match="column 2: bad JSON") as caught:
        seen.extend(plain_or_items(str(path), reader=LabelReader, columns=ColumnsConfig(), skip=False))
    assert caught.value.line == 46
    assert sum(map(len, seen)) == 45


def test_a_damaged_gzip_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"text": "a"}\n' * 20_000)[:-20])
    with pytest.raises(DataError, match="gzip file is truncated"):
        list(plain_or_items(str(path), reader=LabelReader, columns=ColumnsConfig(), skip=False))
