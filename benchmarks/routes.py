"""Send a server thousands of requests that schemathesis generates from its OpenAPI document, with all of its checks.

    pip install schemathesis
    python benchmarks/routes.py --cases 1000

The server has a model of each task, those of `tests/serving`, and two that generate text, and wants a key. Each route
is asked with up to so many generated bodies, allowed by its schema or not, beside the examples of the document and the
limits of each value ("coverage"); a route without values to generate is asked once by each of these phases. An answer
fails that is a server error, has a status, type or content that the document does not have, accepts what the schema
forbids, refuses what it allows, or comes without the key. The results, with the statuses of all answers by the server's
own counters, are in benchmarks/results/routes.json; exit code 1 where an answer failed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import runpy
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mixling.provenance import provenance

MODELS = Path(__file__).resolve().parents[1] / "tests" / "serving"
GENERATORS: dict[str, list[dict[str, str]]] = {
    "writer": [],
    "writer-of-two": [{"name": "colors", "prefix": "color: "}, {"name": "pets", "prefix": "pet: "}],
}
KEY = "a-key-of-the-benchmark-of-routes"


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000, help="generated for each route and phase of generation")
    parser.add_argument("--only", default="", help="regular expression of the routes; the others keep their results")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--schemathesis", default="schemathesis", help="its command")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "routes.json")
    options = parser.parse_args()
    made = provenance(seed=options.seed, packages=("starlette", "uvicorn"))
    result: dict[str, Any] = json.loads(options.out.read_text("utf-8")) if options.out.exists() else {}
    routes = result.setdefault("routes", {})
    with tempfile.TemporaryDirectory() as name, serving(Path(name)) as url:
        for path in json.loads(asked(f"{url}/openapi.json"))["paths"]:
            if re.search(options.only, path):
                found = try_route(url, path, Path(name), options)
                routes[path] = {**found, "commit": made["commit"], "date": made["date"]}
                print(path, found)
                options.out.write_text(json.dumps({"routes": routes, "provenance": made}, indent=1) + "\n", "utf-8")
    return 1 if any(item["failures"] for item in routes.values()) else 0


def try_route(url: str, path: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Return how many cases a route was asked with, the statuses of the answers, and what failed.

    Each has a process of its own: of a thousand cases of all routes together it keeps gigabytes, and gets slow.
    """
    report, before = folder / "report.json", statuses(url)
    command = [
        options.schemathesis, "--config-file", str(MODELS / "schemathesis.toml"), "run", f"{url}/openapi.json",
        "--include-path", path, "--checks", "all", "--max-examples", str(options.cases), "--seed", str(options.seed),
        "--header", f"Authorization: Bearer {KEY}", "--continue-on-failure",
        "--report", "json", "--report-json-path", str(report), "--no-color",
    ]  # fmt: skip
    code = subprocess.run(command, check=False, cwd=folder).returncode  # it writes files there
    found = json.loads(report.read_text("utf-8"))
    assert found["operations"]["tested"] == 1, path
    failures = [str(item)[:2000] for item in (*found["failures"], *found["errors"])]
    return {
        "schemathesis": found["schemathesis_version"],
        "cases": found["test_cases"]["generated"],
        "statuses": dict(sorted((statuses(url) - before).items())),
        "failures": failures or [f"exit code {code}"] * (code != 0),
    }


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Run a server in a block; yield its address."""
    (folder / "keys").write_text(KEY + "\n", "utf-8")
    models = [f"{path.stem}={path}" for path in sorted((MODELS / "models").glob("*.onnx"))]
    write_generator = runpy.run_path(str(MODELS / "generator.py"))["write_generator"]
    for name, tasks in GENERATORS.items():
        models.append(f"{name}={write_generator(folder / name, seed=0, tasks=tasks)}")
    command = [sys.executable, "-m", "mixling", "serve", *models, "--keys", str(folder / "keys"), "--port", "0"]
    log = folder / "server.log"
    with log.open("w") as file, subprocess.Popen(command, stderr=file) as process:
        try:
            while not (found := re.search(r"http://[\d.]+:\d+", log.read_text("utf-8"))):
                assert process.poll() is None, log.read_text("utf-8")
                time.sleep(0.1)
            yield found[0]
        finally:
            process.terminate()


def asked(url: str) -> str:
    """Return what is at an address of the server."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {KEY}"})
    with urllib.request.urlopen(request) as response:
        content: bytes = response.read()
    return content.decode()


def statuses(url: str) -> Counter[str]:
    """Return how many answers had each status, as the server counted them."""
    found = re.findall(r'mixling_requests_total\{.*?status="(\d+)"\} (\S+)', asked(f"{url}/metrics"))
    out: Counter[str] = Counter()
    for status, count in found:
        out[status] += int(float(count))
    return out


if __name__ == "__main__":
    sys.exit(main())
