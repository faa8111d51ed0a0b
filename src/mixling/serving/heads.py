"""The rules of RFC 9112 for the head of a request, as far as httptools does not enforce them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import httptools

from mixling.serving.problems import Problem

_HOST = re.compile(rb"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+;=%-]*)(:[0-9]*)?")
_COMPRESSED = re.compile(rb"gzip|deflate|compress|br|zstd|xz")


def check_hosts(hosts: Sequence[bytes], *, needed: bool) -> None:
    """Check the Hosts of a request.

    Raises:
        Problem: there are several, or none though one is needed, or one is malformed (400).
    """
    if len(hosts) > 1 or (needed and not hosts):
        raise Problem(400, f"a request has one Host; this one has {len(hosts)}")
    if hosts and not _HOST.fullmatch(hosts[0]):
        raise Problem(400, "the Host is neither a name nor an address")


def check_encodings(encodings: Sequence[bytes], version: str) -> None:
    """Check the values of Transfer-Encoding (at least one), in lower case.

    Raises:
        Problem: HTTP/1.0 has none, or the last one is not chunked, so that nobody knows where the body ends (400);
            chunked is the only one that is accepted (415, 501).
    """
    if version == "1.0":
        raise Problem(400, "HTTP/1.0 has no Transfer-Encoding")
    if list(encodings) != [b"chunked"]:
        found = b", ".join(encodings)
        if found.rpartition(b",")[2].strip() != b"chunked":
            raise Problem(400, f"Transfer-Encoding: {found.decode('latin-1')}: the last one must be chunked")
        status = 415 if _COMPRESSED.search(found) else 501
        raise Problem(status, f"Transfer-Encoding: {found.decode('latin-1')}: only chunked is accepted")


def split_target(url: bytes) -> tuple[bytes, bytes]:
    """Return the path with the query, and host and port, of a target that begins with a scheme, as for a proxy.

    Raises:
        Problem: it is no such target (400).
    """
    try:
        target = httptools.parse_url(url)
    except httptools.HttpParserInvalidURLError:
        raise Problem(400, "the target is neither a path nor the address of one") from None
    if not target.host or target.schema.lower() not in (b"http", b"https") or target.userinfo is not None:
        raise Problem(400, "the target is neither a path nor the address of one")
    port = b"" if target.port is None else b":%d" % target.port
    host = b"[%s]" % target.host if b":" in target.host else target.host
    query = b"" if target.query is None else b"?" + target.query
    return (target.path or b"/") + query, host + port
