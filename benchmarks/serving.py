"""The cost of an answer over HTTP: `mixling serve` beside FastAPI and a thread per request; overload, reloads, stops.

    mixling train ../shared/data/snips/train.jsonl.gz --validation ../shared/data/snips/dev.jsonl.gz \\
        --text tokens --label intent -o runs/snips
    pip install fastapi    # for the comparison; needs wrk (Debian: apt-get install wrk)
    python benchmarks/serving.py runs/snips --data ../shared/data/snips

The servers take turns; each runs on one core and the load on another. Written to benchmarks/results/serving.json, of
which a run replaces the parts that it measures, with the machine's load before each: times of answers mean little on a
busy machine, CPU per request a little more.

The part "beside" compares with a server of another commit, and with a bare ASGI route on uvicorn without any limits,
parsed by httptools and by h11. All run at once and take turns of a few seconds in an order that is drawn anew; ratios
are medians over the rounds:

    git worktree add ../before COMMIT; (cd ../before; python setup.py -q build_ext --inplace)
    python benchmarks/serving.py runs/snips --data ../shared/data/snips --parts beside --before ../before
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gzip
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mixling.provenance import provenance

LUA = """
local bodies = {}
for line in io.lines(os.getenv("BODIES")) do bodies[#bodies + 1] = line end
local i = 0
request = function()
  i = i + 1
  return wrk.format("POST", wrk.path, {["Content-Type"] = "application/json"}, bodies[i % #bodies + 1])
end
"""
RIVAL = """
import sys, uvicorn, anyio
from mixling import Predictor
kind, path, port = sys.argv[1:]
predictor = Predictor(path)
if kind == "fastapi":
    from fastapi import FastAPI
    from pydantic import BaseModel
    class Request(BaseModel):
        texts: list[str]
    class Prediction(BaseModel):
        label: str
        probabilities: dict[str, float]
        truncated: bool
    class Answer(BaseModel):
        predictions: list[Prediction]
    app = FastAPI()
    @app.post("/v1/models/m/predict")
    async def predict(request: Request) -> Answer:
        return Answer(predictions=[Prediction(**p.to_dict()) for p in predictor.predict(request.texts)])
elif kind in ("uvicorn", "h11"):
    import json
    async def app(scope, receive, send):
        if scope["type"] != "http":
            return
        found = predictor.predict(json.loads((await receive())["body"])["texts"])
        body = json.dumps({"predictions": [p.to_dict() for p in found]}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})
else:
    import json
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Route
    async def predict(request):
        texts = json.loads(await request.body())["texts"]
        found = await anyio.to_thread.run_sync(predictor.predict, texts)
        return JSONResponse({"predictions": [p.to_dict() for p in found]})
    app = Starlette(routes=[Route("/v1/models/m/predict", predict, methods=["POST"])])
print("serving on http://127.0.0.1:" + port, file=sys.stderr, flush=True)
uvicorn.run(app, port=int(port), http="h11" if kind == "h11" else "httptools", log_level="error", access_log=False)
"""
PORT = 8765
PARTS = ("starts", "comparison", "overload", "reloads", "stops", "beside")
NAMES = ("mixling_reloads", "mixling_reload_failures")
TICKS = os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def server(
    model: Path, kind: str, engine: str, *options: str, core: int, port: int = PORT, source: Path | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A server on one core, from its first answer on; `source` is the tree that it is imported from."""
    command = [sys.executable, "-m", "mixling", "serve", f"m={model}", "--port", str(port), *options]
    if kind != "mixling":
        command = [sys.executable, "-c", RIVAL, kind, str(model), str(port)]
    environment = {**os.environ, "MIXLING_ENGINE": engine, "OMP_NUM_THREADS": "1"}
    if source is not None:
        environment["PYTHONPATH"] = str(source / "src")
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, text=True)
    os.sched_setaffinity(process.pid, {core})
    try:
        while asyncio.run(status_of('{"texts": ["a"]}', port)) != 200:
            assert process.poll() is None, "the server ended"
            time.sleep(0.005)
        yield process
    finally:
        process.kill()
        process.wait()


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: str) -> tuple[int, bytes, bytes]:
    """Status, head and body of an answer."""
    content = body.encode()
    head = "POST /v1/models/m/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
    answer = await reader.readuntil(b"\r\n\r\n")
    found = re.search(rb"content-length: (\d+)", answer)
    return int(answer[9:12]), answer, await reader.readexactly(int(found[1]) if found else 0)


