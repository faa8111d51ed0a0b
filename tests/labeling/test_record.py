"""The record of answers, against what a reader of its lines would say; torn lines, full disks, two processes."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from mixling import DataError, UserError
from mixling.data import ColumnsConfig
from mixling.labeling import Record, RecordLine, read_file_texts

TEXTS = [f"text {number}" for number in range(8)]


def opened(folder: Path, task: str = "classification", labels: tuple[str, ...] = ("a", "b")) -> Record:
    file = folder / "texts.txt"
    file.write_text("\n".join(TEXTS))
    record = Record(folder / "texts.txt.labels.jsonl", None, list(labels)).__enter__()
    record.begin(read_file_texts(file, task=task, columns=ColumnsConfig()))
    return record


def line(what: str, number: int, **values: Any) -> RecordLine:
    about = {"text": "t1", "row": 1} if what in ("answer", "skip", "unsure", "note") else {}
    return {"what": what, **about, "id": f"{number:08d}", "annotator": "ann", "time": "2026-01-01T00:00:00Z", **values}


def test_the_last_answer_counts_and_can_be_taken_back(tmp_path: Path) -> None:
    record = opened(tmp_path)
    assert record.append(line("answer", 1, label="a"))
    assert record.append(line("answer", 2, label="b"))
    assert record.answer("t1") == "b"
    record.append(line("undo", 3, of="00000002"))
    assert record.answer("t1") == "a"
    record.append(line("skip", 4))
    assert record.answer("t1") is None
    record.close()
    again = opened(tmp_path)
    last = again.last("t1", "ann")
    assert last is not None
    assert last["what"] == "skip"
    assert [one["id"] for one in again.history("ann", 9)] == ["00000004", "00000001"]
    again.close()


def test_a_line_is_added_once(tmp_path: Path) -> None:
    record = opened(tmp_path)
    assert record.append(line("answer", 1, label="a"))
    assert not record.append(line("answer", 1, label="a"))  # the page did not hear of it
    assert len(record.path.read_text().splitlines()) == 2  # with that of the task
    record.close()


def test_labels_are_renamed_merged_and_taken_back(tmp_path: Path) -> None:
    record = opened(tmp_path)
    record.append(line("answer", 1, label="a"))
    record.append(line("rename", 2, label="a", to="c"))
    assert record.labels == ["c", "b"]
    record.append(line("answer", 3, text="t2", label="a"))  # of a page that did not know
    assert (record.answer("t1"), record.answer("t2")) == ("c", "c")
    record.append(line("rename", 4, label="b", to="c"))
    assert record.labels == ["c"]
    record.append(line("undo", 5, of="00000004"))
    record.append(line("undo", 6, of="00000002"))
    assert record.labels == ["a", "b"]
    assert (record.answer("t1"), record.answer("t2")) == ("a", "a")
    record.append(line("add", 7, label="new"))
    record.append(line("rename", 8, label="a", to="d"))
    record.append(line("add", 9, label="a"))
    record.append(line("answer", 10, text="t3", label="a"))
    assert (record.answer("t1"), record.answer("t3")) == ("d", "a")
    record.close()
    again = opened(tmp_path)
    assert again.labels == record.labels == ["d", "b", "new", "a"]
    again.close()


def test_sets_and_spans_follow_their_labels(tmp_path: Path) -> None:
    record = opened(tmp_path, "multi_label")
    record.append(line("answer", 1, labels=["a", "b"]))
    record.append(line("rename", 2, label="a", to="b"))
    assert record.answer("t1") == ["b"]
    record.close()
    record.path.unlink()
    record = opened(tmp_path, "tagging")
    record.append(line("answer", 1, spans=[[0, 1, "a"], [1, 2, "b"]]))
    record.append(line("rename", 2, label="a", to="b"))
    assert record.answer("t1") == [[0, 1, "b"], [1, 2, "b"]]
    record.close()


def test_any_order_of_lines_is_read_as_it_was_lived(tmp_path: Path) -> None:
    """Random lines: what stands after a restart is what stood before it."""
    draw = random.Random(0)
    record = opened(tmp_path)
    ids: list[str] = []
    for number in range(400):
        what = draw.choice(["answer"] * 6 + ["skip", "unsure", "undo", "undo", "rename", "add", "note"])
        names = [draw.choice("abcdef") for _ in range(2)]
        values = {
            "answer": {"text": draw.choice(TEXTS), "label": names[0]},
            "undo": {"of": draw.choice(ids or ["none"])},
            "rename": {"label": names[0], "to": names[1]},
            "add": {"label": names[0]},
            "note": {"note": names[0]},
        }.get(what, {})
        if what == "undo" and not ids:
            continue
        record.append(line(what, number, **values))
        if what != "undo":
            ids.append(f"{number:08d}")
    before = record.labels, {text: record.answer(text) for text in TEXTS}, record.notes
    record.close()
    again = opened(tmp_path)
    assert (again.labels, {text: again.answer(text) for text in TEXTS}, again.notes) == before
    again.close()


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_a_torn_last_line_is_dropped(tmp_path: Path, cut: int) -> None:
    record = opened(tmp_path)
    record.append(line("answer", 1, label="a"))
    record.append(line("answer", 2, label="b"))
    record.close()
    whole = record.path.read_bytes()
    record.path.write_bytes(whole[:-cut])
    again = opened(tmp_path)
    assert again.answer("t1") == ("b" if cut == 1 else "a")  # only the line end was missing
    assert bool(again.torn) == (cut > 1)
    again.append(line("answer", 3, label="b"))
    again.close()
    assert all(json.loads(one) for one in record.path.read_text().splitlines())


def test_a_damaged_line_is_an_error_with_its_number(tmp_path: Path) -> None:
    record = opened(tmp_path)
    record.append(line("answer", 1, label="a"))
    record.close()
    record.path.write_text(record.path.read_text() + "<<<<<<< HEAD\n")
    with pytest.raises(DataError, match=r"labels\.jsonl:3: is no line of a record"):
        opened(tmp_path)


def test_what_a_stranger_puts_in_its_place_is_refused(tmp_path: Path) -> None:
    path = opened(tmp_path).path
    for content in (b"[" * 100_000 + b"\n", b"[" + b"[]," * 4_000_001 + b"[]]\n"):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"labels\.jsonl:1: is no line of a record"):
            opened(tmp_path)
    with path.open("wb") as file:
        file.truncate(3 << 30)
    with pytest.raises(UserError, match="has 3,221,225,472 bytes; allowed: up to 67,108,864"):
        opened(tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="links need rights there, and there are no such pipes")
def test_a_record_is_no_pipe_and_no_link(tmp_path: Path) -> None:
    path, precious = tmp_path / "texts.txt.labels.jsonl", tmp_path / "precious"
    os.mkfifo(path)
    with pytest.raises(UserError, match="is not a regular file"):
        opened(tmp_path)
    for lines in ("", "precious\n"):
        path.unlink()
        path.symlink_to(precious)
        precious.write_text(lines)
        with pytest.raises(UserError, match="is a symbolic link, through which nothing is written"):
            opened(tmp_path)
        assert precious.read_text() == lines


@pytest.mark.parametrize(
    "wrong",
    [
        {"what": "answers"}, {"label": ""}, {"label": 1}, {"label": " a"}, {"label": "x" * 201}, {"label": "a|b"},
        {"id": None}, {"text": 5}, {"labels": ["a"], "label": None}, {"label": "\ud800"},
    ],
)  # fmt: skip
def test_what_is_no_answer_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    record = opened(tmp_path)
    with pytest.raises(UserError):
        record.append({**line("answer", 1, label="a"), **wrong})
    assert not record.path.read_bytes()
    record.close()


@pytest.mark.parametrize(
    "spans", [[[1, 1, "a"]], [[0, 2, "a"], [1, 3, "b"]], [[0, 1]], [[0, True, "a"]], "a", [[-1, 1, "a"]]]
)
def test_spans_that_overlap_or_are_none_are_refused(tmp_path: Path, spans: Any) -> None:
    record = opened(tmp_path, "tagging")
    with pytest.raises(DataError):
        record.append(line("answer", 1, spans=spans))
    record.close()


def test_one_process_writes(tmp_path: Path) -> None:
    record = opened(tmp_path)
    with pytest.raises(UserError, match="another process is writing to it"):
        opened(tmp_path)
    record.close()
    opened(tmp_path).close()


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = opened(tmp_path)
    record.append(line("answer", 1, label="a"))
    before = record.path.read_bytes()
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, content: write(file, content[:10]))
    with pytest.raises(UserError, match="No space left on device"):
        record.append(line("answer", 2, label="b"))
    monkeypatch.undo()
    assert record.path.read_bytes() == before
    assert record.append(line("answer", 2, label="b"))
    assert record.answer("t1") == "b"
    record.close()


def test_a_record_is_of_one_task(tmp_path: Path) -> None:
    record = opened(tmp_path)
    record.append(line("answer", 1, label="a"))
    record.close()
    with pytest.raises(UserError, match="has answers for --task classification, not tagging"):
        Record(record.path, "tagging", []).__enter__()
