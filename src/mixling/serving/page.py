"""The pages at `/` and `/docs`: static files of the package, held in memory."""

from __future__ import annotations

import hashlib
from importlib.resources import files

from starlette.responses import Response
from starlette.types import Scope

from mixling.serving.body import Handler

_TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
# Nothing but files of this server: no inline scripts or styles, no frames, no forms that are sent.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


DOCS = "docs.html"  # the page of the routes, with docs.js


def page_routes(package: str = "mixling.serving", folder: str = "playground") -> dict[str, Handler]:
    """Return the handlers of a page's files by their paths; its files are in a folder of a package."""
    items = (files(package) / folder).iterdir()
    found = {item.name: item.read_bytes() for item in items if item.name.rpartition(".")[2] in _TYPES}
    routes = {f"/{folder}/{name}": _handler(name, content) for name, content in sorted(found.items())}
    if DOCS in found:
        routes["/docs"] = _handler(DOCS, found[DOCS])
    return {"/": _handler("index.html", found["index.html"]), **routes}


def _handler(name: str, content: bytes) -> Handler:
    etag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    headers = {
        "ETag": etag,
        "Cache-Control": "no-cache",
        "Content-Security-Policy": _POLICY,
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
    }
    kind = _TYPES[name.rpartition(".")[2]]

    async def send_file(scope: Scope, body: bytes) -> Response:
        if any(key == b"if-none-match" and etag.encode() in value for key, value in scope["headers"]):
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=f"{kind}; charset=utf-8")

    return send_file
