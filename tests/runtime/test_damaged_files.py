"""Whatever the bytes of a model file are, opening it ends in an answer or in `ModelFileError`: no crash, no hang."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper  # noqa: E402

from mixling import ModelConfig, ModelFileError, Predictor, Vocabulary, build_model  # noqa: E402
from mixling.answers import LabelSet  # noqa: E402
from mixling.export import export_onnx  # noqa: E402
from mixling.models import TorchNetwork  # noqa: E402
from mixling.networks import pnlp_mixer  # noqa: E402
from mixling.runtime.onnx import read_metadata, seal  # noqa: E402

SEAL_LENGTH = 84


@pytest.fixture(autouse=True)
def _by_onnx_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs are for ONNX Runtime; the native engine does not read them (tests/native/mutate.c)."""
    monkeypatch.setenv("MIXLING_ENGINE", "onnx")


@pytest.fixture(scope="module")
def content() -> bytes:
    config: ModelConfig = pnlp_mixer(num_features=32, window=0, dim=4, num_layers=1)
    return export_onnx(
        TorchNetwork(build_model(config, num_outputs=2, output="text", seed=0)),
        text=config.text,
        task="classification",
        labels=LabelSet(("a", "b"), "single"),
        vocabulary=Vocabulary.parse("vocab.txt", "[UNK]\na\n##b\n"),
        precision="int8",
    )


def refusal(path: Path, content: bytes | None = None) -> str:
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ModelFileError) as caught:
        Predictor(path)
    message = str(caught.value)
    assert message.startswith(str(path)), "the message must name the file first"
    assert message.count(str(path)) == 1
    assert "\n" not in message
    return message


def changed(content: bytes, change: Callable[[Any], None]) -> bytes:
    """The file of a changed ModelProto, with a checksum that is right: what an author of ill will would write."""
    model = onnx.load_from_string(content[:-SEAL_LENGTH])
    change(model)
    return seal(model.SerializeToString())


def with_metadata(content: bytes, **values: Any) -> bytes:
    def change(model: Any) -> None:
        entry = next(item for item in model.metadata_props if item.key == "mixling")
        entry.value = json.dumps({**json.loads(entry.value), **values})

    return changed(content, change)


