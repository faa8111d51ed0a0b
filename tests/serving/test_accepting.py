"""Connections that were reset while they waited cost nothing."""

from __future__ import annotations

import asyncio
import socket
import struct

from mixling.serving.accepting import Acceptor


def test_connections_that_were_reset_while_they_waited_get_no_protocol() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:

        def connect(*, reset: bool) -> socket.socket:
            client = socket.create_connection(listener.getsockname())
            client.sendall(b"GET / HTTP/1.1\r\n" * 100)
            if reset:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.close()
            return client

        clients = [connect(reset=number % 4 != 0) for number in range(40)]
        made: list[asyncio.Protocol] = []

        class Noted(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                made.append(self)
                transport.close()

        async def accept() -> None:
            acceptor = Acceptor(listener, Noted, at_once=2048)
            await asyncio.sleep(0.05)
            acceptor.close()
            await acceptor.wait_closed()

        asyncio.run(accept())
        assert len(made) == 10
        for client in clients:
            client.close()
