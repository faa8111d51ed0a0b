"""Size and speed of the browser package, and how near its answers are to those of Python.

    python benchmarks/browser.py --data ../shared/data

The models have 8 bits: `trained` is the one that `mixling train` makes of SNIPS in 8 epochs (seed 0), whose answers may
be those of its n-gram branch alone; `network` is `mixling-small` with first weights, on which speed does not depend,
and has no such branch. The texts are the test texts of SNIPS.
In node: microseconds a text with warm and cold caches, of the processor and of the clock, medians of rounds. In
Chromium, where playwright and Chromium are installed, in a new page without a cache for each time: milliseconds from
the import of the package to the first answer (fetching JavaScript, WebAssembly and model from a server of files on the
same machine), in the page and in a worker; and from the address of the page of `mixling export --browser` to its
being ready, and from the last key to the answer, which waits 60 ms for another one. Written to
benchmarks/results/browser.json.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from mixling import Predictor
from mixling.browser.site import write_site
from mixling.provenance import provenance
from mixling.storage import write_json
from native import exported, read

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "mixling" / "browser" / "package"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
LOAD = """async ([url, worker, text]) => {
    const begin = performance.now();
    const { Mixling } = await import(`${url}mixling/index.js`);
    const model = await (worker ? Mixling.loadInWorker : Mixling.load)(`${url}models/snips.onnx`);
    const { label } = await model.predict(text);
    return [performance.now() - begin, label];
}"""


def main() -> None:
    """Write benchmarks/results/browser.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--run", type=Path, help="a run of the training above, to save training it again")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "browser.json")
    args = parser.parse_args()
    origin = provenance(seed=0, packages=("onnxruntime", "playwright"))
    with gzip.open(args.data / "snips" / "test.jsonl.gz", "rt", encoding="utf-8") as lines:
        texts = [" ".join(json.loads(line)["tokens"]) for line in lines]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        run = args.run or trained(args.data / "snips", folder / "run")
        model = run / "model.onnx"
        (folder / "network.onnx").write_bytes(first_weights(args.data))
        results: dict[str, Any] = {"load_average": round(os.getloadavg()[0], 1)}
        for name, path in (("trained", model), ("network", folder / "network.onnx")):
            results[name] = {"bytes": sizes(path), "node": in_node(path, texts, args.rounds, folder)}
            found = in_chromium(path, texts, args.rounds, folder / f"site-{name}") if CHROMIUM else None
            results[name]["chromium"] = found
    write_json(args.out, {**origin, "rounds": args.rounds, "texts": len(texts), "results": results})
    print(json.dumps(results, indent=2))


def first_weights(data: Path) -> bytes:
    """The network alone, with the vocabulary and labels of SNIPS."""
    texts, labels = read(data / "snips" / "dev.jsonl.gz")
    return exported("mixling-small", texts, sorted(set(labels)))


def trained(data: Path, out: Path) -> Path:
    """The folder of the trained model."""
    files = [str(data / "train.jsonl.gz"), "--validation", str(data / "dev.jsonl.gz")]
    options = ["--label", "intent", "--text", "tokens", "--epochs", "8", "--seed", "0", "-o", str(out)]
    subprocess.run([sys.executable, "-m", "mixling", "train", *files, *options], check=True, capture_output=True)
    return out


def sizes(model: Path) -> dict[str, int]:
    """Bytes of the package as servers send them, and of the model."""
    zipped = {path.name: len(gzip.compress(path.read_bytes(), 9)) for path in PACKAGE.iterdir() if path.suffix != ".ts"}
    return {
        "wasm": (PACKAGE / "mixling.wasm").stat().st_size,
        "wasm_gzipped": zipped["mixling.wasm"],
        "javascript_gzipped": sum(zipped.values()) - zipped["mixling.wasm"],
        "package_gzipped": sum(zipped.values()),
        "model": model.stat().st_size,
    }


def in_node(model: Path, texts: list[str], rounds: int, folder: Path) -> dict[str, Any]:
    """Speed in node, and the differences of logits and labels from Python's with ONNX Runtime."""
    given = folder / "texts.json"
    given.write_text(json.dumps(texts))
    script = [str(ROOT / "benchmarks" / "browser.mjs"), str(PACKAGE / "index.js"), str(model), str(given), str(rounds)]
    found = json.loads(subprocess.run(["node", *script], check=True, capture_output=True).stdout)
    got = np.array(found["logits"])
    os.environ["MIXLING_ENGINE"] = "onnx"
    predictor = Predictor(model)
    expected = np.stack(predictor.logits(predictor.tokenize(texts)))
    del os.environ["MIXLING_ENGINE"]

    def middle(rounds: list[dict[str, float]], clock: str) -> float:
        return round(statistics.median(item[clock] for item in rounds), 1)

    return {
        "version": found["node"],
        "load_and_first_answer_ms": round(found["load_and_first_ms"], 1),
        **{
            f"{name}_us_a_text": {clock: middle(found[name], clock) for clock in ("processor", "clock")}
            for name in ("warm", "cold")
        },
        "one_text_p50_us": round(statistics.median(found["single"]), 1),
        "precision": predictor.metadata.precision,
        "greatest_difference_of_a_logit": float(np.abs(got - expected).max().round(8)),
        "same_label": float(np.mean(got.argmax(1) == expected.argmax(1))),
    }


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve the files of a folder; yield the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def in_chromium(model: Path, texts: list[str], rounds: int, folder: Path) -> dict[str, Any] | None:
    """Milliseconds to the first answer, each in a context of its own, which has no cache."""
    if find_spec("playwright") is None:
        return None
    from playwright.sync_api import sync_playwright

    write_site(model.read_bytes(), folder, name="snips")
    (folder / "empty.html").write_text("<!doctype html><title>empty</title>")
    label = Predictor(model).predict_one(texts[0]).label
    times: dict[str, list[float]] = {name: [] for name in ("load", "load_in_worker", "page_ready", "answer_shown")}
    with served(folder) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        for number in range(rounds + 1):
            found = {}
            for name, worker in (("load", False), ("load_in_worker", True)):
                page = browser.new_page()
                page.goto(f"{url}empty.html")
                found[name], answer = page.evaluate(LOAD, [url, worker, texts[0]])
                assert answer == label
                page.context.close()
            page = browser.new_page()
            page.add_init_script(
                "new MutationObserver(() => { if (document.getElementById('status')?.textContent === 'Ready')"
                " window.ready ??= performance.now(); if (document.querySelector('article')) window.shown ??="
                " performance.now() }).observe(document, {childList: true, subtree: true, characterData: true})"
            )
            page.goto(url)
            page.wait_for_selector("#status:text-is('Ready')")
            found["page_ready"] = page.evaluate("window.ready")
            page.evaluate("addEventListener('input', () => { window.typed = performance.now() })")
            page.fill("#text", texts[0])
            page.wait_for_selector("article")
            found["answer_shown"] = page.evaluate("window.shown - window.typed")
            page.context.close()
            if number:
                for name, value in found.items():
                    times[name].append(value)
        version = browser.version
        browser.close()
    rows = {name: {"median_ms": statistics.median(each), "least_ms": min(each)} for name, each in times.items()}
    return {"version": version, **{name: {k: round(v, 1) for k, v in row.items()} for name, row in rows.items()}}


if __name__ == "__main__":
    main()
