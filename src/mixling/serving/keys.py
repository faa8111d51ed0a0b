"""API keys: read from a file, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from pathlib import Path

from mixling.errors import ConfigError
from mixling.opening import read_limited

MIN_KEY = 16  # characters
_MAX_BYTES = 1 << 20  # of the file


class ApiKeys:
    """Keys; each request must bear one as `Authorization: Bearer KEY`.

    Only digests are kept. A request is compared with all of them, so the time depends neither on which key it has nor
    on how much of one.
    """

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = [hashlib.sha256(key.encode()).digest() for key in keys]

    @classmethod
    def read(cls, path: Path) -> ApiKeys:
        """Read one key a line; empty lines and lines that start with # are ignored.

        Raises:
            ConfigError: the file cannot be read or has no key, or a key is short or has spaces.
        """
        try:
            lines = read_limited(path, _MAX_BYTES).decode("utf-8-sig").splitlines()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(f"{path}: the API keys cannot be read: {reason}") from None
        keys = []
        for number, line in enumerate(lines, 1):
            key = line.strip()
            if not key or key.startswith("#"):
                continue
            if len(key) < MIN_KEY or not key.isascii() or not key.isprintable() or " " in key:
                raise ConfigError(
                    f"{path}:{number}: an API key has at least {MIN_KEY} ASCII characters and no spaces; "
                    'make one with: python -c "import secrets; print(secrets.token_urlsafe())"'
                )
            keys.append(key)
        if not keys:
            raise ConfigError(f"{path}: has no API key; write one on each line")
        return cls(keys)

    def admit(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Return whether the headers of a request have one of the keys."""
        given = next((value for name, value in headers if name == b"authorization"), b"")
        scheme, _, key = given.partition(b" ")
        digest = hashlib.sha256(key.strip()).digest()
        found = False
        for known in self._digests:
            found |= hmac.compare_digest(digest, known)
        return found and scheme.lower() == b"bearer"
