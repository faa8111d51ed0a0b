"""What a connection may send, in whatever pieces: the rules of RFC 9112, limits for every byte, one clock a request."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from uvicorn.config import Config
from uvicorn.server import ServerState

from mixling.serving import LimitedProtocol, ServerSettings, Service

from .rules import CHUNKED, CHUNKS, GET, MUSTS, RULES, post

GOLDEN = Path(__file__).parents[1] / "golden" / "model-v1.onnx"
KEY = "a-key-of-more-than-16-characters"


@contextlib.asynccontextmanager
async def serving(*, seconds: float = 10.0, **settings: Any) -> AsyncIterator[tuple[int, list[LimitedProtocol]]]:
    """Serve in this loop; yield the port and the protocols of all connections."""
    settings = {"hosts": ("localhost", "127.0.0.1", "::1"), **settings}
    service = Service(ServerSettings(models=(("m", GOLDEN),), **settings))
    limits = {"seconds": seconds, "line": service.line, "waiting": service.waiting}
    kind = type("_Protocol", (LimitedProtocol,), limits)
    config = Config(service, http=kind, lifespan="off", log_config=None, access_log=False, server_header=False)
    config.load()
    protocols: list[LimitedProtocol] = []
    state = ServerState()

    def make() -> LimitedProtocol:
        protocols.append(kind(config=config, server_state=state, app_state={}))
        return protocols[-1]

    server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], protocols
    finally:
        server.close()
        for protocol in protocols:
            protocol.drop()
        await asyncio.sleep(0)


async def ask(port: int, *pieces: bytes, end: bool = False) -> bytes:
    """Send pieces, each when the one before was sent, and return all that is answered within a moment of the last."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for piece in pieces:
        with contextlib.suppress(ConnectionError):
            writer.write(piece)
            await writer.drain()
        await asyncio.sleep(0)
    answer = b""
    with contextlib.suppress(TimeoutError, ConnectionError):
        while part := await asyncio.wait_for(reader.read(1 << 20), 5 if end else 0.1):
            answer += part
    writer.transport.abort()
    return answer


def statuses(answer: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d\d\d) ", answer)]


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(scenario())  # type: ignore[arg-type]


def test_each_must_has_a_request() -> None:
    requests = {request for request, _ in RULES}
    assert {must for must, request in MUSTS.items() if request not in requests} == set()


@pytest.mark.parametrize("size", [1 << 20, 1000, 7, 1])
def test_each_rule_holds_in_whatever_pieces_a_request_arrives(size: int) -> None:
    async def scenario() -> None:
        async with serving() as (port, _):
            found = await asyncio.gather(*(asked(port, content, expected) for content, expected in RULES))
        assert [pair for pair in zip(RULES, found, strict=True) if pair[1] != pair[0][1]] == []

    async def asked(port: int, content: bytes, expected: list[int]) -> list[int]:
        if size < 1000 < len(content):
            return expected
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        parts: list[bytes] = []
        reading = asyncio.create_task(read(reader, parts))
        for first in range(0, len(content), size):
            with contextlib.suppress(ConnectionError):
                writer.write(content[first : first + size])
                await writer.drain()
            await asyncio.sleep(0)
        with contextlib.suppress(TimeoutError):  # only where there are fewer answers than there must be
            async with asyncio.timeout(10):
                while len(statuses(b"".join(parts))) < len(expected):
                    await asyncio.sleep(0.02)
        await asyncio.wait([reading], timeout=0.05)
        reading.cancel()
        writer.transport.abort()
        return statuses(b"".join(parts))

    async def read(reader: asyncio.StreamReader, parts: list[bytes]) -> None:
        with contextlib.suppress(ConnectionError):
            while part := await reader.read(1 << 20):
                parts.append(part)

    run(scenario)


def test_http_1_0_is_told_that_its_connection_ends() -> None:
    async def scenario() -> None:
        async with serving() as (port, _):
            request = post(b"Connection: keep-alive\r\nContent-Length: 25\r\n", version=b"1.0")
            head = (await ask(port, request, end=True)).partition(b"\r\n\r\n")[0].lower()
        assert b"\r\nconnection: close" in head
        assert b"transfer-encoding" not in head

    run(scenario)


