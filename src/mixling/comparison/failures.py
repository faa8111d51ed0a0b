"""Systems that fail while they are compared, without the end of the comparison."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from mixling.errors import Interrupted, UserError, printable
from mixling.training.callbacks import Log

_SHOWN = 200  # characters of a reason


@dataclass(frozen=True)
class Failure:
    """A system that failed: its name and description in the table, and why."""

    name: str
    about: str
    reason: str


@dataclass(frozen=True)
class Failures:
    """What has failed, by name.

    Args:
        log: is told at once.
    """

    log: Log
    found: dict[str, Failure] = field(default_factory=dict)

    @contextlib.contextmanager
    def of(self, name: str, about: str, *, kinds: type[Exception] = Exception) -> Iterator[None]:
        """Record an exception of a rival, and go on after the block.

        Args:
            kinds: the exceptions that are recorded; others are raised.
        """
        try:
            yield
        except Interrupted:
            raise
        except kinds as error:
            text = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
            reason = printable(" ".join(text.split()))[:_SHOWN]
            self.found[name] = Failure(name, about, reason)
            self.log(f"{name} failed, and the comparison goes on: {reason}")
