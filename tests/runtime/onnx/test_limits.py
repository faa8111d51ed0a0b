"""Graphs that were made to exhaust their reader are refused before ONNX Runtime sees them, and at every new size."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from mixling import ModelFileError, Predictor  # noqa: E402
from mixling.runtime.onnx import seal  # noqa: E402
from mixling.runtime.onnx.file import MAX_NODES  # noqa: E402

CONTENT = (Path(__file__).parents[2] / "golden" / "model-v1.onnx").read_bytes()
SEAL_LENGTH = 84
LOGITS = "logits.before"


class Author:
    """Puts nodes behind the golden model's logits (B, 3) and seals the file."""

    def __init__(self) -> None:
        self.model = onnx.load_from_string(CONTENT[:-SEAL_LENGTH])
        self.graph = self.model.graph
        self.graph.node[-1].output[0] = LOGITS
        self.names = (f"n{i}" for i in range(10**6))

    def weights(self, values: Any) -> str:
        name = next(self.names)
        self.graph.initializer.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def node(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        output = output or next(self.names)
        self.graph.node.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    def tokens(self) -> str:
        """The number of tokens, (1,)."""
        return self.node("Shape", "index", start=1, end=2)

    def add(self, big: str) -> bytes:
        """The file whose logits have the sum over a tensor added."""
        total = self.node("ReduceSum", big, keepdims=0)
        return self.end(self.node("Add", LOGITS, total))

    def end(self, last: str) -> bytes:
        self.node("Identity", last, output="logits")
        return seal(self.model.SerializeToString())


def expand(author: Author) -> bytes:
    return author.add(author.node("Expand", author.weights(np.float32(1)), author.weights([10**8])))


def expand_by_parts(author: Author) -> bytes:
    """The size is computed: no constant of the file is large."""
    size = author.weights([1000])
    for _ in range(3):
        size = author.node("Mul", size, author.weights([100]))
    return author.add(author.node("Expand", author.weights(np.float32(1)), size))


def many_results(author: Author) -> bytes:
    """Of 4 MB each, held all at once."""
    one, size = author.weights(np.float32(1)), author.node("Mul", author.tokens(), author.weights([500_000]))
    parts = [author.node("Expand", one, size) for _ in range(200)]
    return author.add(author.node("Concat", *parts, axis=0))


def fold(author: Author) -> bytes:
    """All of it constant, so that it is computed when the file is opened."""
    parts = [author.node("Expand", author.weights(np.float32(i)), author.weights([1 << 20])) for i in range(100)]
    return author.add(author.node("Concat", *parts, axis=0))


def count(author: Author) -> bytes:
    found = author.node("Range", *(author.weights(value) for value in (0, 10**9, 1)))
    return author.add(author.node("Cast", found, to=TensorProto.FLOAT))


def fill(author: Author) -> bytes:
    return author.add(author.node("ConstantOfShape", author.weights([10**5, 10**5])))


def pad(author: Author) -> bytes:
    return author.add(author.node("Pad", LOGITS, author.weights([0, 0, 0, 10**9])))


def tile(author: Author) -> bytes:
    return author.add(author.node("Tile", LOGITS, author.weights([10**5, 10**5])))


def multiply(author: Author) -> bytes:
    matrix = author.node("Expand", author.weights(np.float32([[1]])), author.weights([4000, 4000]))
    for _ in range(200):
        matrix = author.node("MatMul", matrix, matrix)
    return author.add(matrix)


def multiply_small(author: Author) -> bytes:
    """No result is large, the work is."""
    left = author.node("Expand", author.weights(np.float32([[1]])), author.weights([8, 500_000]))
    right = author.node("Expand", author.weights(np.float32([[1]])), author.weights([500_000, 8]))
    return author.add(author.node("Concat", *(author.node("MatMul", left, right) for _ in range(2000)), axis=0))


def outer(author: Author) -> bytes:
    column = author.weights(np.ones((20_000, 1), np.float32))
    return author.add(author.node("MatMul", column, author.node("Transpose", column, perm=[1, 0])))


def broadcast(author: Author) -> bytes:
    column = author.weights(np.ones((20_000, 1), np.float32))
    return author.add(author.node("Add", column, author.node("Transpose", column, perm=[1, 0])))


def gather(author: Author) -> bytes:
    index = author.weights(np.zeros((5000,), np.int64))
    wide = author.node("Gather", author.weights(np.ones((1, 5000), np.float32)), index, axis=0)
    return author.add(author.node("Gather", wide, index, axis=1))


def by_values(author: Author) -> bytes:
    """The size is what the weights make of the text: nobody knows it before."""
    size = author.node("Cast", author.node("ReduceMax", LOGITS, keepdims=0), to=TensorProto.INT64)
    size = author.node("Unsqueeze", size, author.weights([0]))
    return author.add(author.node("Expand", author.weights(np.float32(1)), size))


def divide(author: Author) -> bytes:
    """The least integer by -1: the processor's signal would end the process."""
    least = author.node("Mul", author.tokens(), author.weights([-(2**63)]))
    negative = author.node("Sub", author.weights([0]), author.tokens())
    number = author.node("Div", least, author.node("Div", negative, author.tokens()))
    return author.add(author.node("Cast", number, to=TensorProto.FLOAT))


def too_many(author: Author) -> bytes:
    for _ in range(MAX_NODES):
        author.node("Identity", LOGITS)
    return author.end(LOGITS)


def sizes_of_cache(author: Author) -> bytes:
    size = author.node("Shape", "cached", start=0, end=1)
    return author.add(author.node("Expand", author.weights(np.float32(1)), size))


def fixed_input(author: Author) -> bytes:
    """ONNX Runtime takes the size for a constant, and computes with it when it opens the file."""
    author.graph.input[2].type.tensor_type.shape.dim[1].dim_value = 10**9
    return author.add(author.node("Expand", author.weights(np.float32(1)), author.tokens()))


def fixed_output(author: Author) -> bytes:
    author.graph.output[0].type.tensor_type.shape.dim[0].dim_value = 10**9
    return author.end(LOGITS)


def noted_shape(author: Author) -> bytes:
    note = helper.make_tensor_value_info(LOGITS, TensorProto.FLOAT, [10**9, 3])
    author.graph.value_info.append(note)
    return author.end(LOGITS)


def weights_in_text(author: Author) -> bytes:
    author.graph.initializer.append(helper.make_tensor("w", TensorProto.FLOAT, [2], [1.0, 2.0]))
    return author.end(LOGITS)


def more_bytes(author: Author) -> bytes:
    author.graph.initializer[0].raw_data += bytes(8)
    return author.end(LOGITS)


def strings(author: Author) -> bytes:
    author.graph.initializer.append(TensorProto(name="w", data_type=TensorProto.STRING, dims=[0]))
    return author.end(LOGITS)


def other_attribute(author: Author) -> bytes:
    return author.add(author.node("Softmax", LOGITS, axis=1, other=3))


def attribute_of_two_types(author: Author) -> bytes:
    author.node("Softmax", LOGITS, axis=1)
    author.graph.node[-1].attribute[0].f = 1.5
    return author.end(LOGITS)


def many_parts(author: Author) -> bytes:
    author.node("Split", LOGITS, axis=1, num_outputs=10**12)
    return author.end(LOGITS)


def many_dimensions(author: Author) -> bytes:
    result = LOGITS
    for _ in range(100):
        result = author.node("Unsqueeze", result, author.weights(list(range(50))))
    return author.add(result)


def older_operators(author: Author) -> bytes:
    author.model.opset_import[0].version = 9
    return author.end(LOGITS)


def made_twice(author: Author) -> bytes:
    author.node("Identity", LOGITS, output="w")
    author.node("Identity", LOGITS, output="w")
    return author.end(LOGITS)


def from_later(author: Author) -> bytes:
    author.node("Identity", "later", output="sooner")
    author.node("Identity", "sooner", output="later")
    return author.end(LOGITS)


MEMORY, WORK = "more memory than", "more multiplications than"


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (expand, MEMORY),
        (expand_by_parts, MEMORY),
        (many_results, MEMORY),
        (fold, MEMORY),
        (count, MEMORY),
        (fill, MEMORY),
        (pad, MEMORY),
        (tile, "the operator 'Tile'"),
        (multiply, MEMORY),
        (multiply_small, WORK),
        (outer, MEMORY),
        (broadcast, MEMORY),
        (gather, MEMORY),
        (by_values, "not known beforehand"),
        (divide, "divided by values that may not be positive"),
        (too_many, "more than 10,000 nodes"),
        (sizes_of_cache, "number of cached words"),
        (fixed_input, "a model's are variable"),
        (fixed_output, "a model's are variable"),
        (noted_shape, "the field 13"),
        (weights_in_text, "plain bytes"),
        (more_bytes, "their shape needs"),
        (strings, "of type 8"),
        (other_attribute, "the attribute 'other'"),
        (attribute_of_two_types, "of two types"),
        (many_parts, "1000000000000 parts"),
        (many_dimensions, "more than 8 dimensions"),
        (older_operators, "ONNX operator sets [9]"),
        (made_twice, "exists already"),
        (from_later, "no earlier node computes"),
    ],
)
def test_a_graph_made_to_exhaust_its_reader_is_refused(write: Callable[[Author], bytes], reason: str) -> None:
    content = write(Author())
    begin, memory = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ModelFileError) as caught:
        Predictor(content)
    assert reason in str(caught.value)
    assert len(str(caught.value)) < 1000
    assert time.process_time() - begin < 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 256 << 10  # KiB


def test_a_graph_that_is_small_for_short_texts_only_is_refused_when_a_longer_one_comes() -> None:
    author = Author()
    power = author.tokens()
    for _ in range(3):
        power = author.node("Mul", power, power)
    predictor = Predictor(author.add(author.node("Expand", author.weights(np.float32(1)), power)))
    assert predictor.predict("a film").label
    with pytest.raises(ModelFileError, match="the graph cannot be run: the graph requires more memory"):
        predictor.predict("a film " * 8)
    assert predictor.predict("a film").label


@pytest.mark.slow
def test_nodes_in_a_row_are_read_in_linear_time() -> None:
    """ONNX Runtime's planning of memory would take 30 s."""
    author = Author()
    last = LOGITS
    for _ in range(MAX_NODES - len(author.graph.node) - 1):
        last = author.node("Neg", last)
    content = author.end(last)
    begin = time.process_time()
    assert Predictor(content).predict("a film").label
    assert time.process_time() - begin < 8
