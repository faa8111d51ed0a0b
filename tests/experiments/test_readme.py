"""Tables in documents: they are those of the results."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

EXPERIMENTS = Path(__file__).resolve().parents[2] / "experiments"


@pytest.fixture(scope="module")
def readme(load_script: Callable[[str], ModuleType]) -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXPERIMENTS)
        yield load_script("experiments/readme.py")


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
    written = text.format("*There is no results file yet.*")
    assert readme.written(text.format("x\n\ny"), tmp_path) == written
    empty = text.replace("{}\n\n", "")
    assert readme.written(empty + text.format("x"), tmp_path) == written + written  # not what is between them
    with pytest.raises(KeyError):
        readme.written("<!-- table: nothing -->\n\nx\n\n<!-- end of table -->", tmp_path)


def test_images_are_a_row_each(readme: ModuleType, tmp_path: Path) -> None:
    row = {"model": "gmlp-images", "parameters": 1234, "epochs": 10, "seed": 0, "validation": 0.9, "commit": "a" * 40}
    row |= {"test": 0.9166, "test_interval": [0.911, 0.922], "cpu_minutes": 20.4}
    write(tmp_path, "fashion_mnist", {"commit": "b" * 40, "models": [row], "linear": {"images": 10_000, "test": 0.83}})
    lines = readme.TABLES["fashion_mnist"](tmp_path).splitlines()
    assert lines[2] == "| gmlp-images | 1,234 | 10 | 0 | .900 | .917 [.911, .922] | 20 | aaaaaaa |"
    assert lines[3] == "| logistic regression on 10,000 images |  |  |  |  | .830 |  | bbbbbbb |"


_HEADING = "| model | parameters | seeds | without O | span F1 | sentence accuracy | word accuracy |"


def test_tables_of_three_seeds_with_their_differences(readme: ModuleType, tmp_path: Path) -> None:
    def row(*accuracies: float, paper: float | None = None) -> dict[str, Any]:
        same = {"word_accuracy": 0.5, "word_accuracy_without_o": 0.45, "span_f1": 0.25}
        metrics = [{**same, "sentence_accuracy": value} for value in accuracies]
        seeds = [{"parameters": 2000, "validation": values, "test": values} for values in metrics]
        return {"paper": paper, "seeds": seeds, "provenance": {"commit": "c" * 40}}

    first, second = row(0.4, 0.5, 0.6, paper=80.8), row(0.3, 0.3, 0.3)
    difference = {"first": "MinHash", "second": "TSP", "difference": 0.2, "low": -0.01, "high": 0.41}
    results = {
        "table 1, ours": {"TSP": second, "MinHash": first, "of one seed": row(0.9)},
        "differences 1, ours": [difference],
        "table 2, paper": {"Mixer": row(0.7), "Mixer, distilled": row(0.7, 0.8, 0.9)},
        "table 3, ours": {"w = 4": row(0.55, paper=80.6)},
        "table 5, ours": {
            "SMALL": row(0.6, paper=79.9), "BASE": row(0.4, 0.5, 0.6, paper=81.8), "BASE, th, 859 rows": first,
        },
        "table 5, paper": {"BASE": row(0.5, paper=81.8)},
    }  # fmt: skip
    write(tmp_path, "pnlp_mixer", results)
    assert readme.TABLES["pnlp_tables"](tmp_path).splitlines() == [
        "Table 1, ours, commit ccccccc:",
        "",
        f"{_HEADING} ahead of the next | paper |",
        "|---|---|---|---|---|---|---|---|---|",
        "| MinHash | 2,000 | 3 | .450 ± .000 | .250 ± .000 | .500 ± .100 | .500 ± .000 | +20.0 [-1.0, +41.0] | 80.8 |",
        "| TSP | 2,000 | 3 | .450 ± .000 | .250 ± .000 | .300 ± .000 | .500 ± .000 |  |  |",
        "",
        "Table 3, ours, commit ccccccc:",
        "",
        f"{_HEADING} paper |",
        "|---|---|---|---|---|---|---|---|",
        "| BASE | 2,000 | 3 | .450 ± .000 | .250 ± .000 | .500 ± .100 | .500 ± .000 | 80.8 |",
        "| w = 4 | 2,000 | 1 | .450 | .250 | .550 | .500 | 80.6 |",
    ]
    write(tmp_path, "own_models", [{"set": "mtop_en", "model": "mixling-mixer", **row(0.8)}])
    assert readme.TABLES["slots"](tmp_path).splitlines()[2:] == [
        "| BASE | 2,000 | 3 | .450 ± .000 | .250 ± .000 | .500 ± .100 | .500 ± .000 | .818 | ccccccc |",
        "| BASE, the paper's recipe | 2,000 | 1 | .450 | .250 | .500 | .500 | .818 | ccccccc |",
        "| SMALL | 2,000 | 1 | .450 | .250 | .600 | .500 | .799 | ccccccc |",
        "| mixling-mixer | 2,000 | 1 | .450 | .250 | .800 | .500 |  | ccccccc |",
    ]
    assert readme.TABLES["pnlp_distilled"](tmp_path).splitlines()[2:] == [
        "| Mixer | 2,000 | 1 | .450 | .250 | .700 | .500 | ccccccc |",
        "| Mixer, distilled | 2,000 | 3 | .450 ± .000 | .250 ± .000 | .800 ± .100 | .500 ± .000 | ccccccc |",
    ]


def test_readings_of_exact_match_are_beside_what_is_printed(readme: ModuleType, tmp_path: Path) -> None:
    def row(value: float, paper: float | None = None) -> dict[str, Any]:
        names = ("span_f1", "word_accuracy_without_o", "sentence_accuracy", "word_accuracy")
        return {"paper": paper, "mean": dict.fromkeys(names, value)}

    results = {
        "table 1, paper": {"MinHash": row(0.7, 80.0), "ours": row(0.1)},
        "table 2, paper": {"Mixer": row(0.7, 80.0), "Transformer": row(0.8, 76.0)},
        "table 3, paper": {"w = 0": row(0.75, 78.0)},
        "table 8, paper": {"X-SMALL, no word known": row(0.01), "BASE, no word known": row(0.02)},
    }
    write(tmp_path, "pnlp_mixer", results)
    lines = readme.TABLES["exact_match"](tmp_path).splitlines()
    assert lines[2] == "| without O | 3 | -3.0, 7.0 | -10.0 to +4.0 | -1.00 | 1.0 to 2.0 |"


def test_perplexities_are_in_descending_order(readme: ModuleType, tmp_path: Path) -> None:
    def row(*perplexities: float, paper: float | None) -> dict[str, Any]:
        return {"body": 1000, "perplexity": perplexities, "mean": sum(perplexities) / len(perplexities), "paper": paper}

    models = {"gMLP": row(100.0, 104.0, paper=4.35), "MLP-Mixer": row(444.44, paper=None)}
    write(tmp_path, "gmlp_ablation", {"models": models})
    assert readme.TABLES["gmlp_ablation"](tmp_path).splitlines()[2:] == [
        "| MLP-Mixer | 1,000 | 444.4 |  |",
        "| gMLP | 1,000 | 102.0 (100.0, 104.0) | 4.35 |",
    ]


def test_folds_have_their_mean_and_languages_their_vocabularies(readme: ModuleType, tmp_path: Path) -> None:
    def fold(value: float) -> dict[str, Any]:
        test = {"accuracy": value, "macro_f1": value, "f1_false": 0.8, "f1_true": 0.4}
        return {"paper": 89.8, "seeds": [{"test": test}], "provenance": {"commit": "c" * 40}}

    def language(value: float) -> dict[str, Any]:
        return {"mean": {"sentence_accuracy": value, "span_f1": value / 2}}

    folds = {f"Hyperpartisan, X-SMALL, fold {number}": fold(0.5 + number / 10) for number in range(3)}
    folds["Hyperpartisan, X-SMALL, published split"] = fold(0.9)
    vocabularies = {"vocabulary en, rows th": language(0.2), "vocabulary M, rows th": language(0.6)}
    results = {"table 5, ours": {"BASE, th, 859 rows": language(0.4)}}
    write(tmp_path, "pnlp_mixer", {"table 7, ours": folds, "table 8, ours": vocabularies, **results})
    assert readme.TABLES["hyperpartisan"](tmp_path).splitlines()[2:] == [
        "| folds | X-SMALL | 3 | .600 ± .100 | .600 ± .100 | .800 ± .000 | .400 ± .000 | 89.8 | ccccccc |",
        "| published split | X-SMALL | 1 | .900 | .900 | .800 | .400 | 89.8 | ccccccc |",
    ]
    assert readme.TABLES["languages"](tmp_path).splitlines() == [
        "| rows | own subwords | en | multilingual BERT's |",
        "|---|---|---|---|",
        "| th | .400, .200 | .200, .100 | .600, .300 |",
    ]


def test_mixers_are_ordered_by_the_recall_of_the_longest_texts(readme: ModuleType, tmp_path: Path) -> None:
    def row(form: str, last: float, state: int | None) -> dict[str, Any]:
        scores = {"32": 1.0, "64": 0.5, "128": last}
        return {"form": form, "recall": scores, "rate": 0.003, "state": state, "parameters": 16_640}

    found = {"fourier": {"forms": [row("full", 0.1, None)]}, "attention": {"forms": [row("causal", 0.9, 32_768)]}}
    write(tmp_path, "bench", found)
    assert readme.TABLES["recall"](tmp_path).splitlines()[2:] == [
        "| attention | causal | 1.000 | .500 | .900 | 0.003 | 32,768 | 16,640 |",
        "| fourier | full | 1.000 | .500 | .100 | 0.003 |  | 16,640 |",
    ]


def test_searches_have_the_expected_best_and_the_change_against_the_transformer(
    readme: ModuleType, tmp_path: Path
) -> None:
    def row(first: float) -> dict[str, Any]:
        return {"trials": [], "expected": [first + n / 100 for n in range(12)], "deviation": [0.02] * 12}

    models = {"transformer": row(0.4), "hypermixer": row(0.5)}
    size = {"examples": 1000, "models": models, "provenance": {"commit": "c" * 40}}
    write(tmp_path, "hypermixer_search-sst2_glue-narrow", {"fractions": {"0.1": size}})
    lines = readme.TABLES["hypermixer_search"](tmp_path).splitlines()[2:]
    figures = "50.0 ± 2.0 | 54.0 ± 2.0 | 59.0 ± 2.0 | 61.0 ± 2.0"
    assert lines[1] == f"| 1,000 | hypermixer | 12 | {figures} | +25.0%, +19.6% | ccccccc |"  # .5 / .4 and .61 / .51
    assert lines[0].endswith("|  | ccccccc |")
