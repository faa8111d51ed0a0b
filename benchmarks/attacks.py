"""What a server answers to clients that mean harm: slow ones, huge and compressed bodies, hostile strings.

    python benchmarks/attacks.py runs/snips

The server is a process of its own with its default limits, asked over TCP. 400 connections send a byte of their head
or of their body every quarter of a second, while another client goes on asking; a body of a billion bytes is
announced, or sent without its length; a body is a billion spaces, compressed; and each of the strings of
`tests/serving/hostile.py` is a text, the name of a model and a whole body. Then 20 connections at a time send, for some
seconds each and again when they are closed, what has no end (`kinds`), with and without a key; they read all answers,
none, or some bytes at a time, or reset the connection as soon as they have sent something. Written to
benchmarks/results/attacks.json, after each kind; what was interrupted goes on at the same commit. Exit code 1 where an
answer is none of the allowed statuses, is not finite or takes a second, or where 20 such connections take 150 MB or
`/healthz` takes 0.3 s beside them. ("reset": a slow client was still sending when it was cut off, so that its system
dropped the answer.)
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import runpy
import socket
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from mixling.provenance import provenance

ROOT = Path(__file__).resolve().parents[1]
SLOW, BILLION = 400, 10**9
HOSTILE, SECONDS = 20, 4.0
VARIANTS = ("", ", unread", ", no key", ", sipped", ", reset")
OFTEN_READ = ("pipelined", "large answers", "HTTP/1.0", "continue")  # kinds that are answered: also sipped and reset
KEY = "a-key-of-more-than-16-characters"
BODY = b'{"texts": ["play some jazz"]}'


def main() -> int:
    """Attack, count and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "attacks.json")
    parser.add_argument("--only", help="hostile connections of this kind only; nothing is written")
    options = parser.parse_args()
    if options.only is not None:
        print(json.dumps(hostile_connections(options.model, options.only), indent=1))
        return 0
    result: dict[str, Any] = {"provenance": provenance(seed=0, packages=("starlette", "uvicorn", "uvloop"))}
    before = json.loads(options.out.read_text()) if options.out.exists() else {}
    if before.get("provenance", {}).get("commit") == result["provenance"]["commit"]:
        result = before
    else:
        result |= ordinary_attacks(options.model)

    def keep(found: dict[str, Any]) -> None:
        result["hostile_connections"] = found
        options.out.write_text(json.dumps(result, indent=1) + "\n", "utf-8")

    hostile_connections(options.model, known=result.get("hostile_connections", {}), keep=keep)
    print(table(result["hostile_connections"]))
    print(
        json.dumps({key: result[key] for key in result if key not in ("provenance", "hostile_connections")}, indent=1)
    )
    return 0 if allowed(result) else 1


def table(found: dict[str, Any]) -> str:
    """Return the kinds, the memory they take and the longest probe, the worst first."""
    rows = sorted(found.items(), key=lambda item: -item[1]["memory_mb"])
    lines = [f"{'MB':>6} {'/healthz s':>10} {'sent MB':>8}  {HOSTILE} connections"]
    for name, row in rows:
        lines.append(f"{row['memory_mb']:6.1f} {row['healthz_s']:10.3f} {row['sent_mb']:8.1f}  {name}")
    return "\n".join(lines)


