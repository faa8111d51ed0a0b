"""Hostile strings in every part of a request get a finite answer, or one that states what is wrong, within a second."""

from __future__ import annotations

import gc
import json
import math
import time
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from .hostile import strings

STRINGS = strings()
LIMIT = 1.0  # seconds


@pytest.fixture(autouse=True, scope="module")
def frozen() -> None:
    """What earlier tests left is not searched for garbage during a request, which takes a second."""
    gc.collect()
    gc.freeze()


def ask(client: TestClient, path: str, body: str) -> Any:
    """Send a body, lone surrogates as bytes that are not UTF-8."""
    begin = time.process_time()  # not of the clock: the test may share its machine
    response = client.post(path, content=body.encode("utf-8", "surrogatepass"))
    assert time.process_time() - begin < LIMIT
    return response


def written(values: Any) -> str:
    """Return values as JSON, in which lone surrogates are escaped; other characters are not: it would be larger."""
    text = json.dumps(values, ensure_ascii=False)
    return "".join(f"\\u{ord(char):04x}" if 0xD800 <= ord(char) <= 0xDFFF else char for char in text)


def finite(values: Any) -> bool:
    if isinstance(values, dict):
        return all(map(finite, values.values()))
    if isinstance(values, list):
        return all(map(finite, values))
    return not isinstance(values, float) or math.isfinite(values)


def test_there_are_many() -> None:
    assert len(STRINGS) >= 500


@pytest.mark.slow
def test_texts(client: TestClient) -> None:
    for text in STRINGS:
        alone = any(0xD800 <= ord(char) <= 0xDFFF for char in text)
        response = ask(client, "/v1/models/intents/predict", written({"texts": [text]}))
        assert response.status_code == (400 if alone else 200), ascii(text[:40])  # lone surrogates are no text
        if not alone:
            (prediction,) = response.json()["predictions"]
            assert finite(prediction)
            assert math.isclose(sum(prediction["probabilities"].values()), 1, abs_tol=1e-4)


@pytest.mark.parametrize("model", ["slots", "pairs", "answers"])
def test_spans_pairs_and_answers(client: TestClient, model: str) -> None:
    for text in (text for text in STRINGS[::4] if len(text) < 5000):
        request: dict[str, Any] = {"texts": [text]}
        if model == "pairs":
            request = {"pairs": [[text, "play jazz"], ["play jazz", text]]}
        elif model == "answers":
            request = {"questions": [{"question": text[:1000], "context": f"{text} in paris. {text}"}]}
        response = ask(client, f"/v1/models/{model}/predict", written(request))
        if response.status_code != 200:  # lone surrogates; an empty question
            assert response.status_code in (400, 422), ascii(text[:40])
            continue
        found = response.json()["predictions"]
        assert finite(found)
        if model == "slots":
            assert all(0 <= span["start"] < span["end"] <= len(text) for span in found[0]["spans"])


@pytest.mark.slow
def test_names_keys_and_bodies(client: TestClient) -> None:
    for text in (text for text in STRINGS[::4] if 0 < len(text) < 2000 and not text.startswith('{"texts"')):
        path = quote(text.encode("utf-8", "surrogatepass"), safe="")
        assert ask(client, f"/v1/models/{path}/predict", '{"texts": ["a"]}').status_code in (404, 405), ascii(text[:40])
        for body in (written({text: ["a"], "texts": ["a"]}), text):
            response = ask(client, "/v1/models/intents/predict", body)
            assert response.status_code in (400, 422), ascii(text[:40])
            assert response.headers["content-type"] == "application/problem+json"