async def status_of(body: str, port: int = PORT) -> int:
    """Status of a request on a connection of its own; 0 if there is none."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        status, _, _ = await ask(reader, writer, body)
        writer.close()
    except OSError:
        return 0
    return status


def cpu_seconds(process: subprocess.Popen[str]) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def rss_mb(process: subprocess.Popen[str]) -> float:
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())[1]) / 1024


def load(
    process: subprocess.Popen[str], bodies: Path, script: Path, *, seconds: int, core: int, port: int = PORT
) -> dict[str, float]:
    """Figures of 64 connections of wrk."""
    before = cpu_seconds(process)
    command = [
        "wrk", "-t1", "-c64", f"-d{seconds}s", "--latency", "-s", str(script),
        f"http://127.0.0.1:{port}/v1/models/m/predict",
    ]  # fmt: skip
    done = subprocess.run(
        ["taskset", "-c", str(core), *command],
        env={**os.environ, "BODIES": str(bodies)},
        capture_output=True,
        text=True,
    )
    out = done.stdout
    requests = int(re.search(r"(\d+) requests in", out)[1])
    units = {"us": 1e-3, "ms": 1.0, "s": 1e3}

    def latency(percent: str) -> float:
        found = re.search(rf"{percent}%\s+([\d.]+)(us|ms|s)", out)
        return float(found[1]) * units[found[2]]

    return {
        "cpu_us_per_request": 1e6 * (cpu_seconds(process) - before) / requests,
        "requests_per_s": float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1]),
        "p50_ms": latency("50"),
        "p99_ms": latency("99"),
        "errors": sum(map(int, re.findall(r"(?:Non-2xx or 3xx responses: |connect |read |write |timeout )(\d+)", out))),
    }


def compare(options: argparse.Namespace, bodies: Path, script: Path) -> dict[str, Any]:
    """Median figures of each server and engine, in turn."""
    candidates = [(kind, engine) for engine in ("native", "onnx") for kind in ("mixling", "fastapi", "thread")]
    found: dict[str, list[dict[str, float]]] = {}
    for _ in range(options.rounds):
        for kind, engine in candidates:
            with server(options.model, kind, engine, core=options.cores[0]) as process:
                load(process, bodies, script, seconds=2, core=options.cores[1])  # fills the caches
                figures = load(process, bodies, script, seconds=options.seconds, core=options.cores[1])
            found.setdefault(f"{kind}, {engine}", []).append(figures)
            print(kind, engine, figures, file=sys.stderr)
    return {
        name: {key: round(statistics.median(run[key] for run in runs), 2) for key in runs[0]}
        for name, runs in found.items()
    }


def beside(options: argparse.Namespace, bodies: Path, script: Path) -> dict[str, Any]:
    """Median figures of this server, that of another commit and a bare route, and their ratios round by round."""
    candidates = {"before": ("mixling", options.before), "now": ("mixling", None), "uvicorn": ("uvicorn", None)}
    candidates["uvicorn with h11"] = ("h11", None)
    chance = random.Random(0)
    found: dict[str, list[dict[str, float]]] = {name: [] for name in candidates}
    with contextlib.ExitStack() as stack:
        running = {}
        for port, (name, (kind, source)) in enumerate(candidates.items(), PORT):
            place = {"core": options.cores[0], "port": port, "source": source}
            running[name] = stack.enter_context(server(options.model, kind, "native", **place)), port
        for turn in range(options.rounds + 1):
            for name in chance.sample(list(candidates), len(candidates)):
                process, port = running[name]
                seconds, core = options.seconds if turn else 2, options.cores[1]
                figures = load(process, bodies, script, seconds=seconds, core=core, port=port)
                if turn:  # the first fills the caches
                    found[name].append(figures)
            print(turn, {name: runs[-1:] for name, runs in found.items()}, file=sys.stderr)

    def ratios(above: str, below: str) -> dict[str, float]:
        pairs = list(zip(found[above], found[below], strict=True))
        keys = ("requests_per_s", "cpu_us_per_request", "p99_ms")
        return {key: round(statistics.median(one[key] / other[key] for one, other in pairs), 3) for key in keys}

    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=options.before, capture_output=True, text=True).stdout
    medians = {
        name: {key: round(statistics.median(run[key] for run in runs), 2) for key in runs[0]}
        for name, runs in found.items()
    }
    return {
        "before": commit.strip(),
        "rounds": options.rounds,
        "seconds": options.seconds,
        "64 connections": medians,
        "now/before": ratios("now", "before"),
        "now/uvicorn": ratios("now", "uvicorn"),
        "uvicorn with h11/uvicorn": ratios("uvicorn with h11", "uvicorn"),
    }


class Impatient(asyncio.Protocol):
    """A connection that sends its next request when it has an answer, at a small cost, and notes times and statuses."""

    def __init__(self, requests: list[bytes], number: int, end: float) -> None:
        self.chance, self.requests, self.end = random.Random(number), requests, end
        self.statuses: Counter[str] = Counter()
        self.times: list[float] = []
        self.done = asyncio.get_running_loop().create_future()
        self.held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.send()

    def send(self) -> None:
        if time.monotonic() > self.end:
            self.transport.close()
            self.done.set_result(None)
        else:
            self.begin = time.perf_counter()
            self.transport.write(self.chance.choice(self.requests))

    def data_received(self, data: bytes) -> None:
        self.held += data
        head, sep, body = self.held.partition(b"\r\n\r\n")
        if not sep or len(body) < int(re.search(rb"content-length: (\d+)", head)[1]):
            return
        self.held = b""
        status = int(head[9:12])
        if status == 200:
            self.times.append(time.perf_counter() - self.begin)
        self.statuses[f"{status}{' with Retry-After' if b'retry-after' in head else ''}"] += 1
        self.send()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.statuses["lost"] += 1
            self.done.set_result(None)


async def overload(process: subprocess.Popen[str], bodies: list[str], seconds: float) -> dict[str, Any]:
    """256 connections that never wait, not even after an answer of 503."""
    for body in bodies:
        assert await status_of(body) == 200
    requests = [
        b"POST /v1/models/m/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        + f"Content-Length: {len(body.encode())}\r\n\r\n{body}".encode()
        for body in bodies
    ]
    before, cpu, end = rss_mb(process), cpu_seconds(process), time.monotonic() + seconds
    loop = asyncio.get_running_loop()
    clients = [
        (await loop.create_connection(lambda number=number: Impatient(requests, number, end), "127.0.0.1", PORT))[1]
        for number in range(256)
    ]
    for client in clients:
        await client.done
    statuses = sum((client.statuses for client in clients), Counter())
    times = [seconds for client in clients for seconds in client.times]
    return {
        "statuses": dict(statuses),
        "p50_ms_of_200": round(1e3 * statistics.median(times), 1),
        "p99_ms_of_200": round(1e3 * statistics.quantiles(times, n=100)[98], 1),
        "longest_ms_of_200": round(1e3 * max(times), 1),
        "server_cpu": round((cpu_seconds(process) - cpu) / seconds, 2),
        "rss_growth_mb": round(rss_mb(process) - before, 1),
    }


async def reloads(process: subprocess.Popen[str], served: Path, contents: list[bytes], count: int) -> dict[str, Any]:
    """Answers by version while the file is replaced, each time when the last one is in use; every sixth is damaged."""
    statuses: Counter[int] = Counter()
    versions: Counter[str] = Counter()
    chance = random.Random(0)
    stop = False

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
        while not stop:
            status, _, answer = await ask(reader, writer, '{"texts": ["play some jazz"]}')
            statuses[status] += 1
            versions[json.loads(answer).get("version", "none")] += 1
        writer.close()

    clients = [asyncio.create_task(client()) for _ in range(16)]
    used = damaged = 0
    for number in range(count):
        content = contents[number % 2]
        if number % 6 == 5:
            content = damage(content, chance)
            damaged += 1
        served.with_name("new").write_bytes(content)
        os.replace(served.with_name("new"), served)
        while sum(counts := await counters()) <= number:
            await asyncio.sleep(0.005)
        used = int(counts[0])
    stop = True
    await asyncio.gather(*clients)
    found = {"replaced": count, "damaged": damaged, "in_use": used, "refused": int(counts[1])}
    return {**found, "statuses": dict(statuses), "answers_by_version": dict(versions)}


def damage(content: bytes, chance: random.Random) -> bytes:
    """A file that is cut, or has another byte somewhere, or is something else."""
    kind, place = chance.randrange(3), chance.randrange(len(content))
    if kind == 0:
        return content[:place]
    if kind == 1:
        return content[:place] + bytes([content[place] ^ chance.randrange(1, 256)]) + content[place + 1 :]
    return chance.randbytes(1 + place % 5000)


async def counters() -> tuple[float, float]:
    """How many replaced files the server uses, and how many it has refused."""
    reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    text = (await reader.read()).decode()
    writer.close()
    used, refused = (re.search(rf'{name}_total{{model="m"}} (\S+)', text)[1] for name in NAMES)
    return float(used), float(refused)


async def stop_in_flight(process: subprocess.Popen[str]) -> Counter[str]:
    """Answers to 64 requests although SIGTERM follows them at once."""
    connections = [await asyncio.open_connection("127.0.0.1", PORT) for _ in range(64)]
    asked = [asyncio.create_task(ask(*connection, '{"texts": ["play some jazz"]}')) for connection in connections]
    await asyncio.sleep(0)  # all are sent
    process.send_signal(signal.SIGTERM)
    answers = await asyncio.gather(*asked, return_exceptions=True)
    return Counter("lost" if isinstance(answer, BaseException) else str(answer[0]) for answer in answers)


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--data", type=Path, required=True, help="folder of SNIPS")
    parser.add_argument("--seconds", type=int, default=20, help="of each load")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--overload-seconds", type=int, default=60)
    parser.add_argument("--reloads", type=int, default=1200)
    parser.add_argument("--stops", type=int, default=50)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS[:-1])
    parser.add_argument("--before", type=Path, help="tree of another commit, for the part beside")
    parser.add_argument("--cores", type=int, nargs=2, default=(0, 1), help="of the server and of the load")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "serving.json")
    options = parser.parse_args()
    if {"comparison", "beside"} & set(options.parts) and shutil.which("wrk") is None:
        sys.exit("wrk is not installed")
    if "beside" in options.parts and options.before is None:
        parser.error("the part beside needs --before")
    rivals = ("fastapi",) if "comparison" in options.parts else ()
    made = provenance(seed=0, packages=("starlette", "uvicorn", "uvloop", "httptools", "h11", *rivals))
    with gzip.open(options.data / "test.jsonl.gz", "rt", encoding="utf-8") as lines:
        bodies = [json.dumps({"texts": [" ".join(json.loads(line)["tokens"])]}) for line in lines]
    report = json.loads(options.out.read_text("utf-8")) if options.out.exists() else {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "bodies").write_text("\n".join(bodies) + "\n")
        (folder / "wrk.lua").write_text(LUA)
        for part in options.parts:
            load_average = round(os.getloadavg()[0], 1)
            figures = run_part(part, options, folder, bodies)
            report[part] = {**figures, "load_average_before": load_average, "provenance": made}
            options.out.write_text(json.dumps(report, indent=1) + "\n")
            print(json.dumps({part: figures}, indent=1))


def run_part(part: str, options: argparse.Namespace, folder: Path, bodies: list[str]) -> dict[str, Any]:
    """Return the figures of a part."""
    core = options.cores[0]
    if part == "starts":
        starts = []
        for _ in range(9):
            begin = time.perf_counter()
            with server(options.model, "mixling", "native", core=core):
                starts.append(time.perf_counter() - begin)
        return {"start_to_first_answer_s": round(statistics.median(starts), 3)}
    if part == "comparison":
        return {"64 connections": compare(options, folder / "bodies", folder / "wrk.lua")}
    if part == "beside":
        return beside(options, folder / "bodies", folder / "wrk.lua")
    if part == "overload":
        found = {}
        for engine in ("native", "onnx"):
            with server(options.model, "mixling", engine, core=core) as process:
                os.sched_setaffinity(0, {options.cores[1]})
                found[engine] = asyncio.run(overload(process, bodies, options.overload_seconds))
                os.sched_setaffinity(0, range(os.cpu_count() or 1))
        return found
    if part == "reloads":
        content = (options.model / "model.onnx").read_bytes()
        other = (Path(__file__).parents[1] / "tests" / "golden" / "plan-v1.onnx").read_bytes()
        served = folder / "served.onnx"
        served.write_bytes(content)
        with server(served, "mixling", "native", "--set", "reload_interval=0.02", core=core) as process:
            return asyncio.run(reloads(process, served, [content, other], options.reloads))
    statuses: Counter[str] = Counter()
    for _ in range(options.stops):
        with server(options.model, "mixling", "native", core=core) as process:
            statuses += asyncio.run(stop_in_flight(process))
            assert process.wait(20) == 0
    return {"stops": options.stops, "requests": 64 * options.stops, "statuses": dict(statuses)}


if __name__ == "__main__":
    main()
