"""What `mixling drift` says where the accuracy is known: estimated against true accuracy, and whether it warns.

    python benchmarks/drift.py --data ../shared/data

Models by the command with its defaults: sst2, 6,000 sentences of SST-2 of four words and more; short, those of up to
eight words; and one for each of six languages, MTOP's intents (XSemPLR's rows). The new texts: of the same kind (rows
that the model did not read, in ten parts); with 5 to 30% of the words misspelled; reviews of IMDB; sentences of over 20
words; the same intents in the other languages. A warning is right where the estimate is wrong by more than .05. Nothing
is chosen here: limits and bins are src/mixling/drift's. Written to benchmarks/results/drift.json.
"""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from side_by_side import arguments

from mixling import Predictor
from mixling.provenance import provenance
from mixling.storage import write_json
from mixling.text import mixed_noise
from training import Rows, read, write

NOISES = ("swap", "delete", "keyboard")
PARTS = 10
LANGUAGES = ("en", "de", "es", "fr", "hi", "th")


def new_texts(name: str, data: Path) -> tuple[Rows, Iterator[tuple[str, Rows]]]:
    """Return the rows to train on, and an iterator of new rows with the name of their kind."""
    draw = random.Random(name)
    if name in LANGUAGES:
        rows: dict[str, dict[str, Rows]] = {}
        for split in ("dev", "test"):
            with gzip.open(data / "mtop_xsemplr6" / f"{split}.jsonl.gz", "rt", encoding="utf-8") as lines:
                for row in map(json.loads, lines):
                    part = rows.setdefault(row["lang"], {}).setdefault(split, [])
                    part.append((" ".join(row["tokens"]), row["intent"]))
        return rows[name]["dev"], ((f"language {key}", parts["test"]) for key, parts in rows.items())
    sentences = [row for row in read(data / "sst2_glue" / "train.jsonl.gz") if len(row[0].split()) > 3]
    draw.shuffle(sentences)
    if name == "short":
        short, long = (
            [row for row in sentences if low < len(row[0].split()) <= high] for low, high in ((3, 8), (20, 99))
        )
        return short[:6000], iter([("over 20 words", long[:2000])])
    fresh = sentences[6000 : 6000 + 200 * PARTS]

    def kinds() -> Iterator[tuple[str, Rows]]:
        for part in range(PARTS):
            yield f"the same, part {part}", fresh[200 * part : 200 * (part + 1)]
        for rate in (0.05, 0.1, 0.15, 0.2, 0.25, 0.3):
            texts = mixed_noise([text for text, _ in fresh], NOISES, rate)
            yield f"{rate:.0%} misspelled", [(str(text), row[1]) for text, row in zip(texts, fresh, strict=True)]
        reviews = draw.sample(read(data / "imdb" / "test.jsonl.gz"), 2000)
        yield "IMDB", [(text, {"neg": "0", "pos": "1"}[label]) for text, label in reviews]

    return sentences[:6000], kinds()


def measure(name: str, data: Path, folder: Path) -> Iterator[dict[str, Any]]:
    """Train a model, and compare each kind of new texts."""
    rows, kinds = new_texts(name, data)
    train = write(rows, folder / f"{name}.jsonl")
    command = [sys.executable, "-m", "mixling", "train", str(train), "-o", str(folder / name), "--set", "train.seed=0"]
    subprocess.run([*command, "--test-fraction", "0"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    predictor = Predictor(folder / name)
    for kind, new in kinds:
        texts = [text for text, _ in new]
        found = predictor.drift(texts)
        right = [item.label == label for item, (_, label) in zip(predictor.predict(texts), new, strict=True)]
        accuracy = float(np.mean(right))
        assert found.estimate is not None
        yield {
            "model": name,
            "texts": kind,
            "rows": len(new),
            "accuracy": round(accuracy, 4),
            "estimate": round(found.estimate, 4),
            "off": round(found.estimate - accuracy, 4),
            "moved": [one.name for one in found.moved],
            "warned": not found.reliable,
        }


def main() -> None:
    """Measure all, and print what the warning is worth."""
    parser = arguments(__doc__ or "", "drift")
    parser.add_argument("--data", type=Path, required=True)
    options = parser.parse_args()
    made = provenance(seed=0)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("sst2", "short", *LANGUAGES):
            for row in measure(name, options.data, Path(folder)):
                found.append(row)
                print(json.dumps(row), flush=True)
    wrong = [row for row in found if abs(row["off"]) > 0.05 and not row["texts"].startswith("the same")]
    same = [row for row in found if row["texts"].startswith("the same")]
    others = [row for row in found if row not in wrong and row not in same]
    summary = {
        "off by more than .05": len(wrong),
        "of these warned": sum(row["warned"] for row in wrong),
        "other shifts": len(others),
        "of these warned, too": sum(row["warned"] for row in others),
        "parts of the same kind": len(same),
        "of these warned of": sum(row["warned"] for row in same),
    }
    print(json.dumps(summary))
    write_json(options.out, {"provenance": made, "summary": summary, "rows": found})


if __name__ == "__main__":
    main()
