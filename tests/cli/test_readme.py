"""README's command lines, typed in the order in which they stand, in one folder that has the files that they name.

Trainings take two steps. A line that is not run is listed with the reason; a new line is run, or is listed here.
"""

from __future__ import annotations

import gzip
import json
import re
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mixling.training.loop import Trainer
from mixling.training.state import TrainingState

from .conftest import Call

README = Path(__file__).parents[2] / "README.md"

# The beginnings of command lines that are not run.
NOT_RUN = {
    "pip install": "installs from an index",
    "make check": "would run this test",
    "mixling demo": "tests/cli/test_demo.py runs it",
    "torchrun": "starts processes; tests/training/test_distributed.py does",
    "mixling distill rows.csv --validation dev.csv": "names no real teacher; "
    "tests/end_to_end/test_pretrained_teacher.py does",
    "mixling distill rows.csv --unlabeled more.txt.gz --teacher self": "trains several; in tests/cli/test_distill.py",
    "mixling train rows.csv --from pre/": "exports a wide model; tests/cli/test_pretrain.py does with a small one",
    "mixling cost": "measures for minutes; tests/cli/test_cost.py does with small models",
    "mixling audit": "trains several; in tests/cli/test_audit.py",
    "mixling serve": "runs until it is stopped; tests/serving does",
    "mixling compare": "trains for minutes; tests/cli/test_compare.py does on few rows",
    "mixling train reviews.csv --model hypermixer": "the paper's size; tests/models/test_presets.py builds it",
}


def command_lines(text: str) -> list[str]:
    """The commands of README's indented blocks in order, without comments; a line with && has several."""
    blocks = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    joined = re.sub(r"\\\n\s+", "", blocks)
    lines = [line[4:].strip() for line in joined.splitlines() if re.match(r" {4}\S", line)]
    whole = [re.sub(r"(^|\s+)#.*", "", line) for line in lines]
    return [part.strip() for line in whole for part in line.split("&&") if part.strip()]


def reason_not_to_run(line: str) -> str | None:
    return next((reason for begin, reason in NOT_RUN.items() if line.startswith(begin)), None)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with all the files that README's lines read."""
    monkeypatch.chdir(tmp_path)
    adjectives = {"good": ["great", "lovely", "fine", "superb"], "bad": ["awful", "boring", "poor", "dull"]}
    nouns = ["film", "plot", "cast", "music", "story"]
    texts = [
        (f"what a {word} {noun}, number {i % 9}", label)
        for i in range(3)
        for label, words in adjectives.items()
        for word in words
        for noun in nouns
    ]
    rows = [
        {
            "review": text, "stars": label, "text": text, "label": label, "premise": text, "hypothesis": text[7:],
            "relation": label, "topics": [label], "source": text, "target": label, "kind": label,
        }
        for text, label in texts
    ]  # fmt: skip
    flat = ["review", "stars", "text", "label", "premise", "hypothesis", "relation"]
    table = "\n".join([",".join(flat), *(",".join(f'"{row[name]}"' for name in flat) for row in rows)]) + "\n"
    for name in ("reviews.csv", "test.csv", "dev.csv", "rows.csv", "pairs.csv", "more.csv"):
        (tmp_path / name).write_text(table)
    jsonl = "".join(json.dumps(row) + "\n" for row in rows)
    for name in ("train.jsonl", "dev.jsonl", "test.jsonl", "new.jsonl", "topics.jsonl", "pairs.jsonl", "numbers.jsonl"):
        (tmp_path / name).write_text(jsonl)
    tagged = [{"tokens": ["fly", f"number{i}", "to", "Oslo"], "slots": ["O", "O", "O", "B-city"]} for i in range(30)]
    (tmp_path / "slots.jsonl").write_text("".join(json.dumps(row) + "\n" for row in tagged))
    boolq = [{"question": f"is it {n}", "passage": f"it is {n} of {i}", "label": i % 2 == 0, "idx": i}
             for i, n in enumerate(nouns * 8)]  # fmt: skip
    (tmp_path / "boolq.jsonl").write_text("".join(json.dumps(row) + "\n" for row in boolq))
    rte = [{"premise": t, "hypothesis": t[5:], "label": ["entailment", "not_entailment"][i % 2], "idx": i}
           for i, (t, _) in enumerate(texts)]  # fmt: skip
    (tmp_path / "rte.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rte))
    context = "Anna has a cat, Bob a dog."
    for name in ("train.json", "dev.json", "new.json"):
        asked = [
            {
                "id": f"{name}{i}",
                "question": f"Who has a {pet}, {i}?",
                "answers": [{"text": who, "answer_start": start}],
            }
            for i in range(20)
            for who, pet, start in [("Anna", "cat", 0), ("Bob", "dog", 16)][i % 2 : i % 2 + 1]
        ]
        paragraphs = [{"context": f"{context} {i}", "qas": [question]} for i, question in enumerate(asked)]
        (tmp_path / name).write_text(json.dumps({"version": "1.1", "data": [{"title": "", "paragraphs": paragraphs}]}))
    lines = "".join(f"{text}\n" for text, _ in texts)
    (tmp_path / "lines.txt").write_text(lines)
    # Enough different words for word vectors, and enough text for a held-out part.
    words = [f"{word} {noun} word{i}" for i in range(300) for word in ("great", "dull") for noun in nouns[i % 5 :]]
    long = "".join(" ".join(words[i::600]) + "\n" for i in range(600))
    for name in ("more.txt.gz", "reviews.txt.gz", "other.txt.gz"):
        (tmp_path / name).write_bytes(gzip.compress(long.encode()))
    pq.write_table(pa.table({"text": long.splitlines()}), tmp_path / "more.parquet")
    for content, name in re.findall(r"```toml\n(# ([\w.]+\.toml).*?)```", README.read_text("utf-8"), re.DOTALL):
        (tmp_path / name).write_text(content)
    return tmp_path


@pytest.fixture
def short_trainings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trainer, "_plan", lambda self: TrainingState(total_steps=2, eval_interval=2))


@pytest.mark.slow
def test_the_lines_run_in_order(files: Path, short_trainings: None, call: Call) -> None:
    run = 0
    for line in command_lines(README.read_text("utf-8")):
        if reason_not_to_run(line):
            continue
        stdin = b""
        if match := re.match(r"cat (\S+) \| (.*)", line):
            stdin, line = (files / match[1]).read_bytes(), match[2]
        name, *args = shlex.split(line)
        assert name == "mixling", f"{line}: neither a command of mixling's nor listed with a reason"
        done = call(*args, stdin=stdin)
        assert done.code == 0, f"{line}\n{done.err}"
        run += 1
    assert run >= 20


def test_what_is_not_run_stands_in_readme() -> None:
    lines = command_lines(README.read_text("utf-8"))
    assert [begin for begin in NOT_RUN if not any(line.startswith(begin) for line in lines)] == []
