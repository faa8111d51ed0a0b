"""Limits, keys, other origins, metrics and reloading, within the test's process."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import os
import re
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from mixling import ConfigError, Predictor
from mixling.serving import ServerSettings, named_models, page, scheduling
from mixling.serving import models as models_module
from mixling.serving.accepting import Acceptor
from mixling.serving.arriving import TICKET
from mixling.serving.body import Bodies, ClientGone
from mixling.serving.callers import origins
from mixling.serving.keys import ApiKeys
from mixling.serving.models import ModelStore
from mixling.serving.problems import Problem
from mixling.serving.scheduling import Line, Scheduler
from mixling.serving.settings import with_limits

Make = Callable[..., TestClient]
KEY = "a-key-of-more-than-16-characters"


def ask(client: TestClient, **options: Any) -> Any:
    return client.post("/v1/models/golden/predict", json={"texts": ["what a film"]}, **options)


def test_a_large_body_is_refused_by_its_header_and_while_it_arrives(make_client: Make) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(100):
            yield b" " * 1000

    with make_client(max_body=10_000) as client:
        body = b" " * 9_000 + b'{"texts": ["what a film"]}'
        assert client.post("/v1/models/golden/predict", content=body).status_code == 200
        for content in (b" " * 10_001, parts()):
            response = client.post("/v1/models/golden/predict", content=content)
            assert response.status_code == 413
            assert response.headers["connection"] == "close"
            assert "10,000 bytes" in response.json()["detail"]
        assert client.app.bodies.held == 0


def test_a_body_is_not_received_beyond_its_limit() -> None:
    received = 0

    async def receive() -> dict[str, Any]:
        nonlocal received
        received += 1
        return {"type": "http.request", "body": b"x" * 1000, "more_body": True}

    async def run(bodies: Bodies, headers: list[tuple[bytes, bytes]]) -> None:
        await bodies.receive({"headers": headers}, receive)

    bodies = Bodies(limit=3000, total=10_000)
    for headers, times in (([], 4), ([(b"content-length", b"1000000000")], 0), ([(b"content-length", b"9" * 30)], 0)):
        received = 0
        with pytest.raises(Problem, match="3,000 bytes"):
            asyncio.run(run(bodies, headers))
        assert received == times
    with pytest.raises(Problem, match="too many large requests"):
        asyncio.run(run(Bodies(limit=3000, total=1500), []))
    assert bodies.held == 0


def test_a_client_that_leaves_is_no_error() -> None:
    async def run(bodies: Bodies) -> None:
        async def receive() -> dict[str, Any]:
            return {"type": "http.disconnect"}

        await bodies.receive({"headers": []}, receive)

    with pytest.raises(ClientGone):
        asyncio.run(run(Bodies(limit=10, total=10)))


def test_compressed_bodies_are_refused(make_client: Make) -> None:
    bomb = gzip.compress(b" " * 10_000_000)
    with make_client() as client:
        response = client.post("/v1/models/golden/predict", content=bomb, headers={"Content-Encoding": "gzip"})
        assert response.status_code == 415
        assert ask(client, headers={"Content-Encoding": "identity"}).status_code == 200


def test_requests_need_a_key_but_probes_and_the_page_do_not(make_client: Make, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"# of the web shop\n{KEY}\n\nanother-key-of-the-server\n")
    with make_client(keys_file=tmp_path / "keys") as client:
        for key in (KEY, "another-key-of-the-server"):
            assert ask(client, headers={"Authorization": f"Bearer {key}"}).status_code == 200
            assert ask(client, headers={"Authorization": f"bearer {key}"}).status_code == 200
        for wrong in ({}, {"Authorization": KEY}, {"Authorization": f"Bearer {KEY}x"}, {"Authorization": "Bearer"}):
            response = ask(client, headers=wrong)
            assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer")
        for path in ("/v1/models", "/v1/models/golden", "/metrics", "/openapi.json"):
            assert client.get(path).status_code == 401
            assert client.get(path, headers={"Authorization": f"Bearer {KEY}"}).status_code == 200
        for path in ("/", "/docs", "/playground/app.js", "/healthz", "/health", "/readyz"):
            assert client.get(path).status_code == 200


@pytest.mark.parametrize(
    ("content", "says"), [("", "has no API key"), ("short", "at least 16"), ("a key with spaces in it", "at least 16")]
)
def test_files_of_keys_that_cannot_be_used(tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "keys").write_text(content)
    with pytest.raises(ConfigError, match=says):
        ApiKeys.read(tmp_path / "keys")
    with pytest.raises(ConfigError, match="cannot be read"):
        ApiKeys.read(tmp_path / "none")


def test_a_file_of_keys_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"{KEY}\n", "utf-8-sig")
    assert ApiKeys.read(tmp_path / "keys").admit([(b"authorization", f"Bearer {KEY}".encode())])


def test_pages_of_other_origins_are_allowed_only_where_named(make_client: Make) -> None:
    origin = {"Origin": "https://shop.example"}
    asked = {**origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    with make_client() as client:
        assert "access-control-allow-origin" not in ask(client, headers=origin).headers
    with make_client(cors=("https://shop.example",)) as client:
        assert ask(client, headers=origin).headers["access-control-allow-origin"] == "https://shop.example"
        assert client.options("/v1/models/golden/predict", headers=asked).status_code == 200
        evil = ask(client, headers={"Origin": "https://evil.example"})
        assert "access-control-allow-origin" not in evil.headers


def test_origins_are_as_browsers_send_them() -> None:
    given = ("https://shop.example", "http://localhost:3000", "http://[::1]:80", "chrome-extension://abc", "null", "*")
    assert origins(given) == given
    for wrong in ("shop.example", "https://shop.example/", "https://Shop.example", "https://", "", "https://a b"):
        with pytest.raises(ConfigError, match="--cors: got"):
            origins([wrong])


def test_a_full_queue_is_503_and_a_long_wait_504() -> None:
    begun, go = threading.Event(), threading.Event()

    def block() -> list[int]:
        begun.set()
        go.wait(10)
        return [1]

    async def run() -> None:
        scheduler = Scheduler(queue=10, timeout=2.0)
        first = asyncio.create_task(scheduler.large(8, [block, lambda: [2]]))
        await asyncio.to_thread(begun.wait, 10)
        with pytest.raises(Problem) as full:
            await scheduler.large(3, [lambda: [3]])
        assert (full.value.status, full.value.headers["Retry-After"]) == (503, "1")
        second = asyncio.create_task(scheduler.large(2, [lambda: [4]]))
        with pytest.raises(Problem) as late:
            await second
        assert late.value.status == 504
        with pytest.raises(Problem):
            await first
        go.set()
        while scheduler.waiting:
            await asyncio.sleep(0.001)
        assert await scheduler.large(100, [lambda: [5], lambda: [6]]) == [5, 6]  # what timed out was dropped
        assert scheduler.waiting == 0
        scheduler.close()

    asyncio.run(run())


def test_small_requests_do_not_wait_for_a_large_one(make_client: Make) -> None:
    with make_client() as client:
        predictor = client.app.models["golden"].predictor
        texts = ["what a film " * 50] * 1024
        big = threading.Thread(
            target=client.post, args=("/v1/models/golden/predict",), kwargs={"json": {"texts": texts}}
        )
        big.start()
        while not client.app.scheduler.waiting and big.is_alive():
            time.sleep(0.0005)
        assert predictor.predict_one("what a film").label == ask(client).json()["predictions"][0]["label"]
        assert big.is_alive()
        big.join()


def test_metrics_count_requests_texts_and_errors(make_client: Make) -> None:
    with make_client() as client:
        client.post("/v1/models/golden/predict", json={"texts": ["a", "b", "c"]})
        client.post("/v1/models/golden/predict", json={"texts": []})
        client.get("/nope")
        lines = client.get("/metrics").text.splitlines()
    assert 'mixling_requests_total{route="/v1/models/{model}/predict",status="200"} 1.0' in lines
    assert 'mixling_requests_total{route="/v1/models/{model}/predict",status="422"} 1.0' in lines
    assert 'mixling_requests_total{route="other",status="404"} 1.0' in lines
    assert 'mixling_texts_total{model="golden"} 3.0' in lines
    assert 'mixling_reload_failures_total{model="golden"} 0.0' in lines
    assert "mixling_waiting_texts 0.0" in lines


def test_a_stopping_server_is_not_ready_but_answers(make_client: Make) -> None:
    with make_client() as client:
        client.app.stopping = True
        assert client.get("/readyz").status_code == 503
        assert client.get("/healthz").status_code == 200
        assert ask(client).headers["connection"] == "close"


def test_a_replaced_model_is_used_and_a_damaged_one_is_not(
    make_client: Make, paths: dict[str, Path], tmp_path: Path
) -> None:
    def put(content: bytes) -> None:
        (tmp_path / "new").write_bytes(content)
        os.replace(tmp_path / "new", tmp_path / "run" / "model.onnx")

    def version() -> str:
        found: str = client.post("/v1/models/m/predict", json={"texts": ["a"]}).json()["version"]
        return found

    def until(condition: Callable[[], bool]) -> None:
        end = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < end
            time.sleep(0.01)

    def failures() -> int:
        line = 'mixling_reload_failures_total{model="m"} '
        return int(float(client.get("/metrics").text.split(line)[1].split("\n")[0]))

    (tmp_path / "run").mkdir()
    good = paths["intents"].read_bytes()
    put(good)
    with make_client({"m": tmp_path / "run"}, reload_interval=0.01) as client:
        first = version()
        put(paths["topics"].read_bytes())
        until(lambda: version() != first)
        second = version()
        assert client.get("/v1/models").json()["models"][0]["task"] == "multi_label"
        assert "labels" in client.get("/openapi.json").text
        for number, damaged in enumerate((good[:-100], b"", b"x" * 1000, good[:2000] + b"\xff" + good[2001:]), 1):
            put(damaged)
            until(lambda number=number: failures() == number)
            assert version() == second
        if hasattr(os, "mkfifo"):
            os.mkfifo(tmp_path / "new")
            os.replace(tmp_path / "new", tmp_path / "run" / "model.onnx")
            until(lambda: failures() == 5)
            assert version() == second
        shutil.rmtree(tmp_path / "run")
        assert version() == second
        (tmp_path / "run").mkdir()
        put(good)
        until(lambda: version() == first)


def test_an_unexpected_error_of_a_new_model_does_not_end_the_watch(
    paths: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        shutil.copy(paths["intents"], tmp_path / f"{name}.onnx")
    models = tuple((name, tmp_path / f"{name}.onnx") for name in ("a", "b"))
    store = ModelStore(models, max_texts=10, max_chars=100)
    before, reported = store.version, []
    for _, path in models:
        shutil.copy(paths["topics"], path)
    real = Predictor

    def opened(path: Path, **options: Any) -> Predictor:
        if path.name == "a.onnx":
            raise RuntimeError("a defect")
        return real(path, **options)

    monkeypatch.setattr(models_module, "Predictor", opened)

    def stop(name: str, used: bool) -> None:
        reported.append((name, used))
        if len(reported) == 2:
            raise asyncio.CancelledError

    async def watch() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await store.watch(0.001, stop)

    asyncio.run(watch())
    assert reported == [("a", False), ("b", True)]
    assert store.version[0] == before[0]
    assert store.version[1] != before[1]


def test_a_disk_that_does_not_answer_delays_no_other_model(
    paths: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models_module, "_TURN", 0.01)
    monkeypatch.setattr(models_module, "_PATIENCE", 0.1)
    store = ModelStore((("a", paths["intents"]), ("b", paths["intents"])), max_texts=10, max_chars=100)
    go, looked, reported, logged = threading.Event(), [], [], []
    monkeypatch.setattr(models_module._LOG, "error", lambda text, *values: logged.append(text % values))

    def reload(name: str) -> bool | None:
        if name == "a":
            return go.wait(20)
        looked.append(name)
        return None

    monkeypatch.setattr(store, "reload", reload)

    async def scenario() -> None:
        watch = asyncio.create_task(store.watch(0.01, lambda *values: reported.append(values)))
        async with asyncio.timeout(20):
            while not logged or len(looked) < 10:
                await asyncio.sleep(0.01)
            go.set()
            while not reported:
                await asyncio.sleep(0.01)
        watch.cancel()

    asyncio.run(scenario())
    assert logged == ["model a: its file cannot be read so far; the old model is kept"]
    assert reported[0] == ("a", True)


def test_the_page_loads_nothing_from_elsewhere(make_client: Make) -> None:
    with make_client() as client:
        start = client.get("/")
        assert start.headers["content-type"] == "text/html; charset=utf-8"
        policy = start.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        sizes = 0
        for path in page.page_routes():
            response = client.get(path)
            assert response.status_code == 200
            assert "http://" not in response.text.replace("http://www.w3.org/", "")
            assert "https://" not in response.text
            assert client.get(path, headers={"If-None-Match": response.headers["etag"]}).status_code == 304
            sizes += len(response.content) if path != "/" and "docs" not in path else 0  # /docs is a page of its own
        assert sizes <= 41_000


def test_names_of_models(tmp_path: Path) -> None:
    folder = tmp_path / "my model"
    folder.mkdir()
    (folder / "model.onnx").touch()
    assert named_models([str(folder)]) == (("my-model", folder),)
    assert named_models([str(folder / "model.onnx")]) == (("my-model", folder / "model.onnx"),)
    assert named_models(["a.onnx", "b=c/d"]) == (("a", Path("a.onnx")), ("b", Path("c/d")))
    with pytest.raises(ConfigError, match="the name 'a/b' is not allowed"):
        named_models(["a/b=c"])
    with pytest.raises(ConfigError, match="two models have the name 'a'"):
        named_models(["a=b", "x/a.onnx"])


def test_requests_that_have_waited_behind_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(scheduling, "perf_counter", lambda: now)
    line = Line(max_wait=50 / 1024)
    tickets = [line.enter() for _ in range(100)]
    for ticket in tickets[:51]:
        line.leave(ticket)
        now += 1 / 1024  # the cost of an answer
    for ticket in tickets[51:]:
        with pytest.raises(Problem, match="has waited for 50 ms") as refused:
            line.leave(ticket)
        assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "1"})
    late = [line.enter() for _ in range(32)]
    now += 9.0  # the machine paused: those that would be answered in any case are
    for ticket in late:
        line.leave(ticket)
    line.leave(None)  # a request of another server's protocol has no ticket


@pytest.mark.parametrize(("stopping", "status"), [(False, 503), (True, 200)])
def test_a_stopping_server_refuses_none_of_those_that_have_waited(
    make_client: Make, stopping: bool, status: int
) -> None:
    body, sent = b'{"texts": ["what a film"]}', []
    path = "/v1/models/golden/predict"

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    service = make_client().app
    service.stopping = stopping
    ticket = (time.perf_counter() - 1, -100)  # it has waited for a second, behind a hundred others
    scope = {"type": "http", "method": "POST", "path": path, "headers": [], TICKET: ticket}
    asyncio.run(service(scope, receive, send))
    assert sent[0]["status"] == status


def test_large_requests_that_would_wait_for_too_long_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(scheduling, "perf_counter", lambda: now)
    begun, go = threading.Event(), threading.Event()

    def slow() -> list[int]:
        nonlocal now
        now += 100.0
        return []

    def block() -> list[int]:
        begun.set()
        go.wait(10)
        return []

    async def run() -> None:
        scheduler = Scheduler(queue=100, timeout=5.0)
        await scheduler.large(10, [slow])  # 10 s for a text, of which a fifth counts
        waiting = asyncio.create_task(scheduler.large(6, [block]))
        await asyncio.to_thread(begun.wait, 10)
        with pytest.raises(Problem, match="take about 12 s") as refused:
            await scheduler.large(1, [slow])
        assert (refused.value.status, refused.value.headers["Retry-After"]) == (503, "12")
        go.set()
        await waiting
        go.clear()
        begun.clear()
        waiting = asyncio.create_task(scheduler.large(6, [block], kind="another"))  # which takes no time as yet
        await asyncio.to_thread(begun.wait, 10)
        last = asyncio.create_task(scheduler.large(1, [lambda: [7]]))
        await asyncio.sleep(0)
        go.set()
        assert await last == [7]
        await waiting
        scheduler.close()

    asyncio.run(run())


@pytest.mark.parametrize("at_once", [1, 100])
def test_connections_that_wait_are_accepted_together(at_once: int) -> None:
    """They are after an error, such as too many open files, too; none is after the end."""

    class Greeting(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            transport.write(b"hello")
            transport.close()

    class Failing:
        """A listening socket that fails once."""

        def __init__(self, real: socket.socket) -> None:
            self._real, self.failures = real, 1

        def accept(self) -> Any:
            if self.failures:
                self.failures -= 1
                raise OSError(24, "Too many open files")
            return self._real.accept()

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

    async def run(listener: socket.socket) -> None:
        acceptor = Acceptor(Failing(listener), Greeting, at_once=at_once)
        connections = [await asyncio.open_connection(*listener.getsockname()) for _ in range(20)]
        for reader, writer in connections:
            assert await asyncio.wait_for(reader.read(), 10) == b"hello"
            writer.close()
        acceptor.close()
        reader, writer = await asyncio.open_connection(*listener.getsockname())  # waits in the backlog
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(), 0.05)
        writer.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        asyncio.run(run(listener))


def test_limits_are_set_by_name() -> None:
    settings = ServerSettings(models=(("a", Path("a.onnx")),))
    changed = with_limits(settings, ["queue=5", "timeout=2", "reload_interval=0", "max_wait=0.5"])
    assert (changed.queue, changed.timeout, changed.reload_interval, changed.max_wait) == (5, 2, 0, 0.5)
    assert with_limits(settings, []) == settings
    for wrong, message in {
        "que=1": "--set que: there is no such limit; did you mean 'queue'",
        "models=1": "--set models: there is no such limit",
        "queue=0": "--set queue: got 0; allowed: a whole number from 1",
        "queue=1.5": "--set queue: got 1.5; allowed: a whole number from 1",
        "timeout=soon": "--set timeout: got 'soon'; allowed: a number from 0.1",
        "timeout=nan": "allowed: a number from 0.1",
        "timeout=inf": "allowed: a number from 0.1",
        "drain_wait=true": "allowed: a number from 0",
    }.items():
        with pytest.raises(ConfigError, match=re.escape(message)):
            with_limits(settings, [wrong])
