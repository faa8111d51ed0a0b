"""What becomes of a connection whose client does not read its answer, or goes on sending."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

_LEAST = 64 << 10  # bytes of an answer that a client takes within the time of a request
# for a client that is still sending and would miss its answer
_SECONDS = 2.0
_BYTES = 16 << 20
_PACE = 0.01  # seconds between reads of dropped bytes, so that others have their time


class Unread:
    """Aborts a connection whose client takes too little of its answers.

    Args:
        seconds: in which it takes 64 kB, or the rest.
        changed: called when the bytes that wait have changed.
    """

    def __init__(self, transport: asyncio.Transport, seconds: float, changed: Callable[[], None]) -> None:
        self._transport = transport
        self._seconds = seconds
        self._changed = changed
        self._timer: asyncio.TimerHandle | None = None
        self.size = 0  # bytes at the last look

    def watch(self) -> None:
        """Look in a while at what the client has taken."""
        self.size = self._transport.get_write_buffer_size()
        self._changed()
        if self.size and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._look)

    def stop(self) -> None:
        """Look no more."""
        self.size = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if (left := self._transport.get_write_buffer_size()) and left > self.size - _LEAST:
            self._transport.abort()
        else:
            self.watch()


class Lingering:
    """Keeps a connection open for a moment behind the last answer, and drops what the client sends.

    If it were closed at once, the client's system would drop the answer with it.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._timer: asyncio.TimerHandle | None = None
        self._dropped = 0

    @property
    def begun(self) -> bool:
        return self._timer is not None

    def begin(self) -> None:
        """Send the end of the connection, and wait for the client's."""
        self._timer = asyncio.get_running_loop().call_later(_SECONDS, self._transport.abort)
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._transport.resume_reading()

    def drop(self, size: int) -> None:
        """Drop a number of bytes."""
        self._dropped += size
        if self._dropped > _BYTES:
            self._transport.abort()
        elif self.begun:
            self._transport.pause_reading()
            asyncio.get_running_loop().call_later(_PACE, self._go_on)

    def stop(self) -> None:
        """Forget the connection, which is closed."""
        if self._timer is not None:
            self._timer.cancel()

    def _go_on(self) -> None:
        if not self._transport.is_closing():
            self._transport.resume_reading()
