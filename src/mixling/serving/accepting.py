"""Accept connections so that new clients do not wait for a busy server.

uvloop accepts one connection each time its loop turns. Under load a turn takes tens of milliseconds, so that the last
of 256 new connections, which may be a probe's, would wait for seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sys
from collections.abc import Callable

_LOG = logging.getLogger("mixling.serving")
_PAUSE = 0.5  # seconds after an error, such as too many open files


class Acceptor:
    """Accepts all connections that wait, up to a number, whenever the loop turns.

    Args:
        listener: a listening socket; it is not closed here.
        make_protocol: makes the protocol of a connection.
        at_once: connections that are accepted in a turn. Processes that share a socket take a few each.
    """

    def __init__(
        self, listener: socket.socket, make_protocol: Callable[[], asyncio.BaseProtocol], *, at_once: int
    ) -> None:
        self._listener = listener
        self._make_protocol = make_protocol
        self._at_once = at_once
        self._loop = asyncio.get_running_loop()
        self._starting: set[asyncio.Task[object]] = set()
        self._timer: asyncio.TimerHandle | None = None
        listener.setblocking(False)
        self._begin()

    def pause(self) -> None:
        """Let new connections wait, until `close`."""
        self._loop.remove_reader(self._listener.fileno())
        if self._timer is not None:
            self._timer.cancel()

    def close(self) -> None:
        """Accept what waits, and no more; the socket is to be closed at once, as what comes until then is reset."""
        self.pause()
        self._at_once = sys.maxsize
        self._accept(last=True)

    async def wait_closed(self) -> None:
        """Wait until the connections that were accepted have protocols."""
        await asyncio.gather(*self._starting)

    def _begin(self) -> None:
        self._loop.add_reader(self._listener.fileno(), self._accept)

    def _accept(self, *, last: bool = False) -> None:
        for _ in range(self._at_once):
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if last:
                    return
                _LOG.error("cannot accept connections for a moment: %s", error)
                self._loop.remove_reader(self._listener.fileno())
                self._timer = self._loop.call_later(_PAUSE, self._begin)
                return
            if connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):  # it was reset while it waited
                connection.close()
                continue
            connection.setblocking(False)
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            task = self._loop.create_task(self._start(connection))
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)

    async def _start(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make_protocol, connection)
        except OSError:  # the client has gone
            connection.close()
