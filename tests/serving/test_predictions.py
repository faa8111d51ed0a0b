"""Answers over HTTP are those of `Predictor`, for every task; requests that are wrong are problems that say why."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.routing import Match
from starlette.testclient import TestClient

from mixling import Predictor
from mixling.answers import Method, conformal_scores
from mixling.export import amend
from mixling.serving import ServerSettings, Service

TEXTS = ["play music by the beatles", "", "Weather in PARIS?", "🫨 e\u0301te\u0301 שלום <script>", "tomorrow " * 50]
CONTEXT = "The beatles play in paris tomorrow. " * 30
REQUESTS: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "intents": ({"texts": TEXTS}, TEXTS),
    "topics": ({"texts": TEXTS}, TEXTS),
    "stars": ({"texts": TEXTS}, TEXTS),
    "slots": ({"texts": TEXTS}, TEXTS),
    "slots of words": ({"tokens": [["in", "paris"], ["a"]]}, [["in", "paris"], ["a"]]),
    "pairs": ({"pairs": [["what is", "the weather"], ["", ""]]}, [("what is", "the weather"), ("", "")]),
    "answers": (
        {"questions": [{"question": "who?", "context": CONTEXT}, {"question": "where?", "context": ""}]},
        [("who?", CONTEXT), ("where?", "")],
    ),
}


def close(found: Any, expected: Any) -> bool:
    """Whether JSON values are equal, numbers to 1e-6: batches of other sizes differ in the last bits."""
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(close(found[key], expected[key]) for key in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(close, found, expected))
    return found == (pytest.approx(expected, abs=1e-6) if isinstance(expected, float) else expected)


@pytest.mark.parametrize("name", REQUESTS)
def test_answers_are_those_of_the_predictor(client: TestClient, predictors: dict[str, Predictor], name: str) -> None:
    request, texts = REQUESTS[name]
    model = name.split()[0]
    response = client.post(f"/v1/models/{model}/predict", json=request)
    assert response.status_code == 200, response.text
    found = response.json()
    assert found["model"] == model
    expected = [json.loads(json.dumps(item.to_dict())) for item in predictors[model].predict(texts)]
    assert close(found["predictions"], expected)


def test_large_requests_take_the_worker_thread_and_are_answered_alike(
    client: TestClient, predictors: dict[str, Predictor]
) -> None:
    texts = [f"play {index} in paris" for index in range(1000)]
    found = client.post("/v1/models/intents/predict", json={"texts": texts}).json()["predictions"]
    assert close(found, [item.to_dict() for item in predictors["intents"].predict(texts)])


def test_top_k_and_threshold_leave_out_what_is_less_probable(
    client: TestClient, predictors: dict[str, Predictor]
) -> None:
    def ask(model: str, **request: Any) -> dict[str, Any]:
        return client.post(f"/v1/models/{model}/predict", json=request).json()["predictions"][0]

    expected = predictors["intents"].predict_one("play music")
    best = max(expected.probabilities.values())
    found = ask("intents", texts=["play music"], top_k=2)
    assert ask("intents", texts=["play music"], top_k=2.0) == found
    assert list(found["probabilities"].values()) == pytest.approx(sorted(expected.probabilities.values())[:0:-1])
    for threshold, abstained in ((best - 0.01, False), (best + 0.01, True)):
        found = ask("intents", texts=["play music"], threshold=threshold)
        assert (found["label"], found["abstained"]) == (expected.label, abstained)
    topics = predictors["topics"].predict_one("play music").probabilities
    middle = sorted(topics.values())[1]
    assert ask("topics", texts=["play music"], threshold=middle - 1e-9)["labels"] == [
        name for name, value in topics.items() if value >= middle
    ]
    spans = predictors["slots"].predict_one(TEXTS[0]).spans
    assert spans
    high = max(span.score for span in spans)
    assert len(ask("slots", texts=TEXTS[:1], threshold=high - 1e-9)["spans"]) == 1
    assert ask("slots", texts=TEXTS[:1], threshold=1.0)["spans"] == []
    question = {"question": "who?", "context": "the beatles"}
    if not (answer := predictors["answers"].predict_one(("who?", "the beatles")).answer).is_none:
        assert ask("answers", questions=[question], threshold=min(answer.score + 0.01, 1.0))["no_answer"]


def amended(path: Path, folder: Path, **values: Any) -> Path:
    """Return a copy of a model file with other metadata."""
    out = folder / path.name
    out.write_bytes(amend(path.read_bytes(), **values))
    return out


def test_labels_have_thresholds_of_their_own(
    make_client: Callable[..., TestClient], paths: dict[str, Path], tmp_path: Path
) -> None:
    probabilities = Predictor(paths["topics"]).predict_one("play music").probabilities
    assert probabilities is not None
    own = {"a": 1.0, "b": 0.0}  # of the model; c has none
    with make_client({"topics": amended(paths["topics"], tmp_path, label_thresholds=own)}) as client:

        def ask(threshold: Any) -> Any:
            request = {"texts": ["play music"], "threshold": threshold}
            return client.post("/v1/models/topics/predict", json=request).json()["predictions"][0]["labels"]

        for given in ({}, {"b": 1}, {"a": 0.0}, {"a": probabilities["a"], "b": 1.0, "c": 0.0}, {"c": 1.0}):
            lowest = {"c": 0.5, **own, **given}
            assert ask(given) == [name for name, value in probabilities.items() if value >= lowest[name]], given
        assert (ask(0), ask(1.0)) == (["a", "b", "c"], [])
        schema = client.get("/openapi.json").json()["paths"]["/v1/models/topics/predict"]["post"]["requestBody"]
        number, by_label = schema["content"]["application/json"]["schema"]["properties"]["threshold"]["anyOf"]
        assert by_label == {
            "type": "object", "propertyNames": {"enum": ["a", "b", "c"]}, "additionalProperties": number,
        }  # fmt: skip


@pytest.mark.parametrize("method", ["lac", "aps"])
def test_label_sets_are_those_of_the_predictor(
    make_client: Callable[..., TestClient], paths: dict[str, Path], tmp_path: Path, method: Method
) -> None:
    scores = conformal_scores(Predictor(paths["intents"]).predict_proba(TEXTS), method)
    quantile = float(np.median(np.sort(scores, 1)[:, 1])) + 1e-6  # the second label is in some sets
    path = amended(
        paths["intents"], tmp_path, conformal={"method": method, "coverage": 0.9, "quantile": quantile}
    )  # fmt: skip
    expected = [list(item.label_set or ()) for item in Predictor(path).predict(TEXTS)]  # type: ignore[union-attr]
    assert set(map(len, expected)) == {1, 2}
    with make_client({"intents": path}) as client:
        found = client.post("/v1/models/intents/predict", json={"texts": TEXTS, "top_k": 1}).json()["predictions"]
        assert [item["label_set"] for item in found] == expected
        one = client.post("/v1/models/intents/predict", json={"texts": TEXTS[:1]}).json()["predictions"]
        assert one[0]["label_set"] == expected[0]


@pytest.mark.parametrize("model", ["intents", "topics", "stars", "slots", "pairs"])
def test_explanations_are_those_of_the_predictor(
    client: TestClient, predictors: dict[str, Predictor], model: str
) -> None:
    text: Any = ("play music", "in paris") if model == "pairs" else "play 🫨 music"
    request = {"pairs": [text]} if model == "pairs" else {"texts": [text, ""]}
    found = client.post(f"/v1/models/{model}/predict", json={**request, "explain": True}).json()["predictions"]
    expected = predictors[model].explain(text, method="leave_one_out").to_dict()
    del expected["text"], expected["truncated"]
    assert close(found[0]["explanation"], json.loads(json.dumps(expected)))
    if model != "pairs":
        assert "".join(text[word["start"] : word["end"]] for word in found[0]["explanation"]["words"]) == "play🫨music"


WRONG: dict[str, tuple[str, Any, int, str]] = {
    "no JSON": ("intents", b"{", 400, "the body is not JSON"),
    "nothing": ("intents", b"", 400, "the body is not JSON"),
    "no UTF-8": ("intents", b'{"texts": ["\xff"]}', 400, "the body is not JSON"),
    "lone surrogate": ("intents", b'{"texts": ["\\ud83d"]}', 400, "hex escape"),
    "deep": ("intents", b"[" * 100_000, 400, "recursion"),
    "a list": ("intents", [], 422, "an object"),
    "no texts": ("intents", {}, 422, "/texts: is missing"),
    "empty": ("intents", {"texts": []}, 422, "/texts: is empty; give at least one item"),
    "a number": ("intents", {"texts": [1]}, 422, "/texts/0"),
    "null": ("intents", {"texts": None}, 422, "/texts"),
    "unknown key": ("intents", {"texts": ["a"], "topk": 1}, 422, "/topk: is not allowed; did you mean 'top_k'?"),
    "unknown key within": (
        "answers", {"questions": [{"question": "a", "context": "b", "id": 1}]}, 422, "/questions/0/id: is not allowed"
    ),
    "many parts": (
        "intents", {"texts": ["a"], "threshold": [[0] * 10] * 1000}, 422, "more than 10,000 lists, objects and numbers"
    ),
    "too many": ("intents", {"texts": ["a"] * 1025}, 422, "/texts: has 1025 items; allowed: at most 1024"),
    "too long": ("intents", {"texts": ["a" * 100_001]}, 422, "100000"),
    "top_k": ("intents", {"texts": ["a"], "top_k": 0}, 422, "/top_k"),
    "threshold": ("intents", {"texts": ["a"], "threshold": 1.5}, 422, "/threshold"),
    "infinite": ("intents", b'{"texts": ["a"], "threshold": Infinity}', 422, "/threshold"),
    "threshold of labels": ("intents", {"texts": ["a"], "threshold": {"music": 0.5}}, 422, "/threshold"),
    "no label": ("topics", {"texts": ["a"], "threshold": {"d": 0.5}}, 422, "/threshold: the model has no label 'd'"),
    "a label's": ("topics", {"texts": ["a"], "threshold": {"b": 1.5}}, 422, "/threshold: of 'b': a number from 0"),
    "all labels'": ("topics", {"texts": ["a"], "threshold": True}, 422, "/threshold: a number from 0 to 1"),
    "not this model's": ("intents", {"pairs": [["a", "b"]]}, 422, "/texts"),
    "not this task's": ("stars", {"texts": ["a"], "top_k": 1}, 422, "/top_k"),
    "both": ("slots", {"texts": ["a"], "tokens": [["a"]]}, 422, "exactly one of texts, tokens"),
    "three": ("pairs", {"pairs": [["a", "b", "c"]]}, 422, "/pairs/0"),
    "no question": ("answers", {"questions": [{"context": "a"}]}, 422, "/questions/0/question"),
    "much to explain": ("intents", {"texts": ["a" * 9000, "b" * 9000], "explain": True}, 422, "/explain"),
    "no such model": ("intent", {"texts": ["a"]}, 404, "intents"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_request_is_a_problem_that_says_where(client: TestClient, case: str) -> None:
    model, body, status, says = WRONG[case]
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    response = client.post(f"/v1/models/{model}/predict", content=content)
    assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json")
    problem = response.json()
    assert problem["status"] == status
    assert says in problem["detail"], problem


def test_hostile_texts_get_finite_answers(client: TestClient) -> None:
    naughty = ["\x00", "\ufeff", "\u202e" * 99, "a\u0301" * 5000, "𝔘" * 2000, "'; DROP TABLE", "\r\n" * 999, "{{7*7}}"]
    for model in ("intents", "topics", "stars", "slots"):
        found = client.post(f"/v1/models/{model}/predict", json={"texts": naughty})
        assert found.status_code == 200, found.text
        json.loads(found.text, parse_constant=pytest.fail)


def test_routes_describe_themselves(client: TestClient, predictors: dict[str, Predictor]) -> None:
    models = client.get("/v1/models").json()["models"]
    assert [model["name"] for model in models] == list(predictors)
    assert models[0]["labels"] == list(predictors["intents"].labels.names)
    assert models[0]["inputs"] == ["texts"]
    assert models[-1]["inputs"] == ["questions"]
    assert len({model["version"] for model in models}) == len(models)
    assert [client.get(f"/v1/models/{model['name']}").json() for model in models] == models
    assert client.get("/v1/models/intent").status_code == 404
    assert "did you mean 'intents'" in client.get("/v1/models/intent").json()["detail"]
    assert client.get("/healthz").json() == client.get("/health").json() == {"status": "alive"}
    assert client.get("/readyz").status_code == 200
    missing, wrong = client.get("/nope"), client.get("/v1/models/intents/predict")
    assert (missing.status_code, wrong.status_code, wrong.headers["allow"]) == (404, 405, "POST")
    assert {item.headers["content-type"] for item in (missing, wrong)} == {"application/problem+json"}


def test_paths_of_models_lead_where_their_patterns_do(service: Service, predictors: dict[str, Predictor]) -> None:
    known = service._known
    assert {name for _, path in known for name in predictors if f"/{name}" in path} == set(predictors)
    for (method, path), (endpoint, params) in known.items():
        scope = {"type": "http", "method": method, "path": path}
        matched = [route for route in service._router.routes if route.matches(scope)[0] is Match.FULL]
        assert (matched[0].app, matched[0].matches(scope)[1]["path_params"]) == (endpoint, params)
    assert ("POST", "/v1/models/intents/predict") in known


def test_examples_of_the_document_are_answered(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    examples = 0
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if method == "get":
                assert client.get(path).status_code == 200, path
                continue
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            for example in schema["examples"]:
                response = client.post(path, json=example)
                assert response.status_code == 200, (path, response.text)
                assert (
                    operation["responses"]["200"]["content"]["application/json"]["schema"]["required"][-1]
                    in response.json()
                )
                examples += 1
    assert examples == 6 + 1  # the tagger takes texts and words


def test_batched_requests_get_their_own_answers(
    make_client: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    import asyncio

    monkeypatch.setenv("MIXLING_ENGINE", "onnx")
    with make_client() as client:
        service = client.app
        sizes: list[int] = []
        service.scheduler._on_batch = sizes.append
        predictor = service.models["golden"].predictor
        texts = [f"what a film {number}" for number in range(100)]

        async def ask() -> list[Any]:
            return await asyncio.gather(*(service.scheduler.predict(predictor, [text]) for text in texts))

        found = [answers[0].to_dict() for answers in asyncio.run(ask())]
    assert sizes == [64, 36]  # what had arrived when the loop turned
    assert close(found, [predictor.predict_one(text).to_dict() for text in texts])
    assert service.scheduler.waiting == 0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("kind", ["file", "link", "pipe"])
def test_examples_are_a_file_of_the_models_folder(paths: dict[str, Path], tmp_path: Path, kind: str) -> None:
    """Whoever sends a folder with a link could have a file of this machine shown; nobody waits for a pipe's writer."""
    folder, secret = tmp_path / "folder", tmp_path / "secret"
    folder.mkdir()
    secret.write_text("a text\n")
    shutil.copy(paths["intents"], folder / "model.onnx")
    {"file": secret.rename, "link": lambda path: path.symlink_to(secret), "pipe": os.mkfifo}[kind](
        folder / "examples.txt"
    )
    service = Service(ServerSettings(models=(("m", folder),)))
    assert service.models["m"].examples == (("a text",) if kind == "file" else ())
