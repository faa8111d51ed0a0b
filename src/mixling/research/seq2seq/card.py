"""The README.md of a model that generates text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def text_to_text_card(config: Mapping[str, Any], report: Mapping[str, Any]) -> str:
    """Return the card of a text-to-text model; `report` is the content of its metrics.json."""
    lines = [
        f"- {name}: " + ", ".join(f"{key.replace('_', ' ')} {value:.4f}" for key, value in numbers.items())
        for name, values in report["validation"].items()
        if (numbers := {key: value for key, value in values.items() if isinstance(value, float)})
    ]
    results = (
        "Metrics of the texts generated for the validation pairs:\n\n" + "\n".join(lines) + "\n\n" if lines else ""
    )
    model = config["model"]
    held_out = report["held_out"]
    best = report["best"]
    return f"""# A text-to-text model

An encoder-decoder of {report["parameters"]:,} parameters. It reads up to {model["max_source_len"]} subwords and
generates up to {model["max_target_len"]}.

## How to use

```
mixling generate . "a text"
mixling train pairs.jsonl --task text2text --from . -o model/
```

## Results

{results}With teacher forcing, its perplexity on held-out pairs is {held_out["perplexity"]:.3f}
(step {best["step"]:,}, epoch {best["epoch"]:g}).

## Training

The complete configuration is in `run.json`, the metrics of each evaluation in `metrics.jsonl`. Generated texts may
reproduce bias in the training texts.
"""
