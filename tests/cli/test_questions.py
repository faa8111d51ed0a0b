"""The way of a user whose rows are questions, contexts and answers."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from mixling import DataError, Predictor
from mixling.runtime.onnx.network import Network

from .conftest import Call

NAMES = ["anna", "bob", "carla", "dora", "emil", "fred", "gina", "hugo"]
OPTIONS = [
    "--epochs",
    10,
    "--set",
    "train.batch_size=4",
    "--set",
    "train.token_dropout=0",
    "--set",
    "train.loss.label_smoothing=0",
]


def squad(*, unanswerable: bool) -> dict[str, Any]:
    """Who has how many cats; of every second context also what nobody in it has."""
    paragraphs = []
    for i, name in enumerate(NAMES):
        context = f"Here lives {name.title()}, who has {i + 2} cats, and a “friend” with {'a house. ' * 30}"
        start = context.index(f"{i + 2} cats")
        qas: list[dict[str, Any]] = [
            {
                "id": f"q{i}",
                "question": f"What has {name}?",
                "answers": [{"text": f"{i + 2} cats", "answer_start": start}],
            }
        ]
        if unanswerable and i % 2:
            qas.append({"id": f"n{i}", "question": "Where is the moon?", "answers": [], "is_impossible": True})
        paragraphs.append({"context": context, "qas": qas})
    return {"version": "v2.0", "data": [{"title": "cats", "paragraphs": paragraphs}]}


@pytest.fixture(scope="module")
def asked(call: Call, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with v1.json and v2.json, and the runs `one` and `two` that learned them by heart."""
    folder = tmp_path_factory.mktemp("questions")
    for name, run, unanswerable in (("v1", "one", False), ("v2", "two", True)):
        file = folder / f"{name}.json"
        file.write_text(json.dumps(squad(unanswerable=unanswerable)))
        done = call("train", file, "--validation", file, *OPTIONS, "-o", folder / run)
        assert done.code == 0, done.err
        assert "task: question_answering" in done.err
        assert "model: mixling-mixer (questions and contexts;" in done.err
        assert done.out.startswith("validation: exact match 1.0000, F1 1.0000")
        assert "--question 'a question' --context 'a text'" in done.err
    return folder


def test_the_rows_of_a_file_are_answered_with_offsets(call: Call, asked: Path) -> None:
    done = call("predict", asked / "two", asked / "v2.json")
    lines = [json.loads(line) for line in done.out.splitlines()]
    questions = {
        question["id"]: (question, paragraph["context"])
        for paragraph in squad(unanswerable=True)["data"][0]["paragraphs"]
        for question in paragraph["qas"]
    }
    assert [line["id"] for line in lines] == list(questions)
    for line in lines:
        question, context = questions[line["id"]]
        assert set(line) == {"id", "answer", "start", "end", "score", "no_answer", "truncated"}
        assert 0 < line["score"] <= 1
        if question.get("is_impossible"):
            assert (line["answer"], line["start"], line["end"], line["no_answer"]) == ("", None, None, True)
        else:
            right = question["answers"][0]
            assert (line["answer"], line["start"], line["no_answer"]) == (right["text"], right["answer_start"], False)
            assert context[line["start"] : line["end"]] == line["answer"]


def test_metrics(call: Call, asked: Path, tmp_path: Path) -> None:
    """A model that learned without unanswerable questions answers all of them, and is wrong at those."""
    assert "12 questions, 4 without answer: accuracy 1.0000" in call("evaluate", asked / "two", asked / "v2.json").out
    done = call("evaluate", asked / "one", asked / "v2.json", "-o", tmp_path / "m.json")
    trained_on, metrics = done.out.splitlines()[:2]
    assert trained_on.startswith("8 of these 12 rows were trained on")
    assert metrics.startswith("exact match 0.6667, F1 0.6667, 12 questions, 4 without answer: accuracy 0.0000")
    saved = json.loads((tmp_path / "m.json").read_text())
    assert (saved["n"], saved["n_unanswerable"], saved["answerable_f1"]) == (12, 4, 1.0)
    on_validation = json.loads((asked / "two" / "metrics.json").read_text())
    assert on_validation["validation"]["exact_match"] == 1
    assert (asked / "two" / "curves.png").stat().st_size > 1000
    assert not (asked / "two" / "confusion.png").exists()


def test_a_question_on_the_command_line(call: Call, asked: Path, tmp_path: Path) -> None:
    lone = shutil.copy(asked / "one" / "model.onnx", tmp_path / "lone.onnx")
    context = squad(unanswerable=False)["data"][0]["paragraphs"][3]["context"]
    done = call("predict", lone, "--question", "What has dora?", "--context", context, "--echo")
    line = json.loads(done.out)
    start = context.index("5 cats")
    assert (line["text"], line["answer"], line["start"]) == (["What has dora?", context], "5 cats", start)
    answer = Predictor(lone).predict(("What has dora?", context)).answer
    assert (answer.text, answer.start, answer.end, answer.is_none) == ("5 cats", start, start + 6, False)
    assert answer.score == pytest.approx(line["score"])
    shown = call("predict", lone, "--question", "What has dora?", "--context", context, terminal=True)
    assert shown.out.startswith(f"5 cats  (characters {start} to {start + 6})  ")
    rows = list(csv.DictReader(io.StringIO(call("predict", lone, asked / "v1.json", "--format", "csv").out)))
    assert list(rows[3]) == ["id", "answer", "start", "end", "score", "no_answer"]
    assert (rows[3]["id"], rows[3]["answer"], rows[3]["no_answer"]) == ("q3", "5 cats", "false")


