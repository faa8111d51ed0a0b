"""What the kinds of runs have in common that need PyTorch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixling.artifacts.kinds import RunKind

if TYPE_CHECKING:
    from mixling.research.inspect.weights import Inspected


class ResearchKind(RunKind):
    """A kind of run of the research side."""

    @abstractmethod
    def inspect(self, folder: Path, inputs: Sequence[Any]) -> Inspected:
        """Return the model of a folder with encoded inputs, such as texts or the paths of images."""
