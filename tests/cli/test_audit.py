"""`mixling audit` on examples of which some have wrong labels."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path

from .conftest import Call


def test_wrong_labels_are_found_and_reported(call: Call, reviews: Path, tmp_path: Path) -> None:
    rows = list(csv.DictReader((reviews / "train.csv").read_text().splitlines()))
    wrong = set(range(0, 240, 20))
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["review", "stars"])
        for number, row in enumerate(rows):
            label = {"good": "bad", "bad": "good"}[row["stars"]] if number in wrong else row["stars"]
            table.writerow([row["review"], label])
    out = tmp_path / "report"
    columns = ["--text", "review", "--label", "stars"]
    done = call(
        "audit", tmp_path / "rows.csv", "--test", reviews / "test.csv", *columns, "--folds", 2, "--epochs", 6, "-o", out
    )
    assert done.code == 0, done.err
    assert done.out.startswith("240 examples, 2 labels\nlabels that the models find improbable: ")
    assert "fold 2/2: 120 examples, accuracy " in done.err
    found = list(csv.DictReader((out / "rows.csv").read_text().splitlines()))
    assert [row["text"] for row in found] == [row["review"] for row in rows]
    lowest = sorted(range(240), key=lambda index: float(found[index]["label_probability"]))[: len(wrong)]
    assert len(wrong.intersection(lowest)) >= 10
    flagged = {index for index, row in enumerate(found) if row["improbable"] == "1"}
    assert len(wrong & flagged) > max(len(wrong), len(flagged)) / 2
    assert "Improbable labels" in (out / "report.html").read_text()


def test_mistakes(call: Call, reviews: Path, tmp_path: Path) -> None:
    columns = ["--text", "review", "--label", "stars", "-o"]
    done = call("audit", reviews / "train.csv", *columns, reviews / "test.csv")
    assert (done.code, "is a file; give a folder with -o" in done.err) == (2, True)
    done = call("audit", "-", *columns, tmp_path / "report")
    assert (done.code, "audit reads files, not standard input" in done.err) == (2, True)
    done = call("audit", reviews / "train.csv", "--folds", 1, *columns, tmp_path / "report")
    assert (done.code, "folds: got 1; at least 2" in done.err) == (2, True)
    assert not (tmp_path / "report").exists()


def test_data_of_several_labels(call: Call, tmp_path: Path) -> None:
    rng = random.Random(0)
    words = {"cheap": "price", "tasty": "food", "friendly": "staff"}
    rows, wrong = [], set(range(0, 150, 15))
    for number in range(150):
        chosen = [word for word in words if rng.random() < 0.5]
        labels = [words[word] for word in chosen]
        if number in wrong:  # without one of its labels, or with another
            labels = labels[1:] if labels else ["food"]
        rows.append({"text": " ".join(["it", "was", *chosen, str(number)]), "label": labels})
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = tmp_path / "report"
    done = call("audit", path, "--folds", 2, "--epochs", 15, "-o", out)
    assert done.code == 0, done.err
    assert "fold 2/2: 75 examples, micro F1 " in done.err
    found = list(csv.DictReader((out / "rows.csv").read_text().splitlines()))
    flagged = {index for index, row in enumerate(found) if row["improbable"] == "1"}
    assert len(wrong & flagged) >= 5
    least = sorted(range(150), key=lambda index: float(found[index]["label_probability"]))[:10]
    assert len(wrong & set(least)) >= 8
    for index in wrong & flagged:
        right = sorted(words[word] for word in str(rows[index]["text"]).split() if word in words)
        assert found[index]["label"] == "|".join(rows[index]["label"])
        assert len(set(found[index]["suggested"].split("|")) ^ set(right)) <= 1
    assert "Missing and superfluous labels" in (out / "report.html").read_text()
    path.write_text('{"question": "who", "context": "a b", "answers": {"text": ["a"], "start": [0]}}\n')
    done = call("audit", path, "-o", out)
    allowed = "is data of question_answering; data of classification, multi_label, tagging can be audited"
    assert (done.code, allowed in done.err) == (2, True), done.err
