"""Tables in documents: they are those of the results."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture(scope="module")
def readme(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("experiments/readme.py")


def write(folder: Path, name: str, content: Any) -> None:
    path = folder / "experiments" / "results" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def test_documents_have_the_tables_of_the_results(readme: ModuleType) -> None:
    found = []
    for path in readme.DOCUMENTS:
        text = path.read_text("utf-8")
        assert text == readme.written(text), "run python experiments/readme.py"
        found += [name for name in readme.TABLES if f"<!-- table: {name} -->" in text]
        assert text.count("<!-- table: ") == text.count("\n<!-- end of table -->") > 0
    assert {*found} == {*readme.TABLES}


def test_only_what_is_marked_is_written(readme: ModuleType, tmp_path: Path) -> None:
    text = "a | b\n\n<!-- table: fashion_mnist -->\n\n{}\n\n<!-- end of table -->\n\nafter\n"
    assert readme.written(text.format("x\n\ny"), tmp_path) == text.format("*There is no results file yet.*")
    with pytest.raises(KeyError):
        readme.written("<!-- table: nothing -->\n\nx\n\n<!-- end of table -->", tmp_path)


def test_images_are_a_row_each(readme: ModuleType, tmp_path: Path) -> None:
    row = {"model": "gmlp-images", "parameters": 1234, "epochs": 10, "seed": 0, "validation": 0.9, "commit": "a" * 40}
    row |= {"test": 0.9166, "test_interval": [0.911, 0.922], "cpu_minutes": 20.4}
    write(tmp_path, "fashion_mnist", {"commit": "b" * 40, "models": [row], "linear": {"images": 10_000, "test": 0.83}})
    lines = readme.TABLES["fashion_mnist"](tmp_path).splitlines()
    assert lines[2] == "| gmlp-images | 1,234 | 10 | 0 | .900 | .917 [.911, .922] | 20 | aaaaaaa |"
    assert lines[3] == "| logistic regression on 10,000 images |  |  |  |  | .830 |  | bbbbbbb |"


def test_tables_of_three_seeds_with_their_differences(readme: ModuleType, tmp_path: Path) -> None:
    def row(*accuracies: float, paper: float | None = None) -> dict[str, Any]:
        metrics = [{"word_accuracy": 0.5, "span_f1": 0.25, "sentence_accuracy": value} for value in accuracies]
        seeds = [{"parameters": 2000, "validation": values, "test": values} for values in metrics]
        return {"paper": paper, "seeds": seeds, "provenance": {"commit": "c" * 40}}

    first, second = row(0.4, 0.5, 0.6, paper=80.8), row(0.3, 0.3, 0.3)
    difference = {"first": "MinHash", "second": "TSP", "difference": 0.2, "low": -0.01, "high": 0.41}
    results = {
        "table 1, ours": {"TSP": second, "MinHash": first, "of one seed": row(0.9)},
        "differences 1, ours": [difference],
        "table 2, paper": {"Mixer": row(0.7)},
        "table 5, ours": {"BASE": first},
    }
    write(tmp_path, "pnlp_mixer", results)
    assert readme.TABLES["pnlp_tables"](tmp_path).splitlines() == [
        "Table 1, ours, 3 seeds, commit ccccccc:",
        "",
        "| model | parameters | word accuracy | span F1 | sentence accuracy | ahead of the next | paper |",
        "|---|---|---|---|---|---|---|",
        "| MinHash | 2,000 | .500 ± .000 | .250 ± .000 | .500 ± .100 | +20.0 [-1.0, +41.0] | 80.8 |",
        "| TSP | 2,000 | .500 ± .000 | .250 ± .000 | .300 ± .000 |  |  |",
    ]
