"""Functions, saved models and files as teachers, and the folder that keeps answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mixling import DataError, ModelFileError, Predictor
from mixling.answers import LabelSet
from mixling.tasks import Classification, MultiLabel, Tagging, Task
from mixling.teachers import FunctionTeacher, Teacher, collect_predictions
from mixling.teachers.base import EnsembleTeacher
from mixling.teachers.saved import FileTeacher, SavedTeacher
from mixling.text import Text

LABELS, TAGS = Classification(LabelSet(("a", "b", "c"), "single")), Tagging(LabelSet(("O", "B-x", "I-x"), "iob"))
GOLDEN = Path(__file__).parents[1] / "golden" / "model-v1.onnx"


def test_a_function_with_its_own_order_of_labels() -> None:
    teacher = FunctionTeacher(lambda texts: [[0.5, 0.3, 0.2] for _ in texts], names=("c", "a", "b"))
    (answer,) = teacher.predict(["x"], LABELS)
    np.testing.assert_allclose(answer, [0.3, 0.2, 0.5])
    teacher = FunctionTeacher(lambda texts: [{"b": 0.75, "a": 0.25}, None])
    first, second = teacher.predict(["x", "y"], LABELS)
    np.testing.assert_allclose(first, [0.25, 0.75, 0])
    assert second is None
    (tagged,) = FunctionTeacher(lambda texts: [[{"O": 1.0}, {"B-x": 0.5, "O": 0.5}]]).predict([["u", "v"]], TAGS)
    np.testing.assert_allclose(tagged, [[1, 0, 0], [0.5, 0.5, 0]])


def test_the_mean_of_several() -> None:
    first = FunctionTeacher(lambda texts: [[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]], key="f")
    second = FunctionTeacher(lambda texts: [[0.1, 0.1, 0.8], None], key="s")
    ensemble = EnsembleTeacher([first, second])
    found = ensemble.predict(["x", "y"], LABELS)
    np.testing.assert_allclose(found[0], [0.3, 0.2, 0.5], atol=1e-6)
    assert found[1] is None
    assert ensemble.key == "f s"
    assert EnsembleTeacher([first, FunctionTeacher(lambda texts: [])]).key is None


def test_the_mean_of_teachers_that_read_different_numbers_of_words() -> None:
    first = FunctionTeacher(lambda texts: [[[0.5, 0.3, 0.2], [0, 0, 0], [1, 0, 0]]])
    second = FunctionTeacher(lambda texts: [[[0.1, 0.1, 0.8], [1, 0, 0]]])
    (found,) = EnsembleTeacher([first, second]).predict([["a", "b", "c"]], TAGS)
    np.testing.assert_allclose(found, [[0.3, 0.2, 0.5], [0, 0, 0]], atol=1e-6)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([[0.5, 0.5]], r"prediction for text 0 has the shape \(2,\); \(3\) is needed"),
        ([[0.5, 0.4, 0.4]], "probabilities from 0 to 1, with sum 1"),
        ([[np.nan, 0.5, 0.5]], "probabilities from 0 to 1"),
        ([[-0.1, 0.6, 0.5]], "probabilities from 0 to 1"),
        ([{"d": 1.0}], "has the label 'd', which no training row has"),
        ([], "returned 0 predictions for 1 texts"),
        (None, "returned None; a list with a prediction"),
        (["x"], "prediction for text 0 is 'x'; allowed: probabilities"),
        ([{"a": "x"}], "probabilities from 0 to 1"),
    ],
)
def test_answers_that_are_none(answers: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        FunctionTeacher(lambda texts: answers).predict(["x"], LABELS)
    with pytest.raises(DataError, match="the teacher has other labels than the training rows: it does not have 'a'"):
        FunctionTeacher(lambda texts: answers, names=("b", "c")).predict(["x"], LABELS)


def test_percents_are_no_probabilities_of_several_labels() -> None:
    labels = MultiLabel(LabelSet(("a", "b"), "multi"))
    with pytest.raises(DataError, match="probabilities from 0 to 1"):
        FunctionTeacher(lambda texts: [[55.0, 3.0]]).predict(["x"], labels)
    (answer,) = FunctionTeacher(lambda texts: [[0.9, 0.8]]).predict(["x"], labels)
    np.testing.assert_allclose(answer, [0.9, 0.8])


def test_a_saved_model_of_another_kind() -> None:
    names = Predictor(GOLDEN).labels.names
    with pytest.raises(DataError, match="predicts one label a text, but the training rows have several labels a text"):
        SavedTeacher(GOLDEN).predict(["x"], MultiLabel(LabelSet(names, "multi")))


def test_a_saved_model() -> None:
    predictor = Predictor(GOLDEN)
    teacher = SavedTeacher(GOLDEN)
    names = tuple(reversed(predictor.labels.names))
    texts: list[Text] = ["one text", "another one, which is longer"]
    found = teacher.predict(texts, Classification(LabelSet(names, "single")))
    np.testing.assert_allclose(np.stack(found)[:, ::-1], predictor.predict_proba(texts), atol=1e-6)  # type: ignore[arg-type]


def test_a_file_of_answers(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    rows = [
        {"text": "one", "probabilities": {"a": 0.1, "b": 0.2, "c": 0.7}},
        {"text": "two", "probabilities": {"a": 1.0}},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    teacher = FileTeacher(str(path))
    assert list(teacher.texts()) == ["one", "two"]
    found = teacher.predict(["two", "three", "one"], LABELS)
    assert found[1] is None
    np.testing.assert_allclose(found[0], [1, 0, 0])
    np.testing.assert_allclose(found[2], [0.1, 0.2, 0.7])
    path.write_text('{"text": "one", "probabilities": {"a": 1, "q": 0}}\n')
    with pytest.raises(DataError, match=r"answers.jsonl:1: probabilities has the label 'q'"):
        FileTeacher(str(path)).predict(["one"], LABELS)
    path.write_text('{"text": "one", "label": "a"}\n')
    with pytest.raises(DataError, match=r"answers.jsonl:1: has no 'probabilities'"):
        FileTeacher(str(path))


@pytest.mark.parametrize("text", ['""', "5", "[1, 2]", '{"b": 1}', "[]"])
def test_a_file_of_answers_to_no_texts(tmp_path: Path, text: str) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text(f'{{"text": {text}, "probabilities": {{"a": 1.0}}}}\n')
    with pytest.raises(
        DataError, match=r"answers.jsonl:1: column 'text' holds .* a text, several texts or a list of words"
    ):
        FileTeacher(str(path))


def test_a_file_of_answers_to_pairs(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    rows = [{"text": ["u", "v"], "probabilities": {"a": 1}}, {"text": "w", "other": "z", "probabilities": {"b": 1}}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    teacher = FileTeacher(str(path), text="premise", text_pair=("other",))
    assert list(teacher.texts()) == [("u", "v"), ("w", "z")]


class Counting(Teacher):
    """Answers by the text's length; stops working after `limit` texts."""

    def __init__(self, key: str | None, limit: int = 10**9) -> None:
        self.key, self.asked, self.limit = key, 0, limit

    def predict(self, texts: Sequence[Text], task: Task) -> list[Any]:
        if self.asked + len(texts) > self.limit:
            raise KeyboardInterrupt
        self.asked += len(texts)
        if task.per_word:
            return [np.eye(3, dtype=np.float32)[[len(word) % 3 for word in text]] for text in texts]
        return [None if text == "-" else np.eye(3, dtype=np.float32)[len(text) % 3] for text in texts]


