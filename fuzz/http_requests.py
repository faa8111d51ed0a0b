#!/usr/bin/env python
"""What a connection sends to `mixling serve`: python fuzz/http_requests.py [CORPUS ...] [-libFuzzer options]

The first byte of an input chooses the application and into which pieces the rest is cut. Nothing may be raised or
logged as an error; the answers are well-formed; they are the same however the bytes are cut; and a request that was
accepted is one that h11 reads as the same one, so that no proxy sees others.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["mixling.serving", "uvicorn", "h11"]):
    import asyncio
    import logging
    import os
    import re
    from pathlib import Path
    from typing import Any

    import h11
    from uvicorn.config import Config
    from uvicorn.server import ServerState

    from mixling.serving import LimitedProtocol, ServerSettings, Service
    from mixling.serving.scheduling import Line
    from mixling.serving.waiting import Waiting

HERE = Path(__file__).parent
MODEL = next(path for path in (HERE / "golden.onnx", HERE.parent / "tests/golden/model-v1.onnx") if path.exists())
MAX_HEADER = 1000  # bytes, so that inputs reach it
CUTS = (1, 2, 3, 7, 64, 509)
Request = tuple[bytes, bytes, bytes]  # method, target, body

faults: list[str] = []
accepted: list[Request] = []


class Handler(logging.Handler):
    """Takes errors that would only be logged for findings."""

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        if "Invalid HTTP request" not in text:
            faults.append(text)


class Pipe(asyncio.Transport):
    """A connection without a socket."""

    def __init__(self) -> None:
        super().__init__()
        self.protocol: LimitedProtocol | None = None
        self.written = bytearray()
        self.reading, self.closing, self.aborted = True, False, False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 8000)}.get(name, default)

    def write(self, data: Any) -> None:
        if not self.closing:
            self.written += data

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        if not self.closing:
            self.closing = True
            assert self.protocol is not None
            self.protocol.loop.call_soon(self.protocol.connection_lost, None)

    def abort(self) -> None:
        self.aborted = True
        self.close()

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def get_write_buffer_size(self) -> int:
        return 0

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        pass


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Note a request when it is complete."""
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body += message["body"]
        if not message["more_body"]:
            break
    target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    accepted.append((scope["method"].encode(), target, body))
    head = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
    await send(head)
    await send({"type": "http.response.body", "body": b"ok"})


loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)
loop.set_exception_handler(lambda _, context: faults.append(repr(context)))
logging.getLogger("uvicorn.error").addHandler(Handler(logging.WARNING))
logging.getLogger("uvicorn.error").propagate = False
hosts = ("localhost", "127.0.0.1", "::1", "a")
service = Service(ServerSettings(models=(("m", MODEL),), hosts=hosts))
configs = []
for application in (echo, service):
    limits = {"max_header": MAX_HEADER, "line": Line(10.0), "waiting": Waiting(1 << 20)}
    kind = type("_Protocol", (LimitedProtocol,), limits)
    config = Config(application, http=kind, lifespan="off", log_config=None, access_log=False, server_header=False)  # type: ignore[arg-type]
    config.load()
    configs.append(config)


def turn() -> None:
    """Let the loop run until nothing is left to do but wait."""
    for _ in range(2000):
        loop.call_soon(loop.stop)
        loop.run_forever()
        if not loop._ready:  # type: ignore[attr-defined]
            return
    faults.append("the loop does not come to rest")


def serve(config: Config, pieces: list[bytes]) -> tuple[bytes, bool]:
    """Return what a connection that sends these pieces is answered, and whether it was cut off."""
    pipe = Pipe()
    protocol = config.http_protocol_class(config=config, server_state=ServerState(), app_state={})  # type: ignore[operator, misc]
    pipe.protocol = protocol
    loop.call_soon(protocol.connection_made, pipe)
    turn()
    waits = 0
    while pieces and not pipe.closing and waits < 50:
        if pipe.reading:
            loop.call_soon(protocol.data_received, pieces.pop(0))
        else:
            waits += 1
        held = protocol.waiting.total
        if held > len(b"".join(pieces)) + (64 << 10):
            faults.append(f"{held} bytes are held")
        turn()
    turn()
    cut = pipe.aborted
    answer = bytes(pipe.written)
    pipe.abort()
    turn()
    if protocol.waiting.total:
        faults.append(f"{protocol.waiting.total} bytes are counted after the end")
    return answer, cut


