"""The bytes that wait in all connections of a server: received and not answered, or written and not read."""

from __future__ import annotations

from typing import Protocol


class Connection(Protocol):
    """A connection that can be closed at once."""

    def drop(self) -> None: ...


class Waiting:
    """Counts the bytes of each connection, and closes the one that has most while all have too many.

    Args:
        limit: bytes of all connections.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sizes: dict[Connection, int] = {}
        self.total = 0

    def set(self, connection: Connection, size: int) -> None:
        """Note how many bytes wait in a connection now."""
        self.total += size - self._sizes.pop(connection, 0)
        if size:
            self._sizes[connection] = size
        while self.total > self._limit:
            largest = max(self._sizes, key=self._sizes.__getitem__)
            self.total -= self._sizes.pop(largest)
            largest.drop()
