"""SIGINT and SIGTERM as a number to look at between two steps."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class Interrupts:
    """While entered, the first SIGINT or SIGTERM is noted in `received`; a second SIGINT interrupts at once."""

    def __init__(self, *, enabled: bool = True) -> None:
        # Python delivers signals to the main thread only and refuses handlers elsewhere.
        self._enabled = enabled and threading.current_thread() is threading.main_thread()
        self._old: dict[int, Any] = {}
        self.received = 0

    def __enter__(self) -> Interrupts:
        if self._enabled:
            self._old = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        if self.received and signum == signal.SIGINT:
            raise KeyboardInterrupt
        self.received = signum
