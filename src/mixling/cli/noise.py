"""Options of commands that evaluate models on noisy texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from mixling.cli.command import DATA
from mixling.errors import ConfigError

if TYPE_CHECKING:
    from mixling.text.noise import NoiseLevel


@dataclass(frozen=True, kw_only=True)
class NoiseOptions:
    """The noise that is added to the texts that models are evaluated on."""

    panel: ClassVar[str] = DATA
    noise: Annotated[
        str | None,
        typer.Option(
            "--noise",
            metavar="all|NAME,...",
            help="Also evaluate on noisy texts: swap, delete, insert, keyboard, ocr, case, accents, emoji.",
        ),
    ] = None
    noise_rates: Annotated[
        str, typer.Option("--noise-rates", metavar="R,R,...", help="Fractions of the words that are changed.")
    ] = "0.1,0.3"

    def levels(self) -> list[NoiseLevel]:
        """Return the levels of noise; none without --noise.

        Raises:
            ConfigError: a noise is unknown, a rate is not a fraction, or there are rates without --noise.
        """
        from mixling.text.noise import NOISES, NoiseLevel

        if self.noise is None and self.noise_rates != type(self).noise_rates:
            raise ConfigError("--noise-rates: applies with --noise only; give both, or leave it out")
        if self.noise is None:
            return []
        names = list(NOISES) if self.noise == "all" else [name.strip() for name in self.noise.split(",")]
        try:
            rates = [float(rate) for rate in self.noise_rates.split(",")]
        except ValueError:
            allowed = "fractions of the words, such as 0.1,0.3, are allowed"
            raise ConfigError(f"--noise-rates: got {self.noise_rates!r}; {allowed}") from None
        return [NoiseLevel(name, rate) for name in dict.fromkeys(names) for rate in dict.fromkeys(rates)]
