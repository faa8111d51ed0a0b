"""pNLP-Mixer's tables: their rows, unknown words, and a small run from data to results."""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from mixling import build_model
from mixling.models import count_parameters

FOLDER = Path(__file__).resolve().parents[2] / "experiments"


@pytest.fixture
def experiment(load_script: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(FOLDER)
    return load_script("experiments/pnlp_mixer.py")


def options(tmp_path: Path) -> argparse.Namespace:
    vocabulary = tmp_path / "vocab" / "bert-base-multilingual-cased.txt"
    vocabulary.parent.mkdir(exist_ok=True)
    vocabulary.write_text("[UNK]\nplay\nsome\n##s\n", "utf-8")
    return argparse.Namespace(
        data=tmp_path, runs=tmp_path / "runs", training="ours", size="base",
        embeddings=None, examples=None, epochs=None, teacher=None,
    )  # fmt: skip


@pytest.mark.parametrize(("table", "rows"), [("1", 6), ("2", 7), ("3", 14), ("4", 4), ("5", 13)])
def test_every_row_is_a_model(experiment: ModuleType, tmp_path: Path, table: str, rows: int) -> None:
    made = list(experiment.TABLES[table](options(tmp_path)))
    assert len(made) == len({row.label for row in made}) == rows
    sizes = {row.label: count_parameters(build_model(row.model, 151, output="tokens")) for row in made[:2]}
    assert all(size > 100_000 for size in sizes.values())


# Millions, as Tables 2, 5 and 7 print them.
PRINTED = {
    "2": {
        "Mixer": 1.2,
        "Transformer": 1.2,
        "LSTM": 1.88,
        "projection only, w = 4": 2.4,
        "projection only, w = 1": 0.82,
    },
    "5": {"X-LARGE": 4.4, "LARGE": 2.3, "BASE": 1.2, "SMALL": 0.63, "X-SMALL": 0.2, "BASE, th, 859 rows": 1.2},
    "7": {"IMDB, X-SMALL": 1.2, "IMDB, BASE": 2.1, "IMDB, X-LARGE": 6.3}
    | {f"Hyperpartisan, X-SMALL, fold {fold}": 2.2 for fold in range(5)}
    | {"Hyperpartisan, BASE, fold 0": 3.2, "Hyperpartisan, X-LARGE, fold 4": 8.4},
}


@pytest.mark.parametrize("table", PRINTED)
def test_rows_have_the_sizes_that_the_paper_prints(experiment: ModuleType, tmp_path: Path, table: str) -> None:
    rows = {row.label: row.model for row in experiment.TABLES[table](options(tmp_path))}
    assert PRINTED[table].keys() <= rows.keys()
    for label, millions in PRINTED[table].items():
        labels, output = (2, "text") if table == "7" else (151, "tokens")
        with torch.device("meta"):
            size = count_parameters(build_model(rows[label], labels, output=output)) / 1e6
        assert size == pytest.approx(millions, abs=0.051 if millions >= 1 else 0.0085), label


def test_the_published_split_of_hyperpartisan_shares_articles_and_without_them_none(
    experiment: ModuleType, tmp_path: Path
) -> None:
    folder = tmp_path / "hyperpartisan_byarticle"
    folder.mkdir()
    with gzip.open(folder / "all.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": f"number {i}", "label": "ab"[i % 2]}) + "\n" for i in range(645))
    found = {}
    for split in experiment.SPLITS:
        _, *parts = experiment.load(f"hyperpartisan:{split}", tmp_path)
        train, validation, test = (set(part.texts) for part in parts)
        found[split] = [len(train), len(validation), len(test), len(train & test), len(validation & test)]
    assert list(found.values()) == [[516, 64, 65, 51, 7], [465, 57, 65, 0, 0]]


def test_rows_of_tables_1_3_and_4_differ_from_base_in_what_they_name(experiment: ModuleType, tmp_path: Path) -> None:
    """By the paper's formula of the parameters, and by the features that the projections make of a word."""
    base = {"m": 1024, "n": 64, "w": 1, "b": 256, "layers": 2}
    changed = {
        "3": [
            *({"m": m} for m in (256, 512, 2048, 4096)), *({"n": n} for n in (16, 32, 128, 256)),
            {"w": 0}, {"w": 4}, {"b": 64}, {"b": 512}, {"layers": 1}, {"layers": 4},
        ],
        "4": [
            {"m": 2048, "layers": 4}, {"m": 2048, "b": 512, "layers": 4}, {"w": 0, "b": 64}, {"m": 512, "w": 0, "b": 64}
        ],
    }  # fmt: skip
    given = options(tmp_path)
    for table, changes in changed.items():
        for row, change in zip(experiment.TABLES[table](given), changes, strict=True):
            want = base | change
            m, b, w, layers, h, s = want["m"], want["b"], want["w"], want["layers"], 256, 64
            layer = (2 * s * h + h + s) + (2 * b * h + h + b) + 4 * b
            with torch.device("meta"):
                size = count_parameters(build_model(row.model, 151, output="tokens"))
            assert size == ((2 * w + 1) * m + 1) * b + layers * layer + 151 * (b + 1), row.label
            assert row.model.text.projection.num_hashes == want["n"]
    types = [row.model.text.projection.type for row in experiment.TABLES["1"](given)]
    assert types == ["minhash", "binary", "simhash", "ternary", "tsp", "embedding"]


