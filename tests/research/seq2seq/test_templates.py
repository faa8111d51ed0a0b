"""Rows of GLUE and SuperGLUE as text-to-text pairs, against sources and targets written by hand, and on real rows."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mixling import ConfigError, DataError
from mixling.data import OnBadRow, Row
from mixling.research.seq2seq import TEMPLATES, Pair, PairColumns, read_pairs
from mixling.research.seq2seq.templates import find_template

NLI = {"premise": "It rains.", "hypothesis": "It is wet."}
NLI_ROWS = [
    {**NLI, "label": "neutral"},
    {**NLI, "label": 1},
    {"sentence1": "It rains.", "sentence2": "It is wet.", "gold_label": "neutral"},
    {"text": "It rains.", "text_pair": "It is wet.", "label": "Neutral"},
]
COPA = {"premise": "He was tired.", "choice1": "He sang.", "choice2": "He slept.", "question": "effect"}
TWO = {"sentence1": "A cat.", "sentence2": "A dog."}
PLAIN = {"text": "A cat.", "text_pair": "A dog."}

# name -> the source, the target, rows that all say the same
SAME: dict[str, tuple[str, str, list[dict[str, Any]]]] = {
    "boolq": (
        "boolq question: is it wet passage: Water is wet.",
        "True",
        [
            {"question": "is it wet", "passage": "Water is wet.", "idx": 3, "label": label}
            for label in (True, "true", "True", 1, "1", 1.0)
        ]
        + [{"text": "is it wet ", "text_pair": "Water is wet.", "label": "true"}],
    ),
    "cb": (
        "cb hypothesis: It is wet. premise: It rains.",
        "contradiction",
        [
            {**NLI, "label": "contradiction"},
            {**NLI, "label": 1},
            {"text": "It rains.", "text_pair": "It is wet.", "label": "contradiction"},
        ],
    ),
    "copa": (
        "copa choice1: He sang. choice2: He slept. premise: He was tired. question: effect",
        "choice2",
        [{**COPA, "label": 1}, {"label": "1", **COPA}, {**COPA, "label": "choice2"}],
    ),
    "rte": (
        "rte sentence1: A cat. sentence2: A dog.",
        "not_entailment",
        [
            {"premise": "A cat.", "hypothesis": "A dog.", "label": "not_entailment"},
            {**TWO, "label": 1},
            {**PLAIN, "label": "not_entailment"},
        ],
    ),
    "wic": (
        "wic sentence1: A cat. sentence2: A dog. word: cat",
        "False",
        [{**TWO, "word": "cat", "start1": 2, "end1": 5, "label": label} for label in (False, "false", 0, "0")],
    ),
    "wsc": (
        "wsc noun: Anna text: Anna told Eve, and *she* 's glad.",
        "False",
        [
            {
                "text": "Anna told Eve, and she 's glad.",
                "target": {"span1_text": "Anna", "span1_index": 0, "span2_text": "she", "span2_index": 4},
                "label": False,
            },
            {
                "text": "Anna told Eve, and she 's glad.",
                "text_pair": '{"span1_text": "Anna", "span1_index": 0, "span2_text": "she", "span2_index": 4}',
                "label": "False",
            },
            {
                "text": "Anna told Eve, and she 's glad.",
                "span1_text": "Anna",
                "span2_text": "she",
                "span2_index": "4",
                "label": 0,
            },
        ],
    ),
    "cola": (
        "cola sentence: A cat.",
        "unacceptable",
        [{"sentence": "A cat.", "label": 0}, {"text": "A cat.", "label": "0"}, {"sentence": "A cat.", "label": 0.0}],
    ),
    "sst2": ("sst2 sentence: fine", "positive", [{"sentence": "fine ", "label": 1}, {"text": "fine", "label": "1"}]),
    "mrpc": (
        "mrpc sentence1: A cat. sentence2: A dog.",
        "equivalent",
        [{**TWO, "label": 1}, {**PLAIN, "label": "1"}, {"Quality": "1", "#1 String": "A cat.", "#2 String": "A dog."}],
    ),
    "qqp": (
        "qqp question1: Why? question2: How?",
        "not_duplicate",
        [
            {"question1": "Why?", "question2": "How?", "label": 0},
            {"question1": "Why?", "question2": "How?", "is_duplicate": "0"},
        ],
    ),
    "stsb": (
        "stsb sentence1: A cat. sentence2: A dog.",
        "3.8",
        [{**TWO, "label": 3.75}, {**PLAIN, "label": 3.8}, {**TWO, "score": "3.857"}],
    ),
    "mnli": ("mnli hypothesis: It is wet. premise: It rains.", "neutral", NLI_ROWS),
    "snli": ("snli hypothesis: It is wet. premise: It rains.", "neutral", NLI_ROWS),
    "conjnli": ("conjnli hypothesis: It is wet. premise: It rains.", "neutral", NLI_ROWS),
    "qnli": (
        "qnli question: Who? sentence: A cat.",
        "entailment",
        [
            {"question": "Who?", "sentence": "A cat.", "label": "entailment"},
            {"text": "Who?", "text_pair": "A cat.", "label": 0},
        ],
    ),
    "wnli": (
        "wnli sentence1: A cat. sentence2: A dog.",
        "entailment",
        [{**TWO, "label": 1}, {**PLAIN, "label": "1"}],
    ),
}  # fmt: skip

MULTIRC: dict[str, Any] = {
    "idx": 6,
    "passage": {
        "text": "<b>Sent 1: </b>Anna sang.<br><b>Sent 2: </b>Bob slept.<br>",
        "questions": [
            {
                "question": "Who sang?",
                "idx": 0,
                "answers": [{"text": "Anna", "idx": 0, "label": 1}, {"text": "Bob", "idx": 1, "label": 0}],
            },
            {"question": "Who slept?", "idx": 1, "answers": [{"text": "", "idx": 2, "label": 0}]},
        ],
    },
}
RECORD: dict[str, Any] = {
    "source": "x",
    "passage": {
        "text": "Oslo beat Rome\n@highlight\nRome wept.\n@highlight\nOslo sang",
        "entities": [{"start": 0, "end": 3}, {"start": 10, "end": 13}, {"start": 26, "end": 29}],
    },
    "qas": [
        {
            "query": "@placeholder won.",
            "idx": 1,
            "answers": [
                {"start": 0, "end": 3, "text": "Oslo"},
                {"start": 10, "end": 13, "text": "Rome"},
                {"start": 48, "end": 51, "text": "Oslo"},
            ],
        },
        {"query": "@placeholder lost.", "idx": 2, "answers": [{"start": 10, "end": 13, "text": "Rome"}]},
    ],
}
RECORD_SOURCE = "record query: @placeholder won. entities: Oslo, Rome passage: Oslo beat Rome. Rome wept. Oslo sang"


def pairs(name: str, values: dict[str, Any], *, labeled: bool = True, training: bool = True) -> list[Pair]:
    return find_template(name).pairs(Row(values, "f.jsonl", 7, own_columns=True), labeled=labeled, training=training)


def test_every_form_is_tested_here() -> None:
    assert set(SAME) | {"multirc", "record"} == set(TEMPLATES)
    assert all(name == template.name for name, template in TEMPLATES.items())


@pytest.mark.parametrize("name", SAME)
@pytest.mark.parametrize("training", [True, False])
def test_rows_that_state_the_same_are_the_same_pair(name: str, training: bool) -> None:
    source, target, rows = SAME[name]
    for values in rows:
        assert pairs(name, values, training=training) == [Pair(source=source, target=target, path="f.jsonl", line=7)]
        assert pairs(name, values, labeled=False)[0].target == target


@pytest.mark.parametrize("name", SAME)
@pytest.mark.parametrize("absent", [None, "", " ", -1, "-1", "-", "no key"])
def test_a_row_without_a_label_can_be_answered_but_not_learnt(name: str, absent: Any) -> None:
    template, (source, _, rows) = TEMPLATES[name], SAME[name]
    for row in rows:
        values = {key: value for key, value in row.items() if key not in template.label}
        if absent != "no key":
            values[template.label[0]] = absent
        assert [(pair.source, pair.target, pair.right) for pair in pairs(name, values, labeled=False)] == [
            (source, None, ())
        ]
        with pytest.raises(DataError, match=r"^f\.jsonl:7: .*label"):
            pairs(name, values)


@pytest.mark.parametrize("name", [name for name in SAME if TEMPLATES[name].labels])
def test_every_label_by_name_and_number(name: str) -> None:
    row = {key: value for key, value in SAME[name][2][0].items() if key not in TEMPLATES[name].label}
    for number, label in enumerate(TEMPLATES[name].labels):
        for outputs in (label, label.upper(), f" {label} ", number, str(number), float(number)):
            assert pairs(name, {**row, "label": outputs})[0].target == label


def test_multirc_is_a_pair_for_each_answer() -> None:
    text = "Sent 1: Anna sang. Sent 2: Bob slept."
    found = pairs("multirc", MULTIRC)
    assert [(pair.source, pair.target) for pair in found] == [
        (f"multirc question: Who sang? answer: Anna paragraph: {text}", "True"),
        (f"multirc question: Who sang? answer: Bob paragraph: {text}", "False"),
        (f"multirc question: Who slept? answer:  paragraph: {text}", "False"),
    ]
    assert found[0].question is not None
    assert found[0].question == found[1].question != found[2].question
    other = find_template("multirc").pairs(Row(MULTIRC, "f.jsonl", 8), labeled=True)
    assert other[0].question != found[0].question
    bare = json.loads(json.dumps(MULTIRC).replace(', "label": 1', "").replace(', "label": 0', ""))
    assert [pair.target for pair in pairs("multirc", bare, labeled=False)] == [None] * 3
    with pytest.raises(DataError, match=r"f\.jsonl:7: passage\.questions\[0\]\.answers\[0\]: there is no label"):
        pairs("multirc", bare)


def test_flat_multirc_rows_of_a_question_belong_together() -> None:
    row = {"paragraph": "Anna<br>sang.", "question": "Who?", "idx": {"paragraph": 0, "question": 0, "answer": 0}}
    (first,) = pairs("multirc", {**row, "answer": "Anna", "label": 1})
    (second,) = pairs("multirc", {**row, "answer": "Bob", "label": 0})
    (other,) = pairs("multirc", {**row, "question": "When?", "answer": "Anna", "label": 0})
    assert first.source == "multirc question: Who? answer: Anna paragraph: Anna sang."
    assert (first.target, second.target) == ("True", "False")
    assert first.question is not None
    assert first.question == second.question != other.question


def test_record_is_learnt_from_each_entity_and_evaluated_with_all() -> None:
    learned = pairs("record", RECORD)
    assert [(pair.target, pair.references) for pair in learned] == [
        ("Oslo", ("Oslo", "Rome")), ("Rome", ("Oslo", "Rome")), ("Rome", ()),
    ]  # fmt: skip
    assert {pair.source for pair in learned[:2]} == {RECORD_SOURCE}
    assert learned[0].question is not None
    assert learned[0].question == learned[1].question != learned[2].question
    evaluated = pairs("record", RECORD, training=False)
    assert [pair.right for pair in evaluated] == [("Oslo", "Rome"), ("Rome",)]
    assert [pair.source for pair in evaluated] == [learned[0].source, learned[2].source]
    flat = {"query": "@placeholder won.", "entities": ["Oslo", "Rome"], "answers": ["Oslo", "Rome"]}
    (pair,) = pairs("record", {**flat, "passage": RECORD["passage"]["text"]}, training=False)
    assert (pair.source, pair.right) == (RECORD_SOURCE, ("Oslo", "Rome"))
    bare = {**RECORD, "qas": [{"query": "@placeholder won."}]}
    assert [(pair.source, pair.target) for pair in pairs("record", bare, labeled=False)] == [(RECORD_SOURCE, None)]
    with pytest.raises(DataError, match=r"f\.jsonl:7: qas\[0\]: there is no label"):
        pairs("record", bare)


@pytest.mark.parametrize(
    ("text", "pronoun", "index", "marked"),
    [
        ("He saw him, then he left.", "he", 4, "He saw him, then *he* left."),
        ("He saw him, then he left.", "He", 0, "*He* saw him, then he left."),
        ("Ann saw\n him, then left.", "him", 2, "Ann saw\n *him*, then left."),
        ("put it where it stood", "it", 2, "put *it* where it stood"),  # no pronoun there: the nearest
        ("the heron said he's glad", "he", 0, "the heron said *he*'s glad"),
    ],
)
def test_wsc_marks_the_pronoun(text: str, pronoun: str, index: int, marked: str) -> None:
    target = {"span1_text": "Ann", "span2_text": pronoun, "span2_index": index}
    (pair,) = pairs("wsc", {"text": text, "target": target, "label": True})
    assert (pair.source, pair.target) == (f"wsc noun: Ann text: {marked}", "True")


@pytest.mark.parametrize(
    ("number", "target"),
    [(0, "0.0"), (0.1, "0.0"), (0.11, "0.2"), (2.5, "2.4"), (2.6, "2.6"), (4.95, "5.0"), ("5", "5.0")],
)
def test_numbers_are_rounded_to_fifths(number: Any, target: str) -> None:
    assert pairs("stsb", {**TWO, "label": number})[0].target == target


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("rte", {**TWO, "label": "entailmnt"}, "'label' holds 'entailmnt'; did you mean 'entailment'"),
        ("rte", {**TWO, "label": 2}, "0 to 1"),
        ("rte", {**TWO, "label": True}, "allowed: entailment, not_entailment"),
        ("rte", {**TWO, "label": []}, "there is no label"),
        ("rte", {**TWO, "label": {}}, "holds '{}'"),
        ("boolq", {"question": "q", "passage": "p", "label": 0.5}, "allowed: False, True"),
        ("boolq", {"question": None, "passage": "p", "label": 0}, "'question' is missing"),
        ("boolq", {"question": "q", "passage": 3, "label": 0}, r"'passage' is not text but int \(3\)"),
        ("cola", {"sentence": " ", "label": 0}, "empty, and a text is needed"),
        ("stsb", {**TWO, "label": 5.1}, "a number from 0 to 5 is allowed"),
        ("stsb", {**TWO, "label": "much"}, "a number from 0 to 5 is allowed"),
        ("stsb", {**TWO, "label": True}, "a number from 0 to 5 is allowed"),
        ("wsc", {"text": "a b", "text_pair": "{", "label": 0}, "not JSON; the format is"),
        ("wsc", {"text": "a b", "target": {"span2_text": "b"}, "label": 0}, "'span2_index' is 'None'"),
        ("wsc", {"text": "a b", "target": {"span2_text": "c", "span2_index": 0}, "label": 0}, "'c' .* is not a word"),
        ("wsc", {"text": "a b", "target": {"span2_index": 0}, "label": 0}, "'span2_text'.* missing"),
        ("wsc", {"text": "a b", "target": {"span2_text": "b", "span2_index": 1}, "label": 0}, "'noun' is missing"),
        ("multirc", {"passage": {"text": "t"}}, "passage.questions is missing; the format is"),
        ("multirc", {"passage": {"text": "t", "questions": []}}, "has no questions"),
        ("multirc", {"passage": {"text": "t", "questions": [3]}}, r"passage.questions\[0\]: got '3', not an object"),
        ("multirc", {"passage": {"text": "t", "questions": [{"answers": [3]}]}}, r"answers\[0\]: got '3'"),
        (
            "record",
            {"passage": {"text": "t", "entities": [{"start": 0, "end": 1}]}},
            "not the first and last character",
        ),
        ("record", {"passage": {"text": "t", "entities": []}, "qas": 3}, "qas is not a list"),
        ("record", {"passage": "t", "query": "q", "entities": "Oslo", "answers": ["a"]}, "the entities are 'Oslo'"),
        ("record", {"passage": "t", "query": "q", "entities": ["a"], "answers": "a"}, "a list of non-empty entities"),
        ("record", {"passage": "t", "query": "q", "entities": ["a"], "answers": []}, "there is no label"),
    ],
)
def test_a_bad_row_is_reported(name: str, values: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=r"^f\.jsonl:7: .*" + message):
        pairs(name, values)


def test_unknown_forms_name_the_nearest() -> None:
    with pytest.raises(ConfigError, match="unknown template 'bolq'; did you mean 'boolq'"):
        find_template("bolq")


def read(path: Path, template: str | None, bad: OnBadRow | None = None, **options: Any) -> list[Pair]:
    return list(read_pairs([path], columns=PairColumns(), on_bad_row=bad or OnBadRow(), template=template, **options))


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def test_files_are_read_by_their_form(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [RECORD, {**RECORD, "qas": 3}, RECORD])
    bad = OnBadRow("skip")
    assert [pair.line for pair in read(path, "record", bad)] == [1, 1, 1, 3, 3, 3]
    assert [pair.line for pair in read(path, "record", OnBadRow("skip"), training=False)] == [1, 1, 3, 3]
    assert bad.skipped == 1
    assert bad.messages[0].startswith(f"{path}:2: qas is not a list")
    with pytest.raises(ConfigError, match="did you mean 'record'"):
        read(path, "recrod")


def test_a_missing_column_is_a_problem_of_the_table_and_of_a_row_of_jsonl(tmp_path: Path) -> None:
    table = tmp_path / "a.tsv"
    table.write_text("index\tsentence1\tlabel\n0\tA cat.\tentailment\n", "utf-8")
    with pytest.raises(
        DataError, match=r"a\.tsv: no column 'sentence2' or 'hypothesis' or 'text_pair', which the template"
    ):
        read(table, "rte", OnBadRow("skip"))
    table.write_text("sentence1\tsentence2\nA cat.\tA dog.\n", "utf-8")
    assert read(table, "rte", labeled=False)[0].target is None
    with pytest.raises(DataError, match=r"a\.tsv: no column 'label'"):
        read(table, "rte", OnBadRow("skip"))
    rows = [{"sentence1": "A cat."}, {**TWO, "label": 0}]
    bad = OnBadRow("skip")
    assert [pair.line for pair in read(write(tmp_path / "a.jsonl", rows), "rte", bad)] == [2]
    assert ".jsonl:1: no column 'sentence2'" in bad.messages[0]


def test_a_prefix_is_laid_before_plain_sources_only(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [{"source": " a cat", "target": "eine Katze"}])
    assert read(path, None, prefix="translate: ")[0].source == "translate:  a cat"
    assert read(path, None)[0].source == " a cat"
    with pytest.raises(ConfigError, match="prefix 'x ' and the template 'rte'"):
        read(path, "rte", prefix="x ")


FILES = [
    ("rte", "rte/*"), ("cb", "cb/*"), ("wsc", "wsc/*"), ("mrpc", "mrpc/*"), ("cola", "cola/*"), ("stsb", "stsb/*"),
    ("wnli", "wnli/*"), ("qnli", "qnli/*"), ("boolq", "boolq/*"), ("sst2", "sst2_glue/*"), ("conjnli", "conjnli/*"),
    ("boolq", "fewglue/BoolQ*"), ("copa", "fewglue/COPA*"), ("multirc", "fewglue/MultiRC*"),
    ("record", "fewglue/ReCoRD*"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("template", "pattern"), FILES)
def test_every_real_row_is_read(shared_data: Path, template: str, pattern: str) -> None:
    paths = sorted(shared_data.glob(pattern))
    assert paths
    for path in paths:
        labeled = "unlabel" not in path.name
        found = read(path, template, labeled=labeled, training=False)
        with gzip.open(path, "rt", encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        if template == "multirc":
            answers = [a for row in rows for q in row["passage"]["questions"] for a in q["answers"]]
            assert len(found) == len(answers)
            asked = {(i, q["idx"]) for i, row in enumerate(rows) for q in row["passage"]["questions"]}
            assert len({pair.question for pair in found}) == len(asked)
            labels = [{0: "False", 1: "True"}.get(answer.get("label", -1)) for answer in answers]
            assert [pair.target for pair in found] == labels
            continue
        assert [pair.line for pair in found] == list(range(1, len(rows) + 1))
        assert all((pair.target is not None) == labeled for pair in found)
        counts = Counter(pair.target for pair in found)
        if (
            labeled and TEMPLATES[template].labels
        ):  # as many of each label as the file has, whatever they are called there
            assert set(counts) == set(TEMPLATES[template].labels)
            assert sorted(counts.values()) == sorted(Counter(str(row["label"]) for row in rows).values())
        if template == "stsb":
            gaps = [abs(float(pair.target or "nan") - row["label"]) for pair, row in zip(found, rows, strict=True)]
            assert max(gaps) <= 0.1 + 1e-9
        if template == "wsc":
            assert all(pair.source.count("*") == 2 for pair in found)
        if template == "record":
            learned = read(path, template)
            wanted = [{a["text"] for a in row["qas"][0]["answers"]} for row in rows]
            assert [set(pair.right) for pair in found] == wanted
            assert len(learned) == sum(map(len, wanted))
            assert all(f"{pair.target}, " in pair.source or f", {pair.target}" in pair.source for pair in learned)
