"""Questions, contexts and answers from files: SQuAD's form and rows, what is wrong with them, how they are split."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mixling import DataError, Dataset, Example, TextConfig, TextEncoder, read_examples
from mixling.answers import Answers
from mixling.data import ColumnsConfig, OnBadRow, check_labels, collate, split_validation
from mixling.tasks import QuestionAnswering, infer_task
from mixling.text import MinHash, ReadingConfig, WindowEncoder, train_vocabulary
from mixling.training import WindowSet

CONTEXT = "Anna has a cat. Bob has a dog."
CAT: dict[str, Any] = {"id": "1", "question": "What has Anna?", "answers": [{"text": "a cat", "answer_start": 9}]}
DOG: dict[str, Any] = {
    "id": "2",
    "question": "What has Bob?",
    "is_impossible": False,
    "answers": [{"text": "dog", "answer_start": 26}, {"text": "a dog", "answer_start": 24}],
}
NONE: dict[str, Any] = {
    "id": "3", "question": "What has Eve?", "is_impossible": True, "answers": [],
    "plausible_answers": [{"text": "a dog", "answer_start": 24}],
}  # fmt: skip


def squad(*questions: Any, context: Any = CONTEXT, **more: Any) -> dict[str, Any]:
    return {**more, "data": [{"title": "t", "paragraphs": [{"context": context, "qas": list(questions)}]}]}


def read(path: Path, *, mode: Any = "error", labeled: bool = True, **columns: str) -> tuple[list[Example], OnBadRow]:
    bad = OnBadRow(mode)
    kind = ColumnsConfig(**columns)
    found = read_examples([path], reader=QuestionAnswering.reader, columns=kind, on_bad_row=bad, labeled=labeled)
    return list(found), bad


def row(answers: Any, **more: Any) -> dict[str, Any]:
    return {"question": "q", "context": CONTEXT, "answers": answers, **more}


def write_rows(path: Path, rows: Sequence[Any]) -> Path:
    path.write_text("".join(json.dumps(item) + "\n" for item in rows), "utf-8")
    return path


@pytest.mark.parametrize("template", ["line", "indented", "gzip", "version first", "byte order mark"])
def test_squad_files(template: str, tmp_path: Path) -> None:
    values = squad(CAT, DOG, NONE)
    values = {"version": "v2.0", **values} if template == "version first" else {**values, "version": "1.1"}
    content = json.dumps(values, indent=1 if template == "indented" else None).encode()
    path = tmp_path / ("dev.json.gz" if template == "gzip" else "dev.json")
    path.write_bytes(gzip.compress(content) if template == "gzip" else b"\xef\xbb\xbf" * (template[0] == "b") + content)
    found, _ = read(path)
    assert [item.id for item in found] == ["1", "2", "3"]
    assert [item.line for item in found] == [1, 2, 3]
    assert found[0].text == ("What has Anna?", CONTEXT)
    assert [item.answers for item in found] == [
        Answers(("a cat",), (9,)),
        Answers(("dog", "a dog"), (26, 24)),
        Answers((), ()),
    ]


def test_a_question_that_is_impossible_needs_no_empty_list(tmp_path: Path) -> None:
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(squad(changed(NONE, answers="absent"))))
    assert read(path)[0][0].answers == Answers((), ())


@pytest.mark.parametrize("suffix", ["jsonl", "parquet", "json"])
def test_rows(suffix: str, tmp_path: Path) -> None:
    rows = [
        {"id": "a", "question": "What?", "context": CONTEXT, "answers": {"text": ["a cat"], "start": [9]}},
        {"id": "b", "question": "Who?", "context": CONTEXT, "answers": {"text": [], "start": []}},
    ]
    path = tmp_path / f"rows.{suffix}"
    if suffix == "parquet":
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        write_rows(path, rows)
    found, _ = read(path)
    assert [(item.id, item.answers) for item in found] == [("a", Answers(("a cat",), (9,))), ("b", Answers((), ()))]


def test_columns_may_have_other_names(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", [{"q": "What?", "c": CONTEXT, "gold": []}])
    found, _ = read(path, question="q", context="c", answers="gold")
    assert found[0].text == ("What?", CONTEXT)
    with pytest.raises(DataError, match=r"a\.jsonl:1: no column 'question'.*columns.question=COLUMN"):
        read(path)


@pytest.mark.parametrize(
    ("answers", "wanted"),
    [
        ("a cat", Answers(("a cat",), (9,))),
        (["a cat", "Bob"], Answers(("a cat", "Bob"), (9, 16))),
        ({"text": ["a dog"]}, Answers(("a dog",), (24,))),
        ({"text": "a dog", "answer_start": 24}, Answers(("a dog",), (24,))),
        ([{"text": "a dog"}], Answers(("a dog",), (24,))),
    ],
)
def test_an_answer_without_a_start_is_where_its_text_occurs(tmp_path: Path, answers: Any, wanted: Answers) -> None:
    assert read(write_rows(tmp_path / "a.jsonl", [row(answers)]))[0][0].answers == wanted


def test_tables_have_one_answer_a_question_and_perhaps_its_start(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"question,context,answer\nWhat?,{CONTEXT},a cat\n")
    assert read(path)[0][0].answers == Answers(("a cat",), (9,))
    assert infer_task({"train": [str(path)]})[0] == "question_answering"
    path.write_text(f"question,context,answer_text\nWhat?,{CONTEXT},a cat\n")
    assert read(path)[0][0].answers == Answers(("a cat",), (9,))
    assert infer_task({"train": [str(path)]})[0] == "question_answering"
    path.write_text(f"question,context,answer,answer_start\nWhat?,{CONTEXT},a,24\nWhat?,{CONTEXT},a cat,\n")
    assert [item.answers for item in read(path)[0]] == [Answers(("a",), (24,)), Answers(("a cat",), (9,))]


def test_real_questions_have_their_answers_where_they_state(shared_data: Path) -> None:
    for language in ("en", "zh", "hi"):
        found, _ = read(shared_data / "xquad" / f"{language}.jsonl.gz")
        assert len(found) == 1190
        for item in found:
            assert item.answers is not None
            for text, start in zip(item.answers.texts, item.answers.starts, strict=True):
                assert item.text[1][start:].startswith(text)


# fmt: off
BAD_ROWS = [
    (row({"text": ["a dog"], "start": [9]}, id="x"),
     "question 'x': answer 1, 'a dog', is not at character 9 of .*, where 'a cat' is; it occurs at 24"),
    (row([{"text": "bird", "answer_start": 0}]), "answer 1, 'bird', is not at character 0 .*does not occur in"),
    (row([{"text": "Anna", "answer_start": -30}]), "is not at character -30"),
    (row({"text": ["a cat", "dog"], "start": [9]}), "2 texts but 1 starts"),
    (row({"text": 5}), "the answers are .*allowed: "),
    (row({"texts": ["a cat"]}), "the answers are .*allowed: "),
    (row({"text": [" "], "start": [4]}), "answer 1 is empty"),
    (row({"text": ["a cat"], "start": ["9"]}), "starts at '9'; allowed: the index of a character"),
    (row({"text": ["a cat"], "start": [True]}), "starts at 'True'"),
    (row("a"), r"answer 1, 'a', occurs 6 times in the context, at 3, 6, 9, 12, 21, 24; give its start"),
    (row(["dog", "A  Dog"]), r"answer 2, 'A  Dog', does not occur in the context; at 24 it is written 'a dog'"),
    (row("bird"), "answer 1, 'bird', does not occur in the context; an answer is a span"),
    (row(""), "the answers are ; allowed: "),
    (row(None), "the answers are missing"),
    (row([["a cat"]]), "allowed: "),
    ({"question": "q", "context": CONTEXT}, "no column 'answers'"),
    ({"question": "q", "answers": []}, "no column 'context'"),
    (row([], context=" "), "column 'context' is empty; enter a text"),
    (row([], question=7), "column 'question' is not text but a number"),
    (row([], id=[1]), "column 'id' is a list"),
    (row([], id="first"), "the id 'first' occurs twice"),
]
# fmt: on


@pytest.mark.parametrize(("bad", "says"), BAD_ROWS, ids=[says[:40] for _, says in BAD_ROWS])
def test_a_bad_row_is_reported_by_its_location_or_skipped(bad: Any, says: str, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", [row([], id="first"), bad, row([], id="last")])
    with pytest.raises(DataError, match=r"a\.jsonl:2: .*" + says) as caught:
        read(path)
    assert "--on-bad-row skip" in str(caught.value)
    found, skipped = read(path, mode="skip")
    assert [item.id for item in found] == ["first", "last"]
    assert skipped.skipped == 1


def changed(base: dict[str, Any], /, **values: Any) -> dict[str, Any]:
    return {key: value for key, value in {**base, **values}.items() if value != "absent"}


# fmt: off
BAD_QUESTIONS = [
    (changed(DOG, id="absent"), r"data\[0\]\.paragraphs\[0\]\.qas\[1\]: 'id' is missing"),
    (changed(DOG, id="1"), r"qas\[1\]: the id '1' occurs twice"),
    (changed(DOG, question=" "), r"qas\[1\] \(id '2'\): 'question' is missing or empty"),
    ("a question", r"qas\[1\] is not an object"),
    (changed(DOG, answers=[{"text": "dog", "answer_start": 0}]), r"dev\.json:2: question '2': answer 1, 'dog'"),
    (changed(DOG, answers="absent"), r"dev\.json:2: no column 'answers'"),
    (changed(DOG, is_impossible=True), r"qas\[1\] \(id '2'\): is_impossible is true, but there are answers"),
]
# fmt: on


@pytest.mark.parametrize(("bad", "says"), BAD_QUESTIONS)
def test_a_bad_question_is_reported_by_its_path_or_skipped(bad: Any, says: str, tmp_path: Path) -> None:
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(squad(CAT, bad, NONE)))
    with pytest.raises(DataError, match=says) as caught:
        read(path)
    assert str(caught.value).startswith(str(path))
    assert "--on-bad-row skip" in str(caught.value)
    found, skipped = read(path, mode="skip")
    assert [item.id for item in found] == ["1", "3"]
    assert skipped.skipped == 1


def test_a_paragraph_without_context_is_reported_or_skipped(tmp_path: Path) -> None:
    path = tmp_path / "dev.json"
    values = squad(CAT, context="")
    values["data"] += squad(DOG)["data"]
    path.write_text(json.dumps(values))
    with pytest.raises(DataError, match=r"data\[0\]\.paragraphs\[0\]: 'context' is empty"):
        read(path)
    assert [item.id for item in read(path, mode="skip")[0]] == ["2"]


# fmt: off
BAD_FILES = [
    (json.dumps(squad(CAT))[:-5], "bad JSON"),
    ('{"data": [7]}', r"data\[0\] is not an object"),
    ('{"data": [{"title": "t"}]}', r"data\[0\] has no key 'paragraphs'; the format is"),
    ('{"data": [{"paragraphs": {}}]}', r"data\[0\]\.paragraphs is not a list"),
    ('{"data": [{"paragraphs": [{"context": "c"}]}]}', r"paragraphs\[0\] has no key 'qas'"),
    ('{"data": []}', "has no questions"),
    ('{"data": [' + '{"paragraphs": [' * 9999, "bad JSON|nested too deeply"),
    (b'{"data": [\xff]}', "is not UTF-8"),
    (gzip.compress(json.dumps(squad(CAT)).encode())[:-9], "truncated"),
]
# fmt: on


@pytest.mark.parametrize(("content", "says"), BAD_FILES, ids=[says for _, says in BAD_FILES])
@pytest.mark.parametrize("mode", ["error", "skip"])
def test_a_damaged_file_is_refused_as_a_whole(content: str | bytes, says: str, mode: str, tmp_path: Path) -> None:
    path = tmp_path / "dev.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match=says) as caught:
        read(path, mode=mode)
    assert str(caught.value).startswith(str(path))


def test_rows_for_prediction_need_no_answers(tmp_path: Path) -> None:
    path = tmp_path / "test.json"
    path.write_text(json.dumps(squad(changed(CAT, answers="absent"))))
    found, _ = read(path, labeled=False)
    assert (found[0].id, found[0].answers) == ("1", None)


def store(count: int, *, memory_limit: int = 1 << 20) -> Dataset:
    """Three questions a context; of every third the answer is missing."""

    def example(i: int) -> Example:
        context = f"Person {i // 3} has {i // 3} cats and 9 dogs."
        answers = Answers((), ()) if i % 3 == 2 else Answers((f"{i // 3} cats",), (context.index("cats") - 2,))
        return Example((f"how many, {i}?", context), None, "a.jsonl", i + 1, str(i), answers)

    return Dataset.from_examples(map(example, range(count)), memory_limit=memory_limit)


@pytest.mark.parametrize("memory_limit", [1 << 20, 100])
def test_a_store_gives_answers_back(memory_limit: int) -> None:
    kept = store(9, memory_limit=memory_limit)
    assert kept.spooled == (memory_limit == 100)
    assert kept.answers[4] == Answers(("1 cats",), (13,))
    assert kept.subset([8]).answers[0] == Answers((), ())
    assert kept.texts[4] == ("how many, 4?", "Person 1 has 1 cats and 9 dogs.")
    assert kept.targets[4] is None
    check_labels(kept, kept)  # there are none to check


def test_questions_on_one_context_stay_on_one_side() -> None:
    train, validation = split_validation(store(30), fraction=0.2, seed=1)
    contexts = [{example.text[1] for example in part} for part in (train, validation)]
    assert not contexts[0] & contexts[1]
    assert len(validation) == 6
    with pytest.raises(DataError, match="3 rows with 1 distinct contexts"):
        split_validation(store(3), fraction=0.5, seed=1)


@pytest.mark.parametrize("keep", [True, False])
def test_windows_by_index(keep: bool) -> None:
    """They are those of each question, one after another, whether they are kept or encoded anew."""
    questions = store(9)
    config = TextConfig(projection=MinHash(num_features=64, num_hashes=4), max_len=12)
    encoder = TextEncoder(config, train_vocabulary(questions.sample_texts(9999, 0), config))
    windows = WindowSet(questions, encoder, ReadingConfig(), keep=keep)
    encodings = [WindowEncoder(encoder, ReadingConfig()).encode([questions.texts[i]])[0] for i in range(9)]  # type: ignore[list-item]
    expected = [(i, item.window(k)) for i, item in enumerate(encodings) for k in range(len(item.begins))]
    assert len(windows) == len(expected) > 9
    assert windows.owners.tolist() == [i for i, _ in expected]
    order = np.array([5, 0, len(expected) - 1, 5])
    for index, rows in zip(order, windows.words(order), strict=True):
        np.testing.assert_array_equal(rows, expected[index][1])
        assert windows.lengths[index] == len(rows)
    assert windows.unanswerable == 3
    assert collate(windows.words(order), encoder).mask.shape[0] == 4
    targets = [row for i, item in enumerate(encodings) for row in item.targets(questions.answers[i].first).tolist()]
    assert windows.targets.tolist() == targets


def test_answers_that_cannot_be_exact_are_counted() -> None:
    config = TextConfig(projection=MinHash(num_features=64, num_hashes=4), max_len=12)
    encoder = TextEncoder(config, train_vocabulary(["one two"], config))
    examples = [
        Example(("q", "one two"), None, "a", 1, None, Answers((text,), (start,)))
        for text, start in (("one", 0), ("ne", 1), ("o", 6))
    ]
    assert WindowSet(Dataset.from_examples(examples), encoder, ReadingConfig()).inexact == 2
