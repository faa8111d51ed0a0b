"""Worker processes: their messages, and how they end."""

from __future__ import annotations

import contextlib
import signal
import time
from multiprocessing.connection import Connection
from types import SimpleNamespace
from typing import Any

import pytest

from mixling import workers
from mixling.workers import Worker, WorkerEnded, begin_as_worker, end_workers, wait_for


def echo(connection: Connection, greeting: str) -> None:
    """Answer each number; end with the others as exit code."""
    begin_as_worker()
    with contextlib.suppress(EOFError):
        while (message := connection.recv()) is not None:
            connection.send((greeting, message))
    raise SystemExit(3)


def stay(connection: Connection) -> None:
    """Refuse to end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    connection.send("ready")
    time.sleep(60)


def test_messages_and_an_end() -> None:
    first, second = Worker(echo, "hello"), Worker(echo, "good day")
    try:
        first.send(1)
        assert wait_for([first, second]) == [first]
        assert first.receive() == ("hello", 1)
        second.send(None)
        assert wait_for([first, second]) == [second]
        with pytest.raises(WorkerEnded):
            second.receive()
        assert second.how_it_ended("").startswith("ended with exit code 3; its error is printed above (a script must ")
        second.send(2)  # nobody is there, which is noticed when the answer is received
    finally:
        end_workers([first, second])
    assert first.how_it_ended("rest") == f"was killed by signal {signal.SIGTERM:d}; if memory is short, rest"


def test_one_that_ends_before_it_has_read_a_long_message_is_noticed() -> None:
    worker = Worker(echo, "")
    worker.process.kill()
    worker.send(bytes(8 << 20))  # more than a pipe or socket holds
    with pytest.raises(WorkerEnded):
        worker.receive()
    assert worker.how_it_ended("rest").startswith("was killed by signal 9")


def test_one_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(stay)
    assert worker.receive() == "ready"
    monkeypatch.setattr(workers, "_PATIENCE", 0.2)
    end_workers([worker])
    assert worker.process.exitcode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("code", "words"), [(-9, "if memory is short"), (1, "under `if __name__ == '__main__':`"), (0, "was interrupted")]
)
def test_only_a_killed_process_may_have_lacked_memory(code: int, words: str) -> None:
    worker: Any = SimpleNamespace(process=SimpleNamespace(exitcode=code))
    reason = Worker.how_it_ended(worker, "use fewer --workers")
    assert words in reason
    assert ("memory" in reason) == (code < 0)
