"""Errors as `application/problem+json` (RFC 9457)."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from math import ceil
from typing import Any

from pydantic_core import to_json
from starlette.responses import Response


class Problem(Exception):
    """A request that is answered with an error.

    Args:
        status: the HTTP status, 4xx or 5xx.
        detail: the error, and the allowed values.
        headers: headers of the answer, such as Retry-After.
        members: further members of the JSON object.
    """

    def __init__(self, status: int, detail: str, *, headers: Mapping[str, str] | None = None, **members: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})
        self.members = members

    def response(self) -> Response:
        """Return the answer."""
        title = HTTPStatus(self.status).phrase
        body = {"type": "about:blank", "title": title, "status": self.status, "detail": self.detail}
        content = to_json({**body, **self.members})
        return Response(content, self.status, self.headers, media_type="application/problem+json")


def overloaded(detail: str, seconds: float = 1.0) -> Problem:
    """Return the problem of a server that is overloaded, with the seconds to wait before a retry."""
    return Problem(503, detail, headers={"Retry-After": str(max(1, ceil(seconds)))})


_JSON = (b"content-type", b"application/json")


class JsonResponse(Response):
    """An answer with JSON values; made with less work than Starlette's, because most of the server's time is here."""

    def __init__(self, values: object) -> None:
        self.status_code = 200
        self.background = None
        self.body = body = to_json(values)
        self.raw_headers = [(b"content-length", b"%d" % len(body)), _JSON]
