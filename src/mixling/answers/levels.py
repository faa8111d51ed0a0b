"""Labels with levels, such as "card > lost": the path from the top decides, and an uncertain answer ends higher up.

A model gives a probability to each whole label. The probability of "card" is the sum over the labels below it, so that
the levels agree with each other (Silla and Freitas, "A survey of hierarchical classification across different
application domains", 2011, section 4: a flat classifier and a decision from the top down).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from mixling.errors import shown

MAX_SEPARATOR = 20  # characters


class LabelTree:
    """The labels (C,) as the ends of paths through K levels; a shorter label is its own part in the levels below it.

    Attributes:
        parts: the beginnings of labels, level after level; the last level has the labels in their order.
        nodes: (K, C) index of the part that a label belongs to in each level.
    """

    def __init__(self, names: Sequence[str], separator: str) -> None:
        split = [name.split(separator) for name in names]
        self.parts: list[tuple[str, ...]] = []
        self.nodes = np.zeros((max(map(len, split)), len(names)), np.int64)
        for level, nodes in enumerate(self.nodes, start=1):
            begins = [separator.join(part[:level]) for part in split]
            index = {name: number for number, name in enumerate(dict.fromkeys(begins))}
            nodes[:] = list(map(index.__getitem__, begins))
            self.parts.append(tuple(index))

    def descend(self, probabilities: npt.NDArray[np.floating]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Return the parts (..., K) on the path of the most probable child in each level, and their probabilities.

        Args:
            probabilities: (..., C) of the labels.
        """
        left = np.asarray(probabilities, np.float64)
        shape = (*left.shape[:-1], len(self.nodes))
        left = left.reshape(-1, left.shape[-1])
        path = np.zeros((len(left), len(self.nodes)), np.int64)
        sums = np.zeros(path.shape)
        for level, nodes in enumerate(self.nodes):
            order = np.argsort(nodes, kind="stable")
            starts = np.searchsorted(nodes[order], np.arange(len(self.parts[level])))
            of_parts = np.add.reduceat(left[:, order], starts, axis=1)
            path[:, level] = of_parts.argmax(1)
            sums[:, level] = of_parts.max(1)
            left = np.where(nodes == path[:, level, None], left, -1.0)  # below what any part can have
        return path.reshape(shape), np.minimum.accumulate(sums.clip(max=1), axis=1).reshape(shape)

    def path_of(self, nodes: Sequence[int], probabilities: Sequence[float]) -> dict[str, float]:
        """Return the probabilities of the parts of one path, by name, from the top; see `descend`."""
        named = zip(self.parts, nodes, probabilities, strict=True)
        return {parts[node]: probability for parts, node, probability in named}


def level_problems(names: Collection[str], separator: str) -> Iterator[tuple[str, str]]:
    """Yield labels that have no place in a tree, each with the reason."""
    if not any(separator in name for name in names):
        yield min(names), f"no label has {shown(separator)} in it, which is to separate their levels"
    for name in names:
        parts = name.split(separator)
        if not all(map(str.strip, f" {name} ".split(separator))):  # blanks around labels were removed
            yield name, f"a level has no name, before or after {shown(separator)}"
        elif any(part != part.strip() for part in parts):
            yield name, f"there are blanks around {shown(separator)}; they are a part of what separates levels"
        for level in range(1, len(parts)):
            if (above := separator.join(parts[:level])) in names:
                got = f"it is above another label, {shown(name)}, and so no answer of the last level"
                yield above, f"{got}; give it a name there, such as {shown(f'{above}{separator}other')}"
