"""Do explanations find the words that an answer depends on? The probability falls when these words are deleted.

No paper; the measure is comprehensiveness (DeYoung et al., ERASER, ACL 2020, section 4) of a fifth of the words,
beside that of random words. Of each text the fifth of its words (rounded up) with the largest effects for the predicted
label is deleted, and the label's probability falls by so much; random words are the mean of 10 draws.

    mixling train SNIPS.csv --validation ... -o runs/snips        # texts and intents
    mixling train ../shared/data/imdb/train.jsonl.gz -o runs/imdb
    python experiments/explanations.py runs/snips ../shared/data/snips/test.jsonl.gz --text tokens --label intent

Results are added to results/explanations.json, an item for each model, file and method. The method `auto` was chosen on
validation texts; test texts are read once.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np

from mixling import Predictor, read_examples
from mixling.data import ColumnsConfig, OnBadRow
from mixling.explain.explanation import Explanation
from mixling.provenance import provenance
from mixling.storage import write_json

OUT = Path(__file__).parent / "results" / "explanations.json"
METHODS = ("leave_one_out", "shapley")
DRAWS = 10


def probability_without(predictor: Predictor, explanation: Explanation, deleted: np.ndarray) -> float:
    """Return the probability of the explained label when the words of these indices are deleted."""
    kept = np.delete(np.array([word.word for word in explanation.words], dtype=object), deleted)
    probabilities = predictor.predict_one(" ".join(kept)).probabilities
    assert probabilities is not None
    return probabilities[str(explanation.target)]


def measured(predictor: Predictor, texts: list[str], method: str) -> dict[str, Any]:
    """Return the mean fall of the probability when top or random words are deleted."""
    rng = np.random.default_rng(0)
    top, random, seconds = [], [], 0.0
    for text in texts:
        began = time.perf_counter()
        explanation = predictor.explain(text, method=method)
        seconds += time.perf_counter() - began
        size = len(explanation.words)
        count = math.ceil(size / 5)
        before = probability_without(predictor, explanation, np.array([], np.int64))
        best = np.argsort([-word.effect for word in explanation.words])[:count]
        top.append(before - probability_without(predictor, explanation, best))
        draws = [rng.choice(size, count, replace=False) for _ in range(DRAWS)]
        random.append(before - np.mean([probability_without(predictor, explanation, draw) for draw in draws]))
    return {
        "method": method,
        "texts": len(texts),
        "fall_top_fifth": round(float(np.mean(top)), 4),
        "fall_random_fifth": round(float(np.mean(random)), 4),
        "ratio": round(float(np.mean(top) / np.mean(random)), 2),
        "ms_per_text": round(1e3 * seconds / len(texts), 3),
    }


def main() -> None:
    """Explain, delete, and add it to the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--text", default="text")
    parser.add_argument("--label", default="label")
    parser.add_argument("--limit", type=int, default=700, help="texts, drawn at random")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    predictor = Predictor(options.model)
    columns = ColumnsConfig(text=options.text, label=options.label)
    rows = read_examples(
        [str(options.file)], reader=predictor.task.reader, columns=columns, on_bad_row=OnBadRow("error")
    )
    texts = [example.text if isinstance(example.text, str) else " ".join(example.text) for example in rows]
    order = np.random.default_rng(0).permutation(len(texts))
    chosen = [text for index in order if (text := texts[index]).split()][: options.limit]
    found = json.loads(options.out.read_text()) if options.out.exists() else []
    made = provenance()
    for method in METHODS:
        item = {"model": options.model.name, "file": f"{options.file.parent.name}/{options.file.name}"}
        item |= measured(predictor, chosen, method)
        item["provenance"] = made
        print(item)
        known = ("model", "file", "method")
        found = [old for old in found if any(old[key] != item[key] for key in known)] + [item]
    found.sort(key=lambda item: (item["file"], item["method"]))
    write_json(options.out, found)


if __name__ == "__main__":
    main()
