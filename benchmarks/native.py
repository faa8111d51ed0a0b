"""Speed of the native engine beside ONNX Runtime, TF-IDF + logistic regression and fastText, on the same texts.

    python benchmarks/native.py --data ../shared/data

One core, one thread; in every round the systems take turns in a new order, each on all texts, and then on each of some
texts one after another, so that the caches of the processor hold what the others left there. The models are those that
`mixling train` makes of these data in one epoch, n-gram branch included, and the paper's X-SMALL with its token mixing,
with first weights, since speed does not depend on them; the others are trained. "AVX2" is the native engine built
without AVX-512. fastText (left out where its package is not installed) reads texts in lower case with punctuation
apart, as it was trained, or as they are. Besides: seconds and memory from the start of a process to its first answer
("c" is the program of docs/embedding.md; "python" and "import numpy" do no more than that), two threads on two cores,
a file of 200,000 JSON lines to a file of predictions on the command line, and how often the
engines agree on the test texts of SNIPS, with a model of 8 epochs (seed 0). Written to benchmarks/results/native.json.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from side_by_side import arguments, on_one_core
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from mixling import Predictor, build_model, model_config
from mixling.answers import LabelSet
from mixling.comparison import as_line
from mixling.export import export_onnx
from mixling.installation import is_installed
from mixling.models import TorchNetwork
from mixling.provenance import provenance
from mixling.runtime import CACHE_BYTES, NativeEngine
from mixling.storage import write_json
from mixling.text import train_vocabulary

CASES = {
    "snips": ("snips", "mixling-small"),
    "imdb": ("imdb", "mixling-base"),
    "snips, X-SMALL": ("snips", "pnlp-mixer-x-small"),
}
TRAINED, TIMED, SINGLE = 10_000, 2_000, 300  # texts
FILE_ROWS, STARTS, THREAD_ROUNDS = 200_000, 9, 15
Call = Callable[[Sequence[str]], Any]
NATIVE = Path(__file__).parents[1] / "src" / "mixling" / "native"
MEMORY = 'print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])'
START = f"""
import mixling
print(mixling.Predictor({{path!r}}).predict({{text!r}}).label)
{MEMORY}
"""


def main() -> None:
    """Write benchmarks/results/native.json."""
    parser = arguments(__doc__ or "", "native")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    cores = os.sched_getaffinity(0)
    on_one_core()
    origin = provenance(seed=0, packages=("onnxruntime", "scikit-learn", "numpy"))
    results = {}
    for case in args.cases:
        data, preset = CASES[case]
        results[case] = evaluate(args.data / data, preset, args.rounds, cores)
    results["agreement"] = agreement(args.data / "snips")
    write_json(args.out, {**origin, "rounds": args.rounds, "results": results})
    print(json.dumps(results, indent=2))


def read(path: Path) -> tuple[list[str], list[str]]:
    """Texts and labels of a file of one of the data sets."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    texts = [row["text"] if "text" in row else " ".join(row["tokens"]) for row in rows]
    return texts, [str(row["intent"] if "intent" in row else row["label"]) for row in rows]


def prepared(folder: Path, preset: str) -> tuple[bytes, list[str], list[str], list[str]]:
    """The model of a data set, texts and labels that the others learn from, and the texts that are timed."""
    texts, labels = read(folder / "train.jsonl.gz")
    chosen = random.Random(0).sample(range(len(texts)), min(TRAINED, len(texts)))
    texts, labels = [texts[i] for i in chosen], [labels[i] for i in chosen]
    timed, _ = read(folder / "test.jsonl.gz")
    timed = random.Random(0).sample(timed, min(TIMED, len(timed)))
    content = trained(texts, labels, 1) if preset.startswith("mixling") else exported(preset, texts, labels)
    return content, texts, labels, timed


def evaluate(folder: Path, preset: str, rounds: int, cores: set[int]) -> dict[str, Any]:
    """All systems on the texts of a data set."""
    content, texts, labels, timed = prepared(folder, preset)
    avx2 = built_for_avx2()
    fresh: dict[str, Callable[[], Call]] = {
        "native": lambda: labels_of(opened(content, "native")),
        "native, AVX2": lambda: labels_of(opened(content, "native", avx2)),
        "onnx": lambda: labels_of(opened(content, "onnx")),
    }
    tfidf = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression(max_iter=200)).fit(texts, labels)
    fresh["tf-idf + lr"] = lambda: tfidf.predict
    if is_installed("fasttext"):
        fast = fasttext(texts, labels)
        fresh["fasttext, split as for its training"] = lambda: lambda given: fast.predict(list(map(as_line, given)))
        fresh["fasttext, raw lines"] = lambda: lambda given: fast.predict([text.replace("\n", " ") for text in given])
    with threadpool_limits(1):
        found = in_turns(fresh, timed, rounds)
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "model.onnx"
        path.write_bytes(content)
        starts = starts_of(path, timed[0])
        file = file_to_file(path, timed) if preset == "mixling-small" else None
    return {
        "preset": preset,
        "texts": len(timed),
        "words": round(statistics.mean(len(text.split()) for text in timed), 1),
        "engine": opened(content, "native").engine,
        "systems": found,
        "start": starts,
        "two_threads": two_threads(opened(content, "native"), timed, cores),
        "file_to_file": file,
    }


