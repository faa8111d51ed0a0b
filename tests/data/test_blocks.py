"""Examples that are read many at a time are those that are read row by row, and so are the errors."""

from __future__ import annotations

import gzip
import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mixling import DataError, Dataset, Example, read_examples
from mixling.data import ColumnsConfig, OnBadRow, examples
from mixling.data.examples import ExampleBlock, read_blocks
from mixling.data.readers import lines
from mixling.tasks import task_type

GOOD = [
    '{"text": "a film", "label": "good"}', '{"label":"b","text":"a \\"quoted\\": film"}',
    '{"text":"x","label":" good "}\r',
    '{"text": "ça 🙂 \\u00e9\\ud800", "label": "ü", "other": [1, {"text": "inner"}]}  \t',
    '{"text": "key\\":value : 1", "label": "b"}', '{"text" : "a", "label"\t: "b"}',
    '{"text": "{\\"text\\": \\"inner\\"}", "label": "12"}', '{"text": "a\x7f\u2028b\x85", "label": "x", "a": {"b": 1}}',
]  # fmt: skip
OTHERS = [
    "", "  ", "[1]", "3", '"text"', "null", '{"text": "", "label": "x"}', '{"text": " \\t", "label": "x"}', "{}",
    '{"text": ["a", "list"], "label": "x"}', '{"text": 3, "label": "x"}', '{"text": "x"}', '{"label": "x"}',
    '{"text": "a", "label": "x", "text": "b"}', '{"text": "a", "label": "x"} x', '{"text": NaN, "label": "x"}',
    '{"text": "a", "label": NaN}', '{"text": "a", "label": 12}', '{"text": "a", "label": 12.0}',
    '{"text": "a", "label": true}', '{"text": "a", "label": " "}', '{"text": "a", "label": null}', '{"text": "a"',
    '{"text": "a", "label": ["x"]}', '{"text": "a", "label": {"x": 1}}', "{'text': 'a'}",
    '{"text": "a\x00", "label": "x"}', ' {"text": "a", "label": "x"}', "[" * 2000, '{"text": "a", "label": "\\ud800"}',
    '{"text": "a", "label": "x", "b": {"c": 1, "c": 2}}', '{"text" : "a", "text": "b", "label": "x"}',
    '{"text": "a"b", "label": "x"}', '{"text": "\u3000", "label": "x"}', '{"text": "a\tb", "label": "x"}',
    '{"text": "a", "label": "x"}}', '{"text": "a", "label": "x"},{"text": "b", "label": "x"}', '{"text":',
    '"a", "label": "x"}', '{"text": "a", "label": "2.5"}', '{"text": "a", "label": 2.5}',
]  # fmt: skip


def write(path: Path, lines: list[str], end: str = "\n") -> Path:
    content = ("\n".join(lines) + end).encode("utf-8", "surrogatepass")
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def outcome(paths: list[Path], *, by_rows: bool, task: str, mode: Any) -> tuple[list[Any], str, OnBadRow]:
    """The examples, the error that ended them, and what was skipped."""
    found: list[Any] = []
    error, bad = "", OnBadRow(mode)
    with pytest.MonkeyPatch.context() as patch:
        if by_rows:
            patch.setattr(examples, "_block", lambda rows, read: None)
        try:
            found.extend(read_examples(paths, reader=task_type(task).reader, columns=ColumnsConfig(), on_bad_row=bad))
        except DataError as problem:
            error = str(problem)
    return found, error, bad


def same(paths: list[Path], task: str = "classification", mode: str = "error") -> tuple[list[Any], str, OnBadRow]:
    one, other = (outcome(paths, by_rows=by_rows, task=task, mode=mode) for by_rows in (False, True))
    assert one == other
    assert [type(item.target) for item in one[0]] == [type(item.target) for item in other[0]]
    return one


@pytest.fixture(params=[60, 1 << 19])
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_CHUNK", request.param)


def test_plain_rows_make_blocks_only(tmp_path: Path, chunk: None) -> None:
    plain = [line for line in GOOD if "\\ud800" not in line]  # half a character is decoded in its row
    for name, end in itertools.product(("rows.jsonl", "rows.jsonl.gz"), ("", "\n", "\r\n")):
        path = write(tmp_path / name, plain, end)
        items = list(
            read_blocks(
                [path], reader=task_type("classification").reader, columns=ColumnsConfig(), on_bad_row=OnBadRow()
            )
        )
        assert all(isinstance(item, ExampleBlock) for item in items)
        found, error, _ = same([path])
        assert [one for block in items for one in block] == found
        assert len(found) == len(plain)
        assert not error


@pytest.mark.parametrize("task", ["classification", "multi_label", "regression"])
@pytest.mark.parametrize("mode", ["error", "skip"])
def test_other_rows_are_read_one_by_one(tmp_path: Path, task: str, mode: str, chunk: None) -> None:
    for line in [*OTHERS, '{"text": "a", "label": "2"}']:
        good = [*GOOD, *GOOD] if task != "regression" else ['{"text": "a", "label": "2"}', '{"text": "b", "label": 3}']
        same([write(tmp_path / "rows.jsonl", [*good, line, *good])], task, mode)
        same([write(tmp_path / "rows.jsonl", [line, *good])], task, mode)
        same([write(tmp_path / "rows.jsonl", [*good, line], "")], task, mode)


