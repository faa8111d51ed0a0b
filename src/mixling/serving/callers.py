"""Who may ask: the names that the server answers under, and the origins of pages."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

from starlette.types import Scope

from mixling.errors import ConfigError
from mixling.serving.arriving import TARGET
from mixling.serving.problems import Problem

_LOCAL = ("localhost", "127.0.0.1", "::1")
_NAME = re.compile(r"(\[[^\]]*\]|[^:]*)(?::([0-9]*))?")
REQUEST = "mixling.request"  # key of a scope: what the client calls the request
_LOOKED_AT = frozenset((b"host", b"origin", b"sec-fetch-site", b"sec-fetch-mode", b"mixling-request"))
_PORTS = {"http": "80", "https": "443"}
_ORIGIN = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://[^/?#\sA-Z]+")  # as browsers write it


class Callers:
    """Refuses requests that a page of another site may have caused.

    A page whose own name is led to this machine (DNS rebinding) sends that name as Host, so a local server answers
    under local names only. What sends none is no browser: HTTP/1.0, as of load balancers that look whether a server is
    well. A page of another origin can send a request whose answer it cannot read; it is refused.

    Args:
        hosts: names and addresses under which the server answers; none: under any.
        cors: origins whose pages may send requests.
    """

    def __init__(self, hosts: Iterable[str], cors: Iterable[str]) -> None:
        self._hosts = frozenset(hosts)
        self._cors = frozenset(cors)
        self._any_host = not self._hosts or "*" in self._hosts
        self._known: bytes | None = None  # the last Host that was found to be allowed

    def check(self, scope: Scope) -> None:
        """Look at the headers of a request.

        Raises:
            Problem: its Host is none of the server's (421), or it comes from a page of another origin (403).
        """
        host = None
        origins = []
        site = b""
        mode = b""
        for name, value in scope["headers"]:
            if name not in _LOOKED_AT:
                continue
            if name == b"host":
                host = value
            elif name == b"origin":
                origins.append(value)
            elif name == b"sec-fetch-site":
                site = value
            elif name == b"sec-fetch-mode":
                mode = value
            elif len(value) <= 64:
                scope[REQUEST] = value
        if not self._any_host and (host != self._known or TARGET in scope):
            for value in (host, scope.get(TARGET)):
                if value is not None:
                    self._check_host(value)
            self._known = host
        if origins:
            for origin in origins:
                self._check_origin(origin.decode("latin-1"), (host or b"").decode("latin-1"))
        elif site in (b"cross-site", b"same-site") and "*" not in self._cors:
            if mode == b"navigate" and scope["method"] in ("GET", "HEAD"):  # a link
                return
            raise Problem(403, "a page of another origin asks; start the server with --cors ORIGIN to allow it")

    def _check_host(self, value: bytes) -> None:
        name = split_host(value.decode("latin-1"))[0]
        if name not in self._hosts:
            raise Problem(
                421, f"the server does not answer under the name {name[:100]!r}; start it with --allowed-host NAME"
            )

    def _check_origin(self, origin: str, host: str) -> None:
        scheme, _, place = origin.partition("://")
        if origin in self._cors or "*" in self._cors:
            return
        if scheme in _PORTS:
            (name, port), (own, own_port) = split_host(place), split_host(host)
            if name and (name, port or _PORTS[scheme]) == (own, own_port or _PORTS[scheme]):
                return
        raise Problem(403, f"pages of {origin[:100]!r} may not ask; start the server with --cors {origin[:100]}")


def split_host(value: str) -> tuple[str, str]:
    """Return the name or address in a Host, as `Callers` compares it, and the port; both are empty if it has none."""
    found = _NAME.fullmatch(value)
    if found is None:
        return "", ""
    name = found[1].lower().removesuffix(".")
    port = found[2] or ""
    try:
        address = ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return name, port
    return str(address), port


def hosts_of(address: str, allowed: Iterable[str]) -> tuple[str, ...]:
    """Return the names under which a server on an address answers; none: under any.

    Args:
        address: of this machine, as a number; one of the loopback can be asked under local names only.
        allowed: further names, of `--allowed-host`.

    Raises:
        ConfigError: one of these is not a name or an address.
    """
    names = []
    for value in allowed:
        name, port = split_host(f"[{value}]" if value.count(":") > 1 and value[:1] != "[" else value)
        if port or not re.fullmatch(r"\*|[a-z0-9_-]+(\.[a-z0-9_-]+)*|[0-9a-f:.]+", name):
            raise ConfigError(
                f"--allowed-host: got {value!r}; give a name without a port, such as models.example, or *"
            )
        names.append(name)
    found = ipaddress.ip_address(address.partition("%")[0])
    found = getattr(found, "ipv4_mapped", None) or found
    if not names and not found.is_loopback:
        return ()
    return tuple(dict.fromkeys((*_LOCAL, str(found), *names)))


def origins(values: Iterable[str]) -> tuple[str, ...]:
    """Return the origins whose pages may send requests.

    Raises:
        ConfigError: browsers never send one that is written so.
    """
    values = tuple(values)
    for value in values:
        if not _ORIGIN.fullmatch(value):
            raise ConfigError(
                f"--cors: got {value!r}; give an origin without a path, such as https://shop.example, or *"
            )
    return values
