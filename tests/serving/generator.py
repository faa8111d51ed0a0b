"""A small model that generates text, with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

WORDS = "red blue green one two three cat dog bird"
_SHAPE = {"dim": 8, "ffn_dim": 10, "num_heads": 2, "head_dim": 4, "num_layers": 1, "num_decoder_layers": 1}


def write_generator(folder: Path, *, seed: int, tasks: list[dict[str, Any]]) -> Path:
    """Write a run folder with random weights."""
    import torch

    from mixling.artifacts import write_model
    from mixling.models import weights_of
    from mixling.research.seq2seq import GenerationConfig, Shape, build_encoder_decoder, hypermixer
    from mixling.text import SubwordTokenizer

    folder.mkdir(exist_ok=True)
    tokenizer = SubwordTokenizer.train([WORDS] * 20, size=60)
    (folder / "tokenizer.json").write_text(tokenizer.serialize()[1], "utf-8")
    config = hypermixer(Shape(**_SHAPE, max_source_len=16, max_target_len=12))
    torch.manual_seed(seed)
    model = build_encoder_decoder(config, vocab_size=len(tokenizer))
    saved = {
        "kind": "text to text", "format_version": 2, "vocabulary": "tokenizer.json", "model": config.to_dict(),
        "generation": GenerationConfig(max_len=6).to_dict(), "tasks": tasks,
    }  # fmt: skip
    write_model(folder, weights_of(model), saved)
    return folder
