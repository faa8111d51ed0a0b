"""`RemotePredictor` asks servers that are wrong, made from seeds: an error, and never another row's prediction."""

from __future__ import annotations

import contextlib
import gzip
import json
import random
import re
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mixling.serving import RemotePredictor, ServerError, client

TEXTS = [f"row{number} is here" for number in range(130)]
TASKS = ("classification", "multi_label", "regression", "tagging", "question_answering")
SEEDS = 200
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def right(text: Any, task: str) -> dict[str, Any]:
    """The right answer, which shows its text."""
    out: dict[str, Any] = {"truncated": False}
    if task == "classification":
        return out | {"label": text, "probabilities": {text: 0.75, "other": 0.25}}
    if task == "multi_label":
        return out | {"labels": [text], "probabilities": {text: 0.75, "other": 0.25}}
    if task == "regression":
        return out | {"value": float(re.findall(r"\d+", text)[0])}
    if task == "tagging":
        words = text.split()
        span = {"label": "x", "start": 0, "end": len(words[0]), "score": 0.5}
        return out | {"tokens": words, "tags": ["B-x"] + ["O"] * (len(words) - 1), "spans": [span]}
    word = text["context"].split()[0]
    return out | {"answer": word, "start": 0, "end": len(word), "score": 0.5, "no_answer": False}


def shows(prediction: Any, text: str) -> bool:
    """Whether a prediction is the one of its text."""
    row = text.split()[0]
    if prediction.value is not None:
        return row == f"row{prediction.value:g}"
    answered = prediction.answer.text if prediction.answer is not None else None
    words = (prediction.labels or prediction.tokens or [prediction.label or answered or ""])[0].split()
    return words[:1] == [row]


class Server:
    """Gives right answers, but for what `change` makes of one of them."""

    def __init__(self, task: str, change: Callable[[bytes, list[dict[str, Any]]], bytes], strikes: int) -> None:
        self._task, self._change, self._strikes = task, change, strikes
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port, self._count = self._listener.getsockname()[1], 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listener.close()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as file, contextlib.suppress(OSError, ValueError):
            while line := file.readline():
                length, identity = 0, b""
                while (header := file.readline().strip()) != b"":
                    name, _, value = header.partition(b": ")
                    length = int(value) if name.lower() == b"content-length" else length
                    identity = value if name.lower() == b"mixling-request" else identity
                body = file.read(length)
                if line.startswith(b"GET"):
                    inputs = ["questions"] if self._task == "question_answering" else ["texts"]
                    models = {"models": [{"name": "m", "task": self._task, "inputs": inputs}]}
                    connection.sendall(answer(json.dumps(models).encode(), identity))
                    continue
                texts = next(iter(json.loads(body).values()))
                predictions = [right(text, self._task) for text in texts]
                self._count += 1
                if self._count == self._strikes:
                    connection.sendall(self._change(identity, predictions))
                else:
                    connection.sendall(answer(whole(predictions), identity))


def whole(predictions: list[Any], **more: Any) -> bytes:
    return json.dumps({"model": "m", "version": "1", "predictions": predictions, **more}).encode()


def answer(body: bytes, identity: bytes, *, status: bytes = b"200 OK", headers: bytes = b"", length: int = 0) -> bytes:
    named = b"Mixling-Request: " + identity + b"\r\n" if identity else b""
    size = b"Content-Length: %d\r\n" % (length or len(body))
    return b"HTTP/1.1 " + status + b"\r\n" + named + headers + size + b"\r\n" + body


