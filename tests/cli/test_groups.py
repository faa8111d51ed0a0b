"""Groups, near-duplicates and the line of comparison, as a user of the command line sees them."""

from __future__ import annotations

import csv
import random
import re
from pathlib import Path

import pytest

from .conftest import Call

QUICK = ["--test-fraction", "0", "--model", "mixling-tiny", "--epochs", "1"]


@pytest.fixture
def films(tmp_path: Path) -> Path:
    """40 films with five reviews each, which say nearly the same."""
    chance = random.Random(0)
    with (tmp_path / "films.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["film", "text", "label"])
        for film in range(40):
            label = chance.choice(["good", "bad", "bad"])
            words = [f"word{chance.randrange(5000)}" for _ in range(8)]
            for number in range(5):
                table.writerow([film, " ".join([*words, f"extra{film * 5 + number}"]), label])
    return tmp_path / "films.csv"


@pytest.mark.slow
def test_near_duplicates_are_reported_and_groups_keep_them_on_one_side(call: Call, films: Path, tmp_path: Path) -> None:
    done = call("train", films, *QUICK, "-o", tmp_path / "mixed")
    assert done.code == 0, done.err
    found = re.search(r"(\d+) of (\d+) validation texts with at least 4 words have a near-duplicate", done.err)
    assert found is not None
    assert found[1] == found[2]
    assert "--set data.columns.group=COLUMN" in done.err
    done = call("train", films, *QUICK, "--set", "data.columns.group=film", "-o", tmp_path / "grouped")
    assert done.code == 0, done.err
    assert "180 training and 20 validation examples" in done.err
    assert "near-duplicate" not in done.err
    # Rows to answer or to measure on need no such column.
    (tmp_path / "test.csv").write_text("text,label\nword1 word2,good\n")
    assert call("evaluate", tmp_path / "grouped", tmp_path / "test.csv").code == 0
    assert call("predict", tmp_path / "grouped", tmp_path / "test.csv").code == 0


def test_a_majority_class_stands_beside_the_result(call: Call, films: Path, tmp_path: Path) -> None:
    done = call("train", films, *QUICK, "--set", "data.columns.group=film", "-o", tmp_path / "run")
    found = re.search(r"baseline +always 'bad' has accuracy (0\.\d{4})", done.err)
    assert found is not None
    assert 0.5 < float(found[1]) < 0.9


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (
            ["--set", "data.columns.group=flim"],
            ["no column 'flim'; did you mean 'film'?", "--set data.columns.group=COLUMN"],
        ),
        (
            ["--set", "data.columns.group=film", "--validation", "films.csv"],
            ["columns.group: got 'film'", "--validation", "give only one of the two"],
        ),
        (["--set", "data.columns.group=film", "--task", "text2text"], ["unknown key 'data'"]),
    ],
    ids=["column", "validation", "text2text"],
)
def test_mistakes_with_groups(
    args: list[str], words: list[str], call: Call, films: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(films.parent)
    done = call("train", films.name, *args, "-o", "out")
    assert done.code == 2
    for word in words:
        assert word in done.err


def test_a_row_without_a_group_is_a_bad_row(call: Call, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"text": "a", "label": "x", "g": 1}\n{"text": "b", "label": "y", "g": " "}\n')
    done = call("train", tmp_path / "rows.jsonl", "--set", "data.columns.group=g", "-o", tmp_path / "out")
    assert done.code == 2
    assert "rows.jsonl:2: column 'g' is empty; enter the name of the row's group" in done.err
    (tmp_path / "rows.jsonl").write_text('{"text": "a", "label": "x"}\n')
    done = call("train", tmp_path / "rows.jsonl", "--set", "data.columns.group=g", "-o", tmp_path / "out")
    assert "rows.jsonl:1: column 'g' is empty" in done.err