ENDLESS = {
    "a header": (GET + b"a: ", b"b" * 60_000),
    "headers": (GET, b"a: b\r\n" * 10_000),
    "a target": (b"GET /", b"a" * 60_000),
    "empty lines": (b"", b"\r\n" * 30_000),
    "trailers": (post(CHUNKED, CHUNKS + b"0\r\n"), b"a: b\r\n" * 10_000),
    "long trailers": (post(CHUNKED, CHUNKS + b"0\r\n"), b"a: " + b"b" * 60_000 + b"\r\n"),
    "a trailer": (post(CHUNKED, CHUNKS + b"0\r\na: "), b"b" * 60_000),
    "an extension": (post(CHUNKED, b"1;"), b"a" * 60_000),
    "extensions": (post(CHUNKED, b""), b"1;" + b"a" * 3_000 + b"\r\n \r\n"),
}


@pytest.mark.parametrize("name", ENDLESS)
@pytest.mark.parametrize("key", [True, False])
def test_no_part_of_a_request_is_without_an_end(name: str, key: bool, tmp_path: Path) -> None:
    first, rest = ENDLESS[name]
    (tmp_path / "keys").write_text(KEY)
    sent = 0

    async def scenario() -> None:
        nonlocal sent
        async with serving(keys_file=tmp_path / "keys") as (port, protocols):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            authorized = b"Authorization: Bearer %s\r\nHost:" % KEY.encode()
            writer.write(first.replace(b"Host:", authorized) if key else first)
            tracemalloc.start()
            with contextlib.suppress(ConnectionError, TimeoutError):
                async with asyncio.timeout(5):
                    while not reader.at_eof() and not protocols[0].transport.is_closing():
                        writer.write(rest)
                        sent += len(rest)
                        await writer.drain()
                        await asyncio.sleep(0)
            assert tracemalloc.get_traced_memory()[1] < 5_000_000
            tracemalloc.stop()
            answer = b""
            with contextlib.suppress(ConnectionError):
                answer = await reader.read(1000)
            assert statuses(answer) in ([414 if name == "a target" else 431], [401], [401, 431])
            writer.transport.abort()
        assert sent < 4_000_000

    run(scenario)


def test_headers_of_64_kb_are_read_and_more_are_not() -> None:
    async def scenario() -> None:
        async with serving() as (port, _):
            for lines, size, status in (
                (200, 300, 200),
                (240, 300, 431),
                (250, 5, 200),
                (300, 5, 431),
                (1, 60_000, 200),
            ):
                head = GET + b"".join(b"a: " + b"b" * (size - 5) + b"\r\n" for _ in range(lines)) + b"\r\n"
                assert statuses(await ask(port, head)) == [status], (lines, size)

    run(scenario)


def test_few_requests_of_a_connection_are_read_ahead() -> None:
    """3,000 in a segment: each is answered; at most some 20 of them are objects at a time."""

    async def scenario() -> None:
        async with serving() as (port, protocols):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write((GET + b"\r\n") * 3000)
            most = count = 0
            while count < 3000:
                count += len(statuses(await asyncio.wait_for(reader.read(1 << 16), 5)))
                most = max(most, len(protocols[0].pipeline))
            assert count == 3000
            assert most <= 20
            writer.transport.abort()

    run(scenario)


def test_a_client_that_pipelines_halves_is_not_cut_off() -> None:
    request = post()

    async def scenario() -> None:
        async with serving(seconds=1.5) as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request[:40])
            for _ in range(8):  # together more than the time of one
                await asyncio.sleep(0.2)
                writer.write(request[40:] + request[:40])
                answer = await asyncio.wait_for(reader.readuntil(b"}]}"), 5)
                assert statuses(answer) == [200]
            assert statuses(await asyncio.wait_for(reader.read(), 5)) == [408]  # the last half is alone
            writer.close()

    run(scenario)


@pytest.mark.parametrize("parts", [(b"",), (GET,), (b"GET", b" /"), (post(CHUNKED, b"1\r\n"),), (b"\r\n",)])
def test_a_request_that_is_not_complete_in_time_is_408(parts: tuple[bytes, ...]) -> None:
    async def scenario() -> None:
        async with serving(seconds=0.1) as (port, _):
            answer = await ask(port, *parts, end=True)
            assert statuses(answer) == [408]
            assert json.loads(answer.partition(b"\r\n\r\n")[2])["status"] == 408

    run(scenario)


