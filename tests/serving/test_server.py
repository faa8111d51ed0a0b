"""A server as a process of its own: start, signals, workers, and what clients do to it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mixling.serving.protocol import WholeAnswers

from .process import BODY, Served, received, serving

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name == "nt", reason="sends the signals of POSIX"),
]


@pytest.fixture(scope="module")
def served(paths: dict[str, Path]) -> Iterator[Served]:
    with serving(paths["intents"]) as found:
        yield found


def test_it_answers_and_knows_no_torch(served: Served) -> None:
    status, answer, headers = served.ask()
    assert (status, answer["model"], headers["x-content-type-options"]) == (200, "m", "nosniff")
    assert "server" not in headers
    code = "import sys, mixling.serving.server; sys.exit(bool({'torch', 'sklearn', 'pandas'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    code = "import sys, mixling, mixling.cli.main; sys.exit('starlette' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"\x00\x01\x02\r\n\r\n", b"400"),
        (b"GET / HTTP/9.9\r\n\r\n", b"505"),
        (b"POST /v1/models/m/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nHost: [::1]\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"400"),
        (b"POST /v1/models/m/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n", b"413"),
        (b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n", b"400"),
        (b"GET /healthz HTTP/1.1\r\n" + b"X-A: " + b"a" * 100_000, b"431"),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", b"200"),
    ],
)  # fmt: skip
def test_malformed_requests_are_refused_at_once(served: Served, content: bytes, status: bytes) -> None:
    answer = served.send(content)
    assert answer.startswith(b"HTTP/1.1 " + status), answer  # after a time-out it would be 408
    assert served.ask()[0] == 200


def test_an_answer_is_written_at_once() -> None:
    class Transport:
        """A transport that notes what is written."""

        def __init__(self) -> None:
            self.written: list[bytes] = []

        def write(self, data: bytes) -> None:
            self.written.append(data)

        def close(self) -> None:
            self.written.append(b"closed")

        get_extra_info = is_closing = pause_reading = resume_reading = close

    real = Transport()
    whole = WholeAnswers(real)  # type: ignore[arg-type]
    head, interim = b"HTTP/1.1 200 OK\r\nx: y\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"
    for sent in ([interim], [head, b"body"], [b"more"], [head, b""], [head]):
        for data in sent:
            whole.write(data)
    assert real.written == [interim, head + b"body", b"more", head]
    whole.flush()
    whole.flush()
    whole.write(head)
    whole.close()
    assert real.written[4:] == [head, head, b"closed"]


def test_heads_without_a_body_and_interim_answers_are_sent(served: Served) -> None:
    with served.connect() as connection:
        for path in (b"/healthz", b"/", b"/nope"):
            connection.sendall(b"HEAD " + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(1 << 16).endswith(b"\r\n\r\n")
        head = f"POST /v1/models/m/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(BODY)}\r\n"
        connection.sendall(f"{head}Expect: 100-continue\r\n\r\n".encode())
        assert connection.recv(1 << 16) == b"HTTP/1.1 100 Continue\r\n\r\n"  # the body has not been sent
        connection.sendall(BODY.encode())
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")


def test_a_client_that_sends_too_much_reads_why(served: Served) -> None:
    head = b"POST /v1/models/m/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8000000\r\n\r\n"
    assert b'"status":413' in served.send(head + b" " * 8_000_000)


def test_slow_clients_are_cut_off(paths: dict[str, Path]) -> None:
    with serving(paths["intents"], "--set", "client_timeout=2") as served:
        head = b"POST /v1/models/m/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n"

        for answer in ThreadPoolExecutor(3).map(served.send, (b"", head, head + b"\r\n{")):
            assert answer.startswith(b"HTTP/1.1 408"), answer
        with served.connect() as connection:  # a slow one whose requests are in time, and together are not
            for _ in range(4):
                for part in (head[:30], head[30:], b"\r\n" + BODY.encode().ljust(100)):
                    connection.sendall(part)
                    time.sleep(0.1)
                assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
                time.sleep(0.3)


@pytest.mark.parametrize("workers", [1, 2])
def test_requests_in_flight_are_answered_before_it_stops(paths: dict[str, Path], workers: int) -> None:
    with serving(paths["intents"], "--workers", workers) as served:
        connections = [served.connect() for _ in range(64)]
        head = f"POST /v1/models/m/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(BODY)}"
        request = f"{head}\r\n\r\n{BODY}".encode()
        for connection in connections:
            connection.sendall(request)
        served.process.send_signal(signal.SIGTERM)
        answers = list(ThreadPoolExecutor(8).map(received, connections))
        assert all(answer.startswith(b"HTTP/1.1 200") for answer in answers)
        for connection in connections:
            connection.close()
        assert served.process.wait(20) == 0
        with pytest.raises(ConnectionRefusedError):
            served.connect()


def test_it_is_not_ready_while_it_stops(paths: dict[str, Path]) -> None:
    with serving(paths["intents"], "--set", "drain_wait=60") as served:
        assert served.ask("/readyz", None)[0] == 200
        served.process.send_signal(signal.SIGTERM)
        end = time.monotonic() + 20
        while served.ask("/readyz", None)[0] == 200:
            assert time.monotonic() < end
        status, _, headers = served.ask()  # on a new connection, as from a balancer that has not noticed yet
        assert (status, headers["connection"]) == (200, "close")
        served.process.send_signal(signal.SIGTERM)  # the second one does not wait
        assert served.process.wait(30) == 0


def test_what_takes_more_than_ten_seconds_does_not_keep_it_from_stopping(paths: dict[str, Path]) -> None:
    with serving(paths["intents"], "--set", "client_timeout=60") as served:
        connection = served.connect()
        connection.sendall(b"POST /v1/models/m/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{")
        assert served.ask("/healthz", None)[0] == 200
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(14) == 0
        connection.close()


def test_under_overload_there_are_answers_and_503(paths: dict[str, Path]) -> None:
    body = json.dumps({"texts": ["play music " * 20] * 300})
    with serving(paths["intents"], "--set", "queue=600") as served:
        with ThreadPoolExecutor(16) as pool:
            found = list(pool.map(lambda _: served.ask(body=body), range(64)))
        assert {status for status, _, _ in found} == {200, 503}
        assert all(headers["retry-after"] == "1" for status, _, headers in found if status == 503)
        assert served.ask()[0] == 200


def test_every_answer_under_reloads_is_of_one_model(paths: dict[str, Path], tmp_path: Path) -> None:
    contents = [paths[name].read_bytes() for name in ("intents", "topics")]

    def replace(content: bytes) -> None:
        (tmp_path / "new").write_bytes(content)
        os.replace(tmp_path / "new", tmp_path / "m.onnx")

    replace(contents[0])
    with serving(tmp_path / "m.onnx", "--set", "reload_interval=0.01") as served:
        kinds: dict[str, set[str]] = {}
        for number in range(60):
            replace(contents[number % 2] if number % 5 else contents[0][: 100 * number])
            for _ in range(5):
                status, answer, _ = served.ask()
                assert status == 200
                kinds.setdefault(answer["version"], set()).update(answer["predictions"][0])
    assert sorted(kinds.values(), key=len) == sorted(kinds.values(), key=len)
    assert {frozenset(keys & {"label", "labels"}) for keys in kinds.values()} == {
        frozenset({"label"}), frozenset({"labels"})
    }  # fmt: skip
    assert len(kinds) == 2


def test_workers_share_metrics_and_are_replaced(paths: dict[str, Path]) -> None:
    with serving(paths["intents"], "--workers", 2) as served:
        for _ in range(20):
            assert served.ask()[0] == 200
        assert 'mixling_texts_total{model="m"} 20.0' in metrics_of(served)
        workers = workers_of(served)
        os.kill(workers[0], signal.SIGKILL)
        end = time.monotonic() + 20
        while not set(workers_of(served)) - set(workers):
            assert time.monotonic() < end
            time.sleep(0.05)
        assert 'mixling_texts_total{model="m"} 20.0' in metrics_of(served)  # what the dead one counted stays
        assert served.ask()[0] == 200


def metrics_of(served: Served) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", served.port)
    with contextlib.closing(connection):
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()


def test_a_worker_that_dies_while_a_file_is_damaged_stops_no_other(paths: dict[str, Path], tmp_path: Path) -> None:
    content = paths["intents"].read_bytes()
    (tmp_path / "m.onnx").write_bytes(content)
    with serving(tmp_path / "m.onnx", "--workers", 2) as served:
        (tmp_path / "m.onnx").write_bytes(content[:1000])
        workers = workers_of(served)
        os.kill(workers[0], signal.SIGKILL)
        end = time.monotonic() + 30
        while (found := set(workers_of(served))) <= set(workers):  # one that cannot start comes,
            assert time.monotonic() < end
            time.sleep(0.02)
        while set(workers_of(served)) & (found - set(workers)):  # and goes
            assert time.monotonic() < end
            time.sleep(0.02)
        assert served.ask()[0] == 200
        (tmp_path / "m.onnx").write_bytes(content)
        end = time.monotonic() + 30
        while len(workers_of(served)) < 2:
            assert time.monotonic() < end
            time.sleep(0.05)
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(30) == 0


def workers_of(served: Served) -> list[int]:
    """Return the processes that answer."""
    children = Path(f"/proc/{served.process.pid}/task/{served.process.pid}/children")
    if not children.exists():
        pytest.skip("this kernel does not list the children of a process")
    found = []
    for pid in children.read_text().split():
        with contextlib.suppress(OSError):  # it has gone
            if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(int(pid))
    return found


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["no-such-model"], "no such file or folder"),
        (["{golden}", "--keys", "no-such-file"], "the API keys cannot be read"),
        (["{golden}", "--host", "203.0.113.1"], "cannot listen on 203.0.113.1"),
        (["{golden}", "--cors", "shop.example"], "--cors: got 'shop.example'; give an origin"),
        (["a=b", "a=c"], "two models have the name 'a'"),
    ],
)
def test_a_mistake_is_one_line(paths: dict[str, Path], options: list[str], says: str) -> None:
    options = [option.format(golden=paths["intents"]) for option in options]
    done = subprocess.run([sys.executable, "-m", "mixling", "serve", *options], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="there are no such signals")
def test_an_interrupt_does_not_reach_a_worker_that_imports_its_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    from mixling.serving import server

    masks = []
    started = lambda process: masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, []))  # noqa: E731
    monkeypatch.setattr(server.SPAWN.Process, "start", started)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server._Workers(None, listener, count=1, verbose=False)._start()  # type: ignore[arg-type]
    assert signal.SIGINT in masks[0]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
