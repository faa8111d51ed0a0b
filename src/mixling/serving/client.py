"""Predictions of a server, for `mixling predict --url`; needs the base packages only."""

from __future__ import annotations

import http.client
import json
import random
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

from mixling.errors import ConfigError, DataError, UserError, near_miss
from mixling.serving.settings import GENERATION
from mixling.tasks import task_type
from mixling.tasks.base import Task
from mixling.text.encoder import Text
from mixling.text.labels import LabelSet
from mixling.text.predictions import Prediction
from mixling.text.spans import Answer, Span

_TRIES = 6
_FIRST_WAIT, _LONGEST_WAIT = 0.25, 8.0  # seconds between tries, which double
_RETRIED = (429, 502, 503, 504)  # the server, or a proxy before it, has too much to do
_TEXTS, _CHARS = 64, 150_000  # of a request: below a server's limits, whatever the characters are
_SECONDS = 60.0
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
        threshold: as of `Predictor`; None: that of the model.

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
        self._url, self._base = url, path
        self._headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        try:
            models = {model["name"]: model for model in self._ask("GET", "/v1/models")["models"]}
            if name not in models:
                raise ConfigError(f"{url}: has no model {name!r}; {near_miss(name, models)}")
            if models[name]["task"] == GENERATION:
                raise ConfigError(f"{url}: the model {name!r} generates text; send texts to /v1/models/{name}/predict")
        except UserError:
            self.close()
            raise
        self._path = f"/v1/models/{quote(name)}/predict"
        self._inputs: list[str] = models[name]["inputs"]
        self.task: type[Task] = task_type(models[name]["task"])
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
                batch, chars = [], 0
            batch.append(text)
            chars += size
        if batch:
            yield from self._predict(batch, options)

    def close(self) -> None:
        self._connection.close()

    def _predict(self, texts: Sequence[Text], options: Mapping[str, Any]) -> list[Prediction]:
        answer = self._ask("POST", self._path, {**options, **self._request(texts)})
        return [_prediction(values) for values in answer["predictions"]]

    def _request(self, texts: Sequence[Text]) -> dict[str, Any]:
        first = texts[0]
        key = "tokens" if isinstance(first, list) else "texts" if isinstance(first, str) else "pairs"
        if key == "pairs" and "questions" in self._inputs:
            return {"questions": [{"question": text[0], "context": text[1]} for text in texts]}
        return {key: texts}

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        # Lone surrogates cannot be sent; a predictor would replace them, too.
        content = None if body is None else _SURROGATE.sub("\ufffd", json.dumps(body, ensure_ascii=False)).encode()
        wait = _FIRST_WAIT
        for attempt in range(1, _TRIES + 1):
            status, asked_wait = 0, None
            try:
                self._connection.request(method, self._base + path, content, self._headers)
                response = self._connection.getresponse()
                status, answer = response.status, response.read()
                asked_wait = response.getheader("Retry-After")
                reason = f"answered with {status} {response.reason}"
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                reason = f"cannot be reached: {getattr(error, 'strerror', None) or str(error) or type(error).__name__}"
            if status and status not in _RETRIED:
                return self._read(status, answer)
            if attempt < _TRIES:
                asked = float(asked_wait) if asked_wait and asked_wait.isdigit() else 0.0
                # Random, so that clients that were refused together do not come back together.
                time.sleep(min(max(wait, asked), _LONGEST_WAIT) * random.uniform(0.75, 1.25))
                wait *= 2
        raise ServerError(f"{self._url}: {reason}, {_TRIES} times; is a server running there?")

    def _read(self, status: int, content: bytes) -> Any:
        try:
            answer = json.loads(content)
            detail = str(answer.get("detail", "")) if isinstance(answer, dict) else ""
        except ValueError:
            raise ServerError(f"{self._url}: answered with {status}, but not with JSON; is it mixling?") from None
        if status == 200:
            return answer
        if status in (400, 413, 422):
            raise DataError(f"the server refuses a request: {detail}", path=self._url)
        hint = "; give a key in the variable MIXLING_API_KEY" if status == 401 else ""
        raise ServerError(f"{self._url}: answered with {status}: {detail}{hint}")


def _address(url: str) -> tuple[str, str, int | None, str]:
    """Return scheme, host, port and path of a server's URL, the path as it is sent.

    Raises:
        ConfigError: it is not such a URL.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        host.encode("idna")  # as a look-up of the name does
        allowed = parts.scheme in ("http", "https") and host and not (parts.query or parts.fragment)
    except ValueError:  # a bad port or name
        allowed = ""
    if not allowed:
        raise ConfigError(f"--url: got {url!r}; give the address of a server, such as http://127.0.0.1:8000")
    return parts.scheme, host, port, quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~")


def _prediction(values: dict[str, Any]) -> Prediction:
    """Return the prediction that `Prediction.to_dict` made the JSON values of."""
    found = None
    if "answer" in values:
        found = Answer(text=values["answer"], start=values["start"], end=values["end"], score=values["score"])
    spans, labels, tokens, tags = (values.get(name) for name in ("spans", "labels", "tokens", "tags"))
    label_set = values.get("label_set")
    return Prediction(
        truncated=values["truncated"],
        empty=values.get("empty", False),
        label=values.get("label"),
        abstained=values.get("abstained"),
        label_set=None if label_set is None else tuple(label_set),
        labels=None if labels is None else tuple(labels),
        probabilities=values.get("probabilities"),
        spans=None if spans is None else tuple(Span(**span) for span in spans),
        tokens=None if tokens is None else tuple(tokens),
        tags=None if tags is None else tuple(tags),
        answer=found,
        value=values.get("value"),
    )
