"""What the linear n-gram branch costs in the native engine, and how well the engines agree on a trained model.

    python benchmarks/native_branch.py --data ../shared/data [--model RUN]

The model is the one that `mixling train` makes of SNIPS by default (seed 0), or a saved one. Systems: the native
engine with the branch and with the branch taken out of the file, ONNX Runtime with it, and TF-IDF of words 1-2 +
logistic regression; one core, in turns, as in benchmarks/native.py. Agreement is on all test texts; "branch alone" has
the factor 0 for the network, since the hidden layers of the native engine have 8 bits and those of ONNX Runtime have
not. Written to benchmarks/results/native_branch.json.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto
from side_by_side import arguments, on_one_core
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from mixling.provenance import provenance
from mixling.runtime import ONNX_FILE
from mixling.runtime.onnx import BRANCH, seal
from mixling.storage import write_json
from native import TIMED, TRAINED, Call, in_turns, labels_of, opened, read


def main() -> None:
    """Write benchmarks/results/native_branch.json."""
    parser = arguments(__doc__ or "", "native_branch")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--model", type=Path, help="folder of a saved model; without it one is trained")
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    on_one_core()
    origin = provenance(seed=0, packages=("onnxruntime", "scikit-learn", "numpy"))
    folder = args.data / "snips"
    content = (args.model / ONNX_FILE).read_bytes() if args.model else trained(folder)
    results = {"speed": speed(content, folder, args.rounds), "agreement": agreement(content, folder)}
    write_json(args.out, {**origin, "rounds": args.rounds, "results": results})
    print(json.dumps(results, indent=2))


def trained(folder: Path) -> bytes:
    """The model that the command makes by default."""
    with tempfile.TemporaryDirectory() as out:
        files = [str(folder / "train.jsonl.gz"), "--validation", str(folder / "dev.jsonl.gz")]
        options = ["--label", "intent", "--text", "tokens", "--seed", "0", "-o", f"{out}/run"]
        subprocess.run([sys.executable, "-m", "mixling", "train", *files, *options], check=True, capture_output=True)
        return (Path(out) / "run" / ONNX_FILE).read_bytes()


def changed(content: bytes, change: Callable[[ModelProto, dict[str, Any]], None]) -> bytes:
    """The file after a change of the graph and of the metadata."""
    proto = ModelProto.FromString(content)
    proto.metadata_props.remove(proto.metadata_props[-1])  # the checksum
    entry = next(item for item in proto.metadata_props if item.key == "mixling")
    metadata = json.loads(entry.value)
    change(proto, metadata)
    entry.value = json.dumps(metadata)
    return seal(proto.SerializeToString())


def without_branch(proto: ModelProto, metadata: dict[str, Any]) -> None:
    """Take the branch out."""
    metadata["ngrams"] = None
    for item in [item for item in proto.graph.initializer if item.name.startswith(BRANCH)]:
        proto.graph.initializer.remove(item)


def without_network(_: ModelProto, metadata: dict[str, Any]) -> None:
    """Leave only the branch."""
    metadata["ngrams"]["network"] = 0.0


def speed(content: bytes, folder: Path, rounds: int) -> dict[str, Any]:
    """Texts per second, and microseconds of one text."""
    texts, labels = read(folder / "train.jsonl.gz")
    chosen = random.Random(0).sample(range(len(texts)), min(TRAINED, len(texts)))
    texts, labels = [texts[i] for i in chosen], [labels[i] for i in chosen]
    timed, _ = read(folder / "test.jsonl.gz")
    timed = random.Random(0).sample(timed, min(TIMED, len(timed)))
    network = changed(content, without_branch)
    tfidf = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression(max_iter=200)).fit(texts, labels)
    fresh: dict[str, Callable[[], Call]] = {
        "native": lambda: labels_of(opened(content, "native")),
        "native, without the branch": lambda: labels_of(opened(network, "native")),
        "onnx": lambda: labels_of(opened(content, "onnx")),
        "tf-idf + lr": lambda: tfidf.predict,
    }
    with threadpool_limits(1):
        found = in_turns(fresh, timed, rounds)
    return {
        "texts": len(timed),
        "words": round(statistics.mean(len(text.split()) for text in timed), 1),
        "network": opened(content, "onnx").metadata.ngrams.network,  # 0: it is not computed
        "bytes": len(content),
        "bytes_without_the_branch": len(network),
        "engine": opened(content, "native").engine,
        "systems": found,
    }


def agreement(content: bytes, folder: Path) -> dict[str, Any]:
    """How often labels agree on the test texts, and by how much logits differ."""
    texts, labels = read(folder / "test.jsonl.gz")
    out: dict[str, Any] = {"texts": len(texts)}
    for name, data in (("whole", content), ("branch alone", changed(content, without_network))):
        native, onnx = opened(data, "native"), opened(data, "onnx")
        assert native._inference.native is not None
        logits = {
            "native": native._inference.native.logits(texts)[0],
            "onnx": np.stack(onnx.logits(onnx.tokenize(texts))),
        }
        best = {engine: rows.argmax(1) for engine, rows in logits.items()}
        truth = np.array([onnx.labels.names.index(label) for label in labels])
        out[name] = {
            "same_label": round(float(np.mean(best["native"] == best["onnx"])), 5),
            "greatest_difference_of_a_logit": float(f"{np.abs(logits['native'] - logits['onnx']).max():.3g}"),
            "range_of_the_logits": round(float(np.ptp(logits["onnx"])), 2),
            "accuracy": {engine: round(float(np.mean(found == truth)), 4) for engine, found in best.items()},
        }
    return out


if __name__ == "__main__":
    main()
