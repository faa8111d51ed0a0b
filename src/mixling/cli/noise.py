"""Options of commands that evaluate models on noisy texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from mixling.cli.command import DATA

if TYPE_CHECKING:
    from mixling.text.noise import NoiseLevel

_RATES = (0.1, 0.3)  # fractions of the words that are changed


@dataclass(frozen=True, kw_only=True)
class NoiseOptions:
    """The noise that is added to the texts that models are evaluated on."""

    panel: ClassVar[str] = DATA
    noise: Annotated[
        str | None,
        typer.Option(
            "--noise",
            metavar="all|NAME,...",
            help="Also evaluate with .1 and .3 of the words changed: swap, delete, insert, keyboard, ocr, case, "
            "accents, emoji.",
        ),
    ] = None

    def levels(self) -> list[NoiseLevel]:
        """Return the levels of noise; none without --noise.

        Raises:
            ConfigError: a noise is unknown.
        """
        from mixling.text.noise import NOISES, NoiseLevel

        if self.noise is None:
            return []
        names = list(NOISES) if self.noise == "all" else [name.strip() for name in self.noise.split(",")]
        return [NoiseLevel(name, rate) for name in dict.fromkeys(names) for rate in _RATES]
