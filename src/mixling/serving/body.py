"""Receive the bodies of requests, with limits for one and for all together."""

from __future__ import annotations

import asyncio

from starlette.types import Message, Receive, Scope

from mixling.serving.problems import Problem, overloaded

_LINGER_SECONDS = 2.0
_LINGER_BYTES = 16 << 20


class ClientGone(Exception):
    """The client closed the connection before its request was complete."""


class BodyTooLarge(Problem):
    """The body is larger than allowed.

    Attributes:
        arriving: the rest of the body has not been received.
    """

    arriving = True


class Bodies:
    """Receives bodies; the time they may take is limited by the protocol (`mixling.serving.protocol`).

    Args:
        limit: bytes of one body.
        total: bytes of all bodies that are held at a time.
    """

    def __init__(self, *, limit: int, total: int) -> None:
        self._limit, self._total = limit, total
        self.held = 0

    async def receive(self, scope: Scope, receive: Receive) -> bytes:
        """Return the body of a request; its bytes count as held until `release`.

        Raises:
            Problem: it is too large or compressed, or too many bytes are held.
            ClientGone: the connection was closed.
        """
        self._check_headers(scope)
        size, parts = 0, []
        try:
            while True:
                message = await receive()
                part = _content(message)
                if size + len(part) > self._limit:
                    raise self._too_large(arriving=message.get("more_body", False))
                if self.held + len(part) > self._total:
                    raise overloaded("too many large requests at a time; send this one again later")
                size += len(part)
                self.held += len(part)
                parts.append(part)
                if not message.get("more_body"):
                    return parts[0] if len(parts) == 1 else b"".join(parts)
        except BaseException:
            self.held -= size
            raise

    def release(self, body: bytes) -> None:
        """Count the bytes of a body as held no longer."""
        self.held -= len(body)

    def _check_headers(self, scope: Scope) -> None:
        for name, value in scope["headers"]:
            if name == b"content-length" and (not value.isdigit() or len(value) > 18 or int(value) > self._limit):
                raise self._too_large(arriving=True)
            if name == b"content-encoding" and value.lower() != b"identity":
                raise Problem(415, "compressed bodies are not accepted; send the body without Content-Encoding")

    def _too_large(self, *, arriving: bool) -> BodyTooLarge:
        detail = f"the body has more than {self._limit:,} bytes; send the texts in several requests"
        problem = BodyTooLarge(413, detail, headers={"Connection": "close"})
        problem.arriving = arriving
        return problem


async def discard(receive: Receive) -> None:
    """Receive and drop the rest of a body, up to a limit: a client that is still sending would miss the answer."""
    dropped = 0
    try:
        async with asyncio.timeout(_LINGER_SECONDS):
            while dropped < _LINGER_BYTES:
                message = await receive()
                dropped += len(message.get("body", b""))
                if not message.get("more_body"):
                    return
    except TimeoutError:
        return


def _content(message: Message) -> bytes:
    if message["type"] == "http.disconnect":
        raise ClientGone
    body: bytes = message.get("body", b"")
    return body