def ordinary_attacks(model: Path) -> dict[str, Any]:
    """Return what a server with its default limits answers to strings, huge bodies and slow clients."""
    command = [sys.executable, "-m", "mixling", "serve", f"m={model}", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            found = next(filter(None, (re.search(r"http://127.0.0.1:(\d+)", line) for line in process.stderr)))
            server = Server(process.pid, int(found[1]))
            before = server.memory()
            return {
                "load_average_before": round(os.getloadavg()[0], 1),
                "strings": asyncio.run(strings(server)),
                "huge_bodies": asyncio.run(huge_bodies(server)),
                "slow_clients": asyncio.run(slow_clients(server)),
                "memory_growth_mb": round(server.memory() - before, 1),
            }
        finally:
            process.terminate()


def allowed(result: dict[str, Any]) -> bool:
    """Return whether all answers are as they must be."""
    answers = [*result["strings"].values(), *result["huge_bodies"].values()]
    others = result["slow_clients"]["others"]
    return (
        all(re.fullmatch("200|4..", status) for item in (*answers, others) for status in item["statuses"])
        and all(item["longest_s"] < 1 for item in (*answers, others))
        and set(result["slow_clients"]["statuses"]) <= {"408", "reset"}
        and all(
            item["memory_mb"] <= 150 and item["healthz_s"] <= 0.3 for item in result["hostile_connections"].values()
        )
    )


class Server:
    """A running server, and requests to it on connections of their own."""

    def __init__(self, pid: int, port: int) -> None:
        self.pid, self.port = pid, port

    def memory(self) -> float:
        """Return the resident memory in MB."""
        status = Path(f"/proc/{self.pid}/status").read_text("utf-8")
        return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024

    async def probe(self) -> float:
        """Return the seconds that `/healthz` takes, on a connection of its own, in a process of its own."""
        code = (
            "import http.client, time; begin = time.perf_counter(); "
            f"c = http.client.HTTPConnection('127.0.0.1', {self.port}, timeout=30); c.request('GET', '/healthz'); "
            "assert c.getresponse().status == 200; print(time.perf_counter() - begin)"
        )
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=subprocess.PIPE)
        answer, _ = await process.communicate()
        return float(answer)

    async def ask(self, body: bytes, path: str = "m", header: str = "", *, parts: int = 1) -> tuple[str, float, bytes]:
        """Send a body, so many times if it has no length; return status, seconds and body of the answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        header = header or f"Content-Length: {len(body)}"
        head = f"POST /v1/models/{path}/predict HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{header}\r\n\r\n"
        begin = time.perf_counter()
        writer.write(head.encode() + (body if parts == 1 else b""))

        async def rest() -> None:
            with contextlib.suppress(ConnectionError):
                for _ in range(parts if parts > 1 else 0):
                    writer.write(body)
                    await writer.drain()

        sending = asyncio.create_task(rest())
        answer = await reader.readuntil(b"\r\n\r\n")
        seconds = time.perf_counter() - begin
        with contextlib.suppress(ConnectionError):
            answer += await reader.read()
        await sending
        writer.close()
        return answer[9:12].decode(), seconds, answer.partition(b"\r\n\r\n")[2]


async def strings(server: Server) -> dict[str, Any]:
    """Return the statuses, and the longest times, of hostile strings in each part of a request."""
    texts = runpy.run_path(str(ROOT / "tests" / "serving" / "hostile.py"))["strings"]()
    out: dict[str, Any] = {}
    for part in ("text", "name", "body"):
        answers = []
        for text in texts:
            sent = text.encode("utf-8", "surrogatepass")
            if part == "name" and not 0 < len(quote(sent, safe="")) < 50_000:  # longer ones are no longer a head
                continue
            if part == "text":
                answers.append(await server.ask(json.dumps({"texts": [text]}).encode()))
            elif part == "name":
                answers.append(await server.ask(BODY, quote(sent, safe="")))
            else:
                answers.append(await server.ask(sent))
        for _, _, body in answers:
            json.loads(body, parse_constant=refused)
        out[part] = {"strings": len(answers), **summary(answers)}
    return out


def refused(name: str) -> None:
    """Refuse a number that is not finite."""
    raise ValueError(f"{name} is not finite")


def summary(answers: list[tuple[str, float, bytes]]) -> dict[str, Any]:
    """Return statuses and the longest time."""
    statuses = Counter(status for status, _, _ in answers)
    return {"statuses": dict(statuses), "longest_s": round(max(seconds for _, seconds, _ in answers), 3)}


async def huge_bodies(server: Server) -> dict[str, Any]:
    """Return the answers to a billion bytes."""
    million, chunked = b" " * 10**6, "Transfer-Encoding: chunked"
    packer = zlib.compressobj(9, wbits=31)
    bomb = b"".join([*(packer.compress(million) for _ in range(BILLION // len(million))), packer.flush()])
    cases = {
        "announced": await server.ask(million, header=f"Content-Length: {BILLION}", parts=1000),
        "without its length": await server.ask(b"f4240\r\n" + million + b"\r\n", header=chunked, parts=1000),
        "compressed": await server.ask(bomb, header=f"Content-Encoding: gzip\r\nContent-Length: {len(bomb)}"),
    }
    return {name: summary([answer]) for name, answer in cases.items()}


async def slow_clients(server: Server) -> dict[str, Any]:
    """Return how slow clients are cut off, and how others are answered meanwhile."""
    head = b"POST /v1/models/m/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n"
    begin = time.perf_counter()
    done = asyncio.Event()

    async def slow(number: int) -> tuple[str, float]:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(head if number % 2 else head + b"\r\n{")
        answer = asyncio.create_task(reader.read())
        while not answer.done():
            with contextlib.suppress(ConnectionError):
                writer.write(b"x" if number % 2 else b" ")
                await writer.drain()
            await asyncio.wait([answer], timeout=0.25)
        writer.close()
        lost = answer.exception() is not None
        return "reset" if lost else answer.result()[9:12].decode(), time.perf_counter() - begin

    async def others() -> list[tuple[str, float, bytes]]:
        answers = []
        while not done.is_set():
            answers.append(await server.ask(BODY))
            await asyncio.sleep(0.02)
        return answers

    asked = asyncio.create_task(others())
    found = await asyncio.gather(*map(slow, range(SLOW)))
    done.set()
    seconds = [value for _, value in found]
    return {
        "connections": SLOW,
        "statuses": dict(Counter(status for status, _ in found)),
        "cut_off_after_s": [round(min(seconds), 1), round(max(seconds), 1)],
        "others": summary(await asked),
    }


def kinds(body: bytes = BODY) -> dict[str, tuple[bytes, bytes]]:
    """Return what hostile connections send: a beginning, and what they repeat after it without an end."""
    post = b"POST /v1/models/m/predict HTTP/1.1\r\nHost: localhost\r\n%s"
    chunked = post % b"Transfer-Encoding: chunked\r\n\r\n"
    get = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
    small = post % b"Content-Length: %d\r\n\r\n" % len(body) + body
    ended = chunked + b"%x\r\n%s\r\n0\r\n" % (len(body), body)

    def whole(content: bytes) -> bytes:
        return post % b"Content-Length: %d\r\n\r\n" % len(content) + content

    texts = b'{"texts":[' + b",".join([b'"a"'] * 1024) + b"]}"
    million = 1_000_000
    return {
        "idle": (b"", b""),
        "lines that do not end": (get + b"a: ", b"b" * 60_000),
        "many headers": (get, b"a: b\r\n" * 10_000),
        "a target that does not end": (b"GET /", b"a" * 60_000),
        "empty lines": (b"", b"\r\n" * 30_000),
        "long trailers": (ended, b"a: " + b"b" * 60_000 + b"\r\n"),
        "many trailers": (ended, b"a: b\r\n" * 10_000),
        "a trailer that does not end": (ended + b"a: ", b"b" * 60_000),
        "chunk extensions": (chunked, b"1;" + b"a" * 60_000 + b"\r\n \r\n"),
        "an extension that does not end": (chunked + b"1;", b"a" * 60_000),
        "chunks of one byte": (chunked, b"1\r\n \r\n" * 10_000),
        "a body that does not end": (post % b"Content-Length: 9000000000\r\n\r\n", b" " * 60_000),
        "a body that stops before its end": (post % b"Content-Length: 1000000\r\n\r\n" + b" " * 999_000, b""),
        "pipelined requests": (b"", small * 500),
        "pipelined probes": (b"", (get + b"\r\n") * 1000),
        "pipelined metrics": (b"", (get.replace(b"healthz", b"metrics") + b"\r\n") * 1000),
        "pipelined large requests": (b"", whole(texts) * 20),
        "large answers": (b"", whole(b'{"texts":[' + b",".join([b'"play some jazz"'] * 1000) + b'],"explain":true}')),
        "pipelined descriptions": (b"", (get.replace(b"healthz", b"openapi.json") + b"\r\n") * 100),
        "pipelined bodies of a megabyte": (b"", whole(b" " * million)),
        "continue": (b"", post % b"Expect: 100-continue\r\nContent-Length: 5000\r\n\r\n" + b" " * 5000),
        "HTTP/1.0": (b"", small.replace(b"HTTP/1.1", b"HTTP/1.0")),
        "another host": (b"", small.replace(b"localhost", b"evil.example")),
        "another origin": (b"", small.replace(b"Host:", b"Origin: null\r\nHost:")),
        "upgrades": (b"", get + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"),
        "noise": (b"", bytes(range(256)) * 200),
        "many keys": (b"", whole(b"{" + b",".join(b'"%d":1' % number for number in range(100_000)) + b"}")),
        "many numbers": (b"", whole(b'{"texts":[' + b"1," * 450_000 + b"1]}")),
        "many lists": (b"", whole(b'{"tokens":[' + b"[1]," * 230_000 + b"[]]}")),
        "deep lists": (b"", whole(b"[" * 190 + b"[[[]]]," * 140_000 + b"[]" + b"]" * 190)),
    }


def hostile_connections(
    model: Path,
    only: str | None = None,
    *,
    known: dict[str, Any] | None = None,
    keep: Callable[[dict[str, Any]], None] = lambda found: None,
) -> dict[str, Any]:
    """Return the memory of a server that such connections take, and the longest time of an answer to a probe.

    Connections of a kind whose name ends in "unread" never read an answer. Each kind has a server of its own.

    Args:
        only: the kind to be tried.
        known: results that are there.
        keep: called with all results after each.
    """
    out = dict(known or {})
    for name, (first, rest) in kinds().items():
        for variant in VARIANTS if name.startswith(OFTEN_READ) else VARIANTS[:3]:
            if name + variant in out or (only is not None and only != name + variant):
                continue
            with tempfile.NamedTemporaryFile("w") as keys:
                keys.write(KEY)
                keys.flush()
                begin, again = (
                    part
                    if variant == ", no key"
                    else part.replace(b"\r\nHost", f"\r\nAuthorization: Bearer {KEY}\r\nHost".encode())
                    for part in (first, rest)
                )
                command = [sys.executable, "-m", "mixling", "serve", f"m={model}", "--port", "0", "--keys", keys.name]
                with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
                    assert process.stderr is not None
                    try:
                        found = next(filter(None, (re.search(r"127.0.0.1:(\d+)", line) for line in process.stderr)))
                        server = Server(process.pid, int(found[1]))
                        out[name + variant] = asyncio.run(press(server, begin, again, variant))
                        print(name + variant, out[name + variant], file=sys.stderr, flush=True)
                        keep(out)
                    finally:
                        process.kill()
    return out


async def press(server: Server, first: bytes, rest: bytes, variant: str) -> dict[str, float]:
    """Send from hostile connections for a while, and probe meanwhile."""
    await server.probe()
    before, end = server.memory(), time.monotonic() + SECONDS
    sent = 0

    async def hostile() -> None:
        nonlocal sent
        while time.monotonic() < end:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout_at(asyncio.get_running_loop().time() + end - time.monotonic()):
                    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1 << 16)
                    reading = asyncio.create_task(drop(reader)) if variant != ", unread" else None
                    if variant == ", reset":
                        linger = bytes([1] + 7 * [0])
                        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    try:
                        writer.write(first)
                        while not (reader.at_eof() or writer.is_closing()):
                            writer.write(rest)
                            await writer.drain()
                            sent += len(rest)
                            if variant == ", reset":
                                break
                            if not rest or (reading is not None and reading.done()):
                                await asyncio.sleep(0.05)
                                if reading is not None and reading.done():
                                    break
                    finally:
                        if reading is not None:
                            reading.cancel()
                        writer.transport.abort()

    async def drop(reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError):
            while await reader.read(1 << (10 if variant == ", sipped" else 16)):
                if variant == ", sipped":
                    await asyncio.sleep(0.1)

    tasks = [asyncio.create_task(hostile()) for _ in range(HOSTILE)]
    longest = most = 0.0
    while time.monotonic() < end:
        longest = max(longest, await server.probe())
        most = max(most, server.memory() - before)
        await asyncio.sleep(0.05)
    await asyncio.gather(*tasks)
    return {"memory_mb": round(most, 1), "healthz_s": round(longest, 3), "sent_mb": round(sent / 1e6, 1)}


if __name__ == "__main__":
    sys.exit(main())
