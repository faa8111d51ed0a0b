"""README.md of a run folder: a model card in the format of the model hub."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mixling.errors import printable
from mixling.tasks.base import Task
from mixling.text.labels import LabelSet

_SHOWN_LABELS = 50


def model_card(
    config: Mapping[str, Any],
    report: Mapping[str, Any],
    task: Task,
    *,
    folder_files: Mapping[str, str],
    pairs: bool = False,
) -> str:
    """The card's text; equal arguments give equal text.

    Args:
        config: a RunConfig as JSON values.
        report: what metrics.json holds.
        folder_files: the folder's files and what each is.
        pairs: whether the model answers for pairs of texts.
    """
    validation = report["validation"]
    metrics = {key.replace("_", " "): value for key, value in validation.items() if isinstance(value, float)}
    arguments, text = task.card_inputs(pairs=pairs)
    heading, outputs = task.card_outputs(config) or ("Labels", _labels(task.labels))
    return f"""---
{_front_matter(task, validation)}
---

# {_kind(config["model"])} that {task.purpose.format(n=len(task.labels))}

{report["parameters"]:,} parameters, {report["file_bytes"] / 1e6:.2f} MB with {report["precision"]} weights, vocabulary
included. It predicts with NumPy, tokenizers and ONNX Runtime; PyTorch is not needed.

## How to use

```
pip install mixling
mixling predict . {arguments}
mixling evaluate . {task.test_file}
```

```python
from mixling import Predictor

predictor = Predictor(".")  # this folder, or its model.onnx alone
prediction = predictor.predict({text})
print({task.usage})
```

## {heading}

{outputs}

## Results

Of the exported {report["precision"]} model on the {validation["n"]:,} development rows, which also chose the epoch
({report["best"]["epoch"]:g}); on new text it will be a little worse.

| measure | value |
|---|---|
{_table(metrics, "{:.4f}")}
{_quantization(report.get("quantization"))}{_ngrams(config, report.get("ngrams"))}
## Training

The complete configuration stands in `run.json`, the measures of each evaluation in `metrics.jsonl`.

| setting | value |
|---|---|
{_table(_defaults(config), "{}")}

## Limits

{task.card_limits(config)}
- It knows what its training rows show and nothing beyond: text of another kind, language or time can be answered
  wrongly and with confidence.
- What is unfair in the training rows is repeated. Measure it on rows of your own before it decides anything that
  matters.

## Files

{chr(10).join(f"- `{name}`: {what}" for name, what in folder_files.items())}
"""


def _front_matter(task: Task, validation: Mapping[str, Any]) -> str:
    """The hub's YAML. Nothing in it is the user's text: words of ours and numbers."""
    values = {name: (key, validation[key]) for name, key in task.card_metrics.items() if validation[key] is not None}
    names = "\n".join(f"- {name}" for name in values)
    rows = "\n".join(
        f"    - type: {name}\n      name: {key.replace('_', ' ')}\n      value: {value:.6f}"
        for name, (key, value) in values.items()
    )
    return f"""library_name: mixling
pipeline_tag: {task.pipeline}
tags:
- mixling
- mlp-mixer
- onnx
metrics:
{names}
model-index:
- name: mixling
  results:
  - task:
      type: {task.pipeline}
    dataset:
      name: development rows
      type: private
      split: validation
    metrics:
{rows}"""


def _table(values: Mapping[str, Any], format_spec: str) -> str:
    return "\n".join(f"| {name} | {format_spec.format(value)} |" for name, value in values.items())


def _labels(labels: LabelSet) -> str:
    names = [_code(name) for name in labels.names[:_SHOWN_LABELS]]
    left = len(labels) - len(names)
    return ", ".join(names) + (f" and {left} more (see `config.json`)" if left else "")


def _code(name: str) -> str:
    """A label as Markdown code: on one line, fenced by more backticks than stand in it."""
    line = printable(name)
    fence = "`"
    while fence in line:
        fence += "`"
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def _quantization(quantization: Mapping[str, Any] | None) -> str:
    if quantization is None:
        return ""
    drop = round(quantization["accuracy_drop"], 2)
    change = f"{abs(drop):.2f} points {'lower' if drop > 0 else 'higher'}" if drop else "the same"
    return f"""
With 8-bit weights {quantization["agreement"]:.2%} of the decisions on these rows are those of the float model; accuracy is
{change}.
"""


def _ngrams(config: Mapping[str, Any], ngrams: Mapping[str, Any] | None) -> str:
    if ngrams is None:
        return ""
    if not ngrams["terms"]:
        return f"""