def test_sound_file_is_read(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(content)
    assert Predictor(tmp_path).predict("a b").label in ("a", "b")
    assert changed(content, lambda model: None) == content
    model = onnx.load_from_string(content)  # the seal is part of the format
    assert {item.key: item.value for item in model.metadata_props}.items() >= read_metadata(content).items()


def test_what_is_no_model_file(content: bytes, tmp_path: Path) -> None:
    assert "no such file" in refusal(tmp_path / "missing.onnx")
    assert "has no model.onnx" in refusal(tmp_path)
    assert "is empty" in refusal(tmp_path / "empty.onnx", b"")
    for name, other in {
        "text": b"hello world\n",
        "zip": b"PK\x03\x04" + bytes(100),
        "random": os.urandom(5000),
        "pickle": pickle.dumps({"a": [1, 2, 3]}),
        "zeros": bytes(4096),
        "json": b'{"format_version": 1}',
    }.items():
        assert "not a complete ONNX file" in refusal(tmp_path / name, other)
    (tmp_path / "folder" / "model.onnx").mkdir(parents=True)
    with pytest.raises(ModelFileError, match="not a regular file"):
        Predictor(tmp_path / "folder")
    with pytest.raises(ModelFileError):
        Predictor("nul\0byte.onnx")
    with pytest.raises(ModelFileError):
        Predictor("x" * 5000)
    if hasattr(os, "mkfifo"):  # reading it would wait for ever
        os.mkfifo(tmp_path / "pipe")
        assert "not a regular file" in refusal(tmp_path / "pipe")


def test_file_beyond_the_cap_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.onnx"
    with path.open("wb") as file:
        file.truncate(2**31 + 1)  # sparse: takes no room
    assert "2,147,483,649 bytes" in refusal(path)


def test_unreadable_file(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user reads everything")
    assert "cannot be read" in refusal(path)


def test_onnx_files_of_others(content: bytes, tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "other",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
    )
    other = helper.make_model(graph).SerializeToString()
    assert "is an ONNX file but not a mixling model" in refusal(tmp_path / "m.onnx", other)
    assert "is an ONNX file but not a mixling model" in refusal(tmp_path / "m.onnx", seal(other))
    assert "does not end in its checksum" in refusal(tmp_path / "m.onnx", content[:-SEAL_LENGTH])


def test_the_native_engine_gives_the_same_reasons(content: bytes, tmp_path: Path) -> None:
    from mixling.native import _core as core

    unsealed = content[:-SEAL_LENGTH]
    reasons = set()
    for data in (
        b"hello world\n",
        bytes(4096),
        seal(b"hello world\n"),
        content[:-3],
        unsealed,
        seal(unsealed[: len(unsealed) // 2]),
        content[:5000] + bytes([content[5000] ^ 1]) + content[5001:],
        unsealed.replace(b"mixling", b"maxling"),
        seal(unsealed.replace(b"mixling", b"maxling")),
        seal(unsealed.replace(b"\x0a\x0avocabulary\x12", b"\x0a\x0avocabulory\x12")),
    ):
        with pytest.raises(ValueError) as caught:
            core.Model(data, 1 << 20, 0)
        assert refusal(tmp_path / "m.onnx", data) == f"{tmp_path / 'm.onnx'}: {caught.value}"
        reasons.add(str(caught.value))
    assert len(reasons) == 5


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"format_version": 2}, "has format version 2; this version of mixling reads version 1"),
        ({"format_version": 0}, "has no format version"),
        ({"format_version": "1"}, "has no format version"),
        ({"format_version": True}, "has no format version"),
        ({"format_version": None}, "has no format version"),
        ({"task": 3}, "task"),
        ({"parameters": -1}, "parameters"),
        ({"precision": "int4"}, "precision"),
        ({"more": 1}, "unknown key 'more'"),
        ({"text": []}, "text"),
        ({"text": {"max_len": 10**12}}, "max_len"),
        ({"text": {"max_len": 0}}, "max_len"),
        ({"text": {"projection": {"type": "minhash", "num_features": 10**12}}}, "num_features"),
        ({"text": {"projection": {"type": "minhash", "num_features": 33}}}, "the graph cannot be run"),
        ({"text": {"projection": {"type": "embedding", "num_features": 2**39, "embedding_dim": 1}}}, "inputs"),
        ({"text": {"projection": {"type": "tsp"}}}, "the graph's inputs"),
        ({"text": {"projection": {"type": "other"}}}, "unknown type"),
        ({"text": {"hash_version": 2}}, "hash_version"),
        ({"labels": None}, "labels"),
        ({"labels": {"kind": "single", "names": "ab"}}, "labels"),
        ({"labels": {"kind": "single", "names": ["a", 2]}}, "labels"),
        ({"labels": {"kind": ["single"], "names": ["a", "b"]}}, "labels"),
        ({"labels": {"kind": "single", "names": ["a", "b", "c"]}}, "for 3 labels"),
        ({"labels": {"kind": "iob", "names": ["O", "B-x"]}}, "'iob'"),
        (
            {"task": "question_answering", "labels": {"kind": "span", "names": ["start", "end"]}},
            "a reading configuration but no questions",
        ),
        ({"task": "question_answering", "labels": {"kind": "span", "names": ["from", "to"]}}, "labels"),
        ({"task": "tagging"}, "labels: got kind 'single'"),
        ({"task": "taging"}, "did you mean 'tagging'"),
        ({"reading": {}}, "a reading configuration but no questions"),
        ({"reading": {"stride": 0}}, "stride"),
        ({"text": {"projection": {"type": "minhash", "num_hashes": 4097}}}, "num_hashes"),
        ({"text": {"projection": {"type": "minhash"}, "max_word_chars": 1001}}, "max_word_chars"),
        (
            {"task": "question_answering", "labels": {"kind": "span", "names": ["start", "end"]}, "reading": {}},
            "'span'",
        ),
    ],
)
def test_metadata_of_wrong_values(content: bytes, tmp_path: Path, values: dict[str, Any], reason: str) -> None:
    assert reason in refusal(tmp_path / "m.onnx", with_metadata(content, **values))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("mixling", ""),
        ("mixling", "[1, 2]"),
        ("mixling", "null"),
        ("mixling", "[" * 100_000),
        ("mixling", '{"format_version": ' + "9" * 10_000 + "}"),
        ("mixling", '{"format_version": 1, "format_version": NaN}'),
        ("vocabulary", ""),
        ("vocabulary", "a\nb\n"),
        ("vocabulary", "[UNK]\na\na\n"),
        ("vocabulary_name", "tokenizer.json"),
    ],
)
def test_entries_that_cannot_be_read(content: bytes, tmp_path: Path, key: str, value: str) -> None:
    def change(model: Any) -> None:
        next(item for item in model.metadata_props if item.key == key).value = value

    refusal(tmp_path / "m.onnx", changed(content, change))


