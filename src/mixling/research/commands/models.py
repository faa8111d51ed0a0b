"""`mixling models`: the named models."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from mixling.cli.output import put
from mixling.tables import fit_columns, terminal_width


def models_command() -> None:
    """List all models by name, with size, cost, and use or paper.

    Parameters are counted in embedding layer and encoder; embedding tables have the size of the paper's vocabulary.
    FLOPs are counted in the encoder for one text of the maximum length; a multiply-add of a matrix product counts as
    2, an FFT of L numbers as 5 L log2 L. The tokens of image models are patches. For text-to-text models all parameters
    are counted, with tables of as many subwords as stated beside the source.
    """
    from mixling.models.counts import count
    from mixling.networks.presets import PRESETS
    from mixling.research.cost.flops import count_encoder_decoder, count_images
    from mixling.research.seq2seq.presets import SEQ2SEQ_PRESETS
    from mixling.research.vision.model import IMAGE_PRESETS

    rows: list[dict[str, Any]] = []
    for name, preset in PRESETS.items():
        counts = asdict(count(preset.config, vocabulary=preset.vocabulary))
        rows.append(
            {"name": name, **counts, "vocabulary": preset.vocabulary, "source": preset.source, "use": preset.use}
        )
    for name, images in IMAGE_PRESETS.items():
        source = f"{images.source} (images)"
        counts = asdict(count_images(images.config))
        rows.append({"name": name, **counts, "vocabulary": None, "source": source, "use": images.use})
    for name, pair in SEQ2SEQ_PRESETS.items():
        counts = asdict(count_encoder_decoder(pair.config, vocabulary=pair.vocabulary))
        rows.append({"name": name, **counts, "vocabulary": pair.vocabulary, "source": pair.source})
    sections = (
        ("model", [row for row in rows if "target_length" not in row]),
        ("text to text", [row for row in rows if "target_length" in row]),
    )
    last = "use it for, or source"
    tables = (
        fit_columns(
            {title: [row["name"] for row in section], **_cells(section, last)},
            terminal_width(),
            drop=("body", "tokens", "GFLOPs", "parameters"),
            left=(last,),
        )
        for title, section in sections
    )
    put("\n\n".join(tables) + "\n")


def _cells(rows: list[dict[str, Any]], last: str) -> dict[str, list[str]]:
    """Return the columns of a table of models, whose last one has this header."""
    cells: dict[str, list[str]] = {name: [] for name in ("parameters", "body", "tokens", "GFLOPs", last)}
    for row in rows:
        tokens = str(row["length"])
        source = row.get("use") or row["source"]
        if "target_length" in row:
            tokens = f"{tokens}+{row['target_length']}"
            source = f"{source}, {row['vocabulary']:,} subwords"
        values = (f"{row['parameters']:,}", f"{row['body']:,}", tokens, f"{row['flops'] / 1e9:.3f}", source)
        for column, value in zip(cells.values(), values, strict=True):
            column.append(value)
    return cells