TEXTS: list[Text] = ["x" * (i % 7) if i % 5 else "-" for i in range(2500)]


def test_answers_are_asked_for_once(tmp_path: Path) -> None:
    wanted = collect_predictions(Counting(None), TEXTS, LABELS, folder=tmp_path)
    assert not list(tmp_path.iterdir())  # without a key nothing is kept
    cut = Counting("k", limit=2100)
    with pytest.raises(KeyboardInterrupt):
        collect_predictions(cut, TEXTS, LABELS, folder=tmp_path)
    assert cut.asked == 2048
    done: list[int] = []
    again = Counting("k")
    found = collect_predictions(again, TEXTS, LABELS, folder=tmp_path, progress=done.append)
    assert again.asked == len(TEXTS) - 2048
    assert done == [1024, 2048, 2500]
    assert [None if a is None else a.tolist() for a in found] == [None if a is None else a.tolist() for a in wanted]
    for changed in (Counting("other"), Counting("k")):
        texts = TEXTS if changed.key == "other" else [*TEXTS[:5], "new", *TEXTS[5:]]
        collect_predictions(changed, texts, LABELS, folder=tmp_path)
        assert changed.asked == len(texts)


def test_answers_for_words(tmp_path: Path) -> None:
    texts: list[Text] = [["a", "bb"], ["ccc"], ["d", "ee", "f"]]
    first = collect_predictions(Counting("k"), texts, TAGS, folder=tmp_path)
    second = collect_predictions(Counting("k", limit=0), texts, TAGS, folder=tmp_path)
    assert [a.shape for a in second if a is not None] == [(2, 3), (1, 3), (3, 3)]
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    collect_predictions(Counting("k"), TEXTS[:10], LABELS, folder=tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ModelFileError, match=f"{path.name}: is damaged, delete it"):
        collect_predictions(Counting("k"), TEXTS[:10], LABELS, folder=tmp_path)
