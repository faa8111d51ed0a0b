"""The sample data are what their card says, read by Python's csv and json alone."""

from __future__ import annotations

import csv
import datetime
import io
import json
import zlib
from typing import Any

import pytest

from mixling.samples import SAMPLES, read_sample

FILES = [file for sample in SAMPLES.values() for file in sample.files]


def rows(file: str) -> list[dict[str, Any]]:
    content = read_sample(file).decode()
    if file.endswith(".csv"):
        return list(csv.DictReader(io.StringIO(content, newline="")))
    return [json.loads(line) for line in content.splitlines()]


def messages() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The messages to train on, with their true topics, and those of the test file."""
    content = read_sample("messages.csv").decode()
    reader = csv.DictReader(io.StringIO(content, newline=""))
    train, line = {}, reader.line_num + 1
    for row in reader:
        train[max(line, 2)] = row
        line = reader.line_num + 1
    for wrong in rows("messages_wrong_labels.csv"):
        row = train[int(wrong["line"])]
        assert row["topic"] == wrong["given"] != wrong["topic"]
        row["topic"] = wrong["topic"]
    return list(train.values()), rows("messages_test.csv")


def test_all_are_small() -> None:
    assert sum(len(zlib.compress(read_sample(file), 9)) for file in FILES) <= 250_000


@pytest.mark.parametrize("file", [file for file in FILES if "_test" in file])
def test_no_row_of_a_test_file_is_anywhere_else(file: str) -> None:
    def texts(file: str) -> set[str]:
        first = next(name for name in ("message", "text", "context", "first", "review") if name in rows(file)[0])
        return {row[first] for row in rows(file)}

    assert texts(file) & texts(file.replace("_test", "")) == set()


def test_tagged_messages_of_the_test_file_are_test_messages() -> None:
    for file, part in zip(("tags.jsonl", "tags_test.jsonl"), messages(), strict=True):
        assert {row["text"] for row in rows(file)} <= {row["message"] for row in part}


def test_values_are_those_of_the_card() -> None:
    train, test = messages()
    assert len(test) == 300
    assert len({row["topic"] for row in train}) == len({row["topic"] for row in test}) == 12
    for row in train + test:
        assert row["channel"] in {"email", "chat", "form", "phone", "branch"}
        assert row["language"] in {"en", "de", "fr", "es", "nl", "it", "pl"}
        assert datetime.date(2025, 3, 1) <= datetime.date.fromisoformat(row["date"]) <= datetime.date(2026, 8, 31)
        if row["topic"] in ("parcel", "freight"):
            assert (float(row["order_value"]) < 300) == (row["topic"] == "parcel")


def test_spans_and_answers_are_where_they_are_said_to_be() -> None:
    kinds = set()
    for row in rows("tags.jsonl") + rows("tags_test.jsonl"):
        for start, end, kind in row["spans"]:
            assert row["text"][start:end].strip() == row["text"][start:end] != ""
            kinds.add(kind)
    assert kinds == {"product", "order", "date", "place"}
    for row in rows("questions.jsonl") + rows("questions_test.jsonl"):
        for text, start in zip(row["answers"]["text"], row["answers"]["start"], strict=True):
            assert row["context"][start : start + len(text)] == text


def test_stars_and_requests_are_of_few_values() -> None:
    assert {float(row["stars"]) for row in rows("stars.csv")} <= {n / 2 for n in range(2, 11)}
    assert {row["request"] for row in rows("pairs.csv")} == {"same", "other"}