def test_long_texts_of_a_model_that_lies_about_its_length(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(
        with_metadata(content, text={"projection": {"type": "minhash", "num_features": 32}, "max_len": 999})
    )
    predictor = Predictor(path)
    with pytest.raises(ModelFileError, match="the graph cannot be run"):
        predictor.predict("a " * 999)


def loop(model: Any) -> None:
    model.graph.node.append(helper.make_node("Loop", ["", ""], ["z"], body=onnx.GraphProto(name="b")))


def branch(model: Any) -> None:
    model.graph.node.append(
        helper.make_node("If", ["c"], ["z"], then_branch=onnx.GraphProto(), else_branch=onnx.GraphProto())
    )


def external(model: Any) -> None:
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/passwd")


def external_constant(model: Any) -> None:
    tensor = TensorProto(name="t", data_type=TensorProto.UINT8, dims=[4])
    tensor.external_data.add(key="location", value="../secret")
    model.graph.node.append(helper.make_node("Constant", [], ["z"], value=tensor))


def function(model: Any) -> None:
    model.functions.append(onnx.FunctionProto(name="f"))


def foreign_operator(model: Any) -> None:
    model.graph.node[0].domain = "com.microsoft"


def foreign_opset(model: Any) -> None:
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))


def sparse(model: Any) -> None:
    model.graph.sparse_initializer.append(onnx.SparseTensorProto())


def renamed_input(model: Any) -> None:
    model.graph.input[0].name = "other"


def wrong_rank(model: Any) -> None:
    model.graph.input[0].type.tensor_type.shape.dim.add().dim_value = 2


def free_width(model: Any) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "R"


def wide_rows(model: Any) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 2**40


def swapped_outputs(model: Any) -> None:
    model.graph.output.reverse()


def fewer_outputs(model: Any) -> None:
    del model.graph.output[1]


def unknown_operator(model: Any) -> None:
    model.graph.node[0].op_type = "NoSuchOperator"


def no_nodes(model: Any) -> None:
    del model.graph.node[:]


def other_dims(model: Any) -> None:
    model.graph.initializer[0].dims[0] = 2**40


def negative_dims(model: Any) -> None:
    next(item for item in model.graph.initializer if len(item.dims) == 1).dims[0] = -1


def missing_input(model: Any) -> None:
    del next(node for node in model.graph.node if node.op_type == "LayerNormalization").input[1:]


