"""`mixling predict --url` gives what `mixling predict` gives, and repeats requests that a server cannot answer yet."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from mixling import ConfigError, DataError, Predictor
from mixling.serving import RemotePredictor, ServerError, client

from .process import Served, serving

KEY = "a-key-of-more-than-16-characters"
TEXTS = ["play music", "", "in paris 🫨", "\ud800 lone"] * 50


class Scripted(BaseHTTPRequestHandler):
    """Answers with the next of `script`: a status and a body; None closes the connection."""

    script: list[tuple[int, object] | None]
    seen: list[str]

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.seen.append(self.path)
        if (step := self.script.pop(0)) is None:
            self.close_connection = True
            return
        status, body = step
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Retry-After", "0")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, type[Scripted]]]:
    monkeypatch.setattr(client, "_FIRST_WAIT", 0.001)
    handler = type("Handler", (Scripted,), {"script": [], "seen": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/base/", handler
    server.shutdown()
    thread.join()
    server.server_close()


MODELS = (200, {"models": [{"name": "m", "task": "classification", "inputs": ["texts"]}]})
ANSWER = {"predictions": [{"label": "a", "probabilities": {"a": 1.0}, "truncated": False}]}


def test_it_comes_back_until_there_is_an_answer(scripted: tuple[str, type[Scripted]]) -> None:
    url, handler = scripted
    busy = (503, {"detail": "busy"})
    handler.script += [None, busy, MODELS, busy, None, (502, b"<html>"), (200, ANSWER)]
    predictor = RemotePredictor(url, "m")
    assert [item.label for item in predictor.predict_stream(["a text"])] == ["a"]
    assert handler.seen == ["/base/v1/models"] * 3 + ["/base/v1/models/m/predict"] * 4
    handler.script += [busy] * 10
    with pytest.raises(ServerError, match="answered with 503 Service Unavailable, 6 times"):
        list(predictor.predict_stream(["a text"]))
    assert len(handler.script) == 4
    predictor.close()


def test_a_refusal_is_not_repeated(scripted: tuple[str, type[Scripted]]) -> None:
    url, handler = scripted
    handler.script += [(401, {"detail": "an API key is needed"})]
    with pytest.raises(ServerError, match="MIXLING_API_KEY"):
        RemotePredictor(url, "m")
    handler.script += [(200, b"<html>")]
    with pytest.raises(ServerError, match="not with JSON"):
        RemotePredictor(url, "m")
    handler.script += [MODELS]
    with pytest.raises(ConfigError, match="has no model 'n'"):
        RemotePredictor(url, "n")
    handler.script += [MODELS, (422, {"detail": "/texts/0: too long"})]
    predictor = RemotePredictor(url, "m")
    with pytest.raises(DataError, match="/texts/0: too long"):
        list(predictor.predict_stream(["a text"]))
    predictor.close()
    for wrong in ("localhost:8000", "http://", "http://a:x", "ftp://a", "http://a?b", "http://a..b", "http://[::1"):
        with pytest.raises(ConfigError, match="--url"):
            RemotePredictor(wrong, "m")
    for key in ("a-key-of-16-chars\n", "schlüssel-von-16-zeichen", "a-key-of-16-chars…"):
        with pytest.raises(ConfigError, match="MIXLING_API_KEY"):
            RemotePredictor(url, "m", key=key)


def test_a_path_before_the_routes_may_have_any_characters(scripted: tuple[str, type[Scripted]]) -> None:
    url, handler = scripted
    handler.script += [MODELS]
    RemotePredictor(f"{url}ü and%20more", "m").close()
    assert handler.seen == ["/base/%C3%BC%20and%20more/v1/models"]


@pytest.fixture(scope="module")
def served(paths: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(KEY)
    others = [f"{name}={path}" for name, path in paths.items()]
    with serving(paths["intents"], *others, "--keys", keys) as found:
        yield found


@pytest.mark.slow
def test_every_task_is_answered_as_by_the_file(served: Served, predictors: dict[str, Predictor]) -> None:
    for name, predictor in predictors.items():
        pairs = name in ("pairs", "answers")
        texts = [(text or "who?", "him in paris") for text in TEXTS] if pairs else [*TEXTS, *([["a", "b"]] * 3)]
        if not pairs and name != "slots":
            texts = TEXTS
        remote = RemotePredictor(f"http://127.0.0.1:{served.port}", name, key=KEY)
        found = list(remote.predict_stream(texts))
        expected = predictor.predict(texts)
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.label == theirs.label
            assert ours.labels == theirs.labels
            assert ours.tags == theirs.tags
            assert ours.value == pytest.approx(theirs.value, abs=1e-6)
            assert ours.probabilities == pytest.approx(theirs.probabilities, abs=1e-6)
            assert (ours.answer and ours.answer.text) == (theirs.answer and theirs.answer.text)
            assert (ours.truncated, ours.empty) == (theirs.truncated, theirs.empty)
        remote.close()


@pytest.mark.slow
def test_the_command_line(served: Served, paths: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIXLING_API_KEY", KEY)
    command = [sys.executable, "-m", "mixling", "predict"]
    url = f"http://127.0.0.1:{served.port}"
    remote = subprocess.run([*command, "slots", "--url", url, "in paris", "tomorrow"], capture_output=True, text=True)
    local = subprocess.run([*command, str(paths["slots"]), "in paris", "tomorrow"], capture_output=True, text=True)
    assert remote.returncode == 0, remote.stderr
    for ours, theirs in zip(remote.stdout.splitlines(), local.stdout.splitlines(), strict=True):
        assert json.loads(ours)["tags"] == json.loads(theirs)["tags"]
    given = ["--threshold", "a=0", "--threshold", "b=1"]
    topics = subprocess.run([*command, "topics", "--url", url, *given, "a text"], capture_output=True, text=True)
    assert json.loads(topics.stdout)["labels"][0] == "a", topics.stderr
    assert "b" not in json.loads(topics.stdout)["labels"]
