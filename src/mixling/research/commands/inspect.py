"""`mixling inspect`: plots of the weights between tokens in a model's layers."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mixling.cli.output import put
from mixling.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np

    from mixling.research.inspect.weights import LayerMap


def inspect_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Run folder of `mixling train` or `mixling pretrain`.")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE.png", help="The plot; also .svg or .pdf.")],
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT...", help="For --maps: texts, or - for lines of input.")
    ] = None,
    maps: Annotated[bool, typer.Option("--maps", help="Plot each layer's mean weights on the texts.")] = False,
    highest: Annotated[
        bool, typer.Option("--highest", help="With --maps: the highest weight in the first half of the layers.")
    ] = False,
    filters: Annotated[
        bool, typer.Option("--filters", help="Plot learned weights that do not depend on the text.")
    ] = False,
) -> None:
    """Plot how a model mixes tokens.

    --maps draws a matrix for each layer and kind of weights: attention (mean over heads and texts), softmax(H) of the
    Remixer, spatial weights of gMLP (for the longest text). For HyperMixing, token MLPs and other mixers without such a
    matrix it draws the pseudo-attention: how strongly each output token depends on each input token. With a single
    text, the axes show its words. Texts longer than the model's maximum are truncated. With --highest it draws one
    matrix for each kind: the highest weight of each pair of tokens in the first half of the layers.
    --filters draws the middle row and the complete matrix of learned weights, for the maximum length.
    """
    from mixling.export.figures import check_plot
    from mixling.research.inspect.plots import plot_layer_maps as draw_maps
    from mixling.research.inspect.plots import spatial_filters

    if maps == filters:
        raise ConfigError("give one of --maps TEXT... and --filters")
    if highest and not maps:
        raise ConfigError("--highest: learned filters have no tokens to compare; give it with --maps TEXT")
    check_plot(out)
    if filters and texts:
        raise ConfigError(f"--filters: got the text {texts[0][:40]!r}; filters do not depend on texts: leave it out")
    texts = _read_texts(texts or []) if maps else []

    from mixling.research.inspect.folders import load_inspected
    from mixling.research.inspect.weights import PSEUDO_ATTENTION, layer_maps, learned_filters
    from mixling.research.inspect.weights import highest as highest_maps

    inspected = load_inspected(folder, texts)
    try:
        matrices = layer_maps(inspected) if maps else learned_filters(inspected)
    except ConfigError as error:
        raise ConfigError(f"{folder}: {error}") from None
    if highest:
        matrices = highest_maps(matrices)
    if maps:
        draw_maps(matrices, out)
    else:
        rows: dict[str, dict[int, np.ndarray]] = {}
        for item in matrices:
            rows.setdefault(f"{item.stack} {item.name}", {})[item.layer] = item.values
        spatial_filters(rows, out, matrices=list(rows))
    put(_report(matrices, out, len(texts) if maps else None))
    if any(PSEUDO_ATTENTION in item.name for item in matrices):
        put(f"{PSEUDO_ATTENTION}: norm of the gradient of an output token with respect to an input token\n")


def _read_texts(inputs: Sequence[str]) -> list[str]:
    """Return the texts of the command line or of standard input.

    Raises:
        ConfigError: there is none, or a file is given.
        DataError: an input that looks like a file name does not exist, or a line is not a text.
    """
    from mixling.cli.inputs import input_kind
    from mixling.data.inputs import stream_items

    kind = input_kind(inputs) if inputs else "text"
    if kind == "files":
        raise ConfigError(f"{inputs[0]}: is a file; pass its lines as texts: cat FILE | mixling inspect DIR -")
    texts = list(inputs)
    if kind == "stdin":
        items = (item for window in stream_items(sys.stdin.buffer, "<stdin>") for item in window)
        texts = [item.text for item in items if isinstance(item.text, str)]
    if not texts:
        raise ConfigError("--maps: no text; give some, or - to read one per line from standard input")
    return texts


def _report(matrices: Sequence[LayerMap], out: Path, texts: int | None) -> str:
    counts = Counter(f"{item.stack} {item.name}" for item in matrices)
    kinds = ", ".join(f"{name} of {count} layer{'s' * (count != 1)}" for name, count in counts.items())
    read = "" if texts is None else f"; {texts:,} text{'s' * (texts != 1)}"
    return f"{out}: {kinds}{read}\n"
