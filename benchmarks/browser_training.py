"""Training in a page beside the same training in Python: time, memory and accuracy.

    python benchmarks/browser_training.py --data ../shared/data

The page of `mixling export --trainer` is opened as a file in Chromium, where a file of labeled texts is trained on, in
one worker: seconds from the press of Train to the figures, which the page holds rows out for, by the clock and of the
tab's process, and the most private memory that this process had, looked at 20 times a second. The model that the page
saves is read by Python. Beside it, with one thread, on as many rows, `TextClassifier` with the page's network, the
model of n-grams alone, and for SNIPS with its defaults: seconds of `fit`, by the clock and of the processor. Both kinds
of model are trained on the training texts of SNIPS, with its test texts for the accuracy, and on the first 1,700 sample
messages. In the page of labeling the time from a key to the frame that shows the next text is measured 200 times while
models are trained. Each figure is the median of `--rounds`. Written to benchmarks/results/browser_training.json.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import re
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
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
MESSAGES = 1_700
NETWORK = {  # docs/how-to/train-in-a-page.md
    "init": {"training_texts": False},
    "train": {"augmentation": {"typos": 0.0, "pseudo_words": 0.0}},
    "ngrams": {"cross_fit": False},
}
Rows = list[tuple[str, str]]
# Each 100 ms a label by the length of the text; when the next one is shown, and whether a model was trained meanwhile.
PRESS_KEYS = """async () => {
  const out = [];
  const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  const home = document.getElementById("text");
  const isTraining = () => document.getElementById("model").textContent.includes("Learning");
  for (let i = 0; out.filter(([, training]) => training).length < 200 && i < 900; i++) {
    await new Promise((done) => setTimeout(done, 100));
    const [before, training, begin] = [home.firstChild, isTraining(), performance.now()];
    const key = home.textContent.length > 60 ? "1" : "2";
    home.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    while (home.firstChild === before) await frame();
    await frame();
    out.push([performance.now() - begin, training]);
  }
  return out;
}"""


def main() -> None:
    """Write benchmarks/results/browser_training.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    snips = {name: read_snips(options.data / "snips" / f"{name}.jsonl.gz") for name in ("train", "test")}
    samples = ROOT / "src" / "mixling" / "samples" / "messages.csv"
    with samples.open(encoding="utf-8", newline="") as file:
        messages = [(row["message"], row["topic"]) for row in csv.DictReader(file)][:MESSAGES]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_trainer(folder / "page.html")
        page = (folder / "page.html").read_bytes()
        found = {
            "snips": measured(snips["train"], snips["test"], folder, options.rounds),
            "messages": measured(messages, [], folder, options.rounds),
        }
        found["labeling"] = {"keys": in_labeling(folder, [text for text, _ in messages])}
        found["snips"]["defaults"] = in_python(*zip(*snips["train"], strict=True), {}, snips["test"], options.rounds)
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
    """Return the figures of the page and of Python, by the kind of model."""
    table = folder / "rows.csv"
    with table.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    (vocabulary := folder / "vocab.txt").write_text("[UNK]\n")
    out: dict[str, Any] = {"rows": len(rows)}
    for kind in ("mixling-small", "mixling-linear"):
        pages = [in_page(folder, table, kind) for _ in range(rounds)]
        number = pages[0]["training"]
        texts, labels = zip(*rows[:number], strict=True)
        options: dict[str, Any] = {"model": kind}
        if kind == "mixling-small":
            config = NETWORK | {"model": {"text": {"vocabulary": str(vocabulary)}}}
            options |= {"epochs": pages[0]["epochs"], "config": config}
        page = {**pages[0], **{key: statistics.median(one[key] for one in pages) for key in MEASURED}}
        if test:
            page["test"] = accuracy(Predictor(folder / "model.onnx").predict([text for text, _ in test]), test)
        out[kind] = {"page": page, "python": in_python(texts, labels, options, test, rounds)}
    return out


def in_python(
    texts: Sequence[str], labels: Sequence[str], options: dict[str, Any], test: Rows, rounds: int
) -> dict[str, Any]:
    """Return the figures of Python."""
    seconds: list[tuple[float, float]] = []
    for _ in range(rounds):
        clock, processor = time.perf_counter(), time.process_time()
        classifier = TextClassifier(seed=0, **options).fit(list(texts), list(labels))
        seconds.append((time.perf_counter() - clock, time.process_time() - processor))
    out: dict[str, Any] = dict(zip(MEASURED, map(statistics.median, zip(*seconds, strict=True)), strict=False))
    if test:
        given = classifier.predict([text for text, _ in test])
        out["test"] = sum(a == b for a, (_, b) in zip(given, test, strict=True)) / len(test)
    return out


def accuracy(answers: Sequence[Any], test: Rows) -> float:
    """Return the fraction of answers that are right."""
    return sum(answer.label == label for answer, (_, label) in zip(answers, test, strict=True)) / len(test)


def in_page(folder: Path, table: Path, kind: str) -> dict[str, Any]:
    """Train in a page, and save the model."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page()
        page.goto((folder / "page.html").as_uri())
        tab = max(tabs(), key=processor_seconds)  # another one waits for a page
        page.set_input_files("#file", table)
        page.wait_for_selector("#preview table")
        page.select_option("#kind", kind)
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
    epochs = [int(one) for one in re.findall(r"(\d+) epochs?", trained)]
    measures = dict(zip(MEASURED, (*found, max(seen)), strict=True))
    return {**measures, "training": number, "held_out": figures, "epochs": epochs[0] if epochs else None}


def in_labeling(folder: Path, texts: list[str]) -> dict[str, float]:
    """Return how long keys take in the page of labeling, in milliseconds, while it trains."""
    (table := folder / "texts.jsonl").write_text("".join(f"{json.dumps({'text': text})}\n" for text in texts))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page()
        page.goto((folder / "page.html").as_uri())
        page.set_input_files("#file", table)
        page.click("#label")
        frame = page.frame_locator("iframe.labeling")
        for label in ("long", "short"):
            frame.locator("#new").fill(label)
            frame.locator("#add button").click()
        (inside,) = page.main_frame.child_frames
        spent = inside.evaluate(PRESS_KEYS)
        browser.close()
    found = sorted(took for took, training in spent if training)
    return {"number": len(found), "median": statistics.median(found), "p95": found[int(0.95 * len(found))]}


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
