"""`mixling models`: the named models."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from mixling.cli.output import put


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
    width = max(len(row["name"]) for row in rows)
    lines: list[str] = []
    for title, section in (
        ("model", [row for row in rows if "target_length" not in row]),
        ("text to text", [row for row in rows if "target_length" in row]),
    ):
        lines += [""] * bool(lines)
        lines.append(
            f"{title:<{width}} {'parameters':>12} {'body':>12} {'tokens':>7} {'GFLOPs':>9}  use it for, or source"
        )
        lines += [_line(row, width) for row in section]
    put("\n".join(lines) + "\n")


def _line(row: dict[str, Any], width: int) -> str:
    tokens = str(row["length"])
    source = row.get("use") or row["source"]
    if "target_length" in row:
        tokens = f"{tokens}+{row['target_length']}"
        source = f"{source}, {row['vocabulary']:,} subwords"
    return (
        f"{row['name']:<{width}} {row['parameters']:>12,} {row['body']:>12,} {tokens:>7} "
        f"{row['flops'] / 1e9:>9.3f}  {source}"
    )