def test_tables_3_and_4_have_the_papers_figures_and_sizes(experiment: ModuleType, tmp_path: Path) -> None:
    """Exact match and millions of parameters as the paper prints them; what it does not have is a row of ours."""
    printed = {
        "m = 512": (78.4, 0.76), "m = 2048": (80.8, 1.9), "n = 32": (78.2, 1.2), "n = 128": (79.9, 1.2),
        "w = 0": (80.0, 0.63), "w = 4": (80.6, 2.7), "b = 64": (77.8, 0.34), "b = 512": (81.0, 2.2),
        "1 layer": (79.8, 0.99), "4 layers": (80.7, 1.5), "11": (81.2, 2.3), "12": (82.3, 4.4), "13": (76.9, 0.2),
        "14": (74.5, 0.18),
    }  # fmt: skip
    rows = [row for table in ("3", "4") for row in experiment.TABLES[table](options(tmp_path))]
    assert {row.label.partition(":")[0]: row.paper for row in rows if row.paper} == {
        label: figure for label, (figure, _) in printed.items()
    }
    for row in rows:
        if row.paper:
            with torch.device("meta"):
                size = count_parameters(build_model(row.model, 151, output="tokens")) / 1e6
            millions = printed[row.label.partition(":")[0]][1]
            assert size == pytest.approx(millions, abs=0.051 if millions >= 1 else 0.0085), row.label


def test_architectures_of_another_size_differ_in_width_and_window(experiment: ModuleType, tmp_path: Path) -> None:
    given = options(tmp_path)
    given.size = "x-small"
    shapes = {row.label: (row.model.dim, row.model.embedding.window) for row in experiment.TABLES["2"](given)}
    assert shapes.pop("pQRNN")
    windows = {"projection only, w = 1": 1, "projection only, w = 4": 4}
    assert shapes == {label: (64, windows.get(label, 0)) for label in shapes}
    assert len(shapes) == 6


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


def test_with_a_teacher_table_2_has_students(experiment: ModuleType, tmp_path: Path) -> None:
    given = options(tmp_path)
    given.teacher = tmp_path / "encoder"
    students = {row.label: row for row in experiment.TABLES["2"](given) if row.taught}
    assert list(students) == ["pQRNN, distilled", "Mixer, distilled"]
    found = experiment.configure(students["pQRNN, distilled"], "tagging", 1, given).distill
    assert (found.teacher, found.fine_tune, found.tuning.epochs) == (str(tmp_path / "encoder"), True, 10)


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
    arguments = [
        "2",
        "--data",
        tmp_path,
        "--epochs",
        "2",
        "--examples",
        "40",
        "--runs",
        tmp_path / "runs",
        "--out",
        out,
    ]
    labels = ["projection only, w = 4", "projection only, w = 1"]
    monkeypatch.setattr("sys.argv", ["pnlp_mixer.py", *map(str, arguments), "--rows", *labels])
    experiment.main()
    first = json.loads(out.read_text())
    table = first["table 2, ours, 40 examples, 2 epochs"]
    assert list(table) == labels
    found = table[labels[1]]
    assert found["paper"] == 65.5
    assert set(found["mean"]) == {"word_accuracy", "word_accuracy_without_o", "span_f1", "sentence_accuracy"}
    (difference,) = first["differences 2, ours, 40 examples, 2 epochs"]
    means = [table[label]["mean"]["sentence_accuracy"] for label in labels]
    assert difference["difference"] == pytest.approx(means[0] - means[1], abs=1e-5)
    seconds = found["seeds"][0]["seconds"]
    (folder,) = (tmp_path / "runs").iterdir()
    saved = json.loads((folder / "2" / "projection-only--w---1" / "0" / "metrics.json").read_text())
    assert saved["data"]["training"] == 40
    experiment.main()
    again = json.loads(out.read_text())["table 2, ours, 40 examples, 2 epochs"]
    assert again[labels[1]]["seeds"][0]["seconds"] == seconds


def test_of_two_classes_there_is_the_f1_of_each(experiment: ModuleType) -> None:
    rows = [{"label": "false", "f1": 0.75}, {"label": "true", "f1": 0.5}]
    found = experiment.numbers({"accuracy": 0.6, "macro_f1": 0.625, "per_class": rows, "log_loss": 1.0})
    assert found == {"accuracy": 0.6, "macro_f1": 0.625, "f1_false": 0.75, "f1_true": 0.5}
    assert experiment.numbers({"span_f1": 0.5, "per_class": rows}) == {"span_f1": 0.5}
