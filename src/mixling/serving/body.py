"""Receive the bodies of requests, with limits for one and for all together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.responses import Response
from starlette.types import Message, Receive, Scope

from mixling.serving.problems import Problem, overloaded

Handler = Callable[[Scope, bytes], Awaitable[Response]]  # answers a request, given its body


class ClientGone(Exception):
    """The client closed the connection before its request was complete."""


class Bodies:
    """Receives bodies; the time they may take is limited by the protocol (`mixling.serving.protocol`).

    Args:
        limit: bytes of one body.
        total: bytes of all bodies that are held at a time.
    """

    def __init__(self, *, limit: int, total: int) -> None:
        self._limit = limit
        self._total = total
        self.held = 0

    async def receive(self, scope: Scope, receive: Receive) -> bytes:
        """Return the body of a request; its bytes count as held until `release`.

        Raises:
            Problem: it is too large or compressed, or too many bytes are held.
            ClientGone: the connection was closed.
        """
        self._check_headers(scope)
        message = await receive()
        if not message.get("more_body"):
            whole = _content(message)
            self._take(0, whole)
            return whole
        body = bytearray()  # parts would take more than their bytes
        try:
            while True:
                part = _content(message)
                self._take(len(body), part)
                body += part
                if not message.get("more_body"):
                    return bytes(body)
                message = await receive()
        except BaseException:
            self.held -= len(body)
            raise

    def _take(self, size: int, part: bytes) -> None:
        if size + len(part) > self._limit:
            raise self._too_large()
        if self.held + len(part) > self._total:
            raise overloaded("too many large requests at a time; send this one again later")
        self.held += len(part)

    def release(self, body: bytes) -> None:
        """Count the bytes of a body as held no longer."""
        self.held -= len(body)

    def _check_headers(self, scope: Scope) -> None:
        for name, value in scope["headers"]:
            if name == b"content-length" and (not value.isdigit() or len(value) > 18 or int(value) > self._limit):
                raise self._too_large()
            if name == b"content-encoding" and value.lower() != b"identity":
                raise Problem(415, "compressed bodies are not accepted; send the body without Content-Encoding")

    def _too_large(self) -> Problem:
        return Problem(413, f"the body has more than {self._limit:,} bytes; send the texts in several requests")


def has_body(scope: Scope) -> bool:
    """Return whether a request was announced to have a body."""
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in scope["headers"]
    )


def _content(message: Message) -> bytes:
    if message["type"] == "http.disconnect":
        raise ClientGone
    body: bytes = message.get("body", b"")
    return body
