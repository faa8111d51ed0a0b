"""Predictions of a server, for `mixling predict --url`; needs the base packages only."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from email.message import Message
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from mixling.answers.labels import LabelSet
from mixling.answers.predictions import Prediction
from mixling.errors import ConfigError, DataError, UserError, near_miss, shown
from mixling.features.cells import Cells, cells_of, with_cells
from mixling.features.kinds import parse_features
from mixling.serving.answers import WrongAnswer, parse_answer, read_models, read_predictions
from mixling.serving.settings import GENERATION
from mixling.tasks import task_type
from mixling.tasks.base import Task
from mixling.text.encoder import Text

REQUEST_HEADER = "Mixling-Request"  # an answer repeats its value
_TRIES = 6
# seconds between tries, which double
_FIRST_WAIT = 0.25
_LONGEST_WAIT = 8.0
_RETRIED = (429, 502, 503, 504)  # the server, or a proxy before it, has too much to do
# of a request: below a server's limits, whatever the characters are
_TEXTS = 64
_CHARS = 150_000
_SECONDS = 30.0  # for an answer; a server has 10 s by default
_MAX_ANSWER = 16 << 20  # bytes
_MAX_DETAIL = 500  # characters of an error
_T = TypeVar("_T")
_SURROGATE = re.compile("[\ud800-\udfff]")


class ServerError(UserError):
    """A server that cannot be reached, or that refuses requests."""


class RemotePredictor:
    """Predicts with a model of a server as `Predictor` does with a file.

    Requests are repeated after waits that double when the server cannot be reached or has too much to do.

    Args:
        url: of the server, such as http://127.0.0.1:8000; a path before the routes is kept.
        name: of the model.
        key: an API key; None: the server asks for none.
        threshold: as of `Predictor`; None: the model's.

    Raises:
        ConfigError: the URL or the key is malformed, or the server has no such model.
        ServerError: the server cannot be reached, or refuses.
    """

    def __init__(
        self,
        url: str,
        name: str,
        *,
        key: str | None = None,
        threshold: float | Mapping[str, float] | None = None,
    ) -> None:
        scheme, host, port, path = _address(url)
        if key is not None and not (key.isascii() and key.isprintable()):
            raise ConfigError("MIXLING_API_KEY: an API key has printable ASCII characters only; check for line breaks")
        kind = http.client.HTTPSConnection if scheme == "https" else http.client.HTTPConnection
        self._connection = kind(host, port, timeout=_SECONDS)
        self._options: dict[str, Any] = {}
        if threshold is not None:
            self._options["threshold"] = dict(threshold) if isinstance(threshold, Mapping) else threshold
        self._url = url
        self._base = path
        self._headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        try:
            models = self._checked(read_models, self._ask("GET", "/v1/models"))
            if name not in models:
                raise ConfigError(f"{url}: has no model {name!r}; {near_miss(name, models)}")
            if models[name]["task"] == GENERATION:
                raise ConfigError(f"{url}: the model {name!r} generates text; send texts to /v1/models/{name}/predict")
            task = models[name]["task"]
            try:
                self.task: type[Task] = task_type(task)
            except UserError as error:
                raise ServerError(f"{url}: the model {name!r} has the task {shown(task[:50])}: {error}") from None
        except UserError:
            self.close()
            raise
        self._name = name
        self._path = f"/v1/models/{quote(name)}/predict"
        self._inputs: list[str] = models[name]["inputs"]
        self.features: tuple[str, ...] = tuple(models[name].get("columns", ()))
        self.feature_names = tuple(parse_features(self.features))
        names = models[name].get("labels")
        self.labels = LabelSet(tuple(names), self.task.kind) if names else None

    def predict_stream(
        self, texts: Iterable[Text], *, batch_size: int = _TEXTS, top_k: int | None = None
    ) -> Iterator[Prediction]:
        """Yield predictions in the order of the texts.

        Args:
            batch_size: texts of a request, at most 64.
            top_k: as of `Predictor.predict`.

        Raises:
            DataError: the server refuses a text.
            ServerError: it cannot be reached, or refuses otherwise.
        """
        options = self._options if top_k is None else {**self._options, "top_k": top_k}
        batch: list[Text] = []
        chars = 0
        for text in texts:
            size = len(text) if isinstance(text, str) else sum(map(len, text))
            if batch and (
                len(batch) == min(batch_size, _TEXTS) or chars + size > _CHARS or type(batch[0]) is not type(text)
            ):
                yield from self._predict(batch, options)
                batch = []
                chars = 0
            batch.append(text)
            chars += size
        if batch:
            yield from self._predict(batch, options)

    def close(self) -> None:
        self._connection.close()

    def _predict(self, texts: Sequence[Text], options: Mapping[str, Any]) -> list[Prediction]:
        # Lone surrogates cannot be sent; a predictor would replace them, too.
        sent = [_sent(text) for text in texts]
        answer = self._ask("POST", self._path, {**options, **self._request(sent)})
        whole = "top_k" not in options
        return self._checked(read_predictions, answer, sent, model=self._name, task=self.task, whole=whole)

    def _checked(self, read: Callable[..., _T], *values: Any, **options: Any) -> _T:
        """Return what a function reads of an answer; one that is wrong ends the connection."""
        try:
            return read(*values, **options)
        except WrongAnswer as error:
            self.close()
            raise ServerError(f"{self._url}: answered {error}") from None

    def _request(self, texts: Sequence[Text]) -> dict[str, Any]:
        first = texts[0]
        key = "tokens" if isinstance(first, list) else "texts" if isinstance(first, str) else "pairs"
        if key == "pairs" and "questions" in self._inputs:
            return {"questions": [{"question": text[0], "context": text[1]} for text in texts]}
        if self.feature_names:
            rows = [dict(zip(self.feature_names, cells_of(text) or (), strict=True)) for text in texts]
            return {key: texts, "columns": rows}
        return {key: texts}

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        content = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        wait = _FIRST_WAIT
        for attempt in range(1, _TRIES + 1):
            asked = 0.0
            try:
                status, headers, answer = self._exchange(method, self._base + path, content)
                if status not in _RETRIED:
                    return self._read(status, headers, answer)
                if re.fullmatch("[0-9]{1,9}", found := headers.get("Retry-After", "")):
                    asked = float(found)
                reason = f"answered with {status} {http.client.responses.get(status, '')}".rstrip()
            except TimeoutError:
                raise ServerError(f"{self._url}: there was no answer after {_SECONDS:g} s") from None
            except (OSError, http.client.RemoteDisconnected, http.client.IncompleteRead) as error:
                reason = f"cannot be reached: {getattr(error, 'strerror', None) or str(error) or type(error).__name__}"
            except (http.client.HTTPException, ValueError) as error:
                raise ServerError(f"{self._url}: does not speak HTTP: {type(error).__name__}; is it mixling?") from None
            if attempt < _TRIES:
                # Random, so that clients that were refused together do not come back together.
                time.sleep(min(max(wait, asked), _LONGEST_WAIT) * random.uniform(0.75, 1.25))
                wait *= 2
        raise ServerError(f"{self._url}: {reason}, {_TRIES} times; is a server running there?")

    def _exchange(self, method: str, path: str, content: bytes | None) -> tuple[int, Message, bytes]:
        """Send a request and return status, headers and body of its answer.

        The connection is used again only if the answer names the request: a server that answers twice would give the
        next request the answer of this one.

        Raises:
            ServerError: the answer is another request's, or too large.
            TimeoutError: it takes too long.
            OSError, HTTPException: there is none.
        """
        connection = self._connection
        identity = secrets.token_hex(8)
        late = threading.Event()
        keep = False
        try:
            if connection.sock is None:
                connection.connect()
            watch = threading.Timer(_SECONDS, _cut, (connection.sock, late))
            watch.daemon = True
            watch.start()
            try:
                connection.request(method, path, content, {**self._headers, REQUEST_HEADER: identity})
                response = connection.getresponse()
                answer = self._body(response)
            except (OSError, ValueError, AttributeError, http.client.HTTPException):
                if late.is_set():
                    raise TimeoutError from None
                raise
            finally:
                watch.cancel()
            if late.is_set():
                raise TimeoutError
            named = response.getheader(REQUEST_HEADER)
            if named not in (None, identity):
                raise ServerError(f"{self._url}: answered another request than this one")
            keep = named is not None
            return response.status, response.headers, answer
        finally:
            if not keep:
                connection.close()

    def _body(self, response: http.client.HTTPResponse) -> bytes:
        parts = []
        size = 0
        while part := response.read(1 << 16):
            parts.append(part)
            size += len(part)
            if size > _MAX_ANSWER:
                raise ServerError(f"{self._url}: answered with more than {_MAX_ANSWER:,} bytes; is it mixling?")
        if response.length:
            raise http.client.IncompleteRead(b"", response.length)
        return b"".join(parts)

    def _read(self, status: int, headers: Message, content: bytes) -> Any:
        if 300 <= status < 400:
            place = headers.get("Location", "")[:200]
            raise ServerError(f"{self._url}: redirects to {shown(place)}; if you trust it, give that address")
        if status == 200:
            return self._checked(parse_answer, content)
        try:
            answer = parse_answer(content)
        except WrongAnswer as error:
            raise ServerError(f"{self._url}: answered with {status}, but {error}") from None
        detail = str(answer.get("detail", ""))[:_MAX_DETAIL] if isinstance(answer, dict) else ""
        if status in (400, 413, 422):
            raise DataError(f"the server refuses a request: {detail}", path=self._url)
        hint = "; give a key in the variable MIXLING_API_KEY" if status == 401 else ""
        raise ServerError(f"{self._url}: answered with {status}: {detail}{hint}")


def _cut(connection: socket.socket, late: threading.Event) -> None:
    """End an exchange that takes too long."""
    late.set()
    with contextlib.suppress(OSError, ValueError):
        connection.shutdown(socket.SHUT_RDWR)


def _sent(text: Text) -> Text:
    if isinstance(text, str):
        return with_cells(_SURROGATE.sub("\ufffd", text), _sent_cells(text))
    words = [_SURROGATE.sub("\ufffd", word) for word in text]
    return words if isinstance(text, list) else with_cells(tuple(words), _sent_cells(text))


def _sent_cells(text: Text) -> Cells | None:
    cells = cells_of(text)
    return cells and tuple(cell and _SURROGATE.sub("\ufffd", cell) for cell in cells)


def _address(url: str) -> tuple[str, str, int | None, str]:
    """Return scheme, host, port and path of a server's URL, the path as it is sent.

    Raises:
        ConfigError: it is not such a URL.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = parts.port
        host.encode("idna")  # as a look-up of the name does
        allowed = parts.scheme in ("http", "https") and host and not (parts.query or parts.fragment)
    except ValueError:  # a bad port or name
        allowed = ""
    if not allowed:
        raise ConfigError(f"--url: got {url!r}; give the address of a server, such as http://127.0.0.1:8000")
    return parts.scheme, host, port, quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~")
