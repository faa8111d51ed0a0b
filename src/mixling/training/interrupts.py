"""SIGINT and SIGTERM: polled between training steps, and an exception elsewhere; a second one ends the process.

Python calls its handlers between steps of the interpreter, so none is called while C code computes or waits. The second
signal therefore has the system's default action, from the moment at which the first one arrives.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any


class Terminated(KeyboardInterrupt):
    """SIGTERM, received outside of `Interrupts`."""


_arrived: list[int] = []  # signals that `raise_once` has had


@contextlib.contextmanager
def terminations() -> Iterator[None]:
    """Raise `Terminated` on SIGTERM instead of ending the process silently; not under torchrun.

    Processes of torchrun may wait for each other outside of Python, where no exception can be raised.
    """
    if threading.current_thread() is not threading.main_thread() or "RANK" in os.environ:
        yield
        return
    _arrived.clear()
    old = handle(signal.SIGTERM, raise_once)
    try:
        yield
    except Exception as error:
        if was_interrupted():  # and a library has made another exception of it
            raise Terminated from error
        raise
    finally:
        handle(signal.SIGTERM, old)


def raise_once(signum: int, frame: FrameType | None) -> None:
    """Handle a signal by an exception, and leave the next one to the system."""
    _arrived.append(signum)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    raise Terminated if signum == signal.SIGTERM else KeyboardInterrupt


def was_interrupted() -> bool:
    """Return whether `raise_once` has had a signal since `begin_to_listen`."""
    return bool(_arrived)


def begin_to_listen() -> None:
    """Forget the signals of earlier commands of this process; SIGINT is an exception, unless it is ignored (nohup)."""
    _arrived.clear()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        handle(signal.SIGINT, raise_once)


def handle(number: int, handler: Any) -> Any:
    """Set the handler of a signal, and return the one before; after a signal for one of ours, the next ends all."""
    before = signal.signal(number, handler)
    if handler is raise_once or isinstance(getattr(handler, "__self__", None), Interrupts):
        from mixling.native import _core

        _core.second_signal_ends(number)
    return before


class Interrupts:
    """A context in which the first SIGINT or SIGTERM is stored in `received`; a second one ends the process."""

    def __init__(self, *, enabled: bool = True) -> None:
        # Signal handlers can only be set in the main thread.
        self._enabled = enabled and threading.current_thread() is threading.main_thread()
        self._old: dict[int, Any] = {}
        self.received = 0

    def __enter__(self) -> Interrupts:
        if self._enabled:
            self._old = {number: handle(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._old.items():
            handle(number, handler)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        self.received = signum
        for number in self._old:
            signal.signal(number, signal.SIG_DFL)
