"""Memory and time of an answer about a long context: what each process takes beyond what it has with the model open.

    OMP_NUM_THREADS=1 python benchmarks/long_contexts.py

The model has the shape of mixling-mixer and random weights, which cost as much as trained ones. The words are of seven
letters with the space, all different in one column; of a context the first 2**20 characters are read. Written to
benchmarks/results/long_contexts.json.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from mixling.storage import write_json

LIMIT = 300.0  # MB beyond the start


def make_model(path: Path) -> None:
    """Write a model that answers questions."""
    from mixling import Vocabulary, build_model, model_config
    from mixling.export import export_onnx
    from mixling.models import TorchNetwork
    from mixling.tasks import ANSWER_ENDS
    from mixling.text import ReadingConfig

    config = model_config("mixling-mixer", {})
    model = build_model(config, num_outputs=2, output="tokens", seed=0)
    vocabulary = Vocabulary.train(["a question of some words", "and what may answer it"] * 50, size=100)
    content = export_onnx(
        TorchNetwork(model), text=config.text, task="question_answering", labels=ANSWER_ENDS, vocabulary=vocabulary,
        precision="float32", pairs=True, reading=ReadingConfig(),
    )  # fmt: skip
    path.write_bytes(content)


def peak_mb() -> float:
    """Return the most memory that this process had; unlike getrusage's, without what its parent had."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return round(int(found[1]) / 1024, 1)


def evaluate(model: str, num_words: int, distinct: int) -> None:
    """Print, as JSON, what one answer takes."""
    from mixling import Predictor

    predictor = Predictor(model)
    context = " ".join(f"{number * 7919 % distinct:06d}" for number in range(num_words))
    predictor.predict(("what is it?", "some words"))
    Path("/proc/self/clear_refs").write_text("5")  # from here on the peak counts anew
    start, begun = peak_mb(), time.process_time()
    predictor.predict(("what is it?", context))
    seconds = time.process_time() - begun
    print(json.dumps({"start_mb": start, "beyond_mb": round(peak_mb() - start, 1), "seconds": round(seconds, 2)}))


def main() -> None:
    """Measure each size in a process of its own, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluate", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--words", type=int, nargs="+", default=[1_000, 20_000, 120_000, 1_000_000])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "long_contexts.json")
    options = parser.parse_args()
    if options.evaluate:
        evaluate(options.evaluate[0], *map(int, options.evaluate[1:]))
        return
    from mixling.provenance import provenance

    made, rows = provenance(seed=0), []
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.onnx"
        make_model(model)
        for num_words in options.words:
            for distinct in (5_000, 999_983):
                command = [sys.executable, __file__, "--evaluate", str(model), str(num_words), str(distinct)]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                row = {"words": num_words, "distinct": min(distinct, num_words), **json.loads(done.stdout)}
                print(row)
                rows.append(row)
    write_json(options.out, {"provenance": made, "limit_mb": LIMIT, "rows": rows})
    if any(row["beyond_mb"] > LIMIT for row in rows):
        sys.exit("a context takes more than the limit")


if __name__ == "__main__":
    main()