def test_random_files(tmp_path: Path, chunk: None) -> None:
    rng = random.Random(0)
    errors = set()
    for number in range(300):
        paths = []
        for part in range(rng.randint(1, 2)):
            lines = rng.choices(GOOD, k=rng.randint(0, 30))
            for _ in range(rng.choice([0, 0, 1, 2])):
                lines.insert(rng.randint(0, len(lines)), rng.choice(OTHERS))
            name = f"{part}.jsonl{rng.choice(['', '.gz'])}"
            paths.append(write(tmp_path / name, lines, rng.choice(["", "\n", "\n\n"])))
        errors.add(same(paths, mode=rng.choice(["error", "skip"]))[1].partition(":")[2][4:])
        if number % 10 == 0:
            content = paths[0].read_bytes()
            paths[0].write_bytes(content[: rng.randrange(len(content) + 1)])
            same(paths)
    assert len(errors) > 20


def test_what_is_no_json_lines_is_read_by_rows(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("text,label\na,b\n")
    assert same([path])[0] == [Example("a", "b", str(path), 2)]
    for content in ("\ufeff" + GOOD[0], "\ufeff\ufeff" + GOOD[0]):
        (tmp_path / "rows.jsonl").write_text(content, "utf-8")
        assert len(same([tmp_path / "rows.jsonl"])[0]) == 1
    (tmp_path / "rows.jsonl").write_text(GOOD[0], "utf-16")
    assert len(same([tmp_path / "rows.jsonl"])[0]) == 1
    (tmp_path / "rows.jsonl").write_bytes(b'{"text": "\xff", "label": "a"}\n')
    assert "UTF-8" in same([tmp_path / "rows.jsonl"])[1]


@pytest.mark.parametrize("limit", [0, 2000, 1 << 20])
@pytest.mark.parametrize("seconds", ["label", "none", "number"])
def test_a_data_set_of_blocks_is_that_of_examples(limit: int, seconds: str, tmp_path: Path) -> None:
    texts = [f'text {i} \ud800 "ü" ' + "x" * (i % 7) for i in range(60)]
    block = ExampleBlock(texts, [f"l{i % 5}" for i in range(60)], "a.jsonl", 1)
    alone = [Example(f"alone {i}", "l9" if seconds == "label" else None, "a.jsonl", 61 + i) for i in range(3)]
    last = ExampleBlock(
        texts[:9], [1.5, *[2.5] * 8] if seconds == "number" else ["l7", "l1"] * 4 + ["l8"], "b.jsonl", 3
    )

    def items(blocks: bool) -> Iterator[Any]:
        for part in (alone, block, alone, last, block) if seconds != "number" else (alone, last, alone):
            if blocks and isinstance(part, ExampleBlock):
                yield part
            else:
                yield from part

    one, other = (Dataset.from_examples(items(blocks), memory_limit=limit) for blocks in (True, False))
    assert list(one) == list(other)
    assert one.schema == other.schema
    assert one.spooled == other.spooled == (limit < (2000 if seconds == "number" else 1 << 20))
    assert one.label_counts() == other.label_counts()
    for name in ("text_hashes", "text_bytes", "class_ids", "group_hashes"):
        np.testing.assert_array_equal(getattr(one, name)(), getattr(other, name)())
    assert one._columns._bytes == other._columns._bytes


def test_a_block_of_another_schema_is_an_error_at_its_first_line() -> None:
    block = ExampleBlock(["a", "b"], ["x", "y"], "b.jsonl", 5)
    with pytest.raises(DataError, match="one kind of target") as caught:
        Dataset.from_examples([Example("a", 1.5, "a.jsonl", 1), block])
    assert caught.value.line == 5
    with pytest.raises(DataError, match="a pair"):
        Dataset.from_examples([block], texts=2)
    grouped = Example("a", "x", "a.jsonl", 1, group="g")
    with pytest.raises(DataError, match="group"):
        Dataset.from_examples([grouped, block])


def test_lines_beyond_32_bits(tmp_path: Path) -> None:
    block = ExampleBlock(["a", "b"], ["x", "y"], "b.jsonl", (1 << 31) - 1)
    assert [item.line for item in Dataset.from_examples([block])] == [(1 << 31) - 1, 1 << 31]


def test_rows_with_a_second_text_or_a_group_are_read_by_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", [json.dumps({"text": "a", "pair": "b", "label": "x", "g": "1"})] * 3)
    reader = task_type("classification").reader
    for columns in (ColumnsConfig(text_pair="pair"), ColumnsConfig(group="g")):
        found = list(read_blocks([path], reader=reader, columns=columns, on_bad_row=OnBadRow(), grouped=True))
        assert all(isinstance(item, Example) for item in found)
        assert found[0].group == ("1" if columns.group else None)
        assert found[0].text == ("a" if columns.group else ("a", "b"))
