"""Accuracy against size and latency on several public data sets: the numbers and the picture of the README.

    python benchmarks/overview.py measure --data ../shared/data --encoder DIR    # about an hour of one core
    python benchmarks/overview.py draw                                           # docs/pictures/overview*.svg

`measure` does for each set what `mixling compare --encoder DIR` does, without the other neural models: what `mixling
train` would choose, TF-IDF + logistic regression, fastText (if it is installed) and logistic regression on the
embeddings of a sentence encoder. All choices are made on
validation, the test split is read once, and the systems take turns when they are timed, on one thread. Results go to
benchmarks/results/overview.json, an entry for each set, with everything that `compare` reports. SST-2 are the whole
sentences among GLUE's phrases; where GLUE's test labels are not public, its validation split is the test.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import geometric_mean, mean
from types import MappingProxyType
from typing import Any, NamedTuple

from mixling import Callback
from mixling.comparison import benchmark, outcome
from mixling.comparison.report import to_dict
from mixling.cost.provenance import provenance
from mixling.runs.spec import LABELS, resolve

ROOT = Path(__file__).resolve().parents[1]
OUT = Path(__file__).parent / "results" / "overview.json"
PICTURES = ROOT / "docs" / "pictures"


class Set(NamedTuple):
    """A data set: its title, folder, splits and columns."""

    title: str
    folder: str
    validation: str | None
    test: str
    columns: Mapping[str, str] = MappingProxyType({})


PAIR = {"text_pair": "text_pair"}
INTENT = {"text": "tokens", "label": "intent"}
SETS = {
    "snips": Set("SNIPS (7 intents)", "snips", "dev", "test", INTENT),
    "sst2": Set("SST-2 (sentiment)", "sst2_glue", None, "dev"),
    "clinc150": Set("CLINC150 (150 intents)", "clinc150", "val", "test"),
    "cola": Set("CoLA (grammar)", "cola", None, "dev"),
    "mrpc": Set("MRPC (paraphrases)", "mrpc", None, "dev", PAIR),
    "rte": Set("RTE (entailment)", "rte", None, "dev", PAIR),
    "mtop": Set("MTOP (113 intents)", "mtop_en", "dev", "test", INTENT),
}
# The systems of the picture, by their names in the report of `compare`.
SYSTEMS = {
    "mixling": "mixling",
    "tf-idf + lr": "TF-IDF + LR",
    "fasttext": "fastText",
    "encoder + lr": "MiniLM + LR",
}


def sentences(data: Path) -> list[str]:
    """Return the lines of SST-2 whose text is no part of a longer one."""
    with gzip.open(data / "sst2_glue" / "train.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = sorted(lines, key=lambda line: -len(json.loads(line)["text"].split()))
    parts: set[str] = set()
    out = []
    for row in rows:
        words = json.loads(row)["text"].split()
        if " ".join(words) not in parts:
            out.append(row)
            parts |= {" ".join(words[i:j]) for i in range(len(words)) for j in range(i + 1, len(words) + 1)}
    return out


def measure(name: str, data: Path, encoder: str) -> dict[str, Any]:
    """Return the report of a comparison on a set, without the names of local folders."""
    about, made = SETS[name], provenance(seed=0, packages=("onnxruntime", "scikit-learn", "transformers"))

    def split(which: str) -> str:
        return str(data / about.folder / f"{which}.jsonl.gz")

    with tempfile.TemporaryDirectory() as folder:
        train = split("train")
        if name == "sst2":
            train = str(Path(folder) / "sentences.jsonl")
            Path(train).write_text("".join(sentences(data)), "utf-8")
        files = {"train": [train], "validation": [split(about.validation)] if about.validation else []}
        values = {"task": "classification", "data": {**files, "columns": about.columns}, "train": {"seed": 0}}
        found = outcome.compare(
            resolve(values, spec=LABELS),
            test=[split(about.test)],
            models=(),
            seeds=(0,),
            folder=Path(folder) / "runs",
            log=print,
            callback=Callback,
            encoder=encoder,
        )
        text = json.dumps({"set": name, "title": about.title, **to_dict(found, made)})
    for local in (folder, encoder, str(data)):
        text = text.replace(local, Path(local).name)
    return json.loads(text)


def entries(found: list[dict[str, Any]]) -> dict[str, dict[str, dict[str, float]]]:
    """Return test accuracy, megabytes and milliseconds of one text by system and set."""
    out: dict[str, dict[str, dict[str, float]]] = {title: {} for title in SYSTEMS.values()}
    for report in found:
        for result in report["results"]:
            if title := SYSTEMS.get(result["name"]):
                out[title][report["set"]] = {
                    "accuracy": result["test"]["mean"],
                    "mb": result["file_bytes"] / 1e6,
                    "ms": 1e3 * result["speed"]["p50"],
                }
    return {title: by_set for title, by_set in out.items() if by_set}


def summary(found: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the mean accuracy, and the geometric means of size and latency, of each system over the sets."""
    return {
        title: {
            "accuracy": mean(one["accuracy"] for one in by_set.values()),
            "mb": geometric_mean(one["mb"] for one in by_set.values()),
            "ms": geometric_mean(one["ms"] for one in by_set.values()),
        }
        for title, by_set in entries(found).items()
    }


def main() -> None:
    """Measure and write, or draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["measure", "draw"])
    parser.add_argument("sets", nargs="*", help=f"of {', '.join(SETS)}; default: all")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the sets")
    parser.add_argument("--encoder", help="folder of a sentence encoder")
    options = parser.parse_args()
    found = json.loads(OUT.read_text("utf-8")) if OUT.exists() else []
    every = benchmark.candidates
    benchmark.candidates = lambda *args: every(*args)[:1]  # the Transformer would take most of the time
    if options.part == "measure":
        for name in options.sets or SETS:
            report = measure(name, options.data, options.encoder)
            found = [*(one for one in found if one["set"] != name), report]
            OUT.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