What is predicted is {ngrams["mixture_network"]:.2f} times the network's logits, which was fitted on these rows, too:
there the loss is {ngrams["mixture_loss"]:.4f} instead of {ngrams["mixture_alone"]:.4f}.
"""
    characters = f"{config['ngrams']['min_n']}-{config['ngrams']['max_n']}"
    return f"""
Beside the network stands a linear model of {ngrams["terms"]:,} n-grams: words 1-2, characters {characters}. What is
predicted is {ngrams["mixture_network"]:.2f} times the network's logits plus those of the linear model, whose scale was
fitted on the development rows, too: there the loss is {ngrams["mixture_loss"]:.4f}, and {ngrams["loss_scaled"]:.4f}
with the network alone. The exported linear model was then fitted again, on the development rows as well; the table is
of the one before. It is in `model.onnx` only: `model.safetensors` holds the network.
"""


def _defaults(config: Mapping[str, Any]) -> dict[str, Any]:
    model, train = config["model"], config["train"]
    layers = len(model["layers"]) if model["num_layers"] is None else model["num_layers"]
    projection = model["text"]["projection"]
    return {
        "features": ", ".join(f"{key} {value}" for key, value in projection.items()),
        "window, width, layers": f"{model['embedding']['window']}, {model['dim']}, {layers}",
        "epochs": "chosen from the number of rows" if train["epochs"] is None else train["epochs"],
        "batch size": train["batch_size"],
        "learning rate": train["optim"]["lr"],
        "weight decay": train["optim"]["weight_decay"],
        "word dropout": train["token_dropout"],
        "label smoothing": train["loss"]["label_smoothing"],
        "seed": train["seed"],
        "begins with": _start(config["start"]),
        **_teacher(config["distill"]),
    }


def _start(start: Mapping[str, Any]) -> str:
    if start["vectors"] is not None or start["texts"]:
        return "word vectors of unlabeled text"
    return "word vectors of the training rows" if start["training_texts"] else "random numbers"


def _teacher(distill: Mapping[str, Any] | None) -> dict[str, Any]:
    if distill is None:
        return {}
    name = (
        f"{distill['members']} models like this one" if distill["teacher"] == "self" else Path(distill["teacher"]).name
    )
    return {"teacher": f"{name}, fine-tuned on the training rows" if distill["fine_tune"] else name}


def pretraining_card(config: Mapping[str, Any], report: Mapping[str, Any]) -> str:
    """The card of a pretrained model; arguments as those of `model_card`, of a pretraining."""
    validation, best = report["validation"], report["best"]
    return f"""# {_kind(config["model"])}, pretrained as a masked language model

{report["parameters"]:,} parameters without the head, which fine-tuning replaces.

## How to use

```
mixling train rows.csv --from . -o model/
```

## Results

On held-out text, with {config["objective"]["fraction"]:.0%} of the tokens hidden: perplexity {validation["perplexity"]:.3f},
{validation["accuracy"]:.2%} of the hidden tokens told (step {best["step"]:,}, epoch {best["epoch"]:g}). Perplexities compare
between models with the same subwords only.

## Training

The complete configuration stands in `run.json`, the measures of each evaluation in `metrics.jsonl`.
It reads {config["model"]["text"]["max_len"]} tokens at a time. What is unfair in its text may be repeated by what is
made of it.
"""


def text_to_text_card(config: Mapping[str, Any], report: Mapping[str, Any]) -> str:
    """The card of a model that writes text; `report` is the content of its metrics.json."""
    lines = [
        f"- {name}: " + ", ".join(f"{key.replace('_', ' ')} {value:.4f}" for key, value in numbers.items())
        for name, values in report["validation"].items()
        if (numbers := {key: value for key, value in values.items() if isinstance(value, float)})
    ]
    results = "Of what it writes for the validation pairs:\n\n" + "\n".join(lines) + "\n\n" if lines else ""
    model, held_out, best = config["model"], report["held_out"], report["best"]
    return f"""# A model that writes text

An encoder-decoder of {report["parameters"]:,} parameters. It reads up to {model["max_source_len"]} subwords and writes up
to {model["max_target_len"]}.

## How to use

```
mixling generate . "a text"
mixling train pairs.jsonl --task text2text --from . -o model/
```

## Results

{results}With the right subwords before each one its perplexity on held-out pairs is {held_out["perplexity"]:.3f}
(step {best["step"]:,}, epoch {best["epoch"]:g}).

## Training

The complete configuration stands in `run.json`, the measures of each evaluation in `metrics.jsonl`. What is unfair in
its texts may be repeated in what it writes.
"""


def _kind(model: Mapping[str, Any]) -> str:
    mixers = {mixer["type"] for layer in model["layers"] for mixer in layer["mixers"]}
    return "A pNLP-Mixer" if mixers == {"token_mlp"} else "A model"
