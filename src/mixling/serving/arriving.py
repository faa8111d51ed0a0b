"""uvicorn's HTTP protocol, in steps and with limits for requests, and the rules of RFC 9112.

httptools parses what it is given to the end, keeps lines of any length and reports trailers like headers; uvicorn
parses whatever arrives and queues all requests. So bytes are parsed in small steps, and none while a request waits for
its turn.
"""

from __future__ import annotations

from typing import Any

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mixling.serving.closing import Lingering
from mixling.serving.heads import check_encodings, check_hosts, split_target
from mixling.serving.problems import Problem
from mixling.serving.scheduling import Line

TICKET = "mixling.ticket"  # keys of a scope: the place in the line, and the authority of an absolute target
TARGET = "mixling.target"

_STEP = 512  # bytes that are parsed at a time: at most 19 requests
_TURN = 2 << 10  # bytes that are parsed before other connections have their turn; a body of known length counts once
_LINES = 256  # headers and trailers of a request
_HEADERS = frozenset((b"host", b"content-length", b"transfer-encoding", b"expect"))  # that are looked at
_OF_VERSION = "Invalid HTTP version"  # as httptools says of HTTP/1.2
_CHUNK = 8  # bytes of a chunk's own lines that are no part of its head


class Flow(FlowControl):
    """Goes on with what was received and waits before anything more is read."""

    def __init__(self, transport: Any, protocol: SteppedProtocol) -> None:
        super().__init__(transport)
        self._protocol = protocol

    def resume_reading(self) -> None:
        if self.read_paused and not (self._protocol.ended or self._protocol.pauses or self._protocol.pipeline):
            self.read_paused = False
            self._protocol.parse()
            if not self.read_paused:
                self._transport.resume_reading()


class _Content:
    """What a parser calls that reads the content of a request whose head was read by another one."""

    def __init__(self, protocol: SteppedProtocol) -> None:
        self.on_header = protocol.on_header
        self.on_chunk_header = protocol.on_chunk_header
        self.on_body = protocol.on_body
        self.on_message_complete = protocol.on_message_complete


