"""Labels that `mixling label` saves simulated annotators, and answers that kills of it lose (none may be).

    python benchmarks/labeling.py simulate --data ../shared/data snips clinc20 sst2 --seeds 0 1 2 3 4
    python benchmarks/labeling.py kills --number 50 --seeds 0 1 2 3

`simulate`: annotators give the true labels of the texts that the queue of the page asks, in its order: every fifth a
random one, the others as a strategy chooses after each training. The models are those of the page; to save time they
are trained after every tenth more answers instead of every twentieth. At some numbers of answers, a model is trained on
all of them, as on what is exported, and tested on the test set; `needed` is where its accuracy first reaches the one of
1,000 random answers, between two of these numbers by interpolation. clinc20 has 20 intents of CLINC150, drawn by the
seed. `means` has the means and ranges of all seeds of a set. What results/labeling.json has is not simulated again.

`kills`: a client answers texts and keeps what is not confirmed, as the page does, while the process is killed at random
moments; afterwards each answer must be in the record once.

Results go to results/labeling.json and labeling_kills.json; the kills of each seed are a run of their own.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import itertools
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import unittest.mock
from pathlib import Path
from typing import Any

import numpy as np

from mixling.data import ColumnsConfig
from mixling.errors import DataError
from mixling.labeling import Lesson, Queue, Record, is_test, learn, read_file_texts, trained
from mixling.labeling.queue import _rank as rank
from mixling.provenance import provenance
from mixling.storage import write_json

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
RESULTS = Path(__file__).parent / "results"
MOST = 1000  # labels
GROWTH = 1.1
MEASURED = (100, 200, 300, 400, 500, 600, 750, MOST)


def rows_of(name: str, data: Path, seed: int) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the rows to label and those to test on."""
    from text_sets import load

    train, _, test = load("clinc150" if name == "clinc20" else name, data)
    parts = [[(text if isinstance(text, str) else " ".join(text), label)
              for text, label in zip(part.texts, part.targets, strict=True)] for part in (train, test)]  # fmt: skip
    if name == "clinc20":
        labels = set(random.Random(seed).sample(sorted({label for _, label in parts[0]}), 20))
        parts = [[row for row in part if row[1] in labels] for part in parts]
    random.Random(seed).shuffle(parts[0])
    return [(text, label) for text, label in parts[0] if text.strip()][:10_000], parts[1]


def accuracy(examples: list[tuple[str, str]], test: list[tuple[str, str]]) -> float:
    """Return the accuracy of a model that has learned the examples."""
    predictions = trained(examples, "classification").predict_stream([text for text, _ in test])
    return float(np.mean([one.label == label for one, (_, label) in zip(predictions, test, strict=True)]))


def simulated(name: str, data: Path, seed: int, strategy: str, wanted: float | None) -> dict[str, float]:
    """Return the accuracy after some numbers of answers, up to where it is the wanted one."""
    rows, test = rows_of(name, data, seed)
    found: dict[str, float] = {}
    # The order of the texts is by their fingerprints; another seed is another order.
    seeded = unittest.mock.patch("mixling.labeling.queue._rank", lambda key, purpose: rank(key, f"{seed} {purpose}"))
    with tempfile.TemporaryDirectory() as folder, seeded:
        file = Path(folder) / "texts.jsonl"
        file.write_text("".join(json.dumps({"text": text}) + "\n" for text, _ in rows))
        texts = read_file_texts(file, task="classification", columns=ColumnsConfig())
        keys = list(texts.by_key)
        numbers = {key: number for number, key in enumerate(keys)}
        truth = dict(reversed(rows))  # of equal texts the first one's
        contents = [text.text for text in texts.by_key.values()]
        with Record(Path(folder) / "record.jsonl", None, []) as record:
            record.begin(texts)
            queue = Queue(texts, record)
            if strategy == "random":
                queue.tests, queue.others = [], [*keys]
                random.Random(seed).shuffle(queue.others)
            said: dict[str, str] = {}
            due = 12.0
            while len(said) < min(MOST, len(keys)) and (wanted is None or max(found.values(), default=0.0) < wanted):
                (key,) = queue.next("page", "one", 1, holding=())
                said[key] = truth[texts.by_key[key].text]
                line = {"what": "answer", "text": key, "row": 1, "label": said[key], "annotator": "one"}
                record.append({**line, "id": key, "time": "now"})
                if len(said) in MEASURED:
                    found[str(len(said))] = round(
                        accuracy([(texts.by_key[key].text, value) for key, value in said.items()], test), 4
                    )
                    print(name, seed, strategy, len(said), found[str(len(said))], flush=True)
                if strategy != "random" and len(said) >= due:
                    due = len(said) * GROWTH
                    known, tests = (
                        {numbers[key]: value for key, value in said.items() if is_test(key) == tested}
                        for tested in (False, True)
                    )
                    pool = [numbers[key] for key in queue.others if key not in said]
                    if len(set(known.values())) > 1:
                        lesson = Lesson(said=known, tests=tests, pool=pool, strategy=strategy)
                        with contextlib.suppress(DataError):  # a first dozen may be too few, as in the page
                            lessons = learn(contents, texts.task, lesson, [])
                            queue.chosen = [keys[number] for number in lessons.chosen]
    return found


