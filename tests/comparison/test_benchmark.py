"""The benchmark: who chooses on what, what counts as an error, and what is told."""

from __future__ import annotations

import dataclasses
import json
import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

import mixling.teachers.encoder
from mixling import ConfigError, Dataset, Example, Prediction, RunConfig
from mixling.answers import LabelSet
from mixling.comparison import (
    Baseline,
    BaselineKind,
    Comparison,
    Failures,
    LabeledRows,
    TrainedSystem,
    benchmark,
    candidates,
    compare,
    fast_text,
    outcome,
    train_all,
)
from mixling.comparison.evaluation import evaluate_systems
from mixling.comparison.report import as_markdown, as_text, to_dict
from mixling.comparison.speed import time_predictions
from mixling.config import merge
from mixling.data import Target
from mixling.data.dataset import Column
from mixling.errors import TrainingError
from mixling.runs.resolve import LABELS, resolve
from mixling.runs.resolve.spec import Resolved
from mixling.runs.run import Run
from mixling.tasks import Classification, Regression, Tagging
from mixling.text import Text
from mixling.training import Callback

TFIDF = "tf-idf + lr"
TINY = {"dim": 8, "num_layers": 1, "text": {"max_len": 8, "projection": {"num_features": 64, "num_hashes": 8}}}


def write(path: Path, rows: Sequence[tuple[str, ...]]) -> str:
    path.write_text("\n".join(",".join(row) for row in [("text", "text_pair", "label"), *rows]) + "\n", "utf-8")
    return str(path)


def rows(count: int, seed: int) -> list[tuple[str, ...]]:
    """Pairs whose second text has the word that decides."""
    chance = random.Random(seed)
    return [
        (f"a film {seed}-{i}", f"so {chance.choice(['fine', 'great'] if i % 2 else ['awful', 'poor'])}", f"is{i % 2}")
        for i in range(count)
    ]


@pytest.fixture(scope="module", autouse=True)
def without_fasttext() -> Iterator[None]:
    """fastText is not installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fast_text, "is_installed", lambda package: False)
        yield


def config_of(folder: Path, **changes: Any) -> Resolved[RunConfig]:
    columns = {"text_pair": "text_pair"}
    values = {
        "data": {"train": [str(folder / "train.csv")], "validation": [str(folder / "dev.csv")], "columns": columns}
    }
    own = {"task": "classification", "model": {"preset": "pnlp-mixer-x-small", **TINY}, "train": {"epochs": 2}}
    return resolve({}, spec=LABELS, overrides=merge(merge(values, own), changes))


def hold(folder: Path, test: list[str], out: Path) -> Comparison:
    outputs: list[str] = []
    return compare(
        config_of(folder), test=test, models=(), seeds=(0,), folder=out, log=outputs.append, callback=Callback
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """train.csv, dev.csv and test.csv; 3 of the 40 test rows are in train, 2 have a label of their own."""
    folder = tmp_path_factory.mktemp("pairs")
    training = rows(60, 0)
    write(folder / "train.csv", training)
    write(folder / "dev.csv", rows(20, 1))
    odd = [(first, second, "never seen") for first, second, _ in rows(2, 3)]
    write(folder / "test.csv", [*rows(35, 2), *odd, *training[:3]])
    return folder


@pytest.fixture(scope="module")
def held(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return hold(folder, [str(folder / "test.csv")], tmp_path_factory.mktemp("held"))


class Sealed(Dataset):
    """Test rows that cannot be read until all choices are made."""

    sealed = True

    @property
    def texts(self) -> Column[Text]:
        assert not self.sealed, "a test row was read before all choices were made"
        return super().texts

    @property
    def targets(self) -> Column[Target]:
        assert not self.sealed, "a test label was read before all choices were made"
        return super().targets


def test_test_rows_choose_nothing(
    held: Comparison, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With every test label turned round all choices, all that was tried and all answers on validation are the same."""
    read_test, train = outcome.load_test, outcome.train_all
    stores: list[Sealed] = []

    def sealed(*args: Any) -> Sealed:
        stores.append(Sealed(read_test(*args)._columns))
        return stores[0]

    def trained(*args: Any, **kwargs: Any) -> list[TrainedSystem]:
        found = train(*args, **kwargs)
        stores[0].sealed = False
        return found

    monkeypatch.setattr(outcome, "load_test", sealed)
    monkeypatch.setattr(outcome, "train_all", trained)
    turned = [(first, second, "is1" if label == "is0" else "is0") for first, second, label in rows(40, 2)]
    other = hold(folder, [write(tmp_path / "test.csv", turned)], tmp_path / "out")
    assert [(one.name, one.options) for one in other.systems] == [(one.name, one.options) for one in held.systems]
    for first, second in zip(held.systems, other.systems, strict=True):
        assert [(tried.options, tried.validation) for tried in first.tried] == [
            (tried.options, tried.validation) for tried in second.tried
        ]
    assert [one.validation for one in other.systems] == [one.validation for one in held.systems]
    assert other.test != held.test


