"""Each command in the tables of docs/how-to/formats.md runs, on a file of the form that its row shows."""

from __future__ import annotations

import csv
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mixling.training import Trainer, TrainingState

from ..cli.conftest import Call, call

__all__ = ["call"]
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "formats.md"
ROWS = [line.strip("| \n").split(" | ") for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
COMMANDS = [found[1] for row in ROWS if (found := re.fullmatch(r"`(mixling .*)`", row[-1]))]
NUMBER = 24

LABELS = ["login", "billing"]
TEXTS = [f"my {['password', 'card'][i % 2]} {i} is lost" for i in range(NUMBER)]
WORDS = [["Mia", "sees", "Rome", f"in{i}"] for i in range(NUMBER)]
TAGS = ["B-PER", "O", "B-LOC", "O"]
SENTENCES = [" ".join(words) for words in WORDS]
SPANS = [(0, 3, "PER"), (9, 13, "LOC")]
OBJECTS = [{"start": start, "end": end, "label": label} for start, end, label in SPANS]
CONTEXT = "Anna has a cat, and Bob has a dog, says {}."


def lines(*rows: Any) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def conll(row: str) -> str:
    """Sentences whose lines are `row` with a token's number, word and tag filled in."""
    each = ("".join(row.format(*item) for item in zip(range(1, 5), words, TAGS, strict=True)) for words in WORDS)
    return "\n".join(each)


def table(header: str, *rows: Any) -> str:
    return "\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n"


def studio(text: str, *values: dict[str, Any]) -> dict[str, Any]:
    kinds = ["labels" if "start" in value else "choices" for value in values]
    result = [{"type": kind, "value": value} for kind, value in zip(kinds, values, strict=True)]
    return {"annotations": [{"result": result}], "data": {"text": text}}


def contents() -> dict[str, str]:
    """The content of each file that the page names."""
    labeled = [{"text": text, "label": LABELS[i % 2]} for i, text in enumerate(TEXTS)]
    pairs = [(text, LABELS[i % 2]) for i, text in enumerate(TEXTS)]
    starts = [{"start": start, "end": end, "labels": [label]} for start, end, label in SPANS]
    offsets = [{"start_offset": start, "end_offset": end, "label": label} for start, end, label in SPANS]
    asked = [(f"What has {who} {i}?", CONTEXT.format(i), f"a {pet}") for i in range(NUMBER // 2)
             for who, pet in (("Anna", "cat"), ("Bob", "dog"))]  # fmt: skip
    answers = [{"text": [answer], "start": [context.index(answer)]} for _, context, answer in asked]
    qas = [[{"id": f"{i}", "question": question, "answers": [{"text": answer, "answer_start": context.index(answer)}]}]
           for i, (question, context, answer) in enumerate(asked)]  # fmt: skip
    cells = [(f'"{question}"', f'"{context}"', f'"{answer}"') for question, context, answer in asked]
    return {
        "rows.csv": table("text,label", *pairs),
        "reviews.csv": table("review,stars", *pairs),
        "unnamed.csv": "".join(
            f'"{LABELS.index(label)}","{1467810369 + i}","Mon Apr 06 22:19:{i} PDT 2009","{text}"\n'
            for i, (text, label) in enumerate(pairs)
        ),
        "Collection": "".join(f"{label}\t{text}\n" for text, label in pairs),
        "pairs.csv": table("premise,hypothesis,relation", *((text, text[3:], label) for text, label in pairs)),
        "rows.jsonl": lines(*labeled),
        "rows.json": json.dumps(labeled, indent=1),
        "fasttext.txt": "".join(f"__label__{label} {text}\n" for text, label in pairs),
        "label-studio.json": json.dumps([studio(text, {"choices": [label]}) for text, label in pairs]),
        "prodigy.jsonl": lines(*({"text": text, "accept": [label], "answer": "accept"} for text, label in pairs)),
        "rasa.json": json.dumps({"rasa_nlu_data": {"common_examples": [
            {"text": text, "intent": label, "entities": []} for text, label in pairs
        ]}}),
        "doccano-labels.jsonl": lines(*({"text": text, "label": [label]} for text, label in pairs)),
        "words.conll": conll("{1} NNP B-NP {2}\n"),
        "words.txt": conll("{1} {2}\n"),
        "numbered.conll": conll("{0}\t{1}\t{2}\t{2}\n"),
        "slots.jsonl": lines(*({"tokens": words, "slots": TAGS} for words in WORDS)),
        "numbers.jsonl": lines(*({"tokens": words, "ner_tags": [1, 0, 3, 0]} for words in WORDS)),
        "words.csv": table("Sentence #,Word,POS,Tag", *(
            ("" if j else f"Sentence: {i}", word, "N", tag)
            for i, words in enumerate(WORDS) for j, (word, tag) in enumerate(zip(words, TAGS, strict=True))
        )),
        "doccano.jsonl": lines(*({"text": text, "label": SPANS} for text in SENTENCES)),
        "entities.jsonl": lines(*({"text": text, "entities": offsets} for text in SENTENCES)),
        "label-studio-spans.json": json.dumps([studio(text, *starts) for text in SENTENCES]),
        "prodigy-spans.jsonl": lines(*({"text": text, "spans": OBJECTS, "answer": "accept"} for text in SENTENCES)),
        "spacy.json": json.dumps([[text, {"entities": SPANS}] for text in SENTENCES]),
        "argilla.jsonl": lines(*({"text": text, "annotation": OBJECTS} for text in SENTENCES)),
        "train.json": json.dumps({"data": [{"paragraphs": [
            {"context": context, "qas": one} for (_, context, _), one in zip(asked, qas, strict=True)
        ]}]}),
        "asked.jsonl": lines(*(
            {"question": question, "context": context, "answers": found}
            for (question, context, _), found in zip(asked, answers, strict=True)
        )),
        "asked.csv": table("question,context,answer", *cells),
        "other-asked.csv": table("q,passage,gold", *cells),
    }  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files, as the current one, in which trainings take two steps."""
    for name, content in contents().items():
        (tmp_path / name).write_text(content, "utf-8")
    for i, text in enumerate(TEXTS):
        path = tmp_path / "news" / LABELS[i % 2] / f"{i}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "brat").mkdir()
    for i, text in enumerate(SENTENCES):
        (tmp_path / "brat" / f"{i}.txt").write_text(text)
        notes = (f"T{j}\t{label} {start} {end}\t{text[start:end]}\n" for j, (start, end, label) in enumerate(SPANS))
        (tmp_path / "brat" / f"{i}.ann").write_text("".join(notes))
    with (tmp_path / "rows.csv").open(newline="") as file:
        pq.write_table(pa.Table.from_pylist(list(csv.DictReader(file))), tmp_path / "rows.parquet")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Trainer, "_plan", lambda self: TrainingState(total_steps=2, eval_interval=2))
    return tmp_path


def test_the_page_has_the_commands() -> None:
    assert len(COMMANDS) >= 30
    files = r"[\w-]+\.(?:csv|json|jsonl|conll|txt)\b|Collection"
    named = {name for command in COMMANDS for name in re.findall(files, command)}
    assert set(contents()) <= named


@pytest.mark.slow
@pytest.mark.parametrize("command", [line for line in COMMANDS if "mixling train" in line and "hf:" not in line])
def test_each_format_is_trained_on_evaluated_and_predicted(command: str, folder: Path, call: Call) -> None:
    _, *args = shlex.split(command)
    done = call(*args)
    assert done.code == 0, done.err
    assert "skipped" not in done.err or ", 0 skipped" in done.err
    done = call("evaluate", args[-1], args[1])  # the run knows the columns
    assert done.code == 0, done.err
    done = call("predict", args[-1], args[1], "--format", "jsonl")
    assert (done.code, len(done.out.splitlines())) == (0, len(TEXTS)), done.err


@pytest.mark.slow
def test_each_output_is_written(folder: Path, call: Call) -> None:
    assert call("train", "rows.csv", "-o", "model/").code == call("train", "slots.jsonl", "-o", "tagger/").code == 0
    commands = [line for line in COMMANDS if "mixling train" not in line]
    assert len(commands) >= 6
    for command in commands:
        _, *args = shlex.split(command)
        done = call(*args)
        assert done.code == 0, f"{command}: {done.err}"
        assert (folder / args[-1]).exists() or list(folder.glob(f"{args[-1].rstrip('/')}*"))
