"""Bulk prediction: two processes against one, what is left after kills, and memory for files of growing size.

    python benchmarks/bulk.py speed --model RUN --rows 1000000 --out benchmarks/results/bulk_speed.json
    python benchmarks/bulk.py kills --model RUN --kills 100 --out benchmarks/results/bulk_kills.json
    python benchmarks/bulk.py memory --model RUN --out benchmarks/results/bulk_memory.json
    python benchmarks/bulk.py memory --model RUN --texts snips --megabytes 100 5000 --formats jsonl \
        --out benchmarks/results/bulk_memory_5gb.json    # 15 minutes of one core, 20 GB of disk

RUN is the folder of a saved model of SNIPS, as `mixling train` makes it by default.

speed: rows of SNIPS, each with a word of its own, in one Parquet file; `mixling predict` with one and with two workers,
in turns. Wall time, CPU time of all processes, and the peak resident memory of the largest. On a machine that others
use, the ratio of CPU times says more than that of wall times: with idle cores, two workers are 2 / (CPU of two / CPU of
one) times as fast, less the time in which only one runs (start and last part). The outputs of both must be equal.
kills: jobs of many parts; after a random time one process of the job, the parent or a worker, gets SIGKILL; a job whose
parent died is resumed. When a job is complete, its folder must have the bytes of an undisturbed one.
memory: JSON lines, CSV and Parquet (also in one row group) of IMDB's reviews, or of some six texts of SNIPS each, of
several sizes, with two workers; peak resident memory of the largest process, and of all together (a sum that counts
twice what they share, sampled every half second).
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import gzip
import hashlib
import itertools
import json
import os
import random
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from mixling.provenance import provenance
from mixling.storage import write_json

FORMATS = ("jsonl", "csv", "parquet", "one_row_group")


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("speed", "kills", "memory"))
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--megabytes", type=int, nargs="*", default=[100, 300, 1000])
    parser.add_argument("--formats", nargs="*", choices=FORMATS, default=FORMATS)
    parser.add_argument("--texts", choices=("imdb", "snips"), default="imdb")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    origin = provenance(seed=options.seed, packages=("pyarrow", "fsspec", "onnxruntime"))
    load = os.getloadavg()
    with tempfile.TemporaryDirectory(prefix="bulk-") as folder:
        result = {"speed": speed, "kills": kills, "memory": memory}[options.what](Path(folder), options)
    write_json(options.out, {**origin, "load_average_at_start": load, **result})
    print(json.dumps(result, indent=1))


def command(model: Path, source: str, out: Path, workers: int, *more: str) -> list[str]:
    words = [sys.executable, "-m", "mixling", "predict", str(model), source, "-o", f"{out}/"]
    return [*words, "--text", "text", "--workers", str(workers), *more]


def timed(words: list[str]) -> dict[str, float]:
    """Run a command; its seconds, those of CPU of it and its children, and the peak memory of the largest."""
    begin = time.perf_counter()
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    sums, ended = [0.0], threading.Event()
    sampler = threading.Thread(target=sample, args=(psutil.Process(process.pid), sums, ended))
    sampler.start()
    log = process.stderr.read()
    ended.set()
    sampler.join()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(log)
    return {
        "seconds": round(time.perf_counter() - begin, 2),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 2),
        "peak_resident_mb": round(usage.ru_maxrss / 1024, 1),
        "peak_sum_of_resident_mb": round(max(sums), 1),
    }


def sample(process: psutil.Process, sums: list[float], ended: threading.Event) -> None:
    """Append the resident memory of a process and all that it started, every half second until it ends."""
    while not ended.wait(0.5):
        with contextlib.suppress(psutil.NoSuchProcess):
            everyone = [process, *process.children(recursive=True)]
            sums.append(sum(one.memory_info().rss for one in everyone) / 2**20)


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def snips(data: Path, seed: int) -> Iterator[str]:
    """Endless texts of SNIPS, each with a word that no other has."""
    with gzip.open(data / "snips" / "test.jsonl.gz", "rt", encoding="utf-8") as lines:
        texts = [" ".join(json.loads(line)["tokens"]) for line in lines]
    draw = random.Random(seed)
    while True:
        yield f"{draw.choice(texts)} {draw.getrandbits(40):x}"


def speed(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    texts = snips(options.data, options.seed)
    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
    with pq.ParquetWriter(folder / "rows.parquet", schema) as writer:
        for first in range(0, options.rows, 100_000):
            count = min(100_000, options.rows - first)
            rows = {"id": range(first, first + count), "text": [next(texts) for _ in range(count)]}
            writer.write_table(pa.table(rows, schema=schema))
    found: dict[int, list[dict[str, float]]] = {1: [], 2: []}
    equal = True
    for _ in range(options.rounds):
        for workers, times in found.items():
            shutil.rmtree(folder / str(workers), ignore_errors=True)
            times.append(timed(command(options.model, str(folder / "rows.parquet"), folder / str(workers), workers)))
            print(workers, times[-1], flush=True)
        equal = equal and digests(folder / "1") == digests(folder / "2")
    ids = pq.read_table(folder / "2", columns=["id"]).column("id")
    middle = {
        name: {workers: statistics.median(time[name] for time in times) for workers, times in found.items()}
        for name in ("seconds", "cpu_seconds", "peak_resident_mb")
    }
    return {
        "rows": options.rows,
        "equal_bytes": equal,
        "in_order": ids.equals(pa.chunked_array([pa.array(range(options.rows), pa.int64())])),
        "wall_speedup": round(middle["seconds"][1] / middle["seconds"][2], 3),
        "cpu_speedup": round(2 * middle["cpu_seconds"][1] / middle["cpu_seconds"][2], 3),
        "rows_per_cpu_second": round(options.rows / middle["cpu_seconds"][1]),
        "median": middle,
        "each": found,
    }


def kills(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    draw, texts = random.Random(options.seed), snips(options.data, options.seed)
    (folder / "in").mkdir()
    for number in range(24):
        rows = [json.dumps({"id": f"{number}-{row}", "text": next(texts)}) for row in range(4000)]
        (folder / "in" / f"{number:02}.jsonl").write_text("\n".join(rows) + "\n")
    pattern = str(folder / "in" / "*.jsonl")
    whole = timed(command(options.model, pattern, folder / "whole", 2))
    wanted = digests(folder / "whole")
    counts = {"parent": 0, "worker": 0, "jobs": 0, "different": 0, "late": 0}
    out = folder / "out"
    while counts["parent"] + counts["worker"] < options.kills or out.exists():
        process = subprocess.Popen(command(options.model, pattern, out, 2, "--resume"), stderr=subprocess.PIPE)
        try:
            if counts["parent"] + counts["worker"] < options.kills:
                kill_one(process, out, draw, whole["seconds"], counts)
            _, log = process.communicate()
        finally:
            process.kill()
        if process.returncode == -signal.SIGKILL:
            continue
        if process.returncode:
            raise SystemExit(log.decode())
        counts["jobs"] += 1
        counts["different"] += digests(out) != wanted
        shutil.rmtree(out)
        print(counts, flush=True)
    return {"parts": len(wanted) - 1, "undisturbed": whole, **counts}


def kill_one(process: subprocess.Popen, out: Path, draw: random.Random, seconds: float, counts: dict[str, int]) -> None:
    """Kill a process of a job after a random time, from the moment at which the job has begun."""
    while process.poll() is None and not (out / "_progress" / "job.json").exists():
        time.sleep(0.01)
    time.sleep(draw.uniform(0, seconds))
    victim = draw.choice(("parent", "worker"))
    try:
        workers = [child for child in psutil.Process(process.pid).children() if "spawn_main" in str(child.cmdline())]
        if victim == "worker" and workers:
            draw.choice(workers).kill()
        elif victim == "parent" and process.poll() is None:
            process.kill()
        else:
            counts["late"] += 1
            return
        counts[victim] += 1
    except psutil.NoSuchProcess:
        counts["late"] += 1


def memory(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    if options.texts == "imdb":
        with gzip.open(options.data / "imdb" / "train.jsonl.gz", "rt", encoding="utf-8") as lines:
            texts = [json.loads(line)["text"] for line in lines]
    else:
        utterances = snips(options.data, options.seed)
        texts = [
            " . ".join(itertools.islice(utterances, 8)) for _ in range(10_000)
        ]  # of which three quarters are taken
    draw, found = random.Random(options.seed), []
    for megabytes in options.megabytes:
        for kind in options.formats:
            path = folder / ("rows." + kind.replace("one_row_group", "parquet"))
            rows = write_reviews(path, texts, megabytes * 1_000_000, draw, one_group=kind == "one_row_group")
            figures = timed(command(options.model, str(path), folder / "out", 2))
            row = {"format": kind, "megabytes_of_text": megabytes, "rows": rows,
                   "file_megabytes": round(path.stat().st_size / 1e6), **figures}  # fmt: skip
            print(row, flush=True)
            found.append(row)
            shutil.rmtree(folder / "out")
            path.unlink()
    slopes = {}
    for kind in options.formats:
        own = [row for row in found if row["format"] == kind]
        first, last = own[0], own[-1]
        more = last["peak_resident_mb"] - first["peak_resident_mb"]
        slopes[kind] = round(1000 * more / max(last["megabytes_of_text"] - first["megabytes_of_text"], 1), 1)
    return {"texts": options.texts, "resident_mb_per_gigabyte_of_text": slopes, "each": found}


def write_reviews(path: Path, texts: list[str], size: int, draw: random.Random, *, one_group: bool) -> int:
    """Write a file with so many bytes of text; returns its rows."""

    def reviews() -> Iterator[str]:
        written = 0
        while written < size:
            words = draw.choice(texts).split(" ")
            text = " ".join(words[draw.randrange(max(1, len(words) // 2)) :])
            written += len(text.encode())
            yield text

    count = 0
    if path.suffix == ".parquet":
        schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
        batches, batch = [], []
        with pq.ParquetWriter(path, schema, use_dictionary=False) as writer:
            for text in reviews():
                batch.append(text)
                count += 1
                if len(batch) == 10_000:
                    batches.append(pa.table({"id": range(count - len(batch), count), "text": batch}, schema=schema))
                    batch = []
                    if not one_group:
                        writer.write_table(batches.pop())
            batches.append(pa.table({"id": range(count - len(batch), count), "text": batch}, schema=schema))
            table = pa.concat_tables(batches)
            writer.write_table(table, row_group_size=len(table) or 1)
        return count
    with path.open("w", encoding="utf-8", newline="") as file:
        table_writer = csv.writer(file)
        if path.suffix == ".csv":
            table_writer.writerow(["id", "text"])
        for text in reviews():
            if path.suffix == ".csv":
                table_writer.writerow([count, text])
            else:
                file.write(json.dumps({"id": count, "text": text}) + "\n")
            count += 1
    return count


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
