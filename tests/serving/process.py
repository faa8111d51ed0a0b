"""`mixling serve` as a process of its own."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

BODY = json.dumps({"texts": ["what a film"]})


@dataclass
class Served:
    process: subprocess.Popen[str]
    port: int

    def ask(self, path: str = "/v1/models/m/predict", body: str | None = BODY) -> tuple[int, Any, dict[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        with contextlib.closing(connection):
            connection.request("GET" if body is None else "POST", path, body)
            response = connection.getresponse()
            headers = {name.lower(): value for name, value in response.getheaders()}
            return response.status, json.loads(response.read()), headers

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def send(self, content: bytes) -> bytes:
        """Send bytes; return all that is received until the server closes the connection."""
        with self.connect() as connection:
            connection.sendall(content)
            return received(connection)


def received(connection: socket.socket) -> bytes:
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)


@contextlib.contextmanager
def serving(model: Path, *options: object, port: int = 0) -> Iterator[Served]:
    """Start a server of a model named m, and of further ones among the options."""
    command = [sys.executable, "-m", "mixling", "serve", f"m={model}", "--port", str(port), *map(str, options)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    reader = None
    try:
        lines = []
        for line in process.stderr:
            lines.append(line)
            if found := re.search(r"serving on http://127.0.0.1:(\d+)", line):
                break
        else:
            pytest.fail("".join(lines))
        # What it logs later must be read, or the pipe would fill up.
        reader = threading.Thread(target=process.stderr.read, daemon=True)
        reader.start()
        yield Served(process, int(found[1]))
    finally:
        if process.poll() is None:
            process.kill()  # workers notice
        process.wait()
        if reader is not None:
            reader.join(5)
        process.stderr.close()
