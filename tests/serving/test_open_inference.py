"""The Open Inference Protocol: names, shapes and data types as its specification has them."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from mixling import Predictor


def tensor(name: str, *data: str, **changes: Any) -> dict[str, Any]:
    return {"name": name, "shape": [len(data)], "datatype": "BYTES", "data": list(data), **changes}


def infer(client: TestClient, model: str, *inputs: dict[str, Any], **more: Any) -> Any:
    return client.post(f"/v2/models/{model}/infer", json={"inputs": list(inputs), **more})


def test_labels_and_probabilities(client: TestClient, predictors: dict[str, Predictor]) -> None:
    texts = ["play music", "weather"]
    answer = infer(client, "intents", tensor("text", *texts), id="7").json()
    expected = predictors["intents"].predict(texts)
    assert (answer["model_name"], answer["id"]) == ("intents", "7")
    label, probabilities = answer["outputs"]
    assert label == {"name": "label", "datatype": "BYTES", "shape": [2], "data": [item.label for item in expected]}
    values = [value for item in expected for value in item.probabilities.values()]
    assert probabilities == {
        "name": "probabilities", "datatype": "FP32", "shape": [2, 3], "data": pytest.approx(values, abs=1e-6)
    }  # fmt: skip


@pytest.mark.parametrize(
    ("model", "inputs", "outputs"),
    [
        ("topics", [tensor("text", "a")], {"labels": "BYTES", "probabilities": "FP32"}),
        ("pairs", [tensor("text", "a"), tensor("text_pair", "b")], {"label": "BYTES", "probabilities": "FP32"}),
        ("stars", [tensor("text", "a")], {"value": "FP64"}),
        ("slots", [tensor("text", "in paris")], {"spans": "BYTES"}),
        ("answers", [tensor("question", "who?"), tensor("context", "him")], {"answer": "BYTES", "score": "FP32"}),
    ],
)
def test_every_task_has_its_tensors(
    client: TestClient, model: str, inputs: list[dict[str, Any]], outputs: dict[str, str]
) -> None:
    described = client.get(f"/v2/models/{model}").json()
    assert [item["name"] for item in described["inputs"]] == [item["name"] for item in inputs]
    assert {item["name"]: item["datatype"] for item in described["outputs"]} == outputs
    version = described["versions"][0]
    for path in (f"/v2/models/{model}/infer", f"/v2/models/{model}/versions/{version}/infer"):
        answer = client.post(path, json={"inputs": inputs})
        assert answer.status_code == 200, answer.text
        assert {item["name"]: item["datatype"] for item in answer.json()["outputs"]} == outputs
    last = list(outputs)[-1]
    chosen = infer(client, model, *inputs, outputs=[{"name": last}]).json()["outputs"]
    assert [item["name"] for item in chosen] == [last]


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ([], "/inputs"),
        ([tensor("question", "a")], "the model has the inputs text"),
        ([tensor("text", "a"), tensor("text", "b")], "the model has the inputs text"),
        ([tensor("text", "a", shape=[2])], "/inputs/0/shape"),
        ([tensor("text", "a", datatype="FP32")], "/inputs/0/datatype"),
        ([tensor("text", *["a"] * 1025)], "/inputs/0/shape"),
        ([tensor("text", "a" * 100_001)], "/inputs/0/data"),
    ],
)
def test_wrong_inputs_are_named(client: TestClient, inputs: list[dict[str, Any]], says: str) -> None:
    response = infer(client, "intents", *inputs)
    assert response.status_code == 422
    assert says in response.json()["error"]  # the protocol's key


def test_health_and_versions(client: TestClient) -> None:
    assert client.get("/v2").json()["name"] == "mixling"
    version = client.get("/v2/models/intents").json()["versions"][0]
    for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/intents/ready"):
        assert client.get(path).status_code == 200
    assert client.get(f"/v2/models/intents/versions/{version}/ready").json()["ready"] is True
    assert client.get("/v2/models/intents/versions/1").status_code == 404
    assert infer(client, "intents", tensor("text", "a"), outputs=[{"name": "x"}]).status_code == 422
    assert infer(client, "pairs", tensor("text", "a"), tensor("text_pair", "a", "b")).status_code == 422