class SteppedProtocol(HttpToolsProtocol):
    """Parses requests one after the other, each within limits; each gets a ticket for the line of those that wait.

    Attributes:
        max_header: bytes of a request's head, and of what its body has beside its content.
        line: of the requests that wait.
        ended: nothing more is parsed.
        pauses: other connections have their turn.
    """

    max_header = 64 << 10
    line: Line
    lingering: Lingering

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.url = b""
        self._rest = memoryview(b"")  # received and not parsed
        self.ended = self.pauses = False
        self._late = False  # there is more, though it has ended
        self._begun = self._stopping = False  # a request has; the server is
        self._in_head = True
        self._lines = self._head_bytes = self._announced = self._body_left = 0
        self._hosts: list[bytes] = []
        self._sound_hosts: list[bytes] = [b""]  # as they were checked in the last request
        self._encodings: list[bytes] = []
        self._since = self.loop.time()  # when the request began

    def note(self) -> None:
        """Note that something was parsed."""
        raise NotImplementedError

    def refuse(self, problem: Problem) -> None:
        """Answer with an error when the requests before are answered, and close the connection."""
        raise NotImplementedError

    def end(self) -> None:
        """Parse no more."""
        raise NotImplementedError

    def data_received(self, data: bytes) -> None:
        if self.ended:
            self._late = True
            self.lingering.drop(len(data))
            return
        if self._rest or self.flow.read_paused or len(data) > _STEP:
            self._rest = memoryview(bytes(self._rest) + data if self._rest else data)
            if not self.flow.read_paused:
                self.parse()
        else:
            self._feed(data)
        self.note()

    def parse(self) -> None:
        """Parse what was received, in steps, until a request must wait for its turn or other connections have one."""
        turn = _TURN
        while self._rest and not self.flow.read_paused and not self.ended:
            if turn <= 0:
                self.flow.pause_reading()
                self.pauses = True
                self.loop.call_soon(self._take_turn)
                break
            size = self._body_left or _STEP
            piece = self._rest[:size]
            self._rest = self._rest[size:]
            turn -= _STEP
            self._feed(piece)

    def _take_turn(self) -> None:
        self.pauses = False
        self.flow.resume_reading()

    def _feed(self, piece: bytes | memoryview) -> None:
        self._head_bytes += len(piece)  # minus bytes that turn out to be content
        try:
            self.parser.feed_data(piece)
            if self._head_bytes > self.max_header:
                if 2 * len(self.url) > self.max_header:
                    raise Problem(414, f"a target of more than {self.max_header // 2:,} bytes")
                raise Problem(431, f"headers, or trailers, of more than {self.max_header:,} bytes")
        except httptools.HttpParserUpgrade as error:  # no other protocol is spoken here
            if self._ignores_upgrade:
                self._read_content(piece[error.args[0] :])
            else:
                self.end()
        except Problem as problem:
            self.refuse(problem)
        except httptools.HttpParserError as error:
            cause = error.__context__
            status = 505 if str(error) == _OF_VERSION else 400
            self.refuse(cause if isinstance(cause, Problem) else Problem(status, f"this is not HTTP/1.1: {error}"))

    @property
    def _ignores_upgrade(self) -> bool:
        """Whether httptools would not read the content of a request, since it asks for another protocol."""
        has_content = bool(self._announced or self._encodings)
        return has_content and self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT"

    def _read_content(self, piece: bytes | memoryview) -> None:
        """Let another parser, which is told how the content ends, read it from here on."""
        framing = b"Transfer-Encoding: chunked" if self._encodings else b"Content-Length: %d" % self._announced
        self.parser = httptools.HttpRequestParser(_Content(self))
        self.parser.feed_data(b"POST / HTTP/1.1\r\n%s\r\n\r\n" % framing)
        self._lines -= 1
        self._head_bytes = 0
        if piece:
            self._feed(piece)

    def on_message_begin(self) -> None:
        if self.ended:  # by the request before
            self._late = True
            raise Problem(400, "nothing more is answered")
        self._begun = self._in_head = True
        self._since = self.loop.time()
        self._lines = self._head_bytes = self._announced = 0
        self._hosts = []
        self._encodings = []
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._lines += 1
        if self._lines > _LINES:
            raise Problem(431, f"more than {_LINES} lines of headers or trailers")
        if not self._in_head:  # a trailer
            return
        # spaces before it are no part of it either
        name = name.lower()
        value = value.rstrip(b" \t")
        self.headers.append((name, value))
        if name not in _HEADERS:
            return
        if name == b"host":
            self._hosts.append(value)
        elif name == b"content-length":
            if value.isdigit() and len(value) < 19:
                self._announced = int(value)
        elif name == b"transfer-encoding":
            self._encodings.append(value.lower())
        else:
            self.expect_100_continue = value.lower() == b"100-continue"

    def on_headers_complete(self) -> None:
        self._head_bytes = 0
        self._body_left = self._announced
        version = self.parser.get_http_version()
        if version not in ("1.1", "1.0"):
            raise Problem(505, f"HTTP/{version} is not spoken here; HTTP/1.1 is")
        if self._hosts != self._sound_hosts:
            check_hosts(self._hosts, needed=version == "1.1")
            self._sound_hosts = self._hosts
        if self._encodings:
            check_encodings(self._encodings, version)
        if version == "1.0":
            self.expect_100_continue = False
        if b"#" in self.url:  # uvicorn drops what a proxy may have read as a part of the path
            raise Problem(400, "a target has no fragment")
        if not self.url.startswith(b"/"):
            self.url, self.scope[TARGET] = split_target(self.url)  # type: ignore[literal-required]
            check_hosts([self.scope[TARGET]], needed=True)  # type: ignore[literal-required]
        super().on_headers_complete()
        self._in_head = False
        if self.parser.should_upgrade() or self._stopping:
            self.cycle.keep_alive = False

    def on_chunk_header(self) -> None:
        """Take the size of a chunk; what follows it up to a limit is not the request's head."""
        self._head_bytes = max(0, self._head_bytes - _CHUNK)

    def on_body(self, body: bytes) -> None:
        size = len(body)
        self._head_bytes -= size
        if self._body_left:
            self._body_left -= size
        if (cycle := self.cycle).response_complete:
            return
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        if self._ignores_upgrade:
            return
        self.scope[TICKET] = self.line.enter()  # type: ignore[literal-required]
        self._begun = False
        self._in_head = True  # what comes next
        self._head_bytes = self._body_left = 0
        if not (cycle := self.cycle).response_complete:
            cycle.more_body = False
            cycle.message_event.set()
        if not cycle.keep_alive:  # what follows is not answered
            self.end()
