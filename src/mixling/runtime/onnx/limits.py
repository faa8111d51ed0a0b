"""Bound the memory and work of a graph for inputs of given sizes, before it is run.

The shapes of all results are inferred without computing them; a graph is rejected if a shape depends on more than the
sizes of its inputs, or if `operators` does not know an operator. A model's work grows with its weights and with the
square of a text's length (attention). A graph that needs much more memory or multiplications than any model with as
many weights was made to exhaust its reader. All results count together, because ONNX Runtime chooses the order of the
nodes and thereby the number of results that exist at a time.
"""

from __future__ import annotations

import math

import numpy as np

from mixling.runtime.onnx.graph import KIND_SIZES, MAX_RANK, Graph, Node
from mixling.runtime.onnx.operators import ATTRIBUTES, OPERATORS, multiplications
from mixling.runtime.onnx.shapes import Known, known_weights

# What a graph may use independently of its weights: bytes of results, and multiplications.
_BYTES = 1 << 25
_MULTIPLICATIONS = 1 << 28
_REMEMBERED = 1 << 14  # accepted sizes of inputs


class GraphLimits:
    """The limits of one graph.

    Args:
        graph: a graph with the inputs and outputs of a model.
        row_dim: R, values of a word's row.

    Raises:
        ValueError: the graph cannot belong to a model; the message states why.
    """

    def __init__(self, graph: Graph, row_dim: int) -> None:
        self._weights = sum(item.size for item in graph.weights.values())
        self._kinds = {name: kind for name, (kind, _) in graph.inputs.items()}
        self._row_dim = row_dim
        self._accepted: set[tuple[str, int, int]] = set()
        self._known = {name: known_weights(item) for name, item in graph.weights.items()}
        fixed, free = _sort(graph, set(self._known))
        self._nodes = {"logits": free, "rows": _needed(free, "rows")}
        # Weights may be expanded from 1 byte to 4 or 8, and then scaled and split.
        self._follow(fixed, self._known, limit=_BYTES + 24 * self._weights, work=_MULTIPLICATIONS)

    def check_rows(self, words: int, bag: int) -> None:
        """Check the computation of the rows of words with bags of `bag` feature indices; raise errors as the class."""
        size = _BYTES + 16 * words * min(bag * self._row_dim, self._weights)
        self._check("rows", (words, bag), (1, 1), size, _MULTIPLICATIONS + 16 * words * self._weights)

    def check_logits(self, texts: int, tokens: int) -> None:
        """Check the computation of the logits of texts of `tokens` tokens; raise errors as the class."""
        together = texts * tokens
        size = _BYTES + together * (4 * self._weights + 2048 * tokens)
        work = _MULTIPLICATIONS + together * (16 * self._weights + 64 * tokens * math.isqrt(self._weights))
        self._check("logits", (0, 1), (texts, tokens), size, work)

    def _check(self, output: str, bags: tuple[int, int], index: tuple[int, int], limit: int, work: int) -> None:
        key = (output, *(bags if output == "rows" else index))
        if key in self._accepted:
            return
        # Nothing may depend on the number of rows that the caller has cached.
        shapes = {"cached": (None, self._row_dim), "positions": bags, "weights": bags, "index": index}
        known = {**self._known, **{name: Known(shapes[name], kind) for name, kind in self._kinds.items()}}
        self._follow(self._nodes[output], known, limit=limit, work=work)
        if len(self._accepted) >= _REMEMBERED:
            self._accepted.clear()
        self._accepted.add(key)

    def _follow(self, nodes: list[Node], known: dict[str, Known], *, limit: int, work: int) -> None:
        """Add the results of nodes to `known`."""
        with np.errstate(all="ignore"):  # integers wrap around, as in ONNX Runtime
            for node in nodes:
                inputs = [known[name] if name else None for name in node.inputs]
                try:
                    outputs = OPERATORS[node.operator](node.attributes, inputs)
                    work -= multiplications(node.operator, inputs, outputs)
                except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as error:
                    raise ValueError(f"a {node.operator} node cannot be computed or analyzed: {error}") from None
                if len(node.outputs) > len(outputs):
                    raise ValueError(f"a {node.operator} node has {len(node.outputs)} outputs")
                for name, output in zip(node.outputs, outputs, strict=False):
                    if len(output.shape) > MAX_RANK:
                        raise ValueError(f"a {node.operator} node makes a tensor of more than {MAX_RANK} dimensions")
                    limit -= output.elements * KIND_SIZES[output.kind]
                    known[name] = output
                if limit < 0 or work < 0:
                    what = "memory" if limit < 0 else "multiplications"
                    raise ValueError(
                        f"the graph requires more {what} than a model with {self._weights:,} weights can need"
                    )


def _sort(graph: Graph, constants: set[str]) -> tuple[list[Node], list[Node]]:
    """Check nodes and return those that depend only on weights, and the others."""
    constants = set(constants)
    made = {"", *graph.inputs, *graph.weights}
    if len(made) <= len(graph.inputs) + len(graph.weights):
        raise ValueError("weights and inputs of the graph have the same name")
    fixed: list[Node] = []
    free: list[Node] = []
    for node in graph.nodes:
        if node.operator not in OPERATORS:
            raise ValueError(f"uses the operator {node.operator[:80]!r}, which a mixling model never uses")
        if others := node.attributes.keys() - ATTRIBUTES.get(node.operator, frozenset()):
            raise ValueError(
                f"a {node.operator} node has the attribute {min(others)[:80]!r}, which a mixling model never has"
            )
        if not made.issuperset(node.inputs):
            raise ValueError(f"a {node.operator} node reads a value that no earlier node computes")
        for name in node.outputs:
            if name in made:
                raise ValueError(f"a {node.operator} node computes {name[:80]!r}, which exists already")
            made.add(name)
        constant = constants.issuperset(name for name in node.inputs if name)
        (fixed if constant else free).append(node)
        if constant:
            constants.update(node.outputs)
    if not made.issuperset(graph.outputs):
        raise ValueError("no node computes the graph's outputs")
    return fixed, free


def _needed(nodes: list[Node], output: str) -> list[Node]:
    """Return the nodes that an output depends on."""
    names = {output}
    needed = []
    for node in reversed(nodes):
        if not names.isdisjoint(node.outputs):
            needed.append(node)
            names.update(node.inputs)
    return needed[::-1]
