"""The experiment on a few rows, as it is called, and its rule for whole sentences."""

from __future__ import annotations

import gzip
import importlib
import json
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "experiments" / "own_models.py"


@pytest.fixture(scope="module")
def experiment(load_script: Callable[[str], ModuleType]) -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPT.parent)
        yield load_script("experiments/own_models.py")


def write(path: Path, rows: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


@pytest.mark.usefixtures("experiment")
def test_a_sentence_is_no_part_of_another(tmp_path: Path) -> None:
    texts = ["good", "a good film", "good film", "a film", "a good film by far", "by far", "film by"]
    write(tmp_path / "sst2_glue" / "train.jsonl.gz", [{"text": text, "label": "1"} for text in texts])
    sentences = importlib.import_module("text_sets").sentences(tmp_path)
    found = [(example.text, example.line) for example in sentences]
    assert found == [("a good film by far", 5), ("a film", 4)]


@pytest.mark.slow
def test_a_small_run_is_written_and_shown(
    experiment: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(0)

    def rows(count: int) -> list[dict]:
        out = []
        for _ in range(count):
            label = rng.randrange(2)
            words = [f"{'ab'[label]}{rng.randrange(30)}" for _ in range(4)]
            out.append({"text": " ".join(words), "label": str(label)})
        return out

    write(tmp_path / "cola" / "train.jsonl.gz", rows(120))
    write(tmp_path / "cola" / "dev.jsonl.gz", rows(40))
    out = tmp_path / "experiments" / "results" / "own_models.json"
    out.parent.mkdir(parents=True)
    call = ["own_models.py", "cola", "--data", str(tmp_path), "--out", str(out), "--runs", str(tmp_path / "runs")]
    changes = ["--set", "model.dim=8", "train.epochs=2", "init.training_texts=false"]
    monkeypatch.setattr("sys.argv", [*call, "--seeds", "1", *changes])
    experiment.main()
    (line,) = json.loads(out.read_text())
    assert (line["set"], line["model"], line["teacher"]) == ("cola", "mixling-small", None)
    assert line["rows"] == {"train": 108, "validation": 12, "test": 40}
    beside = line["baselines"]["tf-idf"]
    assert beside["test"] == 1.0
    (seed,) = line["seeds"]
    assert seed["test"]["accuracy"] == line["test"]
    assert beside["difference"]["mean"] == pytest.approx(line["test"] - 1)
    assert beside["difference"]["low"] <= beside["difference"]["mean"] <= beside["difference"]["high"]
    with monkeypatch.context() as without:
        without.setattr(sys.modules["mixer_family"], "fit", None)  # a finished training is not repeated
        experiment.main()
        assert json.loads(out.read_text())[0]["seeds"] == line["seeds"]
        without.setattr("sys.argv", [*call, "--seeds", "1", *changes, "ngrams.use=never"])
        with pytest.raises(TypeError):  # one that differs in anything is
            experiment.main()
    assert "| cola | small, model.dim=8," in importlib.import_module("tables.own").own_models(tmp_path)
