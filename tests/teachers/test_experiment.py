"""The experiment of a fine-tuned encoder, on rows that one word decides."""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from .conftest import MakeModel

EXPERIMENTS = Path(__file__).resolve().parents[2] / "experiments"


@pytest.mark.slow
def test_it_learns_and_validation_chooses_the_rate(
    load_script: Callable[[str], ModuleType], make_model: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    script = load_script("experiments/fine_tuned.py")
    names = itertools.product(["rome", "oslo", "the", "film"], ["flight", "to", "from", "is"], ["play", "very"])
    rows = [{"text": " ".join((*name, word)), "label": word} for name in names for word in ("good", "bad")]
    (tmp_path / "cola").mkdir()
    for split in ("train", "dev"):
        with gzip.open(tmp_path / "cola" / f"{split}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    out = tmp_path / "out.json"
    call = ["fine_tuned.py", "cola", "--data", str(tmp_path), "--base", str(make_model("BertModel")), "--out", str(out)]
    monkeypatch.setattr("sys.argv", [*call, "--lr", "1e-9", "0.005", "--epochs", "40", "--seeds", "3"])
    script.main()
    (line,) = json.loads(out.read_text())
    assert (line["set"], line["seed"], line["lr"]) == ("cola", 3, 0.005)
    assert line["validation"]["0.005"] == 1.0  # weights must be cast anew in each step
    assert line["validation"]["1e-09"] < 1
    assert line["test"] > 0.8
    assert line["bytes"] > 4 * line["parameters"]