def changes(chance: random.Random) -> dict[str, Callable[[bytes, list[dict[str, Any]]], bytes]]:
    """What may be wrong with an answer, by name."""
    Change = Callable[[list[Any]], list[Any]]

    def of(change: Change) -> Callable[[bytes, list[dict[str, Any]]], bytes]:
        return lambda identity, found: answer(whole(change(found)), identity)

    def body(make: Callable[[list[Any]], bytes], **more: Any) -> Callable[[bytes, list[dict[str, Any]]], bytes]:
        return lambda identity, found: answer(make(found), identity, **more)

    def one(values: Callable[[dict[str, Any]], Any]) -> Callable[[bytes, list[dict[str, Any]]], bytes]:
        def change(found: list[Any]) -> list[Any]:
            index = chance.randrange(len(found))
            return [*found[:index], values(found[index]), *found[index + 1 :]]

        return of(change)

    odd: Any = chance.choice([5, None, [], {}, "x", True, [[]], {"a": None}, -1, 2**70, 1e300, [1, 2], {"x": 1}])
    kept = ("truncated", "label", "labels", "probabilities", "value", "tokens", "tags", "spans", "answer", "score")

    def some_key(values: dict[str, Any]) -> str:
        return chance.choice([key for key in kept if key in values])

    def typed(values: dict[str, Any]) -> dict[str, Any]:
        key = some_key(values)
        wrong = odd if type(odd) is not type(values[key]) and not (key in ("value",) and odd in (5, -1, 1e300)) else "?"
        if isinstance(values[key], str):
            wrong = 5
        return {**values, key: [wrong] if key in ("truncated",) else wrong}

    def unknown(values: dict[str, Any]) -> dict[str, Any]:
        wrong = {"label": "?", "labels": ["?"]}
        return {**values, **({key: wrong[key] for key in wrong if key in values} or {"truncated": 0})}

    def without(values: dict[str, Any]) -> dict[str, Any]:
        key = some_key(values)
        return {name: value for name, value in values.items() if name != key}

    def number(text: str) -> Callable[[list[Any]], bytes]:
        return lambda found: re.sub(rb"\b(0\.75|0\.5|\d+\.0)\b", text.encode(), whole(found), count=1)

    return {
        "one too many": of(lambda found: [*found, found[0]]),
        "one too few": of(lambda found: found[1:]),
        "none": of(lambda found: []),
        "twice": of(lambda found: found * 2),
        "half": of(lambda found: found[: len(found) // 2]),
        "wrong type": one(typed),
        "no object": one(lambda values: odd if not isinstance(odd, dict) else 5),
        "no key": one(without),
        "empty object": one(lambda values: {}),
        "NaN": body(number("NaN")),
        "infinite": body(number(chance.choice(["Infinity", "-Infinity", "1e999", "-1e999"]))),
        "no predictions": body(lambda found: b"{}"),
        "other JSON": body(lambda found: chance.choice([b"[]", b"5", b"null", b'"x"', b'{"detail":"ok"}', b"{}"])),
        "predictions are no list": body(lambda found: json.dumps({"predictions": odd or 5}).encode()),
        "predictions twice": body(lambda found: whole(found)[:-1] + b"," + whole(found)[1:]),
        "another model": body(lambda found: whole(found, model="n")),
        "no JSON": body(lambda found: chance.choice([b"", b"<html>", b"\xff\xfe", b"\xef\xbb\xbf" + whole(found)])),
        "UTF-16": body(lambda found: whole(found).decode().encode("utf-16")),
        "cut JSON": body(lambda found: whole(found)[: -chance.randrange(1, 200)]),
        "deep": body(lambda found: b"[" * 100_000 + b"]" * 100_000),
        "large": body(lambda found: whole(found) + b" " * (17 << 20)),
        "many digits": body(number("9" * 5000)),
        "gzip": body(lambda found: gzip.compress(whole(found)), headers=b"Content-Encoding: gzip\r\n"),
        "redirect": body(lambda found: b"", status=b"302 Found", headers=b"Location: http://evil.example/\r\n"),
        "no content": body(lambda found: b"", status=b"204 No Content"),
        "another request": lambda identity, found: answer(whole(found), b"0" * 16),
        "interim only": lambda identity, found: b"HTTP/1.1 103 Early Hints\r\n\r\n",
        "many headers": body(whole, headers=b"a: b\r\n" * 50_000),
        "a long header": body(whole, headers=b"a: " + b"b" * 100_000 + b"\r\n"),
        "no status": lambda identity, found: b"hello\r\n\r\n" + whole(found),
        "bad chunks": lambda identity, found: CHUNKED + b"xyz\r\n" + whole(found),
        "cut chunks": lambda identity, found: CHUNKED + b"ffff\r\n" + whole(found),
        "Retry-After": body(lambda found: b"{}", status=b"503 Busy", headers=b"Retry-After: \xb2\r\n"),
        "a label that is unknown": one(unknown),
    }  # fmt: skip


REPEATED = ("Retry-After", "bad chunks")  # as if it was too busy, or was interrupted

POSITIONS = {  # of predictions that show the place in their text
    "reversed": lambda found: found[::-1],
    "two exchanged": lambda found: [found[1], found[0], *found[2:]],
    "one for all": lambda found: [found[0]] * len(found),
    "moved by one": lambda found: [*found[1:], found[0]],
}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_FIRST_WAIT", 0.001)
    monkeypatch.setattr(client, "_TRIES", 2)
    monkeypatch.setattr(client, "_SECONDS", 0.4)


@contextlib.contextmanager
def asked(task: str, change: Any, strikes: int = 1) -> Iterator[list[Any]]:
    """The predictions that are yielded before there is an error, or all."""
    server = Server(task, change, strikes)
    found: list[Any] = []
    texts: list[Any] = [("where?", text) for text in TEXTS] if task == "question_answering" else TEXTS
    try:
        predictor = RemotePredictor(f"http://127.0.0.1:{server.port}", "m")
        with contextlib.closing(predictor):
            for prediction in predictor.predict_stream(texts):
                found.append(prediction)
        yield found
    finally:
        server.close()
        assert all(shows(prediction, text) for prediction, text in zip(found, TEXTS, strict=False))


def test_the_right_server_is_right() -> None:
    for task in TASKS:
        with asked(task, None, strikes=99) as found:
            assert len(found) == len(TEXTS)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_wrong_answer_is_an_error_and_no_row_gets_anothers_prediction(seed: int) -> None:
    chance = random.Random(seed)
    task, strikes = chance.choice(TASKS), chance.randrange(1, 4)
    found = changes(chance)
    name = list(found)[seed % len(found)]
    refused = pytest.raises(ServerError) if name not in REPEATED else contextlib.suppress(ServerError)
    with refused, asked(task, found[name], strikes) as predictions:
        assert len(predictions) == len(TEXTS)


@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize("task", ["tagging", "question_answering"])
def test_predictions_of_other_texts_are_recognized_where_they_show_their_place(task: str, name: str) -> None:
    change = POSITIONS[name]
    with pytest.raises(ServerError), asked(task, lambda identity, found: answer(whole(change(found)), identity)):
        pass


@pytest.mark.parametrize("identity", [True, False], ids=["named", "not named"])
def test_a_second_answer_to_a_request_is_not_the_next_ones(identity: bool) -> None:
    def twice(named: bytes, found: list[Any]) -> bytes:
        return answer(whole(found), named if identity else b"") * 2

    with contextlib.suppress(ServerError), asked("classification", twice) as found:
        assert len(found) == len(TEXTS)


def test_a_slow_server_is_an_error_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_SECONDS", 0.3)
    stop = threading.Event()

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
            while not stop.wait(0.02):
                connection.sendall(b"a: b\r\n"[:1])

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        with pytest.raises(ServerError, match="no answer after"):
            RemotePredictor(f"http://127.0.0.1:{listener.getsockname()[1]}", "m")
        stop.set()
        thread.join()
