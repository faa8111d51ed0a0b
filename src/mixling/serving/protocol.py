"""uvicorn's HTTP protocol with limits for whatever a connection sends or does not read; see also `arriving`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from mixling.serving.arriving import Flow, SteppedProtocol
from mixling.serving.closing import Lingering, Unread
from mixling.serving.problems import Problem
from mixling.serving.waiting import Waiting
from mixling.serving.whole_answers import WholeAnswers

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application

_AGAIN = 0.005  # seconds between two looks at a connection that seems to be idle
_GRACE = 0.1  # seconds for a request that is under way when the server stops


class LimitedProtocol(SteppedProtocol):
    """Answers one request after the other, each within limits, and closes connections that exceed them.

    The clock is one request's: it runs while a request arrives and is read. One that arrives in one piece, as almost
    all do, costs no timer. Each complete request gets a ticket for the line of those that wait.

    Attributes:
        seconds: for a request to arrive, and for a client to take 64 kB of an answer.
        waiting: bytes of all connections that wait.
    """

    seconds = 10.0
    waiting: Waiting

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._running: RequestResponseCycle | None = None
        self._refusal: Problem | None = None
        self._since = self.loop.time()
        self._idle_since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._counted = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._real = transport
        self._unread = Unread(transport, self.seconds, self._count)
        self.lingering = Lingering(transport)
        super().connection_made(WholeAnswers(transport, self._linger))  # type: ignore[arg-type]
        self.flow = Flow(transport, self)
        self._timer = self.loop.call_later(self.seconds, self._look_at_clock)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        self._unset_keepalive_if_required()
        self._unread.stop()
        self.lingering.stop()
        self.waiting.set(self, 0)
        self.ended = True
        self._rest = memoryview(b"")
        self.pipeline.clear()
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
        super().connection_lost(exc)

    def note(self) -> None:
        """Start or stop the clock, and count what waits."""
        if self._begun:
            if self._timer is None and not self.ended:
                self._timer = self.loop.call_later(self.seconds, self._look_at_clock)
        elif self._timer is not None and self.cycle is not None:  # empty lines are no request
            self._stop_clock()
        if self._begun or self._rest or self._counted:
            self._count()

    def _count(self) -> None:
        held = len(self._rest) + self._unread.size
        if self._begun:
            held += max(0, self._head_bytes) + (0 if self._in_head else len(self.cycle.body))
        self._counted = held > 0
        self.waiting.set(self, held)

    def _stop_clock(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        """Go on with the request that waits, or with what was received."""
        self.transport.flush()  # type: ignore[attr-defined]  # the answer to HEAD has no body
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            return
        if self.flow.read_paused:
            self.flow.resume_reading()
            self.note()
        if self._refusal is not None and not self._is_answering():
            self._send_refusal()
        self._idle_since = self.loop.time()
        if self.timeout_keep_alive_task is None:  # one that runs looks by itself
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection if it has been idle for long enough; a request that arrives has a clock of its own."""
        self.timeout_keep_alive_task = None
        if self._begun or self._is_answering():
            return
        left = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if left > 0.001:
            self.timeout_keep_alive_task = self.loop.call_later(left, self.timeout_keep_alive_handler)
        else:
            self._close_if_idle()

    def _is_answering(self) -> bool:
        return self._running is not None and not self._running.response_complete

    def _look_at_clock(self) -> None:
        now = self.loop.time()
        if self.flow.read_paused:  # the time is the server's
            self._since = now
        left = self._since + self.seconds - now
        self._timer = None
        if left > 0.001:
            self._timer = self.loop.call_later(left, self._look_at_clock)
        else:
            self.refuse(Problem(408, f"the request was not complete after {self.seconds:g} s"))

    def refuse(self, problem: Problem) -> None:
        """Answer with an error when the requests before are answered, and close the connection."""
        if self.ended or self.transport.is_closing():
            return
        self._refusal = problem
        self.end()
        if self._begun and not self._in_head:  # the request has a cycle
            if self._running is not self.cycle:
                self.pipeline.popleft()
            elif self.cycle.response_started:
                self.transport.close()
                return
            else:
                self.cycle.disconnected = self.cycle.response_complete = True
                self.cycle.message_event.set()
        if not self.pipeline and not self._is_answering():
            self._send_refusal()

    def _send_refusal(self) -> None:
        assert self._refusal is not None
        response = self._refusal.response()
        headers = [*response.raw_headers, *self.server_state.default_headers, (b"connection", b"close")]
        lines = b"".join(b"%s: %s\r\n" % header for header in headers)
        self._begun = True  # the client may still be sending
        self.transport.write(STATUS_LINE[self._refusal.status] + lines + b"\r\n" + bytes(response.body))
        self.transport.close()

    def end(self) -> None:
        """Parse no more."""
        self.ended = True
        self._late |= len(self._rest) > 0
        self._rest = memoryview(b"")
        self._stop_clock()
        self.flow.pause_reading()

    def _linger(self) -> bool:
        """Return whether the connection is closed later, because the client is still sending."""
        if self.lingering.begun:
            return True
        if not (self._begun or self._late):
            self._unread.watch()
            return False
        self.end()
        self.lingering.begin()
        return True

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread.watch()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():
            self._unread.stop()
            self._count()

    def drop(self) -> None:
        """Close the connection at once."""
        self._real.abort()

    def shutdown(self) -> None:
        """Close the connection when its requests are answered; one that is under way may still arrive."""
        self._stopping = True
        if self._begun or self._rest:
            if not self._in_head:
                self.cycle.keep_alive = False
        elif self._is_answering():
            self.cycle.keep_alive = False
        else:
            self.loop.call_later(_GRACE, self._close_if_idle)

    def _close_if_idle(self, since: float | None = None) -> None:
        """Close the connection if it is idle now, and still is when what has arrived by now was read.

        Args:
            since: when its last answer ended, at the first look; None: this is the first one.
        """
        if self._is_answering() or self._begun or self.transport.is_closing():
            return
        if since is None:  # timers may run before what arrived in a stall is read
            self.loop.call_later(_AGAIN, self._close_if_idle, self._idle_since)
        elif since == self._idle_since:
            self.transport.close()
