"""`mixling inspect`: pictures of the weights between tokens in a model's layers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mixling.cli.output import put
from mixling.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np

    from mixling.inspect.weights import LayerMap


def inspect(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A run folder of `mixling train` or `mixling pretrain`.")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE.png", help="The picture; .svg or .pdf, too.")],
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT...", help="With --maps: texts, or - for lines of input.")
    ] = None,
    maps: Annotated[
        bool, typer.Option("--maps", help="Mean weights of every layer on these texts, learned ones beside them.")
    ] = False,
    filters: Annotated[
        bool, typer.Option("--filters", help="The learned weights that no text changes, alone.")
    ] = False,
) -> None:
    """Draw what moves information between the tokens of a model.

    --maps: for each layer a map of each kind of weights: attention, the mean over heads and texts; softmax(H) of the
    Remixer and the spatial weights of gMLP on the longest text. HyperMixing, token MLPs and other mixers without such
    a matrix have their pseudo-attention drawn: how strongly each output token depends on each input token. Of one text
    the axes have the words. Texts that are longer than the model reads are cut.
    --filters: of learned weights the middle row, and the whole matrix for the longest text.
    """
    from mixling.export.figures import check_name
    from mixling.inspect.plots import layer_maps as draw_maps
    from mixling.inspect.plots import spatial_filters

    if maps == filters:
        raise ConfigError("give one of --maps TEXT... and --filters")
    check_name(out)
    if filters and texts:
        raise ConfigError(f"--filters: got the text {texts[0][:40]!r}; no text changes them: leave it out")
    given = _given(texts or []) if maps else []

    from mixling.inspect.folders import load_inspected
    from mixling.inspect.weights import PSEUDO_ATTENTION, layer_maps, learned_filters

    inspected = load_inspected(folder, given)
    try:
        found = layer_maps(inspected) if maps else learned_filters(inspected)
    except ConfigError as error:
        raise ConfigError(f"{folder}: {error}") from None
    if maps:
        draw_maps(found, out)
    else:
        rows: dict[str, dict[int, np.ndarray]] = {}
        for item in found:
            rows.setdefault(f"{item.stack} {item.name}", {})[item.layer] = item.values
        spatial_filters(rows, out, matrices=list(rows))
    put(_report(found, out, len(given) if maps else None))
    if any(PSEUDO_ATTENTION in item.name for item in found):
        put(f"{PSEUDO_ATTENTION}: the size of the gradient of an output token by an input token\n")


def _given(inputs: Sequence[str]) -> list[str]:
    """The texts themselves.

    Raises:
        ConfigError: there is none, or a file where a text is wanted.
        DataError: what looks like a file's name is none; a line that is no text.
    """
    from mixling.cli.inputs import kind_of
    from mixling.data.inputs import stream_items

    kind = kind_of(inputs) if inputs else "text"
    if kind == "files":
        raise ConfigError(f"{inputs[0]}: is a file; give its texts, one on a line: cat FILE | mixling inspect DIR -")
    found = list(inputs)
    if kind == "stdin":
        items = (item for window in stream_items(sys.stdin.buffer, "<stdin>") for item in window)
        found = [item.text for item in items if isinstance(item.text, str)]
    if not found:
        raise ConfigError("--maps: no text; give some, or - for one on each line of standard input")
    return found


def _report(found: Sequence[LayerMap], out: Path, texts: int | None) -> str:
    layers: dict[str, list[int]] = {}
    for item in found:
        layers.setdefault(f"{item.stack} {item.name}", []).append(item.layer)
    kinds = ", ".join(f"{name} of {len(of)} layer{'s' * (len(of) != 1)}" for name, of in layers.items())
    read = "" if texts is None else f"; {texts:,} text{'s' * (texts != 1)}"
    return f"{out}: {kinds}{read}\n"
