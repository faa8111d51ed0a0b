"""Training with an n-gram branch, from rows to the model file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from mixling import Dataset, Example, Predictor, RunConfig, TextConfig, TextEncoder, fit, model_config
from mixling.cli import run
from mixling.config import parse
from mixling.data import TextSet
from mixling.errors import ConfigError
from mixling.ngrams import LinearData, budget, fit_branch, fit_ngrams
from mixling.ngrams import choose as module
from mixling.ngrams import data as ngram_data
from mixling.ngrams.data import TeacherLabels, _encoded
from mixling.research import load_model
from mixling.runs.resolve import LABELS, resolve
from mixling.tasks import task_type
from mixling.text import Words, train_vocabulary
from mixling.training import AugmentationConfig, NgramConfig

WORDS = [f"{first}{second}" for first in ("ba", "ko", "mi", "tu", "ze") for second in ("lan", "pert", "sim", "gor")]


def rows(number: int, kind: str, seed: int) -> Dataset:
    """Texts of ten words, of which one decides: the first five words of WORDS for a, the next five for b."""
    rng = np.random.default_rng(seed)
    out = []
    for i in range(number):
        label = i % 2
        words = [*rng.choice(WORDS[10:], 9), WORDS[5 * label + int(rng.integers(5))]]
        rng.shuffle(words)
        target: Any = "ab"[label]
        if kind == "multi_label":
            target = ("both", target)
        if kind == "regression":
            target = float(2 * label + rng.random() / 10)
        out.append(Example(" ".join(words), target, "rows", i))
    return Dataset.from_examples(out)


def silent(texts: Sequence[Any]) -> np.ndarray:
    """A network of two labels that knows nothing of texts."""
    return np.zeros((len(texts), 2))


def config(kind: str = "classification", **values: Any) -> RunConfig:
    changes = {"text": {"max_len": 16}, "num_layers": 1}
    whole = {"task": kind, "model": model_config("mixling-tiny", changes).to_dict(), "train": {"epochs": 1}}
    return parse(RunConfig, {**whole, **values}, where="test")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classification", "multi_label", "regression"])
def test_a_trained_folder_predicts_with_its_branch(kind: str, tmp_path: Path) -> None:
    train, validation = rows(160, kind, 0), rows(60, kind, 1)
    outputs: list[str] = []
    values = {"ngrams": {"use": "auto"}, "train": {"epochs": 6}}  # after one, a calibration error is chance
    result = fit(config(kind, **values), train, validation, folder=tmp_path / "m", log=outputs.append)
    assert result is not None
    report = result.report["ngrams"]
    assert report["mixture_loss"] < report["loss_scaled"] <= report["mixture_alone"] + 1e-9
    calibration = result.report["calibration"]
    assert (calibration is None) == (kind == "regression")
    if kind == "classification":
        assert calibration["error"] < calibration["error_before"]
        assert "The probabilities are calibrated" in (tmp_path / "m" / "README.md").read_text()
    predictor = Predictor(tmp_path / "m")
    assert predictor.metadata.ngrams is not None
    assert predictor.metadata.ngrams.network == pytest.approx(report["mixture_network"])
    assert any(line.startswith("n-gram branch: ") for line in outputs)
    test = rows(100, kind, 2)
    task = predictor.task
    found = task.evaluate(
        predictor.logits(predictor.tokenize(list(test.texts))), np.asarray(task.targets(test.targets)), tables=False
    ).numbers()
    if kind == "classification":
        assert found["accuracy"] > 0.95
    if kind == "multi_label":
        assert found["micro_f1"] > 0.95
    if kind == "regression":
        assert found["mse"] < 0.1
    network, _, _, _ = load_model(tmp_path / "m")  # the torch side is the network alone
    assert not any("ngram" in name for name in network.state_dict())


@pytest.mark.slow
def test_the_reported_metrics_are_not_those_of_rows_that_the_branch_saw(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)

    def noise(number: int) -> Dataset:  # nothing to learn
        texts = [" ".join("".join(rng.choice(list("abcdefgh"), 5)) for _ in range(8)) for _ in range(number)]
        return Dataset.from_examples(
            Example(text, "ab"[int(rng.integers(2))], "rows", i) for i, text in enumerate(texts)
        )

    train, validation = noise(120), noise(80)
    ngrams = {"use": "always", "strength": 10.0, "refit": True}
    values = {"ngrams": ngrams, "train": {"epochs": 1, "augmentation": {"typos": 0}}}
    result = fit(config(**values), train, validation, folder=tmp_path / "m")
    assert result is not None
    assert result.metrics.numbers()["accuracy"] < 0.7
    assert result.report["ngrams"]["mixture_loss"] == pytest.approx(result.metrics.numbers()["log_loss"], rel=1e-5)


@pytest.mark.slow
def test_a_refit_keeps_the_branch_that_was_chosen_before_and_unknown_labels_are_errors(tmp_path: Path) -> None:
    train, known = rows(160, "classification", 0), rows(60, "classification", 1)
    validation = Dataset.from_examples([Example("balan kopert", "odd", "rows", 0), *known])
    runs = {}
    for name in ("first", "refit"):
        decisions = {"refit": name == "refit", "precision": "float32"}
        changes = {"ngrams": {"use": "always", "refit": True}, "decisions": decisions}
        run = fit(config(**changes), train, validation, folder=tmp_path / name)
        assert run is not None
        runs[name] = run.report
        assert run.metrics.n == 61
        assert run.metrics.numbers()["accuracy"] <= 60 / 61
    assert runs["refit"]["refit"]["examples"] == 220
    assert runs["refit"]["validation"] == runs["first"]["validation"]
    assert runs["refit"]["ngrams"] == runs["first"]["ngrams"]
    first, second = (onnx.load(str(tmp_path / name / "model.onnx")).graph.initializer for name in runs)
    branches = [{a.name: a.raw_data for a in part if a.name.startswith("ngrams.")} for part in (first, second)]
    assert branches[0] == branches[1]


def test_the_file_is_fitted_on_validation_rows_too_and_a_branch_that_does_not_pay_is_left_out() -> None:
    train, validation = rows(160, "classification", 0), rows(120, "classification", 1)
    given = [*zip(validation.texts, validation.targets, strict=True), ("quixot quixot zzz", "b")]
    validation = Dataset.from_examples(Example(text, target, "rows", i) for i, (text, target) in enumerate(given))
    task = task_type("classification")(task_type("classification").label_set(train))
    text = TextConfig()
    vocabulary = train_vocabulary(list(train.texts), text)
    gold = task.targets(validation.targets)
    sure = np.where(np.arange(2) == gold[:, None], 9.0, -9.0)

    def of(network: np.ndarray, validation: Dataset = validation, *, refit: bool = True, **options: Any) -> Any:
        data = LinearData(
            task=task, train=train, validation=validation, network=network, predict=silent, weights=None, text=text,
            vocabulary=vocabulary, refit=refit,
        )  # fmt: skip
        return fit_ngrams(NgramConfig(**options), data, max_bytes=50_000)

    assert of(sure, use="auto") is None
    few = validation.subset(np.arange(99))  # too few to show what the branch gains
    assert of(sure[:99], use="auto", validation=few) is not None
    assert of(sure, use="always") is not None
    found = of(np.zeros((len(gold), 2)), use="auto")
    encoder = TextEncoder(text, vocabulary)
    encoder.encode(["quixot"])
    term = Words.of_table(encoder, 3, 3, 4).hashes[0]
    assert term in found.branch.terms
    unfitted = of(np.zeros((len(gold), 2)), use="auto", refit=False)
    own = ("terms", "bytes")  # of the exported branch, others are of its choice
    assert {**unfitted.report, **{key: found.report[key] for key in own}} == found.report
    assert unfitted.held_out is None
    assert term not in unfitted.branch.terms
    logits = np.array(found.combine(np.zeros((len(gold), 2))))
    assert logits.shape == (len(gold), 2)
    assert task.score_loss(logits, gold)[0] == pytest.approx(found.report["mixture_loss"], rel=1e-5)


@pytest.mark.parametrize("kind", ["classification", "multi_label", "regression"])
def test_a_branch_has_the_terms_that_it_has_room_for(kind: str) -> None:
    train, validation = rows(160, kind, 0), rows(120, kind, 1)
    task = task_type(kind)(task_type(kind).label_set(train))
    data = LinearData(
        task=task, train=train, validation=validation, network=np.zeros((120, len(task.labels))), predict=silent,
        weights=None, text=TextConfig(), vocabulary=train_vocabulary(list(train.texts), TextConfig()),
    )  # fmt: skip
    terms = []
    for room in (600, 1_000, 50_000):
        found = fit_ngrams(NgramConfig(use="always"), data, max_bytes=room)
        assert found is not None
        assert sum(array.nbytes for array in found.branch.to_arrays().values()) == found.report["bytes"] <= room
        terms.append(len(found.branch.terms))
    assert 10 < terms[0] < 0.8 * terms[1] < 0.8 * terms[2]


def test_the_branch_learns_from_a_teachers_labels_as_far_as_the_teacher_is_sure() -> None:
    train, validation = rows(160, "classification", 0), rows(60, "classification", 1)
    task = task_type("classification")(task_type("classification").label_set(train))
    texts = [f"{word} {filler}" for filler in WORDS[10:] for word in ("quixot", "zweifel")]
    sure, unsure = np.array([0.05, 0.95]), np.array([0.5, 0.5])
    answers = [sure if text.startswith("quixot") else unsure for text in texts]
    data = LinearData(
        task=task, train=train, validation=validation, network=np.zeros((60, 2)), predict=silent, weights=None,
        text=TextConfig(), vocabulary=train_vocabulary([*train.texts, *texts], TextConfig()),
        teacher_labels=TeacherLabels.of_answers(texts, answers),
    )  # fmt: skip
    found = fit_ngrams(NgramConfig(use="always", strength=1.0), data, max_bytes=50_000)
    assert found is not None
    encoder = TextEncoder(data.text, data.vocabulary)
    encoder.encode(["quixot", "zweifel"])
    hashes = Words.of_table(encoder, 3, 3, 4).hashes
    at = np.minimum(found.branch.terms.searchsorted(hashes), len(found.branch.terms) - 1)
    known, unknown = found.branch.weights[at] * (found.branch.terms[at] == hashes)[:, None]
    assert known[0] > 10
    assert abs(unknown[0]) < known[0] / 4
    weights = ngram_data.training_texts(data)[-1]  # what people labeled counts more than what a teacher is sure of
    assert (weights[: len(train)] == 5).all()
    np.testing.assert_allclose(weights[len(train) :], [0.9 if text.startswith("quixot") else 0 for text in texts])


def test_of_many_features_a_part_chooses_the_strength_and_all_are_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    train, validation = rows(160, "classification", 0), rows(120, "classification", 1)
    task = task_type("classification")(task_type("classification").label_set(train))
    text, seen, lines = TextConfig(), [], []
    data = LinearData(
        task=task, train=train, validation=validation, network=np.zeros((120, 2)), predict=silent, weights=None,
        text=text, vocabulary=train_vocabulary(list(train.texts), text),
    )  # fmt: skip

    def fitted(task: Any, features: Any, targets: Any, weights: Any, **options: Any) -> Any:
        seen.append((np.count_nonzero(weights[features.chosen]), options["strength"], options["ratio_power"]))
        return fit_branch(task, features, targets, weights, **options)

    monkeypatch.setattr(module, "fit_branch", fitted)
    monkeypatch.setattr(module, "_MAX_SEARCH_NONZEROS", 1_000)
    assert fit_ngrams(NgramConfig(use="always"), data, max_bytes=50_000, log=lines.append) is not None
    searched = [one for one in seen if one[0] < 80]
    *wholes, (everything, strength, power) = seen[len(searched) :]
    assert len(searched) >= 2
    assert {number for number, *_ in wholes} == {160}
    assert everything == 280
    assert (strength, power) in {tuple(options) for _, *options in wholes}
    assert strength in {tried for _, tried, _ in searched}
    assert wholes[0][1:] in {tuple(options) for _, *options in searched}
    assert "on a part of the texts" in lines[0]


def test_training_texts_that_are_encoded_are_not_encoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    train, validation = rows(160, "classification", 0), rows(120, "classification", 1)
    task = task_type("classification")(task_type("classification").label_set(train))
    data = LinearData(
        task=task, train=train, validation=validation, network=np.zeros((120, 2)), predict=silent, weights=None,
        text=TextConfig(), vocabulary=train_vocabulary(list(train.texts), TextConfig()),
    )  # fmt: skip
    read = TextSet(train, TextEncoder(data.text, data.vocabulary))
    before = len(read.encoder)
    seen: list[Any] = []
    monkeypatch.setattr(ngram_data, "_encoded", lambda encoder, texts: seen.extend(texts) or _encoded(encoder, texts))
    expected = fit_ngrams(NgramConfig(use="always"), data, max_bytes=50_000)
    assert set(train.texts) <= set(seen)
    seen.clear()
    found = fit_ngrams(NgramConfig(use="always"), replace(data, encoded=read), max_bytes=50_000)
    assert expected is not None
    assert found is not None
    assert not set(train.texts) & set(seen)
    assert len(read.encoder) == before
    assert found.branch.terms.tolist() == expected.branch.terms.tolist()
    np.testing.assert_array_equal(found.held_out, expected.held_out)


def test_of_many_validation_texts_a_part_chooses_and_all_have_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    train, validation = rows(160, "classification", 0), rows(120, "classification", 1)
    task = task_type("classification")(task_type("classification").label_set(train))
    data = LinearData(
        task=task, train=train, validation=validation, network=np.zeros((120, 2)), predict=silent, weights=None,
        text=TextConfig(), vocabulary=train_vocabulary(list(train.texts), TextConfig()),
    )  # fmt: skip
    part = np.unique(np.linspace(0, 119, 50).astype(int))
    whole = fit_ngrams(NgramConfig(use="always", strength=1.0), data, max_bytes=50_000)
    monkeypatch.setattr(module, "_MAX_VALIDATION", 50)
    found = fit_ngrams(NgramConfig(use="always", strength=1.0), data, max_bytes=50_000)
    assert whole is not None
    assert found is not None
    gold = task.targets(validation.targets)
    expected, _ = task.score_loss(np.stack(found.combine(np.zeros((120, 2))))[part], gold[part])
    assert found.report["mixture_loss"] == pytest.approx(expected, rel=1e-5)
    others = np.setdiff1d(np.arange(120), part)
    slope, constant = np.polyfit(whole.held_out[others, 1], found.held_out[others, 1], 1)
    assert slope > 0.3  # another weight and bias, and frequencies of fewer texts
    np.testing.assert_allclose(found.held_out[others, 1], slope * whole.held_out[others, 1] + constant, atol=0.3)


def test_where_nothing_can_be_learned_the_answer_is_the_most_frequent_label() -> None:
    rng = np.random.default_rng(0)

    def noise(number: int) -> Dataset:
        return Dataset.from_examples(
            Example(" ".join(rng.choice(WORDS, 8)), "ab"[int(rng.random() < 0.2)], "rows", i) for i in range(number)
        )

    train, validation = noise(200), noise(200)
    task = task_type("classification")(task_type("classification").label_set(train))
    network = rng.normal(0, 0.5, (200, 2))  # of texts that it has not seen, after it learned others by heart
    gold = task.targets(validation.targets)
    data = LinearData(
        task=task, train=train, validation=validation, network=network, predict=silent, weights=None, text=TextConfig(),
        vocabulary=train_vocabulary(list(train.texts), TextConfig()),
    )  # fmt: skip
    found = fit_ngrams(NgramConfig(use="auto"), data, max_bytes=20_000)
    assert found is not None
    assert (network.argmax(1) == gold).mean() < 0.7
    share = (gold == 0).mean()
    assert share > 0.75
    assert (np.stack(found.combine(network)).argmax(1) == gold).mean() >= share - 0.01


def test_long_validation_texts_are_read_to_the_end() -> None:
    train = rows(80, "classification", 0)
    validation = Dataset.from_examples(
        Example(f"{'zepert ' * 30}{example.text}", example.target, "rows", i)
        for i, example in enumerate(rows(60, "classification", 1))
    )
    task = task_type("classification")(task_type("classification").label_set(train))
    data = LinearData(
        task=task, train=train, validation=validation, network=np.zeros((60, 2)), predict=silent, weights=None,
        text=TextConfig(max_len=16), vocabulary=train_vocabulary(list(train.texts), TextConfig()),
    )  # fmt: skip
    found = fit_ngrams(parse(NgramConfig, {"use": "always"}, where="test"), data, max_bytes=20_000)
    assert found is not None
    right = found.held_out.argmax(1) == task.targets(validation.targets)
    assert right.mean() > 0.95


@pytest.mark.parametrize("kind", ["classification", "multi_label", "regression"])
def test_where_the_network_saw_typos_the_branch_sees_them_in_training_and_in_validation(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, validation = rows(160, kind, 0), rows(60, kind, 1)
    task = task_type(kind)(task_type(kind).label_set(train))
    vocabulary, outputs = train_vocabulary(list(train.texts), TextConfig()), len(task.labels) or 1
    asked: list[list[Any]] = []

    def predict(texts: Any) -> np.ndarray:
        asked.append(list(texts))
        return np.zeros((len(texts), outputs))

    def of(*kinds: Any) -> Any:
        typos = {"typos": 0.3, "typo_kinds": kinds} if kinds else {"typos": 0.0}
        data = LinearData(
            task=task, train=train, validation=validation, network=np.zeros((60, outputs)),
            predict=predict, weights=np.ones(160, np.float32), text=TextConfig(), vocabulary=vocabulary,
            augmentation=AugmentationConfig(**typos),
        )  # fmt: skip
        return fit_ngrams(NgramConfig(use="always", strength=1.0), data, max_bytes=100_000)

    def knows(found: Any, word: str) -> bool:
        encoder = TextEncoder(TextConfig(), vocabulary)
        encoder.encode([word])
        return bool(Words.of_table(encoder, 3, 3, 4).hashes[0] in found.branch.terms)

    doubled = [word[:1] + word for word in WORDS[:10]]
    correct = of()
    assert not asked
    assert not any(knows(correct, word) for word in doubled)
    found = of("insert")
    assert sum(knows(found, word) for word in doubled) > 5
    (copies,) = asked
    assert len(copies) == len(validation)
    changed = 0
    for copy, text in zip(copies, validation.texts, strict=True):
        words = list(zip(copy.split(), text.split(), strict=True))
        assert all(len(a) - len(b) in (0, 1) for a, b in words)
        changed += sum(a != b for a, b in words)
    assert changed / 600 == pytest.approx(0.2, abs=0.06)
    assert np.stack(found.combine(np.zeros((60, outputs)))).shape == (60, outputs)
    monkeypatch.setattr("mixling.ngrams.choose.MAX_COPIED_VALIDATION_WORDS", 300)  # words of 30 texts
    of("insert")
    assert len(asked[-1]) == 30


@pytest.mark.slow
def test_training_without_typos_gives_the_branch_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    monkeypatch.setattr("mixling.runs.decisions.fit_ngrams", lambda config, data, **options: given.append(data))
    train, validation = rows(160, "classification", 0), rows(60, "classification", 1)
    for name, changes in (("typos", {"typo_kinds": ["ocr"]}), ("none", {"typos": 0})):
        values = {"ngrams": {"use": "always"}, "train": {"epochs": 1, "augmentation": changes}}
        fit(config(**values), train, validation, folder=tmp_path / name)
    assert [(data.augmentation.typos > 0, data.augmentation.typo_kinds[0]) for data in given] == [
        (True, "ocr"),
        (False, "swap"),
    ]
    texts = list(validation.texts)
    # The engines round 8-bit activations differently.
    np.testing.assert_allclose(given[1].predict(texts), given[1].network, atol=0.01)


def test_the_bytes_are_what_the_network_leaves() -> None:
    auto = NgramConfig(use="auto")
    assert [budget(auto, size, 3) for size in (300_000, 900_000, 3_000_000)] == [300_000, 99_000, 10_000]
    assert budget(NgramConfig(use="auto", max_bytes=5000), 10, 3) == 5000
    assert budget(auto, 10, 10_000) == 640_000


def test_options_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"min_n = 4 is more than max_n = 2"):
        config(ngrams={"min_n": 4, "max_n": 2})
    with pytest.raises(ConfigError, match=r"ngrams.use"):
        config(ngrams={"use": "sometimes"})
    with pytest.raises(ConfigError, match=r"refit = true trains on the validation examples, ngrams.refit = false"):
        config(decisions={"refit": True}, ngrams={"refit": False})
    named: dict[str, Any] = {"ngrams": {"refit": True}, "data": {"validation": ["dev.csv"]}}
    with pytest.raises(ConfigError, match=r"ngrams.refit = true would train on the validation files that are named"):
        resolve({}, spec=LABELS, overrides={"task": "classification", **named})
    assert not config(**named).fits_validation
    assert config(**named, decisions={"refit": True}).fits_validation


@pytest.mark.slow
def test_the_command_line_trains_shows_and_exports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def call(*args: object) -> str:
        monkeypatch.setattr("sys.argv", ["mixling", *map(str, args)])
        with pytest.raises(SystemExit) as end:
            run()
        assert not end.value.code
        return capsys.readouterr().out

    train = rows(160, "classification", 0)
    lines = [json.dumps({"text": t, "label": y}) for t, y in zip(train.texts, train.targets, strict=True)]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    begin = ["train", tmp_path / "rows.jsonl", "--set", "train.epochs=1"]
    call(*begin, "--set", "ngrams.max_bytes=20000", "--model", "mixling-tiny", "-o", tmp_path / "m")
    report = json.loads((tmp_path / "m" / "metrics.json").read_text())["ngrams"]
    assert 0 < report["bytes"] <= 20_000
    content = (tmp_path / "m" / "model.onnx").read_bytes()
    model = onnx.load_from_string(content)
    before = len(content)
    for item in [item for item in model.graph.initializer if item.name.startswith("ngrams.")]:
        model.graph.initializer.remove(item)
    assert 0 < before - len(model.SerializeToString()) - report["bytes"] < 700  # names and shapes
    assert f"linear model of {report['terms']:,} n-grams" in (tmp_path / "m" / "README.md").read_text()
    assert f"linear model of {report['terms']:,} n-grams" in call("show", tmp_path / "m")
    call("export", tmp_path / "m", "--precision", "float32", "-o", tmp_path / "f.onnx")
    texts = list(train.texts)[:20]
    whole, floats = Predictor(tmp_path / "m"), Predictor(tmp_path / "f.onnx")
    assert floats.metadata.precision == "float32"
    np.testing.assert_allclose(floats.predict_proba(texts), whole.predict_proba(texts), atol=0.02)
    call(*begin, "--model", "pnlp-mixer-x-small", "-o", tmp_path / "p")
    assert Predictor(tmp_path / "p").metadata.ngrams is None