def test_answers_that_are_not_read_do_not_pile_up() -> None:
    """Neither those of a connection, which is closed in time, nor those of all together."""
    request = post(body=json.dumps({"texts": ["a"] * 1024}).encode())

    async def scenario() -> None:
        async with serving(seconds=0.2) as (port, protocols):
            _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(request * 200)
            most = 0
            async with asyncio.timeout(10):
                while not protocols or protocols[0].parser is not None:
                    await asyncio.sleep(0.02)
                    if protocols and protocols[0].parser is not None:
                        most = max(most, protocols[0]._real.get_write_buffer_size())
            assert most < 1_000_000
            assert protocols[0].waiting.total == 0
            writer.transport.abort()

    run(scenario)


def test_together_connections_hold_no_more_than_the_limit() -> None:
    incomplete = post(b"Content-Length: 100000\r\n", b" " * 60_000)

    async def scenario() -> None:
        async with serving(max_buffered=300_000) as (port, protocols):
            writers = [(await asyncio.open_connection("127.0.0.1", port))[1] for _ in range(20)]
            for writer in writers:
                writer.write(incomplete)
                await asyncio.sleep(0.002)
            assert protocols[0].waiting.total <= 300_000
            assert statuses(await ask(port, GET + b"\r\n")) == [200]
            for writer in writers:
                writer.transport.abort()

    run(scenario)


def test_a_refused_client_that_is_still_sending_reads_why() -> None:
    async def scenario() -> None:
        async with serving() as (port, _):
            head = post(b"Content-Length: 3000000\r\n", b"")
            for first in (head, head.replace(b"localhost", b"evil.example"), GET + b"Host: a\r\n\r\n"):
                answer = await ask(port, first, *[b" " * 100_000] * 30, end=True)
                assert statuses(answer)[0] in (413, 421, 400)
                assert b"connection: close" in answer.lower()

    run(scenario)


@pytest.mark.slow
def test_a_connection_without_a_request_is_closed() -> None:
    """Before the first one, after the time of a request; after an answer, after five seconds."""

    async def scenario() -> None:
        async with serving(seconds=2.0) as (port, _):
            first, later = await asyncio.gather(idle(port, b""), idle(port, GET + b"\r\n"))
        assert 1.9 < first < later
        assert later > 4.9

    async def idle(port: int, content: bytes) -> float:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        begin = time.perf_counter()
        writer.write(content)
        async with asyncio.timeout(20):
            await reader.read(-1)  # until it is closed
        writer.close()
        return time.perf_counter() - begin

    run(scenario)


@pytest.mark.parametrize("stopping", [False, True])
def test_a_request_that_has_arrived_is_answered_though_its_connection_was_idle_for_too_long(stopping: bool) -> None:
    """uvloop looks at timers after it has read, so that one may be due behind a stall in which a request arrived."""
    uvloop = pytest.importorskip("uvloop")

    class Stalling(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            client.send(GET + b"\r\n")
            time.sleep(0.3)

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        async with serving() as (port, protocols):
            await loop.sock_connect(client, ("127.0.0.1", port))
            await loop.sock_sendall(client, GET + b"\r\n")
            assert statuses(await loop.sock_recv(client, 1 << 16)) == [200]
            protocols[0].timeout_keep_alive = 0.1
            if stopping:
                protocols[0].shutdown()
            else:
                protocols[0]._unset_keepalive_if_required()
                protocols[0].timeout_keep_alive_handler()
            stalling = await loop.create_server(Stalling, "127.0.0.1", 0)
            _, other = await asyncio.open_connection(*stalling.sockets[0].getsockname())
            try:
                other.write(b" ")
                assert statuses(await asyncio.wait_for(loop.sock_recv(client, 1 << 16), 5)) == [200]
                assert await asyncio.wait_for(loop.sock_recv(client, 1), 5) == b""
            finally:  # or the loop would not end
                other.close()
                stalling.close()
                await stalling.wait_closed()

    with socket.socket() as client:
        client.setblocking(False)
        uvloop.run(scenario())
