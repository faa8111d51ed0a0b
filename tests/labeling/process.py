"""`mixling label` as a process of its own, and a client that keeps what is not confirmed, as the page does."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


class Client:
    """Sends requests to a page's server."""

    def __init__(self, port: int, annotator: str = "ann") -> None:
        self.port = port
        self.annotator = annotator
        self.numbers = itertools.count()

    def ask(self, path: str, body: object, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        with contextlib.closing(connection):
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            connection.request("POST", path, content, headers or {})
            response = connection.getresponse()
            answer = response.read()
            return response.status, json.loads(answer) if answer[:1] == b"{" else answer.decode()

    def work(self, **asked: Any) -> dict[str, Any]:
        status, answer = self.ask("/api/work", {"page": self.annotator, "annotator": self.annotator, **asked})
        assert status == 200, answer
        found: dict[str, Any] = answer
        return found

    def line(self, what: str, **values: Any) -> dict[str, Any]:
        number = next(self.numbers)
        return {"what": what, "id": f"{self.annotator}{number:06d}", "time": "2026-01-01T00:00:00Z", **values}


@contextlib.contextmanager
def labeling(
    file: Path, *options: object, port: int = 0, start_new_session: bool = False
) -> Iterator[tuple[subprocess.Popen[str], int, str]]:
    """Start the command; yield the process, its port and the address of its page."""
    command = [
        sys.executable,
        "-m",
        "mixling",
        "label",
        str(file),
        "--port",
        str(port),
        "--no-open",
        *map(str, options),
    ]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, cwd=file.parent, start_new_session=start_new_session
    )
    assert process.stderr is not None
    try:
        lines = []
        for line in process.stderr:
            lines.append(line)
            if found := re.search(r"labeling on (http://[^:]+:(\d+)/\S*)", line):
                break
        else:
            pytest.fail("".join(lines))
        yield process, int(found[2]), found[1]
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stderr.close()