def needed(curve: dict[str, float], wanted: float) -> float | None:
    """Return how many answers reach an accuracy; None: more than were given."""
    points = [(int(number), value) for number, value in curve.items()]
    for (before, low), (after, high) in zip([(0, 0.0), *points], points, strict=False):
        if high >= wanted:
            return round(before + (after - before) * (wanted - low) / (high - low))
    return None


def means(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how many answers each set's seeds need in the mean, at least and at most, by strategy."""
    found: dict[str, Any] = {}
    for name in dict.fromkeys(line["set"] for line in lines):
        done = [line for line in lines if line["set"] == name and "suggest" in line["needed"]]
        found[name] = {"seeds": [line["seed"] for line in done]}
        for strategy in ("random", "suggest") if done else ():
            counts = [line["needed"][strategy] or MOST for line in done]  # None: at least as many
            found[name][strategy] = {"mean": round(statistics.mean(counts)), "range": [min(counts), max(counts)]}
    return found


def kills(number: int, seed: int) -> dict[str, Any]:
    """Return how many answers were given and lost while a process was killed so often."""
    draw = random.Random(seed)
    sent: set[str] = set()
    waiting: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "texts.txt"
        file.write_text("\n".join(f"text number {index}" for index in range(50_000)))
        for turn in range(number + 1):
            command = [sys.executable, "-m", "mixling", "label", str(file), "--port", "0", "--no-open", "--no-model"]
            process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
            assert process.stderr is not None
            address = next(found[1] for line in process.stderr if (found := re.search(r"127\.0\.0\.1:(\d+)", line)))
            killer = threading.Timer(draw.uniform(0, 0.3), process.kill)
            if turn < number:
                killer.start()
            with contextlib.suppress(OSError, http.client.HTTPException):
                while turn < number or waiting:
                    connection = http.client.HTTPConnection("127.0.0.1", int(address), timeout=20)
                    count = 3 if turn < number else 0
                    connection.request("POST", "/api/work", json.dumps({"page": "p", "lines": waiting, "count": count}))
                    answer = json.loads(connection.getresponse().read())
                    done = {item["id"] for item in answer["saved"]}
                    waiting = [line for line in waiting if line["id"] not in done]
                    for text in answer["texts"]:
                        line = {"what": "answer", "text": text["key"], "label": draw.choice("abc"), "time": "now"}
                        waiting.append({**line, "id": f"{len(sent):08d}"})
                        sent.add(f"{len(sent):08d}")
            process.kill()
            process.wait()
            process.stderr.close()
        record = file.with_name("texts.txt.labels.jsonl").read_text().splitlines()
    kept = [line["id"] for line in map(json.loads, record) if line["what"] == "answer"]
    return {"kills": number, "answers": len(sent), "lost": len(sent - set(kept)), "twice": len(kept) - len(set(kept))}


def main() -> None:
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("simulate", "kills"))
    parser.add_argument("sets", nargs="*", default=["snips", "clinc20", "sst2"])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--strategies", nargs="+", default=["random", "suggest"])
    parser.add_argument("--number", type=int, default=200, help="of kills, for each seed")
    options = parser.parse_args()
    out = RESULTS / ("labeling_kills.json" if options.what == "kills" else "labeling.json")
    results = json.loads(out.read_text()) if out.exists() else {"simulated": [], "runs": []}
    for seed in options.seeds if options.what == "kills" else ():
        made = provenance(seed=seed)
        done = [run for run in results["runs"] if run["provenance"]["seed"] != seed]
        results = {"runs": [*done, {**kills(options.number, seed), "provenance": made}]}
        print(results["runs"][-1], flush=True)
        write_json(out, results)
    if options.what == "kills":
        return
    for seed, name, strategy in itertools.product(options.seeds, options.sets, options.strategies):
        line = next((one for one in results["simulated"] if (one["set"], one["seed"]) == (name, seed)), None)
        if line is None:
            results["simulated"].append(line := {"set": name, "seed": seed, "accuracy": {}, "needed": {}})
        if strategy in line["accuracy"]:
            continue  # an earlier run got so far
        line["provenance"] = provenance(seed=seed)
        reached = line["accuracy"].get("random", {}).get(str(MOST))
        found = simulated(name, options.data, seed, strategy, reached)
        line["accuracy"][strategy] = found
        line["needed"][strategy] = needed(found, found[str(MOST)] if reached is None else reached)
        print(name, seed, line["needed"], flush=True)
        simulated_lines = results["simulated"]
        write_json(out, {"simulated": simulated_lines, "means": means(simulated_lines)})


if __name__ == "__main__":
    main()
