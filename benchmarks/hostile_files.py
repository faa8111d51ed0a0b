"""Change model files in thousands of ways, seal them again, and see what becomes of a process that reads them.

    OMP_NUM_THREADS=1 python benchmarks/hostile_files.py --count 20000

A changed file has a checksum that is right, as its author would give it: everything behind the checksum must hold. Each
is opened and asked in a process that may use 10 s of CPU for it and 4 GiB of addresses, and that reports after every
file; where it ends early a crash is counted, and another process continues with the next file. A file must end in
`ModelFileError`, or another `UserError` at prediction, or in sound answers (finite, probabilities that sum to 1), in at
most 2 s of CPU and with at most 256 MiB more memory than before it was opened. Files are asked with the engine that
`Predictor` chooses, which is the native one for most; what that has not read is read afterwards. The result is
benchmarks/results/hostile_files.json; exit code 1 where a file did anything else. With --models the *.onnx files of a
folder are taken, else small ones of every task are made.
"""

from __future__ import annotations

import argparse
import collections
import json
import math
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from mutations import KINDS, structure

from mixling import ModelFileError, Prediction, Predictor, UserError
from mixling.provenance import provenance
from mixling.runtime.onnx import seal

SEAL_LENGTH = 84
MAX_CPU, MAX_MIB = 2.0, 256
CPU_LIMIT, ADDRESS_LIMIT = 10, 4 << 30
TEXTS = ["a b", "", "b " * 100, "what a film über x" * 4]
GOOD = ("refused", "refused at prediction", "answered", "answered, then refused in full")


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--models", type=Path, help="a folder of *.onnx; default: small ones are made")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "hostile_files.json")
    parser.add_argument("--first", type=int, help=argparse.SUPPRESS)  # of a process that reads
    options = parser.parse_args()
    if options.first is not None:
        read(options.models, options.seed, range(options.first, options.count))
        return 0
    result = {"provenance": provenance(seed=options.seed, packages=("onnxruntime", "tokenizers"))}
    with tempfile.TemporaryDirectory() as made:
        if options.models is None:
            make_models(Path(made))
            options.models = Path(made)
        begin = time.monotonic()
        reports = collect(options)
        seconds = time.monotonic() - begin
    result |= summary(reports) | {"seconds": round(seconds)}
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps({key: value for key, value in result.items() if key != "provenance"}, indent=1))
    return 0 if not result["faults"] else 1


def make_models(folder: Path) -> None:
    """Small models of every task, of words and of subwords, with both kinds of vocabulary files."""
    from mixling import Vocabulary, build_model, model_config
    from mixling.answers import LabelSet
    from mixling.export import export_onnx
    from mixling.models import TorchNetwork
    from mixling.text import ReadingConfig

    words = [
        "play",
        "some",
        "music",
        "by",
        "the",
        "beatles",
        "what",
        "is",
        "the",
        "weather",
        "in",
        "paris",
        "film",
        "a",
        "b",
        "c",
    ] * 3
    small = {"dim": 8, "text": {"max_len": 24, "projection": {"num_features": 64, "num_hashes": 8}}}
    subwords = {**small, "text": {"max_len": 24, "tokens": "subwords", "projection": {"type": "subwords"}}}
    kinds: dict[str, tuple[str, str, dict[str, Any], LabelSet, str]] = {
        "classification": ("mixling-tiny", "text", small, LabelSet(("a", "b", "c"), "single"), "wordpiece"),
        "pairs": ("hypermixer", "text", {**subwords, "num_layers": 1}, LabelSet(("yes", "no"), "single"), "unigram"),
        "multi_label": ("pnlp-mixer-x-small", "text", small, LabelSet(("a", "b", "c"), "multi"), "unigram"),
        "tagging": ("pnlp-lstm", "tokens", small, LabelSet(("O", "B-x", "I-x"), "iob"), "wordpiece"),
        "question_answering": ("mixling-mixer", "tokens", small, LabelSet(("start", "end"), "span"), "wordpiece"),
    }
    for name, (preset, output, changes, labels, kind) in kinds.items():
        vocabulary = Vocabulary.train(words, size=100, kind=kind)  # type: ignore[arg-type]
        config = model_config(preset, changes)
        text = config.text.for_vocabulary(vocabulary)
        model = build_model(
            config.model_copy(update={"text": text}),
            num_outputs=len(labels),
            output=output,
            seed=1,  # type: ignore[arg-type]
        )
        reading = ReadingConfig(max_question=8, stride=4) if labels.kind == "span" else None
        task = "classification" if name == "pairs" else name
        content = export_onnx(
            TorchNetwork(model), text=text, task=task, labels=labels,
            vocabulary=vocabulary, precision="int8", reading=reading,
            pairs=name in ("pairs", "question_answering"),
        )  # fmt: skip
        (folder / f"{name}.onnx").write_bytes(content)