def newer_opset(model: Any) -> None:
    model.opset_import[0].version = 10_000


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (loop, "a graph within a node"),
        (branch, "a graph within a node"),
        (external, "stores weights in another file"),
        (external_constant, "stores weights in another file"),
        (function, "functions"),
        (foreign_operator, "'com.microsoft'"),
        (foreign_opset, "'ai.onnx.ml'"),
        (sparse, "sparse"),
        (renamed_input, ""),
        (wrong_rank, ""),
        (free_width, "the rows of words"),
        (wide_rows, ""),
        (swapped_outputs, "outputs"),
        (fewer_outputs, "outputs"),
        (unknown_operator, "the operator 'NoSuchOperator'"),
        (no_nodes, "no node computes the graph's outputs"),
        (other_dims, "their shape needs"),
        (negative_dims, "have the shape [-1]"),
        (newer_opset, "ONNX operator sets [10000]"),
        (missing_input, "ONNX Runtime cannot read it"),
    ],
)
def test_hostile_graphs(content: bytes, tmp_path: Path, change: Callable[[Any], None], reason: str) -> None:
    assert reason in refusal(tmp_path / "m.onnx", changed(content, change))


def test_many_tiny_fields_are_not_walked_to_the_end(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    assert "more than 500,000 fields" in refusal(path, seal(content[:-SEAL_LENGTH] + b"\x28\x01" * 3_000_000))


FUZZ = """
import random, sys
from mixling.errors import ModelFileError
from mixling.runtime.onnx import seal
from mixling import Predictor

content = open(sys.argv[1], "rb").read()
body = content[:-84]
generator = random.Random(7)

def attempt(data):
    try:
        Predictor(data).predict(["a b", "", "b " * 100])
        return True
    except ModelFileError:
        return False

assert attempt(content)
for end in [*range(0, 300, 7), *(generator.randrange(len(content)) for _ in range(200)), len(content) - 1]:
    assert not attempt(content[:end]), end
for _ in range(300):  # chance: the checksum tells
    data = bytearray(content)
    data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
    assert not attempt(bytes(data))
read = 0
for _ in range(400):  # ill will: with a checksum that is right, native code reads it
    data = bytearray(body)
    for _ in range(generator.choice([1, 1, 2, 5])):
        data[generator.randrange(len(data))] = generator.randrange(256)
    read += attempt(seal(bytes(data)))
for _ in range(100):
    attempt(seal(body[: generator.randrange(len(body))]))
    attempt(seal(generator.randbytes(generator.randrange(2000))))
assert read > 0
print("done")
"""


@pytest.mark.slow
def test_random_damage_never_crashes(content: bytes, tmp_path: Path) -> None:
    """In a process of its own, so that a crash or a hang in native code is seen as one."""
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    out = subprocess.run([sys.executable, "-c", FUZZ, str(path)], capture_output=True, text=True, timeout=120)
    assert (out.returncode, out.stdout, out.stderr) == (0, "done\n", "")


@pytest.mark.slow
def test_no_change_of_a_file_exhausts_or_crashes_its_reader(content: bytes, tmp_path: Path) -> None:
    """A few hundred of the changes of benchmarks/hostile_files.py, which has a result for 20,000."""
    script = Path(__file__).parents[2] / "benchmarks" / "hostile_files.py"
    (tmp_path / "classification.onnx").write_bytes(content)
    golden = Path(__file__).parents[1] / "golden" / "model-v1.onnx"
    (tmp_path / "golden.onnx").write_bytes(golden.read_bytes())
    result = tmp_path / "result.json"
    command = [sys.executable, str(script), "--models", str(tmp_path), "--count", "420", "--out", str(result)]
    out = subprocess.run(command, capture_output=True, text=True, timeout=150)
    assert out.returncode == 0, out.stdout + out.stderr
    found = json.loads(result.read_text())
    assert found["faults"] == []
    assert sum(found["outcomes"].values()) == 420
    assert found["outcomes"]["answered"] > 40
    assert found["outcomes"]["refused"] > 200
