"""Whether `mixling evaluate --by auto` finds a slice that is worse, and only then.

    python benchmarks/slices.py --data ../shared/data

A model of 2,000 sentences of SST-2 answers 2,000 others. They get columns of random values: channel (5), language (4),
country (8), customer (2), age (numbers) and date. Which answers are right is drawn: 85 in 100; in the ten planted sets
70 in 100 in one slice of 100 to 600 rows: of a value, of a pair of values, of long texts, or of many unknown words, in
turn. In the ten other sets nothing is planted, so that all slices that are called significant are false. Each set goes
through the command. Written to benchmarks/results/slices.json.
"""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from side_by_side import arguments

from mixling import Predictor
from mixling.drift import KnownWords, profile_words
from mixling.provenance import provenance
from mixling.storage import write_json
from training import read, write

SETS, ROWS, SEED = 10, 2_000, 1
RIGHT, WORSE = 0.85, 0.70
LEAST, MOST = 100, 600  # rows of a planted slice
VALUES = {
    "channel": ("email", "chat", "form", "phone", "branch"),
    "language": ("en", "de", "fr", "es"),
    "country": ("DE", "FR", "ES", "IT", "PL", "NL", "SE", "AT"),
    "customer": ("new", "old"),
}
Row = dict[str, Any]


def columns(draw: random.Random, count: int) -> list[Row]:
    """Return rows of random values, some of them much more frequent than others."""
    weights = {name: [draw.random() + 0.1 for _ in values] for name, values in VALUES.items()}
    return [
        {name: draw.choices(values, weights[name])[0] for name, values in VALUES.items()}
        | {"age": draw.randrange(18, 90), "date": f"2026-{draw.randrange(1, 13):02}-{draw.randrange(1, 28):02}"}
        for _ in range(count)
    ]


def planted(kind: int, draw: random.Random, rows: Sequence[Row], known: KnownWords) -> tuple[list[str], list[bool]]:
    """Return the names of what a slice is of, with their values, and whether each row is in it."""
    while True:
        if kind in (0, 1):
            chosen = {name: draw.choice(VALUES[name]) for name in draw.sample(list(VALUES), kind + 1)}
            names = [f"{name} {value}" for name, value in chosen.items()]
            inside: Callable[[Row], bool] = lambda row: all(row[name] == value for name, value in chosen.items())  # noqa: B023, E731
        elif kind == 2:
            names = ["words"]
            inside = lambda row: len(profile_words(row["text"])) >= 15  # noqa: E731
        else:
            names = ["unknown words"]
            inside = lambda row: unknown(row["text"], known) >= 0.4  # noqa: E731
        members = [inside(row) for row in rows]
        if LEAST <= sum(members) <= MOST:
            return names, members


def unknown(text: str, known: KnownWords) -> float:
    """Return the fraction of unknown words."""
    words = profile_words(text)
    return sum(word not in known for word in words) / max(len(words), 1)


def report(rows: Sequence[Row], members: Sequence[bool], draw: random.Random, model: Path) -> dict[str, Any]:
    """Draw which answers are right, and return what the command reports."""
    path = model.parent / "rows.csv"
    out = model.parent / "report.json"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [name for name in rows[0] if name != "answer"] + ["label"])
        writer.writeheader()
        for row, member in zip(rows, members, strict=True):
            is_right = draw.random() < (WORSE if member else RIGHT)
            label = row["answer"] if is_right else "1" if row["answer"] == "0" else "0"
            writer.writerow({name: value for name, value in row.items() if name != "answer"} | {"label": label})
    command = [sys.executable, "-m", "mixling", "evaluate", str(model), str(path), "--by", "auto", "-o", str(out)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    found: dict[str, Any] = json.loads(out.read_text("utf-8"))["slices"]
    return found


def main() -> None:
    """Measure the planted sets and the others."""
    parser = arguments(__doc__ or "", "slices")
    parser.add_argument("--data", type=Path, required=True)
    options = parser.parse_args()
    made = provenance(seed=SEED)
    draw = random.Random(SEED)
    sentences = [row for row in read(options.data / "sst2_glue" / "train.jsonl.gz") if len(row[0].split()) > 3]
    draw.shuffle(sentences)
    results = []
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder, "run")
        train = write(sentences[:2000], Path(folder, "train.jsonl"))
        command = [sys.executable, "-m", "mixling", "train", str(train), "-o", str(model), "--set", "train.seed=0"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        predictor = Predictor(model)
        assert predictor.metadata.profile is not None
        known = KnownWords(predictor.metadata.profile.known_words)
        for number in range(2 * SETS):
            texts = [text for text, _ in draw.sample(sentences[2000:], ROWS)]
            answers = [item.label for item in predictor.predict(texts)]
            rows = [
                {"text": text, **values, "answer": answer}
                for text, values, answer in zip(texts, columns(draw, ROWS), answers, strict=True)
            ]
            names, members = ([], [False] * ROWS) if number >= SETS else planted(number % 4, draw, rows, known)
            found = report(rows, members, draw, model)
            slices = [[f"{name} {value}" for name, value in item["where"].items()] for item in found["worst"]]
            hit = [
                len(parts) == len(names) and all(any(part.startswith(name) for part in parts) for name in names)
                for parts in slices
            ]
            result = {
                "planted": names,
                "rows": sum(members),
                "place": hit.index(True) + 1 if names and True in hit else None,
                "worst": [" and ".join(parts) for parts in slices[:3]],
                "significant among the worst": sum(item["significant"] for item in found["worst"]),
                "significant values": sum(item["significant"] for part in found["columns"].values() for item in part),
                "significant rates": sum(item["significant"] for item in found["rates"]),
            }
            print(json.dumps(result), flush=True)
            results.append(result)
    keys = ("significant among the worst", "significant values", "significant rates")
    nothing = results[SETS:]
    summary = {
        "planted sets": SETS,
        "found among the first three": sum((item["place"] or 99) <= 3 for item in results[:SETS]),
        "found and significant": sum(bool(item["place"] and item[keys[0]]) for item in results[:SETS]),
        "sets with nothing planted": SETS,
        "of these with anything significant": sum(any(item[key] for key in keys) for item in nothing),
    }
    print(json.dumps(summary, indent=1))
    write_json(options.out, {"provenance": made, "summary": summary, "sets": results})


if __name__ == "__main__":
    main()
