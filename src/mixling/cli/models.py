"""`mixling models`: every model that has a name."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from mixling.cli.output import put


def models(
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """List every model by name, with size, cost and paper.

    Parameters are those of embedding layer and body, over the paper's vocabulary where the model has an embedding
    table. FLOPs are those of the body for one text of the greatest length, 2 for each multiply-add of matrix products.
    The tokens of the image models, which the command line does not train, are the patches of an image. Of models from
    text to text, all parameters count, with the tables of as many subwords as the source names.
    """
    from mixling.cost.flops import count, count_encoder_decoder
    from mixling.models.presets import PRESETS
    from mixling.seq2seq.presets import SEQ2SEQ_PRESETS
    from mixling.vision import IMAGE_PRESETS

    rows: list[dict[str, Any]] = []
    for name, preset in PRESETS.items():
        counts = asdict(count(preset.config, vocabulary=preset.vocabulary))
        rows.append({"name": name, **counts, "vocabulary": preset.vocabulary, "source": preset.source})
    for name, images in IMAGE_PRESETS.items():
        source = f"{images.source} (images)"
        rows.append({"name": name, **asdict(count(images.config)), "vocabulary": None, "source": source})
    for name, pair in SEQ2SEQ_PRESETS.items():
        counts = asdict(count_encoder_decoder(pair.config, vocabulary=pair.vocabulary))
        rows.append({"name": name, **counts, "vocabulary": pair.vocabulary, "source": pair.source})
    if as_json:
        put(json.dumps(rows, indent=2) + "\n")
        return
    width = max(len(row["name"]) for row in rows)
    lines: list[str] = []
    for title, section in (
        ("model", [row for row in rows if "target_length" not in row]),
        ("text to text", [row for row in rows if "target_length" in row]),
    ):
        lines += [""] * bool(lines)
        lines.append(f"{title:<{width}} {'parameters':>12} {'body':>12} {'tokens':>7} {'GFLOPs':>9}  source")
        lines += [_line(row, width) for row in section]
    put("\n".join(lines) + "\n")


def _line(row: dict[str, Any], width: int) -> str:
    tokens, source = str(row["length"]), row["source"]
    if "target_length" in row:
        tokens, source = f"{tokens}+{row['target_length']}", f"{source}, {row['vocabulary']:,} subwords"
    return (
        f"{row['name']:<{width}} {row['parameters']:>12,} {row['body']:>12,} {tokens:>7} "
        f"{row['flops'] / 1e9:>9.3f}  {source}"
    )