def test_what_a_reader_must_know_is_reported(held: Comparison) -> None:
    remarks = "\n".join(held.remarks)
    assert "3 of 40 test texts are also in the training rows" in remarks
    assert "are also in the validation rows" not in remarks
    assert "test: 2 examples have labels that training never saw and count as errors: " in remarks
    assert "Several texts: the baselines have features of each by itself" in remarks
    assert held.rows == {"training": 60, "validation": 20, "test": 40}


def test_the_pairs_second_texts_are_read(held: Comparison) -> None:
    assert held.test[TFIDF].mean == pytest.approx(38 / 40)  # all but the labels that training has not


def test_the_exported_model_answers(held: Comparison, tmp_path: Path) -> None:
    ours = held.systems[0]
    assert ours.file_bytes > 10_000
    texts: list[Text] = [row[:2] for row in rows(10, 2)]
    answers = ours.answerers[0].predict(texts)
    assert answers == [ours.answerers[0].predict_one(text) for text in texts]
    assert set(answers) <= {"is0", "is1"}
    for speed in held.speeds.values():
        assert min(speed.texts_per_second, speed.cold_texts_per_second, speed.p50) > 0


def test_without_test_rows_whole_groups_are_held_out(tmp_path: Path) -> None:
    lines = [f"word{i} {i % 7},{'ab'[i % 2]},{i // 4}" for i in range(200)]
    (tmp_path / "train.csv").write_text("\n".join(["text,label,document", *lines]) + "\n")
    data = {"train": [str(tmp_path / "train.csv")], "columns": {"group": "document"}}
    config = resolve({"task": "classification", "data": data}, spec=LABELS).config
    parts = [[example.line for example in part] for part in outcome._read(config, (), lambda message: None)]
    assert 60 <= len(parts[2]) <= 72  # a third: a fifth of so few rows would say nothing
    groups = [{(line - 2) // 4 for line in part} for part in parts]
    assert sum(map(len, groups)) == len(set.union(*groups)) == 50
    assert sorted(line for part in parts for line in part) == list(range(2, 202))


class Lengths:
    """A sentence encoder whose embeddings are the numbers of characters and of words."""

    parameters = 7

    def __init__(self, path: str) -> None:
        assert path == "an encoder"

    def embed(self, texts: Sequence[Text]) -> np.ndarray:
        joined = [" ".join(text) for text in texts]
        return np.array([[len(text), text.count(" ")] for text in joined], np.float32)


def test_refit_few_examples_and_an_encoder(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixling.teachers.encoder, "SentenceEncoder", Lengths)
    fitted: list[tuple[str, int]] = []
    fit_linear = Classification.fit_linear.__func__  # type: ignore[attr-defined]

    def spied(cls: type[Classification], features: Any, targets: Sequence[Any], **options: Any) -> Any:
        fitted.append(("encoder" if features.shape[1] == 2 else "tf-idf", len(targets)))
        return fit_linear(cls, features, targets, **options)

    monkeypatch.setattr(Classification, "fit_linear", classmethod(spied))
    found = compare(
        config_of(folder, decisions={"refit": True}), test=[str(folder / "test.csv")], models=(), seeds=(0,),
        folder=tmp_path,
        log=lambda message: None, callback=Callback, few=(4, 10), encoder="an encoder",
    )  # fmt: skip
    names = ["mixling", TFIDF, "majority", "encoder + lr"]
    assert [one.name for one in found.systems] == names
    assert found.test.keys() == set(names)
    assert {count: values.keys() for count, values in found.few.items()} == {4: set(names), 10: set(names)}
    # All of train, and train and validation again with the chosen options; then parts of train in the same way.
    for name, grid in (("tf-idf", 8), ("encoder", 4)):
        counts = [count for kind, count in fitted if kind == name]
        assert counts[: grid + 1] == [60] * grid + [80]
        assert counts[grid + 1 :] == [7] * grid + [8] + [18] * grid + [20]
    assert "validation accuracy" not in as_text(found)
    assert "per label" in as_text(found)
    assert "validation chose epochs and options, and was trained on afterwards" in as_markdown(found, "")
    values = to_dict(found, {})["results"][0]
    assert values["few"].keys() == {"4", "10"}


@pytest.mark.parametrize(
    ("changes", "options", "message"), [({"task": "tagging"}, {"few": (5,)}, "--few: tagging has")]
)
def test_options_that_do_not_fit(
    folder: Path, tmp_path: Path, changes: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        compare(
            config_of(folder, **changes), test=(), models=(), seeds=(0,), folder=tmp_path, log=print,
            callback=Callback, **options,
        )  # fmt: skip


class Always:
    """Answers the same to all."""

    def __init__(self, answer: Target) -> None:
        self.answer = answer
        self.asked: list[Sequence[Text]] = []

    def predict(self, texts: Sequence[Text]) -> list[Target]:
        self.asked.append(texts)
        return [self.answer for _ in texts]

    def predict_one(self, text: Text) -> Target:
        return self.predict([text])[0]

    def fresh(self) -> Always:
        return self


def system(name: str, *answers: Target) -> TrainedSystem:
    answerers = tuple(Always(answer) for answer in answers)
    return TrainedSystem(
        name=name,
        about="",
        options={},
        tried=(),
        validation=(0.5,),
        parameters=1,
        file_bytes=1,
        seconds=(1.0,),
        answerers=answerers,
    )


def test_results_are_means_over_seeds_and_paired_differences() -> None:
    targets: list[Target] = ["a"] * 6 + ["b"] * 2 + ["new"] * 2
    both = [system("ours", "a", "b"), system(TFIDF, "b")]
    found = evaluate_systems(
        both, Classification(LabelSet(("a", "b"), "single")), LabeledRows([""] * 10, targets), Failures(print)
    )
    assert [numbers["accuracy"] for numbers in found["ours"].by_seed] == [0.6, 0.2]
    assert found["ours"].mean == pytest.approx(0.4)
    assert found[TFIDF].difference == pytest.approx(-0.2)
    interval = found[TFIDF].difference_interval
    assert interval is not None
    assert interval.low < -0.2 < interval.high
    assert (found["ours"].difference, found["ours"].difference_interval) == (None, None)


class Broken(Baseline):
    """Fits, and fails where it is asked what it was not asked before."""

    options: ClassVar[dict[str, Any]] = {}
    parameters, seconds = 1, 0.0

    def __init__(self, known: Sequence[Text], answer: Target) -> None:
        self._known, self._answer = set(known), answer

    def predict(self, texts: Sequence[Text]) -> list[Target]:
        if not self._known.issuperset(texts):
            raise RuntimeError("cannot read\n\x1b[0mthis")
        return [self._answer] * len(texts)

    def size(self) -> int:
        return 1


@pytest.mark.parametrize("where", ["fit", "test"])
@pytest.mark.parametrize("name", [TFIDF, "fasttext"])
def test_a_rival_that_fails_is_a_row_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, name: str
) -> None:
    write(tmp_path / "train.csv", rows(60, 0))
    write(tmp_path / "dev.csv", rows(30, 1))
    known = [(a, b) for seed, count in ((0, 60), (1, 30)) for a, b, _ in rows(count, seed)]

    def fit(task: object, texts: Sequence[Text], targets: Sequence[Target], **options: object) -> Iterator[Broken]:
        if where == "fit":
            raise RuntimeError("cannot read\n\x1b[0mthis")
        yield Broken(known, targets[0])

    kind = BaselineKind(title=lambda task: name, about=lambda task: "a rival", fit=fit)
    monkeypatch.setitem(benchmark.BASELINES, name.split(" ")[0], kind)
    found = compare(
        config_of(tmp_path), test=[write(tmp_path / "test.csv", rows(30, 2))], models=(), seeds=(0,),
        folder=tmp_path / "runs", log=print, callback=Callback, few=(4,), systems=(name.split(" ")[0], "majority"),
    )  # fmt: skip
    (failed,) = found.failed
    assert (failed.name, failed.reason) == (name, "RuntimeError: cannot read \N{REPLACEMENT CHARACTER}[0mthis")
    assert name not in [one.name for one in found.systems]
    assert found.test["mixling"].mean > 0.4
    line = f"{name}  RuntimeError: cannot read \N{REPLACEMENT CHARACTER}[0mthis"
    assert line in as_text(found).splitlines()
    assert f"*{name}*: a rival; failed: RuntimeError: cannot read" in as_markdown(found, "")
    values = json.loads(json.dumps(to_dict(found, {}), allow_nan=False))
    assert [one["name"] for one in values["failed"]] == [name]


def test_our_own_failure_ends_the_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "train.csv", rows(60, 0))
    write(tmp_path / "dev.csv", rows(30, 1))

    def fail(*args: object, **options: object) -> None:
        raise TrainingError("the loss is nan")

    monkeypatch.setattr(benchmark, "fit", fail)
    with pytest.raises(TrainingError, match="the loss is nan"):
        compare(config_of(tmp_path), test=(), models=(), seeds=(0,), folder=tmp_path / "runs", log=print,
                callback=Callback)  # fmt: skip


def test_undefined_metrics_are_null_and_a_dash(held: Comparison) -> None:
    task = Regression(LabelSet(("value",), "number", {"mean": 0.0, "deviation": 1.0}))
    ridge = system("tf-idf + ridge", 2.0)
    results = evaluate_systems([ridge], task, LabeledRows(["x", "y"], [1.0, 1.0]), Failures(print))
    assert math.isnan(results[ridge.name].by_seed[0]["pearson"])
    speeds = {ridge.name: held.speeds[TFIDF]}
    found = dataclasses.replace(held, task=task, systems=(ridge,), test=results, speeds=speeds)
    (result,) = json.loads(json.dumps(to_dict(found, {}), allow_nan=False))["results"]
    assert result["test"]["by_seed"] == [{"mae": 1.0, "mse": 1.0, "pearson": None, "spearman": None}]
    assert "nan" not in as_text(found)


def test_validation_chooses_the_rate_with_the_first_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, float]] = []

    def stub(
        config: RunConfig, train: object, validation: object, *, folder: Path, **kwargs: object
    ) -> SimpleNamespace:
        train_config = config.train
        asked.append((train_config.seed, train_config.optim.lr))
        folder.mkdir(parents=True)
        (folder / "model.onnx").write_bytes(b"12345")
        rate = train_config.optim.lr
        metrics = SimpleNamespace(value={"accuracy": 1 - rate}.get)
        history = [{"best": True, "epoch": 1.0}, {"best": False, "epoch": 2.0}]
        return Run(folder=folder, metrics=metrics, history=history, report={"precision": "int8", "parameters": 7})

    monkeypatch.setattr(benchmark, "fit", stub)
    monkeypatch.setattr(benchmark, "ExportedSystem", lambda folder: Always("a"))
    resolved = resolve({}, spec=LABELS, overrides={"task": "classification", "train": {"optim": {"lr": 0.1}}})
    two = candidates.Candidate(name="two rates", about="", config=resolved.config, rates=(1.0, 0.3))
    monkeypatch.setattr(benchmark, "candidates", lambda *args, matched: [two])
    store = Dataset.from_examples(Example(f"word {i % 2}", "ab"[i % 2], "f", i) for i in range(8))
    found = train_all(
        resolved, store, store, models=(), seeds=(4, 5), folder=tmp_path, log=print, callback=Callback,
        failures=Failures(print),
    )[0]  # fmt: skip
    assert asked == [(4, 0.1), (4, pytest.approx(0.03)), (5, pytest.approx(0.03))]
    assert found.options["lr"] == pytest.approx(0.03)
    assert [tried.validation for tried in found.tried] == pytest.approx([0.9, 0.97])
    assert (found.file_bytes, found.parameters, len(found.seconds), len(found.answerers)) == (5, 7, 2, 2)
    assert (tmp_path / "two-rates" / "seed-5-lr-0.03" / "model.onnx").exists()


def test_words_that_a_tagger_does_not_reach_are_outside() -> None:
    answer = Prediction(truncated=True, tokens=("oslo",), tags=("B-city",), spans=())
    assert Tagging.answer(answer, ["oslo", "to", "rome"]) == ("B-city", "O", "O")


def test_all_systems_get_the_same_texts_in_turn() -> None:
    systems = {"one": Always("a"), "other": Always("a")}
    time_predictions(systems, [f"text {i}" for i in range(1500)], rounds=2)
    assert systems["one"].asked == systems["other"].asked
    sizes = [len(texts) for texts in systems["one"].asked]
    assert sizes == [1000] + 2 * [1000, 1000, *(200 * [1])]
