"""Ways to change a model file, for hostile_files.py."""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from mixling.runtime.onnx import OPERATORS

VALUES = [
    None, True, 0, -1, 1, 2, 63, 999, 2**16, 2**24, 2**31, 2**40, 2**63, 10**30, -(2**63), 0.5, -1e308, 1e400, math.nan,
    "", "a", "x" * 10_000, "\ud800", "[UNK]", "minhash", "tsp", "subwords", "embedding", "iob", "multi", "span",
    [], {}, [[]], ["a"], ["a", "a"], {"type": "tsp"}, {"type": "minhash", "num_hashes": 4096}, [0] * 1000,
]  # fmt: skip
SIZES = [-(2**63), -(2**31), -1, 0, 1, 2, 3, 7, 64, 1000, 10**5, 10**6, 10**8, 2**31, 2**40, 2**63 - 1]
STEPS: list[dict[str, Any]] = [
    {"type": "Replace", "pattern": {"Regex": "(x+x+)+y"}, "content": ""},
    {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 3000},
    {"type": "Prepend", "prepend": "x" * 50_000},
    {"type": "Precompiled", "precompiled_charsmap": "AAAA"},
    {"type": "ByteLevel"},
    {"type": "NFKD"},
    {"type": "Strip", "strip_left": True, "strip_right": True},
    {"type": "Split", "pattern": {"Regex": "(a|a)*$"}, "behavior": "Isolated", "invert": False},
    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
    {"type": "Punctuation", "behavior": "Isolated"},
]

Draw = random.Random
Model = Any  # onnx.ModelProto has no types


def structure(body: bytes) -> list[int]:
    """The places of a file that are not within weights of more than 64 bytes."""
    inside = np.zeros(len(body), bool)
    for tensor in onnx.load_from_string(body).graph.initializer:
        if len(tensor.raw_data) > 64:
            begin = body.index(tensor.raw_data)
            inside[begin : begin + len(tensor.raw_data)] = True
    return np.flatnonzero(~inside).tolist()


def flips(body: bytes, draw: Draw, locations: list[int]) -> bytes:
    """Some bytes anywhere."""
    data = bytearray(body)
    for _ in range(draw.choice([1, 1, 2, 5, 50])):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return bytes(data)


def structure_bytes(body: bytes, draw: Draw, locations: list[int]) -> bytes:
    """Some bytes outside the weights."""
    data = bytearray(body)
    for _ in range(draw.choice([1, 1, 2, 3])):
        data[draw.choice(locations)] = draw.randrange(256)
    return bytes(data)


def length_bombs(body: bytes, draw: Draw, locations: list[int]) -> bytes:
    """Huge numbers instead of a byte; a part that is missing or there several times."""
    location = draw.choice(locations)
    part = body[location : location + draw.randrange(1, 400)]
    bomb = draw.choice(
        [b"\xff\xff\xff\xff\x07", b"\xff" * 9 + b"\x01", b"\x80" * 20, b"\x7f", b"", part * 2, part * 300]
    )
    return body[:location] + bomb + body[location + draw.choice([0, 1, len(part)]) :]


def entry(model: Model, key: str) -> Any:
    return next(item for item in model.metadata_props if item.key == key)