def collect(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The reports of all files, from as many processes as it takes."""
    reports: list[dict[str, Any]] = []
    while len(reports) < options.count:
        command = [sys.executable, __file__, "--models", str(options.models), "--seed", str(options.seed)]
        command += ["--count", str(min(options.count, len(reports) + 1000)), "--first", str(len(reports))]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert process.stdout is not None
        for line in process.stdout:
            reports.append(json.loads(line))
        if process.wait():
            number = len(reports)
            reports.append({"number": number, **location(options, number), "outcome": f"crash {process.returncode}"})
    return reports


def location(options: argparse.Namespace, number: int) -> dict[str, str]:
    """Of which model and of which kind a changed file is."""
    models = sorted(options.models.glob("*.onnx"))
    kinds = list(KINDS)
    return {"model": models[number // len(kinds) % len(models)].stem, "kind": kinds[number % len(kinds)]}


def read(folder: Path, seed: int, numbers: range) -> None:
    """Open and ask changed files, and print a report of each."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_LIMIT, ADDRESS_LIMIT))
    files = sorted(folder.glob("*.onnx"))
    contents = {path.stem: path.read_bytes()[:-SEAL_LENGTH] for path in files}
    locations = {name: structure(body) for name, body in contents.items()}
    options = argparse.Namespace(models=folder)
    pairs = {name: Predictor(seal(body)).metadata.pairs for name, body in contents.items()}
    for name, body in contents.items():  # what is loaded once is no part of what a file takes
        assert attempt(seal(body), pairs=pairs[name])["outcome"] == "answered"
    for number in numbers:
        what = location(options, number)
        draw = random.Random(f"{seed} {number}")
        try:
            content = seal(KINDS[what["kind"]](contents[what["model"]], draw, locations[what["model"]]))
        except ValueError:  # onnx cannot read what an earlier change of the same file left
            content = b""
        print(json.dumps({"number": number, **what, **attempt(content, pairs=pairs[what["model"]])}), flush=True)


def attempt(content: bytes, *, pairs: bool) -> dict[str, Any]:
    """Return what becomes of a file, of a model of single texts or of pairs, and what it takes."""
    used = time.process_time()
    limits = math.ceil(used) + CPU_LIMIT, resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_CPU, limits)
    before = memory(reset=True)
    outcome, message = ask(content, pairs=pairs)
    cpu, grown = time.process_time() - used, memory() - before
    if cpu > MAX_CPU or grown > MAX_MIB:
        message, outcome = f"{outcome}: {message}", "slow" if cpu > MAX_CPU else "large"
    return {"outcome": outcome, "cpu": round(cpu, 3), "mib": round(grown, 1), "message": message}


def ask(content: bytes, *, pairs: bool) -> tuple[str, str]:
    """Return what becomes of a file, in a few words, and the message of an error.

    The native engine may answer without the graph, which is checked when something asks for it, as `labels` does.
    """
    asked: list[Any] = [(text, text * 3) for text in TEXTS] if pairs else list(TEXTS)
    step, answers, kind = "refused", [], "single"
    try:
        predictor = Predictor(content)
        step = "refused at prediction"
        answers = [*predictor.predict_stream(asked), predictor.predict_one(asked[0])]
        step = "answered, then refused in full"
        kind = predictor.labels.kind
        step = "answered"
    except UserError as error:
        if step != "refused at prediction" and not isinstance(error, ModelFileError):
            return "foreign error", f"{type(error).__name__}: {error}"[:300]
        message = str(error)[:300]
    except BaseException as error:
        return "foreign error", f"{type(error).__name__}: {error}"[:300]
    else:
        message = ""
    unsound = [answer for answer in answers if not sound(answer, kind)]
    return ("unsound", repr(unsound[0])[:300]) if unsound else (step, message)


def sound(answer: Prediction, kind: str) -> bool:
    """Whether an answer is one: scores are probabilities, and those of one label sum to 1."""
    if answer.probabilities is not None:
        values = list(answer.probabilities.values())
        return all(0 <= value <= 1 for value in values) and (kind == "multi" or abs(sum(values) - 1) < 1e-3)
    scores = [span.score for span in answer.spans or ()]
    if answer.answer is not None:
        scores.append(answer.answer.score)
    return all(0 <= score <= 1 for score in scores)


def memory(*, reset: bool = False) -> float:
    """The peak of this process's resident memory since it was last reset, in MiB."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def summary(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """Outcomes by kind and by model, the greatest costs, and every error."""
    by: dict[str, dict[str, collections.Counter[str]]] = {"kind": {}, "model": {}}
    for report in reports:
        for key, counts in by.items():
            counts.setdefault(report[key], collections.Counter())[report["outcome"]] += 1
    ended = [report for report in reports if "cpu" in report]
    greatest = {name: max(ended, key=lambda report: report[name]) for name in ("cpu", "mib")}
    cpu = sorted(report["cpu"] for report in ended)
    return {
        "count": len(reports),
        "outcomes": dict(collections.Counter(report["outcome"] for report in reports)),
        **{f"by_{key}": {name: dict(counter) for name, counter in counts.items()} for key, counts in by.items()},
        "cpu_seconds": {"mean": round(sum(cpu) / len(cpu), 4), "p99": cpu[len(cpu) * 99 // 100], "max": cpu[-1]},
        "greatest": greatest,
        "faults": [report for report in reports if report["outcome"] not in GOOD],
    }


if __name__ == "__main__":
    sys.exit(main())
