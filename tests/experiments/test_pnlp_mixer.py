"""pNLP-Mixer's tables: their rows, unknown words, and a small run from data to results."""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from mixling.models.model import build_model, count_parameters

FOLDER = Path(__file__).resolve().parents[2] / "experiments"


@pytest.fixture
def experiment(load_script: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(FOLDER)
    return load_script("experiments/pnlp_mixer.py")


def options(tmp_path: Path) -> argparse.Namespace:
    vocabulary = tmp_path / "vocab" / "bert-base-multilingual-cased.txt"
    vocabulary.parent.mkdir(exist_ok=True)
    vocabulary.write_text("[UNK]\nplay\nsome\n##s\n", "utf-8")
    return argparse.Namespace(data=tmp_path, runs=tmp_path / "runs", embeddings=None, training="ours", epochs=None)


@pytest.mark.parametrize(("table", "rows"), [("1", 6), ("2", 6), ("3", 10), ("4", 4), ("5", 11)])
def test_every_row_is_a_model(experiment: ModuleType, tmp_path: Path, table: str, rows: int) -> None:
    made = list(experiment.TABLES[table](options(tmp_path)))
    assert len(made) == len({row.label for row in made}) == rows
    sizes = {row.label: count_parameters(build_model(row.model, 151, output="tokens")) for row in made[:2]}
    assert all(size > 100_000 for size in sizes.values())


def test_unknown_words_are_alike(experiment: ModuleType, tmp_path: Path) -> None:
    rows = [{"tokens": ["play", "plays", "खेल", "music"], "slots": ["O", "O", "B-x", "O"]}]
    vocabulary = options(tmp_path).data / "vocab" / "bert-base-multilingual-cased.txt"
    assert list(experiment.slots(rows, tmp_path, str(vocabulary)).texts) == [["play", "plays", "[UNK]", "[UNK]"]]
    assert list(experiment.slots(rows, tmp_path, "").texts) == [["play", "plays", "खेल", "music"]]


def test_the_papers_recipe_or_ours(experiment: ModuleType, tmp_path: Path) -> None:
    given = options(tmp_path)
    row = next(experiment.TABLES["choose"](given))
    ours = experiment.configure(row, "tagging", 3, given)
    assert (ours.train.seed, ours.train.epochs, ours.model.text.lowercase) == (3, None, False)
    given.training = "paper"
    paper = experiment.configure(row, "tagging", 3, given)
    assert (paper.train.epochs, paper.train.batch_size, paper.train.optim.lr) == (80, 256, 5e-4)
    assert str(paper.model.text.vocabulary).endswith("bert-base-multilingual-cased.txt")


def test_a_small_run_is_written_and_not_repeated(
    experiment: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["play", "some", "songs", "now"]
    data = [{"tokens": [*words[i % 4 :], "x"], "slots": ["O"] * (4 - i % 4) + ["B-a"]} for i in range(48)]
    (tmp_path / "mtop_en").mkdir()
    for split in ("train", "dev", "test"):
        content = "".join(json.dumps(row) + "\n" for row in data).encode()
        (tmp_path / "mtop_en" / f"{split}.jsonl.gz").write_bytes(gzip.compress(content))
    out = tmp_path / "results.json"
    arguments = ["2", "--data", tmp_path, "--epochs", "2", "--runs", tmp_path / "runs", "--out", out]
    labels = ["projection only, w = 4", "projection only, w = 1"]
    monkeypatch.setattr("sys.argv", ["pnlp_mixer.py", *map(str, arguments), "--rows", *labels])
    experiment.main()
    first = json.loads(out.read_text())
    assert list(first["table 2, ours"]) == labels
    found = first["table 2, ours"][labels[1]]
    assert found["paper"] == 65.5
    assert set(found["mean"]) == {"word_accuracy", "word_accuracy_without_o", "span_f1", "sentence_accuracy"}
    (difference,) = first["differences 2, ours"]
    means = [first["table 2, ours"][label]["mean"]["sentence_accuracy"] for label in labels]
    assert difference["difference"] == pytest.approx(means[0] - means[1], abs=1e-5)
    seconds = found["seeds"][0]["seconds"]
    experiment.main()
    assert json.loads(out.read_text())["table 2, ours"][labels[1]]["seeds"][0]["seconds"] == seconds