def paths(values: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the values of nested lists and dictionaries are; of long lists the first ones."""
    if isinstance(values, dict | list):
        items = values.items() if isinstance(values, dict) else enumerate(values[:20])
        for key, value in items:
            yield (*path, key)
            yield from paths(value, (*path, key))


def change_values(values: Any, draw: Draw, choices: list[Any]) -> Any:
    """One or two of the values replaced, removed or joined by one that is not known."""
    for _ in range(draw.choice([1, 1, 2])):
        found = list(paths(values))
        if not found:
            return copy.deepcopy(draw.choice(choices))
        *before, last = draw.choice(found)
        inner = values
        for key in before:
            inner = inner[key]
        action = draw.randrange(10)
        if action == 0:
            del inner[last]
        elif action == 1 and isinstance(inner, dict):
            inner[draw.choice(["more", "type", "vocab", "x" * 200])] = copy.deepcopy(draw.choice(choices))
        else:
            inner[last] = copy.deepcopy(draw.choice(choices))
    return values


def metadata(body: bytes, draw: Draw, locations: list[int]) -> bytes:
    """Values of the configuration."""
    model = onnx.load_from_string(body)
    item = entry(model, "mixling")
    item.value = json.dumps(change_values(json.loads(item.value), draw, VALUES))
    return model.SerializeToString()


def vocabulary(body: bytes, draw: Draw, locations: list[int]) -> bytes:
    """Lines and characters of the vocabulary."""
    model = onnx.load_from_string(body)
    item = entry(model, "vocabulary")
    lines = item.value.split("\n")
    for _ in range(draw.choice([1, 1, 3])):
        location = draw.randrange(len(lines))
        line = lines[location]
        other = [
            "",
            line * 2,
            line[::-1],
            "x" * 5000,
            "\n".join(map(str, range(5000))),
            "[UNK]",
            "##",
            "\0",
            "\u202e",
            " ",
        ]
        lines[location : location + draw.choice([0, 1, 1, 2])] = [draw.choice(other)]
    item.value = "\n".join(lines)
    if draw.random() < 0.1:
        entry(model, "vocabulary_name").value = draw.choice(
            ["tokenizer.json", "vocab.txt", "", "x" * 3000, "../../etc"]
        )
    return model.SerializeToString()


def tokenizer(body: bytes, draw: Draw, locations: list[int]) -> bytes:
    """Steps and values of a tokenizer.json."""
    model = onnx.load_from_string(body)
    name, item = entry(model, "vocabulary_name"), entry(model, "vocabulary")
    if name.value == "tokenizer.json":
        values = json.loads(item.value)
    else:
        ids = {subword: i for i, subword in enumerate(item.value.split("\n")[:-1])}
        kind = draw.choice(["WordPiece", "BPE"])
        inner: dict[str, Any] = {"vocab": ids, "unk_token": "[UNK]", "continuing_subword_prefix": "##"}
        inner |= {"merges": []} if kind == "BPE" else {"max_input_chars_per_word": 100}
        values = {"model": {"type": kind, **inner}, "normalizer": None, "pre_tokenizer": None, "decoder": None}
    name.value = "tokenizer.json"
    if draw.random() < 0.5:
        steps = [draw.choice(STEPS) for _ in range(draw.choice([1, 1, 2, 5, 30]))]
        kind = draw.choice(["normalizer", "pre_tokenizer", "decoder"])
        key = f"{kind.replace('_', '')}s"
        values[kind] = steps[0] if len(steps) == 1 else {"type": "Sequence", key: steps}
    else:
        values = change_values(values, draw, [*VALUES, *STEPS])
    if draw.random() < 0.1:
        token = {"id": draw.choice([0, 3, 2**31]), "content": draw.choice(["", " ", "a", "▁", "x" * 9999])}
        values = {**values, "added_tokens": [{**token, "normalized": True}]}
    item.value = json.dumps(values)
    return model.SerializeToString()


def graph_edits(body: bytes, draw: Draw, locations: list[int]) -> bytes:
    """Nodes, weights and attributes."""
    model = onnx.load_from_string(body)
    for _ in range(draw.choice([1, 1, 2])):
        draw.choice([operator, wire, wire, weights, sizes, sizes, attribute, order, bomb, bomb, bomb])(
            model.graph, draw
        )
    return model.SerializeToString()


def names_of(graph: Any) -> list[str]:
    return [*(item.name for item in graph.input), *(name for node in graph.node for name in node.output)]


def operator(graph: Any, draw: Draw) -> None:
    others = ["Tile", "If", "Loop", "Resize", "NonZero", "TopK", "OneHot", "Einsum", "RandomNormal", "Conv", "Where"]
    draw.choice(graph.node).op_type = draw.choice([*OPERATORS, *others])


def wire(graph: Any, draw: Draw) -> None:
    node = draw.choice([node for node in graph.node if node.input])
    names = [*names_of(graph), *(item.name for item in graph.initializer), "", "nothing"]
    node.input[draw.randrange(len(node.input))] = draw.choice(names)


def weights(graph: Any, draw: Draw) -> None:
    tensor = draw.choice(graph.initializer)
    match draw.randrange(4):
        case 0 if tensor.dims:
            tensor.dims[draw.randrange(len(tensor.dims))] = draw.choice(SIZES)
        case 1:
            tensor.data_type = draw.randrange(25)
        case 2:
            tensor.raw_data = draw.choice(
                [b"", tensor.raw_data * 2, tensor.raw_data[1:], b"\xff" * len(tensor.raw_data)]
            )
        case _:
            tensor.dims.append(draw.choice(SIZES))


def sizes(graph: Any, draw: Draw) -> None:
    """The integers that shapes are made of."""
    found = [tensor for tensor in graph.initializer if tensor.data_type == onnx.TensorProto.INT64]
    tensor = draw.choice(found)
    values = np.array(numpy_helper.to_array(tensor))
    values.reshape(-1)[draw.randrange(max(values.size, 1)) :][:1] = draw.choice(SIZES)
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))


def attribute(graph: Any, draw: Draw) -> None:
    node = draw.choice([node for node in graph.node if node.attribute])
    item = draw.choice(node.attribute)
    match draw.randrange(4):
        case 0:
            item.i = draw.choice(SIZES)
        case 1:
            item.type = draw.randrange(15)
        case 2:
            item.name = draw.choice(["axis", "axes", "perm", "to", "layout", "direction", "batch_dims"])
        case _:
            item.ints.extend(draw.choice(SIZES) for _ in range(draw.choice([1, 3, 200])))


def order(graph: Any, draw: Draw) -> None:
    nodes = list(graph.node)
    first, second = draw.randrange(len(nodes)), draw.randrange(len(nodes))
    match draw.randrange(3):
        case 0:
            nodes[first], nodes[second] = nodes[second], nodes[first]
        case 1:
            del nodes[first]
        case _:
            nodes.insert(second, nodes[first])
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)


def bomb(graph: Any, draw: Draw) -> None:
    """A computation of any size, added to a result of the graph."""
    location = draw.randrange(len(graph.node))
    target, prefix = graph.node[location], f"bomb{draw.randrange(10**9)}"
    added: list[Any] = []

    def weight(value: Any) -> str:
        name = f"{prefix}w{len(graph.initializer)}"
        graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(kind: str, *inputs: str, **attributes: Any) -> str:
        added.append(helper.make_node(kind, list(inputs), [f"{prefix}n{len(added)}"], **attributes))
        return added[-1].output[0]

    size, other = draw.choice(SIZES), draw.choice([1, 3, 100, 4000, 10**5])
    tokens = node("Shape", "index", start=draw.randrange(2), end=2)
    many = draw.choice(
        [tokens, weight([size]), node("Mul", tokens, weight([size])), node("Div", weight([size]), tokens)]
    )
    one = weight(np.float32(1))
    match draw.randrange(9):
        case 0:
            big = node("Expand", one, many)
        case 1:
            big = node("ConstantOfShape", many)
        case 2:
            big = node("Cast", node("Range", weight(0), node("Squeeze", many), weight(1)), to=1)
        case 3:
            big = node("Tile", weight(np.ones(3, np.float32)), many)
        case 4:
            big = node("Pad", weight(np.ones(3, np.float32)), node("Concat", many, many, axis=0))
        case 5:
            big = node("Expand", weight(np.ones((1, 1), np.float32)), node("Concat", many, many, axis=0))
            for _ in range(draw.choice([1, 5, 200])):
                big = node("MatMul", big, big)
        case 6:
            big = node(
                "Gather", weight(np.ones((1, other), np.float32)), weight(np.zeros(draw.choice([1, 1000]), np.int64))
            )
        case 7:
            column = weight(np.ones((min(other, 20_000), 1), np.float32))
            big = node(draw.choice(["Add", "MatMul"]), column, node("Transpose", column, perm=[1, 0]))
        case _:
            big = one
            for _ in range(draw.choice([10, 1000, 9000])):
                big = node(draw.choice(["Neg", "Sin"]), big)
    total = node("ReduceSum", big, keepdims=0)
    if not target.output or draw.random() < 0.1:
        total = node("Cast", total, to=draw.choice([6, 7, 10, 11]))
    result = target.output[0]
    target.output[0] = f"{prefix}before"
    added.append(helper.make_node("Add", [target.output[0], total], [result]))
    nodes = [onnx.NodeProto.FromString(item.SerializeToString()) for item in graph.node]
    del graph.node[:]
    graph.node.extend([*nodes[: location + 1], *added, *nodes[location + 1 :]])


KINDS: dict[str, Callable[[bytes, Draw, list[int]], bytes]] = {
    "byte flips": flips,
    "structure bytes": structure_bytes,
    "length bombs": length_bombs,
    "metadata": metadata,
    "vocabulary": vocabulary,
    "tokenizer": tokenizer,
    "graph edits": graph_edits,
}
