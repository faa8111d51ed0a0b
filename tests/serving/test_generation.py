"""Models that generate text answer over HTTP as `TextGenerator` does; a server without torch refuses them at start."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

pytest.importorskip("torch", reason="needs torch")

from mixling import TextGenerator
from mixling.errors import MissingPackage
from mixling.research.seq2seq.serving import NOT_EMPTY
from mixling.serving import RemotePredictor, ServerSettings, Service

from .generator import WORDS, write_generator

TEXTS = ["red cat", "one two three dog", "bird <script> 🫨"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tasks = [{"name": "colors", "prefix": "color: "}, {"name": "pets", "prefix": "pet: "}]
    return write_generator(tmp_path_factory.mktemp("generator"), seed=0, tasks=tasks)


@pytest.fixture(scope="module")
def service(folder: Path) -> Service:
    models = (("writer", folder), ("golden", Path(__file__).parents[1] / "golden" / "model-v1.onnx"))
    return Service(ServerSettings(models=models))


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[TestClient]:
    with TestClient(service) as found:
        yield found


def ask(client: TestClient, **request: Any) -> list[dict[str, Any]]:
    response = client.post("/v1/models/writer/predict", json=request)
    assert response.status_code == 200, response.text
    return response.json()["predictions"]


def rows(generator: TextGenerator, texts: list[str], **changes: Any) -> list[Any]:
    config = generator.generation.model_copy(update=changes)
    return [
        {"answer": item.text, "score": pytest.approx(item.score, rel=1e-5), "stopped": item.stopped}
        for item in generator.generate(texts, config=config)
    ]


def test_texts_are_those_of_the_generator_with_the_prefix_of_the_task(client: TestClient, folder: Path) -> None:
    generator = TextGenerator(folder)
    plain = ask(client, texts=TEXTS, task_name="pets")
    assert plain == rows(generator, [f"pet: {text}" for text in TEXTS])
    assert plain != ask(client, texts=TEXTS, task_name="colors")
    assert ask(client, texts=TEXTS[:1], task_name="pets", num_beams=3, max_len=4) == rows(
        generator, [f"pet: {TEXTS[0]}"], num_beams=3, max_len=4
    )
    many = [f"red {word}" for word in WORDS.split()] * 3  # more than one part
    assert ask(client, texts=many, task_name="colors") == rows(generator, [f"color: {text}" for text in many])


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        ({"texts": ["red"]}, "/task_name: is missing; the model has the tasks colors, pets"),
        ({"texts": ["red"], "task_name": "pet"}, "/task_name: got 'pet'; did you mean 'pets'"),
        ({"texts": ["red", " "], "task_name": "pets"}, "/texts/1: is empty"),
        ({"texts": ["red " * 600], "task_name": "pets"}, "/texts/0: has "),
        ({"texts": ["red"], "task_name": "pets", "num_beams": 17}, "/num_beams: "),
        ({"texts": ["red"], "task_name": "pets", "max_len": 513}, "/max_len: "),
        ({"texts": ["red"], "top_k": 2}, "/top_k: "),
    ],
)
def test_mistakes_are_problems(client: TestClient, request_: dict[str, Any], problem: str) -> None:
    response = client.post("/v1/models/writer/predict", json=request_)
    assert response.status_code == 422
    assert response.json()["detail"].startswith(problem)


def test_it_is_described(client: TestClient) -> None:
    described = {model["name"]: model for model in client.get("/v1/models").json()["models"]}
    writer = described["writer"]
    assert (writer["task"], writer["inputs"], writer["tasks"]) == ("text2text", ["texts"], ["colors", "pets"])
    operation = client.get("/openapi.json").json()["paths"]["/v1/models/writer/predict"]["post"]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    assert set(schema["properties"]) == {"texts", *writer["options"]}
    assert schema["properties"]["task_name"]["enum"] == writer["tasks"]
    assert schema["required"] == ["texts", "task_name"]
    ask(client, **schema["examples"][0])
    answer = operation["responses"]["200"]["content"]["application/json"]["schema"]["properties"]["predictions"]
    assert set(answer["items"]["properties"]) == set(ask(client, texts=["red"], task_name="pets")[0])


def test_a_replaced_run_is_used_and_a_damaged_one_is_not(tmp_path: Path) -> None:
    folder = write_generator(tmp_path / "run", seed=0, tasks=[])
    service = Service(ServerSettings(models=(("writer", folder),)))
    with TestClient(service) as client:
        before = ask(client, texts=TEXTS)
        assert service.models.reload("writer") is None
        write_generator(folder, seed=1, tasks=[])
        assert service.models.reload("writer") is True
        after = ask(client, texts=TEXTS)
        assert after != before
        (folder / "model.safetensors").write_bytes(b"damaged")
        os.utime(folder / "config.json", ns=(1, 1))
        assert service.models.reload("writer") is False
        assert ask(client, texts=TEXTS) == after


def test_without_torch_the_server_does_not_start(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "mixling.research.seq2seq.generator", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingPackage, match=r"generates text, which needs torch; run pip install .*\[serve,torch"):
        Service(ServerSettings(models=(("writer", folder),)))


def test_the_client_names_the_route(monkeypatch: pytest.MonkeyPatch) -> None:
    models = json.dumps({"models": [{"name": "writer", "task": "text2text", "inputs": ["texts"]}]})
    monkeypatch.setattr(RemotePredictor, "_ask", lambda self, method, path: json.loads(models))
    with pytest.raises(Exception, match="generates text; send texts to /v1/models/writer/predict"):
        RemotePredictor("http://127.0.0.1:1", "writer")


def test_what_splits_words_in_python_is_no_text_by_the_schema() -> None:
    ecma = re.compile(NOT_EMPTY.replace(r"\s", r"\t-\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"))
    for char in map(chr, range(0x110000)):
        if not char.split():
            assert not ecma.search(char), f"{ord(char):x}"
    assert ecma.search("\x1fa")
