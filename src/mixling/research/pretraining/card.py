"""The README.md of a pretrained model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def pretraining_card(config: Mapping[str, Any], report: Mapping[str, Any]) -> str:
    """Return the card of a pretrained model; arguments as for `model_card`, from pretraining."""
    validation = report["validation"]
    best = report["best"]
    return f"""# A model, pretrained as a masked language model

{report["parameters"]:,} parameters without the head, which fine-tuning replaces.

## How to use

```
mixling train rows.csv --from . -o model/
```

## Results

On held-out text with {config["objective"]["fraction"]:.0%} of the tokens hidden: perplexity
{validation["perplexity"]:.3f}, accuracy {validation["accuracy"]:.2%} on the hidden tokens (step {best["step"]:,}, epoch
{best["epoch"]:g}). Perplexities are comparable only between models with the same subwords.

## Training

The complete configuration is in `run.json`, the metrics of each evaluation in `metrics.jsonl`.
The model reads {config["model"]["text"]["max_len"]} tokens at a time. Models fine-tuned from it may reproduce bias in
its training text.
"""
