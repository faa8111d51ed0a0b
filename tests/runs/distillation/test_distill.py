"""What a student is taught, against sums by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mixling import ConfigError, DataConfig, DataError, Dataset, Example, RunConfig
from mixling.answers import LabelSet
from mixling.config import parse
from mixling.runs.distillation import DistillConfig, check_distill
from mixling.runs.distillation.distill import DistillationData, Member, make_distillation_data, soften
from mixling.runs.resolve import DecisionsConfig
from mixling.tasks import Classification, MultiLabel, Tagging, Task
from mixling.teachers import FunctionTeacher
from mixling.text import Text

SINGLE, MULTI, TAGS = (
    Classification(LabelSet(("a", "b"), "single")),
    MultiLabel(LabelSet(("a", "b"), "multi")),
    Tagging(LabelSet(("O", "B-x", "I-x"), "iob")),
)


def store(rows: Sequence[tuple[Text, Any]]) -> Dataset:
    return Dataset.from_examples(Example(text, target, "rows", i) for i, (text, target) in enumerate(rows))


def distillation(
    rows: Dataset, task: Task, answer: Any, unlabeled: Sequence[Text] = (), **options: Any
) -> DistillationData:
    return make_distillation_data(
        DistillConfig(teacher="", **options), rows, rows, task,
        data=DataConfig(), smoothing=0.2, seed=0, folder=None,
        teacher=FunctionTeacher(lambda texts: [answer for _ in texts]), unlabeled=unlabeled,
    )  # fmt: skip


def test_rows_are_repeated_and_half_believed() -> None:
    rows = store([("one", "a"), ("two", "b")])
    made = distillation(rows, SINGLE, [0.8, 0.2], ["three"], temperature=2.0, copies=2, gold=0.25)
    assert list(made.texts.texts) == ["one", "two", "one", "two", "three"]
    assert made.rows.tolist() == [0, 1, 0, 1, -1]
    soft = np.sqrt([0.8, 0.2]) / np.sqrt([0.8, 0.2]).sum()
    wanted = [0.25 * np.array(gold) + 0.75 * soft for gold in ([0.9, 0.1], [0.1, 0.9])]
    np.testing.assert_allclose(made.targets, [*wanted, *wanted, soft], atol=1e-3)
    assert made.texts.label_counts() == {"a": 2, "b": 2}  # of labeled rows alone


def test_several_labels_are_softened_one_by_one() -> None:
    made = distillation(store([("one", ("b",))]), MULTI, [0.9, 0.5], ["two"], temperature=2.0, copies=1, gold=0.5)
    soft = [0.9**0.5 / (0.9**0.5 + 0.1**0.5), 0.5]
    np.testing.assert_allclose(made.targets[1], soft, atol=1e-3)
    np.testing.assert_allclose(made.targets[0], [(soft[0] + 0.1) / 2, (0.5 + 0.9) / 2], atol=1e-3)


def test_words_that_the_teacher_did_not_read_have_the_true_tag() -> None:
    rows = store([(["u", "v"], ("B-x", "O"))])
    made = distillation(rows, TAGS, [[0.25, 0.5, 0.25]], [["w", "z"]], temperature=1.0, copies=1, gold=0.0)
    smoothed = [0.8 + 0.2 / 3, 0.2 / 3, 0.2 / 3]
    np.testing.assert_allclose(made.targets[0], [[0.25, 0.5, 0.25], smoothed], atol=1e-3)
    assert made.targets[1].shape == (1, 3)


@pytest.mark.parametrize("task", [SINGLE, MULTI])
def test_temperature(task: Task) -> None:
    answer = np.array([0.7, 0.3], np.float16)
    for temperature in (0.5, 1.0, 3.0):
        out = soften(answer, temperature, task)
        assert out is not None
        odds = (out[0] / (1 - out[0])) ** temperature
        assert odds == pytest.approx(0.7 / 0.3, rel=1e-2)
    assert soften(None, 2.0, task) is None


def test_members_see_no_validation_example_and_fit_nothing_that_only_answers_need() -> None:
    rows = store([("one", "a"), ("two", "b")])
    asked: list[RunConfig] = []

    def fit(config: RunConfig, *data: Dataset, **options: Any) -> Any:
        asked.append(config)
        return SimpleNamespace(metrics=SimpleNamespace(summary=lambda: ""))

    decisions = {"conformal": 0.9, "abstain_at": 0.9, "out_of_scope": ["other.txt"]}
    values = {"decisions": decisions, "distill": {"teacher": "self"}}
    values["ngrams"] = {"use": "auto", "max_n": 5}
    config = parse(RunConfig, values, where="test")
    Member(config, rows, rows, None, fit)(7, Path("nowhere"), lambda message: None)
    (own,) = asked
    assert own.distill is None
    assert own.decisions == DecisionsConfig()
    assert (own.ngrams.use, own.ngrams.max_n, own.ngrams.refit, own.ngrams.cross_fit) == ("auto", 5, False, False)
    assert own.train.seed == 7


def test_the_teacher_labels_fragments_of_texts_and_not_those_of_words() -> None:
    made = distillation(store([("a b c d e", "a")]), SINGLE, [0.8, 0.2], copies=1, fragments=3)
    parts = list(made.texts.texts)[1:]
    assert 2 <= len(parts) <= 3
    assert all(part in "a b c d e" for part in parts)
    assert made.rows.tolist() == [0] + [-1] * len(parts)
    assert len(distillation(store([("a b c d e", "a")]), SINGLE, [0.8, 0.2], copies=1, fragments=0).texts) == 1
    words = store([(["a", "b", "c", "d"], ("O", "B-x", "I-x", "O"))])
    assert len(distillation(words, TAGS, [[0.8, 0.1, 0.1]] * 4, copies=1, fragments=3).texts) == 1
    pair = store([(("a b c d", "e f g h"), "a")])
    assert len(distillation(pair, SINGLE, [0.8, 0.2], copies=1, fragments=3).texts) == 1


def test_texts_without_an_answer_are_left_out() -> None:
    rows, outputs = store([("one", "a"), ("two", "b")]), []
    made = make_distillation_data(
        DistillConfig(teacher="", copies=1), rows, rows, SINGLE,
        data=DataConfig(), smoothing=0.0, seed=0, folder=None,
        teacher=FunctionTeacher(lambda texts: [None if "o" in str(t) else [0.5, 0.5] for t in texts]),
        unlabeled=["no", "yes"], log=outputs.append,
    )  # fmt: skip
    assert list(made.texts.texts) == ["one", "two", "yes"]
    np.testing.assert_array_equal(made.targets[0], [1, 0])
    assert "1 unlabeled texts without a prediction of the teacher are left out" in outputs


def check(config: DistillConfig, *, world: int = 1) -> None:
    check_distill(config, task=Classification, data=DataConfig(), world=world)


def test_what_cannot_be_is_reported_before_anything_is_done(tmp_path: Path) -> None:
    for name, options, message in (
        (str(tmp_path), {}, "--teacher: .* is not a model; allowed: a run folder"),
        ("self", {"fine_tune": True}, "--fine-tune: self is not a model of the transformers library"),
    ):
        with pytest.raises(ConfigError, match=message):
            check(DistillConfig(teacher=name, **options))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"distill\.members: 2; encoder:.* allowed: 1, or more with --fine-tune or"):
        check(DistillConfig(teacher="encoder:hf:owner/name", members=2))
    check(DistillConfig(teacher="hf:owner/name", fine_tune=True, members=2))
    with pytest.raises(ConfigError, match="without torchrun"):
        check(DistillConfig(teacher="hf:owner/name", fine_tune=True), world=2)
    with pytest.raises(DataError, match=r"no\.txt: no such file"):
        check(DistillConfig(teacher="self", unlabeled=(str(tmp_path / "no.txt"),)))
    (tmp_path / "test.csv").write_text("body,label\na,b\n")
    with pytest.raises(DataError, match=r"test\.csv: no column 'text'"):
        check(DistillConfig(teacher="self", test=(str(tmp_path / "test.csv"),)))
    with pytest.raises(ConfigError, match="teacher"):
        parse(DistillConfig, {}, where="x")


def test_texts_of_a_file_of_answers_stay_whole(tmp_path: Path) -> None:
    rows = store([("one", "a"), ("two", "b")])
    documents = [
        "A long text it is. It has two sentences and many words.",
        "Another long one it is. It has many words.",
    ]
    lines = [json.dumps({"text": text, "probabilities": {"a": 0.75, "b": 0.25}}) for text in documents]
    (tmp_path / "answers.jsonl").write_text("\n".join(lines) + "\n")
    made = make_distillation_data(
        DistillConfig(teacher=str(tmp_path / "answers.jsonl"), copies=1, temperature=1.0), rows, rows, SINGLE,
        data=DataConfig(), smoothing=0.0, seed=0, folder=None,
    )  # fmt: skip
    assert sorted(map(str, made.texts.texts[2:4])) == sorted(documents)
    np.testing.assert_allclose(made.targets[2:], [[0.75, 0.25]] * 2, atol=1e-3)


def test_a_word_of_which_nothing_is_stated() -> None:
    rows = store([(["u", "v"], ("B-x", "O"))])
    made = distillation(rows, TAGS, [[0, 0, 0], [0.5, 0.5, 0]], [["w", "z"]], temperature=1.0, copies=1, gold=0.0)
    np.testing.assert_allclose(made.targets[0], [[0.2 / 3, 0.8 + 0.2 / 3, 0.2 / 3], [0.5, 0.5, 0]], atol=1e-3)
    np.testing.assert_allclose(made.targets[1], [[0, 0, 0], [0.5, 0.5, 0]], atol=1e-3)
