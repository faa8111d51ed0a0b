"""Training in a page beside the same training in Python: time, memory and accuracy.

    python benchmarks/browser_training.py --data ../shared/data

The page of `mixling export --trainer` is opened as a file in Chromium, where a file of labeled texts is trained on, in
one worker: seconds from the press of Train to the figures, which the page holds rows out for, by the clock and of the
tab's process, and the most private memory that this process had, looked at 20 times a second. The model that the page
saves is read by Python. Beside it, with one thread, on as many of the rows, `TextClassifier(model="mixling-linear")`:
seconds of `fit`, by the clock and of the processor. The data are the training texts of SNIPS, with its
test texts for the accuracy of both models, and the sample messages. Each figure is the median of `--rounds`.
Written to benchmarks/results/browser_training.json.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import shutil
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from mixling import Predictor, TextClassifier
from mixling.browser import write_trainer
from mixling.provenance import provenance
from mixling.storage import write_json

ROOT = Path(__file__).resolve().parents[1]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
MEASURED = ("seconds", "processor_seconds", "megabytes")
TICKS = os.sysconf("SC_CLK_TCK")
Rows = list[tuple[str, str]]


def main() -> None:
    """Write benchmarks/results/browser_training.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    snips = {name: read_snips(options.data / "snips" / f"{name}.jsonl.gz") for name in ("train", "test")}
    samples = ROOT / "src" / "mixling" / "samples" / "messages.csv"
    with samples.open(encoding="utf-8", newline="") as file:
        messages = [(row["message"], row["topic"]) for row in csv.DictReader(file)]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_trainer(folder / "page.html")
        page = (folder / "page.html").read_bytes()
        found = {
            "snips": measured(snips["train"], snips["test"], folder, options.rounds),
            "messages": measured(messages, [], folder, options.rounds),
        }
    sizes = {"bytes": len(page), "gzip": len(gzip.compress(page))}
    write_json(
        ROOT / "benchmarks" / "results" / "browser_training.json", {"page": sizes, **found, "provenance": provenance()}
    )
    print(json.dumps({"page": sizes, **found}, indent=1))


def read_snips(path: Path) -> Rows:
    """Return texts and intents."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [(" ".join(row["tokens"]), row["intent"]) for row in map(json.loads, file)]


def measured(rows: Rows, test: Rows, folder: Path, rounds: int) -> dict[str, Any]:
    """Return the figures of the page and of Python."""
    table = folder / "rows.csv"
    with table.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    pages = [in_page(folder, table) for _ in range(rounds)]
    number = pages[0]["training"]
    texts, labels = ([row[column] for row in rows[:number]] for column in (0, 1))
    seconds: list[tuple[float, float]] = []
    for _ in range(rounds):
        clock, processor = time.perf_counter(), time.process_time()
        classifier = TextClassifier(model="mixling-linear", seed=0).fit(texts, labels)
        seconds.append((time.perf_counter() - clock, time.process_time() - processor))
    out: dict[str, Any] = {
        "rows": len(rows),
        "page": {**pages[0], **{key: statistics.median(one[key] for one in pages) for key in MEASURED}},
        "python": dict(zip(MEASURED, map(statistics.median, zip(*seconds, strict=True)), strict=False)),
    }
    if test:
        read = Predictor(folder / "model.onnx").predict([text for text, _ in test])
        right = [label for _, label in test]
        out["page"]["test"] = sum(a.label == b for a, b in zip(read, right, strict=True)) / len(test)
        given = classifier.predict([text for text, _ in test])
        out["python"]["test"] = sum(a == b for a, b in zip(given, right, strict=True)) / len(test)
    return out


def in_page(folder: Path, table: Path) -> dict[str, Any]:
    """Train in a page, and save the model."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page()
        page.goto((folder / "page.html").as_uri())
        tab = max(tabs(), key=processor_seconds)  # another one waits for a page
        page.set_input_files("#file", table)
        page.wait_for_selector("#preview table")
        ended = threading.Event()
        seen = [0.0]
        watch = threading.Thread(target=watch_memory, args=(tab, ended, seen))
        watch.start()
        begin, processor = time.perf_counter(), processor_seconds(tab)
        page.click("#start")
        page.wait_for_selector("#figures .answer", timeout=600_000)
        found = (time.perf_counter() - begin, processor_seconds(tab) - processor)
        ended.set()
        watch.join()
        figures = page.text_content("#figures .answer")
        trained = page.text_content("#figures > .note:last-child")
        with page.expect_download() as download:
            page.click("#save")
        download.value.save_as(folder / "model.onnx")
        browser.close()
    number = int(trained.split(" ")[0].replace(",", ""))
    return {**dict(zip(MEASURED, (*found, max(seen)), strict=True)), "training": number, "held_out": figures}


def tabs() -> list[int]:
    """Return the processes of tabs that this process has begun."""
    parents: dict[int, int] = {}
    kinds: dict[int, bytes] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            kinds[int(path.name)] = (path / "cmdline").read_bytes()
        except (OSError, ValueError):
            continue  # it has ended

    def is_ours(process: int) -> bool:
        while process > 1:
            if process == os.getpid():
                return True
            process = parents.get(process, 0)
        return False

    return [process for process, command in kinds.items() if b"--type=renderer" in command and is_ours(process)]


def processor_seconds(process: int) -> float:
    """Return the time that a process has computed."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def watch_memory(process: int, ended: threading.Event, seen: list[float]) -> None:
    """Append the private memory of a process, in megabytes, until it is told to end."""
    while not ended.wait(0.05):
        status = Path(f"/proc/{process}/status").read_text()
        seen.append(int(status.split("RssAnon:")[1].split()[0]) * 1024 / 1e6)


if __name__ == "__main__":
    main()
