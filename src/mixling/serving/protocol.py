"""uvicorn's HTTP protocol with limits for slow clients and large heads, which uvicorn has not."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mixling.serving.scheduling import Line

TICKET = "mixling.ticket"  # key of a scope

_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\n"
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
_CLOSE = b"connection: close\r\ncontent-length: 0\r\n\r\n"
_CONTINUE = b"HTTP/1.1 100"


class WholeAnswers:
    """A transport that sends the head of an answer together with what follows it.

    uvicorn writes them one after the other, and uvloop makes a system call of each, which together take a fifth of the
    time of an answer.
    """

    __slots__ = ("_head", "_transport", "get_extra_info", "is_closing", "pause_reading", "resume_reading")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport, self._head = transport, b""
        self.get_extra_info, self.is_closing = transport.get_extra_info, transport.is_closing
        self.pause_reading, self.resume_reading = transport.pause_reading, transport.resume_reading

    def write(self, data: bytes) -> None:
        """Send data; a head is held until the next call of any method that sends."""
        if self._head:
            self._transport.write(self._head + data)
            self._head = b""
        elif data.endswith(b"\r\n\r\n") and data.startswith(b"HTTP/1.1 ") and not data.startswith(_CONTINUE):
            self._head = data
        else:
            self._transport.write(data)

    def flush(self) -> None:
        """Send a head that nothing follows."""
        if self._head:
            self._transport.write(self._head)
            self._head = b""

    def close(self) -> None:
        """Send what is held, and close the connection."""
        self.flush()
        self._transport.close()


class LimitedProtocol(HttpToolsProtocol):
    """Closes a connection whose request is not complete in time, or whose head is too large.

    A timer runs only while a request is incomplete: one that arrives in one piece, as almost all do, costs none. Each
    complete request gets a ticket for the line of those that wait.
    """

    seconds = 10.0  # for a request to arrive
    max_header = 64 << 10
    line: Line

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._in_head = True
        self._incomplete = True
        self._head_bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(WholeAnswers(transport))  # type: ignore[arg-type]
        self._timer = self.loop.call_later(self.seconds, self._close, _TOO_SLOW)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._incomplete:
            if self._in_head and self._head_bytes > self.max_header:
                self._close(_TOO_LARGE)
            elif self._timer is None:
                self._timer = self.loop.call_later(self.seconds, self._close, _TOO_SLOW)
        elif self._timer is not None:
            self._stop_timer()

    def on_message_begin(self) -> None:
        self._in_head = self._incomplete = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_bytes = 0
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self.scope[TICKET] = self.line.enter()  # type: ignore[literal-required]
        self._incomplete = False
        self._in_head = True  # what comes next
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self.transport.flush()  # type: ignore[attr-defined]  # the answer to HEAD has no body
        super().on_response_complete()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close(self, status: bytes) -> None:
        self._timer = None
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:  # otherwise an answer has begun, or will
            self.transport.write(status + _CLOSE)
        elif not self.cycle.response_started:
            self.transport.write(status + _CLOSE)
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()
