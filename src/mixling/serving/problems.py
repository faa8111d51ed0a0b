"""Errors as `application/problem+json` (RFC 9457)."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from json import JSONEncoder
from typing import Any

from starlette.responses import Response

# One encoder for all answers: `json.dumps` with these options would make one for each.
encode_json = JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class Problem(Exception):
    """A request that is answered with an error.

    Args:
        status: the HTTP status, 4xx or 5xx.
        detail: what is wrong and what is allowed.
        headers: headers of the answer, such as Retry-After.
        members: further members of the JSON object.
    """

    def __init__(self, status: int, detail: str, *, headers: Mapping[str, str] | None = None, **members: Any) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers, self.members = status, detail, dict(headers or {}), members

    def response(self) -> Response:
        """Return the answer; `error` repeats the detail for clients of the Open Inference Protocol."""
        title = HTTPStatus(self.status).phrase
        body = {"type": "about:blank", "title": title, "status": self.status, "detail": self.detail}
        content = encode_json({**body, "error": self.detail, **self.members})
        return Response(
            content.encode("utf-8", "replace"), self.status, self.headers, media_type="application/problem+json"
        )


def overloaded(detail: str) -> Problem:
    """Return the problem of a server that has too much to do."""
    return Problem(503, detail, headers={"Retry-After": "1"})
