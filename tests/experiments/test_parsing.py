"""The parses' experiment: models of one size, and words that are held out but for one row."""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

EXPERIMENTS = Path(__file__).resolve().parents[2] / "experiments"


@pytest.fixture
def parsing(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    known = "parsing" in sys.modules
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    yield __import__("parsing")
    if not known:
        sys.modules.pop("parsing", None)


def read(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_all_models_are_as_large_as_t5(parsing: ModuleType) -> None:
    for data in parsing.DATA.values():
        shape = parsing.SHAPE.model_copy(
            update={"max_source_len": data.max_source_len, "max_target_len": data.max_target_len}
        )
        labels = [
            *((name, name) for name in parsing.MODELS),
            *(("Remixer", name) for name in parsing.BLOCKS if "dropout" not in name),
        ]
        sizes = [
            parsing.size(parsing.system(family, label, shape, data.subwords).model, data.subwords)
            for family, label in labels
        ]
        assert sizes[1:] == pytest.approx([sizes[0]] * (len(sizes) - 1), rel=0.01)


def test_every_variant_changes_something(parsing: ModuleType) -> None:
    base = parsing.system("T5.1.1", "T5.1.1", parsing.SHAPE, 900)
    for name in parsing.VARIANTS:
        other = parsing.system("T5.1.1", name, parsing.SHAPE, 900)
        assert other.model != base.model or other.changes


def test_held_out_words_are_known_from_one_row(parsing: ModuleType, shared_data: Path, tmp_path: Path) -> None:
    source = shared_data / "cogs" / "train.jsonl.gz"
    folder = parsing.hold_out(source, tmp_path)
    train, validation = read(folder / "train.jsonl.gz"), read(folder / "dev.jsonl.gz")
    primitives = len(train) + len(validation) - len(read(source))
    assert primitives == 12  # half of the nouns and names
    assert all(" " not in row["source"] for row in train[-primitives:])
    alone = {row["source"]: row["target"] for row in train[-primitives:]}
    for word, target in alone.items():
        assert target in (word, f"LAMBDA a . {word} ( a )")
        assert not any(word in row["source"].split() for row in train[:-primitives])
    uses = Counter(word for row in train for word in set(row["source"].split()))
    kinds = Counter(row["kind"] for row in validation)
    assert set(kinds) == {"noun", "noun alone", "name", "name alone", "verb"}
    for row in validation:
        rare = [word for word in row["source"].split() if uses[word] <= 1]
        match row["kind"]:
            case "noun" | "name":
                assert any(uses[word] == 1 and word not in alone for word in rare), row["source"]
            case "verb":
                assert re.search(r"\. (agent|theme) ", row["target"])
            case _:
                assert any(word in alone for word in rare), row["source"]


def test_held_out_rows_are_the_same_each_time(parsing: ModuleType, shared_data: Path, tmp_path: Path) -> None:
    source = shared_data / "cogs" / "train.jsonl.gz"
    one, two = (parsing.hold_out(source, tmp_path / name) for name in ("one", "two"))
    for name in ("train", "dev"):
        assert read(one / f"{name}.jsonl.gz") == read(two / f"{name}.jsonl.gz")


def test_errors_are_of_trees_or_of_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    errors = __import__("parsing_errors")
    target = "[IN:GET [SL:WHO Ann ] ]"
    answers = [target, "[IN:GET [SL:WHO Anna ] ]", "[IN:GET [SL:WHEN Ann ] ]", "[IN:GET [SL:WHO call Ann ] ]"]
    counted = errors.count(answers, ["call Ann"] * 4, [target] * 4)
    assert list(counted.values()) == [4, 1, 3, 1]
