"""A server as a program for hours: memory, descriptors, threads and every answer, with reloads and killed workers.

    python benchmarks/soak.py tests/serving/models/intents.onnx --hours 8
    python benchmarks/soak.py tests/serving/models/intents.onnx --hours 0.35 --rate 40
    python benchmarks/soak.py tests/serving/models/intents.onnx --stops 50 --workers 4 --connections 32 --rate 400

Connections ask at a steady rate, now and then anew, for one text, for several and with mistakes. Each answer must be
the one that the library gives for the text, of the version that the answer names; each mistake has its status.
Meanwhile the model's file is replaced by that of another task and back (each third time by a damaged one, which must
not be used), and a worker other than the first is killed with -9: its connections may be reset before the first byte of
an answer, no other request may be lost, and the worker must be replaced. In the end SIGTERM comes under load: no
request may be lost then, and the exit code must be 0.

With --stops it is only that end, again and again: each time a server is loaded for a second and then stopped. What was
interrupted goes on at the same commit.

HTTP lets a server close an idle connection while a client begins to use it. The request is then sent again, as clients
do, and counted; it may only happen where the connection had been idle for as long as the server allows, or while the
server stops, and only by an orderly close: Linux resets the connection instead if a request had arrived before.

The last line is the verdict; exit code 1 where it is "unsound". Written to benchmarks/results/soak.json, the stops to
stops.json.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from mixling import Predictor
from mixling.provenance import provenance
from mixling.serving import ServerSettings

ROOT = Path(__file__).resolve().parents[1]
TEXTS = ["play some jazz", "wake me at six", "", "ümlaut 東京 🫨", "a " * 300, "what a film", "book a table for two"]
MISTAKES = {
    b"{": 400,
    b'{"texts": []}': 422,
    b'{"texts": ["a"], "x": 1}': 422,
    b'{"texts": 5}': 422,
    b'{"texts": ["a"], "top_k": 0}': 422,
}
GROWTH_MB, MORE_THREADS, MORE_FILES = 20.0, 2, 4  # of the first worker, over its values after a tenth of the time
KEEP_ALIVE = ServerSettings(models=()).keep_alive - 0.1  # seconds; clocks differ a little
HEALTHZ, RETURN = 2.0, 30.0  # seconds for a probe and for a new worker; the machine may do other work


class Soak:
    """The clients of a server, what they were answered, and what is done to the server meanwhile."""

    def __init__(self, options: argparse.Namespace, served: Path) -> None:
        self.options, self.served = options, served
        self.contents = [options.model.read_bytes(), options.other.read_bytes()]
        self.expected = {hashlib.sha256(content).hexdigest()[:12]: answers(content) for content in self.contents}
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        self.samples: list[dict[str, float]] = []
        self.versions: Counter[str] = Counter()
        self.killed_at = -1e9
        self.longest = 0.0
        self.ending = False

    def fault(self, kind: str, detail: object = "") -> None:
        """Note what must not happen."""
        self.counts[kind] += 1
        if len(self.faults) < 20:
            self.faults.append(f"{time.strftime('%H:%M:%S')} {kind} {detail}"[:300])
            print(self.faults[-1], file=sys.stderr, flush=True)

    async def run(self) -> None:
        """Serve and ask for the time of the options."""
        command = ["serve", f"m={self.served}", "--port", "0", "--set", "reload_interval=0.2"]
        command += ["--workers", str(self.options.workers)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mixling", *command], stderr=subprocess.PIPE, text=True, bufsize=1
        )
        assert self.process.stderr is not None
        found = next(filter(None, (re.search(r"http://127.0.0.1:(\d+)", line) for line in self.process.stderr)))
        self.port = int(found[1])
        loop = asyncio.get_running_loop()
        logged = loop.run_in_executor(None, self.process.stderr.read)
        try:
            begin = time.monotonic()
            end = begin + 3600 * self.options.hours
            self.first = self.workers()[0]
            clients = [asyncio.create_task(self.client(number)) for number in range(self.options.connections)]
            helpers = [asyncio.create_task(work()) for work in (self.replace, self.kill, self.probe)]
            while time.monotonic() < end:
                if self.process.poll() is not None or self.first not in self.workers():
                    self.fault("ended", f"exit code {self.process.poll()}")
                    break
                self.samples.append({"minute": round((time.monotonic() - begin) / 60, 2), **self.look()})
                await asyncio.sleep(min(15.0, 360 * self.options.hours))
            for helper in helpers:
                helper.cancel()
                await asyncio.gather(helper, return_exceptions=True)
                if not helper.cancelled() and helper.exception() is not None:
                    self.fault("helper", repr(helper.exception()))
            self.minutes = (time.monotonic() - begin) / 60
            self.ending = True
            self.process.send_signal(signal.SIGTERM)
            await asyncio.gather(*clients)
            if (code := await asyncio.wait_for(loop.run_in_executor(None, self.process.wait), 60)) != 0:
                self.fault("exit code", code)
        finally:
            self.process.kill()
        self.log = await logged
        # A successor ends with 3 where the model's file is damaged just then, and is started again.
        if (ended := len(re.findall("ended with exit code (?!3;)", self.log))) > self.counts["killed"]:
            self.fault("ended", f"{ended} workers")
        if "Traceback" in self.log:
            self.fault("traceback", self.log[self.log.index("Traceback") :])

    async def client(self, number: int) -> None:
        """Ask at the client's share of the rate, on a connection that is sometimes a new one."""
        chance = random.Random(number)
        connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        pause = self.options.connections / self.options.rate
        again: bytes | None = None  # a request that is sent once more
        answered = time.monotonic()
        while True:
            try:
                if connection is None:
                    connection = await asyncio.open_connection("127.0.0.1", self.port)
            except OSError as error:
                if self.ending:
                    return
                self.fault("refused", error)
                await asyncio.sleep(0.2)
                continue
            body = again or self.draw(chance)
            sent, head = time.monotonic(), b""
            try:
                connection[1].write(
                    b"POST /v1/models/m/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
                    + body
                )
                async with asyncio.timeout(30):
                    head = await connection[0].readuntil(b"\r\n\r\n")
                    length = int(re.search(rb"content-length: (\d+)", head)[1])
                    content = await connection[0].readexactly(length)
            except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
                partial = head or getattr(error, "partial", b"")
                connection[1].transport.abort()
                connection = None
                if isinstance(error, TimeoutError):
                    self.fault("no answer", body[:80])
                elif not partial and self.may_close(error, answered):
                    self.counts["closed while idle"] += 1
                    again = body
                elif partial or not sent - 3 < self.killed_at < time.monotonic() or self.ending:
                    self.fault("lost", f"{error!r} after {time.monotonic() - self.killed_at:.2f} s of a kill")
                else:
                    self.counts["reset by a kill"] += 1
                    again = body
                continue
            again = None
            answered = time.monotonic()
            self.check(body, int(head[9:12]), content)
            if b"connection: close" in head.lower() or chance.random() < 0.02:
                connection[1].close()
                connection = None
            await asyncio.sleep(pause * chance.uniform(0.5, 1.5))

    def may_close(self, error: Exception, answered: float) -> bool:
        """Return whether the server has closed an idle connection in order, when it may."""
        idle = time.monotonic() - answered
        return not isinstance(error, ConnectionResetError) and (self.ending or idle > KEEP_ALIVE)

    def draw(self, chance: random.Random) -> bytes:
        """Return the body of a request."""
        if chance.random() < 0.1:
            return chance.choice(list(MISTAKES))
        return json.dumps({"texts": chance.choices(TEXTS, k=chance.choice((1, 1, 1, 3, 100)))}).encode()

    def check(self, body: bytes, status: int, content: bytes) -> None:
        """Compare an answer with the one that is expected."""
        self.counts["requests"] += 1
        if status == 503 and self.options.stops:
            self.counts["busy"] += 1  # it was answered, which is what counts here
        elif status != MISTAKES.get(body, 200):
            self.fault("status", f"{status} for {body[:80]!r}: {content[:80]!r}")
        elif status == 200:
            answer = json.loads(content)
            self.versions[answer["version"]] += 1
            known = self.expected.get(answer["version"], {})
            if answer["predictions"] != [known.get(text) for text in json.loads(body)["texts"]]:
                self.fault("wrong", f"{content[:200]!r} for {body[:80]!r}")

    async def replace(self) -> None:
        """Replace the model's file, again and again."""
        number = 0
        while True:
            await asyncio.sleep(self.options.reload_every)
            number += 1
            content = self.contents[number % 2]
            if number % 3 == 0:
                content = content[: len(content) // 2]
            self.served.with_name("new").write_bytes(content)
            os.replace(self.served.with_name("new"), self.served)
            self.counts["replaced"] += 1

    async def kill(self) -> None:
        """Kill a worker that is not the first, and wait for its successor."""
        while self.options.workers > 1:
            await asyncio.sleep(self.options.kill_every)
            before = self.workers()
            if not (others := [worker for worker in before if worker != self.first]):
                continue  # a successor found a damaged file and is started again later
            self.killed_at = time.monotonic()
            killed = others[0]
            os.kill(killed, signal.SIGKILL)
            self.counts["killed"] += 1
            while killed in self.workers():  # on a busy machine it takes seconds to end, and its connections are open
                self.killed_at = time.monotonic()
                await asyncio.sleep(0.05)
            while not set(self.workers()) - set(before):
                if time.monotonic() - self.killed_at > RETURN:
                    self.fault("not replaced")
                    break
                await asyncio.sleep(0.1)

    async def probe(self) -> None:
        """Ask for the health of the server; a probe that a killed worker had accepted is not one of these."""
        while True:
            begin = time.monotonic()
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                alive = (await reader.read()).startswith(b"HTTP/1.1 200")
                writer.close()
            except OSError:
                alive = False
            seconds = time.monotonic() - begin
            if not alive and not begin - 3 < self.killed_at:
                self.fault("probe")
            self.longest = max(self.longest, seconds)
            if seconds > HEALTHZ:
                self.fault("slow probe", round(seconds, 2))
            await asyncio.sleep(1)

    def workers(self) -> list[int]:
        """Return the processes that answer, in the order of their start; the server itself where it is alone."""
        pid = self.process.pid
        if self.options.workers == 1:
            return [pid]
        found = []
        with contextlib.suppress(OSError):  # a process has gone
            for child in map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
                if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                    found.append(child)
        return found

    def look(self) -> dict[str, float]:
        """Return what the first worker, and the parent, take now."""
        out: dict[str, float] = {}
        for name, pid in {"": self.first, "parent_": self.process.pid}.items():
            status = Path(f"/proc/{pid}/status").read_text()
            out[name + "memory_mb"] = round(int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024, 1)
            out[name + "threads"] = int(re.search(r"Threads:\s+(\d+)", status)[1])
            out[name + "files"] = len(os.listdir(f"/proc/{pid}/fd"))
        return out

    def verdict(self) -> dict[str, Any]:
        """Return what was found; faults make it unsound."""
        settled = self.samples[len(self.samples) // 10 :]
        edge = max(1, len(settled) // 5)
        for key, more in {"memory_mb": GROWTH_MB, "threads": MORE_THREADS, "files": MORE_FILES}.items():
            for name in (key, f"parent_{key}"):
                first, last = (statistics.median(look[name] for look in part) for part in
                               (settled[:edge], settled[-edge:]))  # fmt: skip
                self.counts[f"{name} at first"], self.counts[f"{name} at last"] = first, last
                if last - first > more + (self.options.connections if key == "files" else 0):
                    self.fault("growth", f"{name} {first} -> {last}")
        for needed in ("requests", "replaced", *(["killed"] if self.options.workers > 1 else [])):
            if not self.counts[needed]:
                self.fault("nothing", needed)
        return {
            "minutes": round(self.minutes, 1),
            "counts": dict(self.counts),
            "answers_by_version": dict(self.versions),
            "longest_healthz_s": round(self.longest, 3),
            "faults": self.faults,
            "samples": self.samples[:: max(1, len(self.samples) // 100)],
        }


def answers(content: bytes) -> dict[str, Any]:
    """Return what the library predicts for each text, as JSON has it."""
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        file.write(content)
        file.flush()
        found = Predictor(Path(file.name)).predict(TEXTS)
    return {text: json.loads(json.dumps(one.to_dict())) for text, one in zip(TEXTS, found, strict=True)}


def stops(options: argparse.Namespace, served: Path, out: Path, about: dict[str, Any]) -> int:
    """Load and stop a server, again and again; write what became of the requests after each, and go on from there."""
    options.hours = 1 / 3600
    before = json.loads(out.read_text()) if out.exists() else {}
    if before.get("provenance", {}).get("commit") != about["provenance"]["commit"]:
        before = {}
    counts = Counter(before.get("counts"))
    faults = [*before.get("faults", ())]
    for number in range(before.get("stops", 0) + 1, options.stops + 1):
        soak = Soak(options, served)
        asyncio.run(soak.run())
        counts += soak.counts
        faults += soak.faults
        result = {"stops": number, "workers": options.workers, "connections": options.connections}
        report = {"sound": not faults, **result, "counts": dict(counts), "faults": faults[:20], **about}
        out.write_text(json.dumps(report, indent=1) + "\n")
    print(f"{options.stops} stops: {counts['requests']:,} requests, {counts['lost']} lost, {counts['wrong']} wrong")
    return 1 if faults else 0


def main() -> int:
    """Soak, write, and say the verdict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a model file")
    parser.add_argument("--other", type=Path, default=ROOT / "tests" / "serving" / "models" / "topics.onnx")
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--rate", type=float, default=200.0, help="requests per second of all connections")
    parser.add_argument("--reload-every", type=float, default=7.0, help="seconds")
    parser.add_argument("--kill-every", type=float, default=45.0, help="seconds")
    parser.add_argument("--stops", type=int, help="stop so many servers, each a second after its start")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    out = options.out or ROOT / "benchmarks" / "results" / ("stops.json" if options.stops else "soak.json")
    made = provenance(seed=0, packages=("starlette", "uvicorn", "uvloop", "httptools"))
    load_average = round(os.getloadavg()[0], 1)
    with tempfile.TemporaryDirectory() as name:
        served = Path(name) / "m.onnx"
        served.write_bytes(options.model.read_bytes())
        if options.stops:
            return stops(options, served, out, {"load_average_before": load_average, "provenance": made})
        soak = Soak(options, served)
        asyncio.run(soak.run())
    found = soak.verdict()
    counts = soak.counts
    report = {"sound": not soak.faults, **found, "load_average_before": load_average, "provenance": made}
    out.write_text(json.dumps(report, indent=1) + "\n")
    print(
        f"{'unsound: ' + soak.faults[0] if soak.faults else 'sound'}: {counts['requests']:,} requests in "
        f"{soak.minutes:.1f} minutes, {counts['wrong']} wrong, {counts['lost']} lost, "
        f"{counts['closed while idle']} sent again as the connection had been closed while idle, "
        f"{counts['reset by a kill']} reset by {counts['killed']} kills, {counts['replaced']} files replaced, "
        f"memory {counts['memory_mb at first']} -> {counts['memory_mb at last']} MB, "
        f"longest /healthz {found['longest_healthz_s']} s"
    )
    return 1 if soak.faults else 0


if __name__ == "__main__":
    sys.exit(main())