def statuses(answer: bytes, methods: list[bytes]) -> list[int]:
    """Return the statuses of answers, and note what is malformed."""
    found, left = [], methods[:]
    while answer:
        head, end, answer = answer.partition(b"\r\n\r\n")
        status = re.match(rb"HTTP/1\.1 (\d\d\d) [^\r\n]*(\r\n|$)", head)
        if not end or not status:
            faults.append(f"no head of an answer: {head[:200]!r}")
            break
        found.append(int(status[1]))
        if found[-1] == 100:
            continue
        length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
        method = left.pop(0) if left else b"GET"
        if method != b"HEAD" and length:
            if len(answer) < int(length[1]):
                faults.append(f"an answer is short: {head[:200]!r}")
            answer = answer[int(length[1]) :]
        elif method != b"HEAD" and found[-1] not in (204, 304):
            answer = b""  # up to the end of the connection
    return found


def by_h11(data: bytes) -> list[Request]:
    """Return the requests that h11 reads in the same bytes, up to the first fault.

    It refuses empty lines before a request, which servers should ignore (RFC 9112, 2.2), and several spaces in its
    first line, which they may take for one (section 3), so it does not see them.
    """
    out: list[Request] = []
    while data := data.lstrip(b"\r\n"):
        line, end, rest = data.partition(b"\r\n")
        data = re.sub(rb" +", b" ", line) + end + rest
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
        connection.receive_data(data)
        method = target = body = b""
        try:
            while (event := connection.next_event()) is not h11.PAUSED:
                match event:
                    case h11.Request() as request:
                        method, target = request.method, request.target
                    case h11.Data() as part:
                        body += bytes(part.data)
                    case h11.EndOfMessage():
                        out.append((method, target, body))
                    case _:
                        return out
        except h11.RemoteProtocolError:
            return out
        data = connection.trailing_data[0]
    return out


def try_bytes(data: bytes) -> None:
    """Check what becomes of an input."""
    if len(data) < 2:
        return
    choice, data = data[0], data[1:]
    config = configs[choice & 1]
    size = CUTS[(choice >> 1) % len(CUTS)]
    faults.clear()
    accepted.clear()
    whole, cut = serve(config, [data])
    ours = accepted[:]
    accepted.clear()
    again, cut_again = serve(config, [data[at : at + size] for at in range(0, len(data), size)])
    if not (cut or cut_again):
        methods = [method for method, _, _ in ours]
        if choice & 1 == 0:
            first, second = statuses(whole, methods), statuses(again, [method for method, _, _ in accepted])
            if 431 in (*first[-1:], *second[-1:]):  # of a piece that ends a head, no byte behind it is counted
                same = min(len(ours), len(accepted))
                first, second = first[:same], second[:same]
            else:
                same = len(ours) + len(accepted)
            if (ours[:same], first) != (accepted[:same], second):
                faults.append(f"in pieces of {size}: {ours} {first}, {accepted} {second}")
        theirs = by_h11(data)
        for place, request in enumerate(ours):
            if place >= len(theirs):
                faults.append(f"h11 refuses what is accepted: {request}")
            elif request != theirs[place] and theirs[place][1].startswith(b"/"):
                faults.append(f"h11 reads {theirs[place]}, not {request}")
    if faults:
        raise AssertionError(faults[0])


if __name__ == "__main__":
    atheris.Setup(sys.argv, try_bytes)
    atheris.Fuzz()
    os._exit(0)