def built_for_avx2() -> Any:
    """The module of the native engine, compiled without AVX-512."""
    root = Path(__file__).parents[1]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "setup.py", "-q", "build_ext", "--build-lib", folder, "--build-temp", f"{folder}/t"]
        subprocess.run(command, check=True, cwd=root, env={**os.environ, "CFLAGS": "-DMIXLING_INSTRUCTIONS=1"})
        (file,) = Path(folder).rglob("_core*.so")
        spec = importlib.util.spec_from_file_location("_core", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


def exported(preset: str, texts: list[str], labels: list[str]) -> bytes:
    """A model of the preset with first weights in 8 bits."""
    config = model_config(preset)
    vocabulary = train_vocabulary(texts, config.text)
    named = LabelSet(tuple(sorted(set(labels))), "single")
    model = build_model(config, num_outputs=len(named.names), output="text", seed=0)
    return export_onnx(
        TorchNetwork(model),
        text=config.text,
        task="classification",
        labels=named,
        vocabulary=vocabulary,
        precision="int8",
    )


def trained(texts: list[str], labels: list[str], epochs: int) -> bytes:
    """What `mixling train` writes for these rows: a model in 8 bits with its n-gram branch."""
    with tempfile.TemporaryDirectory() as folder:
        rows, run = Path(folder) / "rows.jsonl", Path(folder) / "run"
        lines = (json.dumps({"text": text, "label": label}) for text, label in zip(texts, labels, strict=True))
        rows.write_text("\n".join(lines), "utf-8")
        command = [sys.executable, "-m", "mixling", "train", str(rows), "--epochs", str(epochs)]
        command += ["--test-fraction", "0", "-o", str(run)]
        subprocess.run(command, check=True, capture_output=True)
        return (run / "model.onnx").read_bytes()


def opened(content: bytes, engine: str, module: Any = None) -> Predictor:
    """A predictor with this engine, or this build of the native one, which knows no word yet."""
    os.environ["MIXLING_ENGINE"] = engine
    try:
        predictor = Predictor(content)
    finally:
        del os.environ["MIXLING_ENGINE"]
    if module is not None:
        built = NativeEngine(module.Model(content, CACHE_BYTES, 1))
        predictor._inference.native, predictor._inference.decide = built, built.decider(to_end=True)
    return predictor


def labels_of(predictor: Predictor) -> Call:
    """What gives the labels of texts, as the others do."""
    return lambda texts: [prediction.label for prediction in predictor.predict(texts)]  # type: ignore[union-attr]


def fasttext(texts: list[str], labels: list[str]) -> Any:
    """A trained model of fastText with word pairs."""
    import fasttext as package

    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.writelines(f"__label__{label} {as_line(text)}\n" for text, label in zip(texts, labels, strict=True))
        file.flush()
        return package.train_supervised(file.name, wordNgrams=2, bucket=1 << 18, thread=1, verbose=0, minn=0, maxn=0)


def in_turns(fresh: dict[str, Callable[[], Call]], texts: list[str], rounds: int) -> dict[str, dict[str, float]]:
    """Texts per second with warm and cold caches, and microseconds of one text."""
    warm: dict[str, list[float]] = {name: [] for name in fresh}
    cold: dict[str, list[float]] = {name: [] for name in fresh}
    single: dict[str, list[float]] = {name: [] for name in fresh}
    calls = {name: make() for name, make in fresh.items()}
    for call in calls.values():
        call(texts)
    order = list(calls)
    rng = random.Random(0)
    for _ in range(rounds):
        rng.shuffle(order)
        for name in order:
            cold[name].append(len(texts) / seconds(fresh[name](), texts))
            warm[name].append(len(texts) / seconds(calls[name], texts))
    for text in texts[:SINGLE]:
        rng.shuffle(order)
        for name in order:
            single[name].append(1e6 * seconds(calls[name], [text]))
    return {
        name: {
            "warm_texts_per_second": round(statistics.median(warm[name])),
            "cold_texts_per_second": round(statistics.median(cold[name])),
            "p50_us": round(statistics.median(single[name]), 1),
            "p90_us": round(float(np.percentile(single[name], 90)), 1),
            "warm_by_tf_idf": round(statistics.median(np.divide(warm[name], warm["tf-idf + lr"])), 2),
            "cold_by_tf_idf": round(statistics.median(np.divide(cold[name], cold["tf-idf + lr"])), 2),
        }
        for name in calls
    }


def seconds(call: Call, texts: Sequence[str]) -> float:
    """Processor seconds of one call: a machine that does other work would add its waiting."""
    begin = time.thread_time()
    call(texts)
    return time.thread_time() - begin


def starts_of(path: Path, text: str) -> dict[str, dict[str, float]]:
    """Seconds from the start of a process to its first answer, on the clock and of the processor, and its memory."""
    program = path.parent / "label"
    sources = [str(file) for file in sorted(NATIVE.glob("*.c")) if file.name != "python.c"]
    flags = ["-O3", "-std=gnu11", "-fno-math-errno", "-fno-trapping-math"]
    subprocess.run(["cc", *flags, "-o", str(program), *sources, "-lm"], check=True)
    code = START.format(path=str(path), text=text)
    commands: dict[str, tuple[list[str], str]] = {
        "native": ([sys.executable, "-c", code], "native"),
        "onnx": ([sys.executable, "-c", code], "onnx"),
        "c": ([str(program), str(path)], ""),
        "import numpy": ([sys.executable, "-c", f"import numpy; {MEMORY}"], ""),
        "python": ([sys.executable, "-c", MEMORY], ""),
    }
    taken: dict[str, list[tuple[float, float, float]]] = {name: [] for name in commands}
    for _ in range(STARTS):
        for name in random.sample(list(commands), len(commands)):
            command, engine = commands[name]
            begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
            done = subprocess.run(
                command, check=True, capture_output=True, text=True, input=text.replace("\n", " ") + "\n",
                env={**os.environ, "MIXLING_ENGINE": engine},
            )  # fmt: skip
            seconds, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
            spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            taken[name].append(
                (seconds, spent, memory_of(command) if name == "c" else int(done.stdout.split()[-1]) / 1024)
            )
    found = {}
    for name, runs in taken.items():
        clock, processor, memory = zip(*runs, strict=True)
        found[name] = {
            "seconds": round(statistics.median(clock), 4),
            "least_seconds": round(min(clock), 4),
            "processor_seconds": round(statistics.median(processor), 4),
            "memory_mb": round(statistics.median(memory), 1),
        }
    return found


def memory_of(command: list[str]) -> float:
    """MB of a program that has opened its model, and waits for a text."""
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        time.sleep(0.5)
        status = Path(f"/proc/{process.pid}/status").read_text()
        assert process.stdin is not None
        process.stdin.close()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def two_threads(predictor: Predictor, texts: list[str], cores: set[int]) -> dict[str, float]:
    """Texts per second of the clock by one thread and by two that share a predictor, on all cores."""
    many = texts * (20_000 // len(texts) + 1)
    halves = many[::2], many[1::2]
    taken: dict[str, list[float]] = {"one": [], "two": []}
    os.sched_setaffinity(0, cores)
    try:
        with ThreadPoolExecutor(2) as pool:
            for number in range(THREAD_ROUNDS + 1):
                begin = time.perf_counter()
                predictor.predict_proba(many)
                middle = time.perf_counter()
                list(pool.map(predictor.predict_proba, halves))
                if number:
                    taken["one"].append(middle - begin)
                    taken["two"].append(time.perf_counter() - middle)
    finally:
        on_one_core()
    speedups = np.divide(taken["one"], taken["two"])
    return {
        "cores": len(cores),
        "one_texts_per_second": round(len(many) / statistics.median(taken["one"])),
        "two_texts_per_second": round(len(many) / statistics.median(taken["two"])),
        "speedup": round(float(np.median(speedups)), 2),
        "best_speedup": round(float(speedups.max()), 2),
    }


def file_to_file(model: Path, texts: list[str]) -> dict[str, float]:
    """Rows per second of `mixling predict FILE -o FILE`, from the start of the process."""
    rows, out = model.parent / "rows.jsonl", model.parent / "out.jsonl"
    with rows.open("w", encoding="utf-8") as file:
        for number in range(FILE_ROWS):
            file.write(json.dumps({"text": texts[number % len(texts)]}) + "\n")
    command = [sys.executable, "-m", "mixling", "predict", str(model), str(rows), "-o", str(out)]
    clock, processor = [], []
    for _ in range(3):
        begin, before = time.perf_counter(), os.times()
        subprocess.run(command, check=True, capture_output=True)
        clock.append(time.perf_counter() - begin)
        after = os.times()
        processor.append(after[2] + after[3] - before[2] - before[3])
    return {
        "rows": FILE_ROWS,
        "rows_per_second": round(FILE_ROWS / statistics.median(clock)),
        "rows_per_processor_second": round(FILE_ROWS / statistics.median(processor)),
    }


def agreement(folder: Path) -> dict[str, Any]:
    """Decisions and accuracy of both engines with a trained model of 8 bits, on the test texts."""
    content = trained(*read(folder / "train.jsonl.gz"), 8)
    texts, labels = read(folder / "test.jsonl.gz")
    native, onnx = opened(content, "native"), opened(content, "onnx")
    probabilities = {"native": native.predict_proba(texts), "onnx": onnx.predict_proba(texts)}
    best = {name: [onnx.labels.names[i] for i in rows.argmax(1)] for name, rows in probabilities.items()}
    truth = np.array(labels)
    return {
        "precision": onnx.metadata.precision,
        "texts": len(texts),
        "same_label": round(float(np.mean(np.array(best["native"]) == np.array(best["onnx"]))), 5),
        "greatest_difference_of_a_probability": round(
            float(np.abs(probabilities["native"] - probabilities["onnx"]).max()), 5
        ),
        "accuracy": {name: round(float(np.mean(np.array(found) == truth)), 4) for name, found in best.items()},
    }


if __name__ == "__main__":
    main()