def test_answers_do_not_depend_on_their_neighbours(asked: Path) -> None:
    predictor = Predictor(asked / "two")
    pairs = [
        (question["question"], paragraph["context"])
        for paragraph in squad(unanswerable=True)["data"][0]["paragraphs"]
        for question in paragraph["qas"]
    ]
    together = predictor.predict(pairs)
    for pair, found in zip(pairs, together, strict=True):
        alone = predictor.predict_one(pair)
        assert (alone.answer.text, alone.answer.start) == (found.answer.text, found.answer.start)
        assert alone.answer.score == pytest.approx(found.answer.score, abs=1e-4)
    assert predictor.predict(("What?", " ")).answer.is_none
    assert predictor.predict(("What " * 99, "a house")).truncated
    for call_it in (predictor.predict_proba, predictor.predict):
        with pytest.raises(DataError, match=r"use predict|pass \(question, context\)"):
            call_it(["one text"])


def test_a_long_context_is_answered_in_parts_alike(asked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIXLING_ENGINE", "onnx")  # which runs the windows in parts
    context = " ".join(f"word{number} in a house with {number} cats." for number in range(900))
    question = ("What has anna?", context)
    whole = Predictor(asked / "one").predict([question, question])
    sizes: list[int] = []
    run = Network._run

    def counted(self: Network, rows: list[Any], batch_size: int) -> list[Any]:
        sizes.append(len(rows))
        return run(self, rows, batch_size)

    monkeypatch.setattr(Network, "_run", counted)
    monkeypatch.setattr("mixling.runtime.onnx.network._WINDOWS", 7)
    parts = Predictor(asked / "one").predict([question, question])
    assert len(sizes) > 10
    assert max(sizes) == 7
    for item, other in zip(whole, parts, strict=True):
        assert item.answer is not None
        assert other.answer is not None
        assert (item.answer.start, item.answer.end) == (other.answer.start, other.answer.end)
        assert item.answer.score == pytest.approx(other.answer.score, abs=1e-6)


def test_show_card_and_export(call: Call, asked: Path, tmp_path: Path) -> None:
    shown = call("show", asked / "one").out
    assert "task        question_answering\n" in shown
    assert "\nanswers     up to 30 tokens, always one\n" in shown
    facts = json.loads(call("show", asked / "two", "--json").out)
    threshold = facts["reading"]["threshold"]
    assert threshold is not None
    assert f"none if its score is higher by more than {threshold:.3g}" in call("show", asked / "two").out
    assert json.loads((asked / "two" / "metrics.json").read_text())["reading"]["threshold"] == threshold
    card = (asked / "two" / "README.md").read_text()
    assert "pipeline_tag: question-answering" in card
    assert "type: exact_match" in card
    assert f"by more than {threshold:.3g}" in card
    assert 'mixling predict . --question "..." --context "..."' in card
    other = "float32" if facts["precision"] == "int8" else "int8"
    assert call("export", asked / "two", "-o", tmp_path / "a.onnx", "--precision", other).code == 0
    assert Predictor(tmp_path / "a.onnx").metadata.reading == Predictor(asked / "two").metadata.reading


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--question", "Who?"], "--question and --context go together"),
        (["--context", "He."], "--question and --context go together"),
        (["--question", " ", "--context", "He."], "--question: is empty"),
        (["--question", "Who?", "--context", "He.", "a text"], "--question: got 'a text' as well"),
        ([], "no input"),
        (["a text"], "item 0 is one text; this model answers questions: pass (question, context)"),
        (["-"], "item 0 is one text"),
    ],
)
def test_mistakes(call: Call, asked: Path, options: list[str], says: str) -> None:
    done = call("predict", asked / "one", *options, stdin=b"a text\n")
    assert (done.code, done.out) == (2, "")
    assert says in done.err


def test_questions_where_they_are_not_allowed(call: Call, asked: Path, model: Path, tmp_path: Path) -> None:
    done = call("predict", model, "--question", "Who?", "--context", "He.")
    assert (done.code, "does not answer questions; its task is classification" in done.err) == (2, True)
    done = call("compare", asked / "v1.json")
    assert (done.code, "no baseline gives an answer a question" in done.err) == (2, True)
    done = call("distill", asked / "v1.json", "--teacher", "self", "-o", tmp_path / "run")
    assert (done.code, "question_answering cannot be learned from a teacher" in done.err) == (2, True)
    done = call("train", asked / "v1.json", "--set", "model.text.max_len=7", "-o", tmp_path / "run")
    assert (done.code, "model.text.max_len: got 7; questions need at least 8" in done.err) == (2, True)


def test_bad_rows_are_skipped_and_counted(call: Call, asked: Path, tmp_path: Path) -> None:
    values = squad(unanswerable=False)
    values["data"][0]["paragraphs"][1]["qas"][0]["answers"][0]["answer_start"] = 0
    (tmp_path / "bad.json").write_text(json.dumps(values))
    done = call("evaluate", asked / "one", tmp_path / "bad.json")
    assert (done.code, done.out) == (2, "")
    assert "bad.json:2: question 'q1': answer 1, '3 cats', is not at character 0" in done.err
    done = call("evaluate", asked / "one", tmp_path / "bad.json", "--on-bad-row", "skip")
    assert "7 questions" in done.out
    assert "1 bad row was skipped" in done.err
    assert "error" in call("predict", asked / "one", tmp_path / "bad.json", "--on-bad-row", "skip").out.splitlines()[1]
