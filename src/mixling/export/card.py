"""Write the README.md of a run folder: a model card in the format of the model hub."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mixling.answers.labels import LabelSet
from mixling.export.card_data import SERVED, SHOWN_LABELS, code, data_section, label_table, pictures, weakest_labels
from mixling.export.card_decisions import abstention_section, calibration_section, conformal_section, thresholds_section
from mixling.metrics.base import titled
from mixling.tasks.base import Task


def model_card(
    config: Mapping[str, Any],
    report: Mapping[str, Any],
    task: Task,
    *,
    folder_files: Mapping[str, str],
    pairs: bool = False,
) -> str:
    """Return the text of the card; equal arguments give equal text.

    Args:
        config: a RunConfig as JSON values.
        report: the content of metrics.json.
        folder_files: the files of the folder, with a description of each.
        pairs: whether the model takes pairs of texts.
    """
    validation = report["validation"]
    arguments, text = task.card_inputs(pairs=pairs)
    heading, outputs = task.card_outputs(config["reading"]) or ("Labels", _labels(task.labels))
    quantization = f"\n{task.card_quantization(report['quantization'])}\n" if report.get("quantization") else ""
    tables = label_table(validation, report.get("data")) + pictures(validation)
    decisions = calibration_section(report.get("calibration"), validation)
    decisions += abstention_section(*map(report.get, ("abstention", "risk_coverage", "out_of_scope")))
    sets = conformal_section(report.get("conformal"), validation)
    chosen = config["decisions"]["label_thresholds"] or config["decisions"].get("metric")
    sets += thresholds_section(report.get("label_thresholds"), chosen)
    selects = config["train"]["load_best_at_end"]
    refit = report.get("refit")
    fitted = (report.get("data") or {}).get("fitted_on_validation", False)
    selection = _selection(report["best"], selects=selects)
    again = _fitted(refit, fitted=fitted, selects=selects)
    measured = "a model that was not fitted on them" if fitted else f"the exported {report['precision']} model"
    ngrams = _ngrams(config["ngrams"], report.get("ngrams"))
    files = config["data"]
    data = data_section(report.get("data"), files=files["train"], held_out=not files["validation"])
    return f"""---
{_front_matter(task, validation)}
---

# {_kind(config["model"])} that {task.purpose.format(n=len(task.labels))}

{report["parameters"]:,} parameters, {report["file_bytes"] / 1e6:.2f} MB with {report["precision"]} weights, vocabulary
included. It predicts with mixling's native engine or with ONNX Runtime, without PyTorch.

## How to use

```
pip install mixling
mixling predict . {arguments}
mixling evaluate . {task.test_file}
```

```python
from mixling import Predictor

predictor = Predictor(".")  # this folder, or just its model.onnx
prediction = predictor.predict({text})
print({task.usage})
```

{SERVED}
## {heading}

{outputs}
{data}
## Results

Metrics on the {validation["n"]:,} validation examples, of {measured}. {selection}{again}

| metric | value |
|---|---|
{_table(titled(validation), "{:.4f}")}
{tables}{decisions}{quantization}{ngrams}{sets}
## Training

The complete configuration is in `run.json`, the metrics of each evaluation in `metrics.jsonl`.

| setting | value |
|---|---|
{_table(_defaults(config, smooths=task.smooths), "{}")}

## Intended use and limits

It is meant for texts like its training data.

{task.card_limits(config["model"]["text"], config["reading"])}
- It has learned only from its training data: on text of another kind, language or time, predictions can be wrong and
  confident.
{weakest_labels(validation)}\
- Bias in the training data is reproduced. Evaluate the model on your own data before using it for decisions that
  matter.

## Files

{chr(10).join(f"- `{name}`: {what}" for name, what in folder_files.items())}
"""


def _front_matter(task: Task, validation: Mapping[str, Any]) -> str:
    """Return the hub's YAML, which contains no text from the user, only fixed words and numbers."""
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
      name: validation examples
      type: private
      split: validation
    metrics:
{rows}"""


def _table(values: Mapping[str, Any], format_spec: str) -> str:
    return "\n".join(f"| {name} | {format_spec.format(value)} |" for name, value in values.items())


def _labels(labels: LabelSet) -> str:
    names = [code(name) for name in labels.names[:SHOWN_LABELS]]
    left = len(labels) - len(names)
    return ", ".join(names) + (f" and {left} more (see `config.json`)" if left else "")


def _selection(best: Mapping[str, Any], *, selects: bool) -> str:
    """Return how the epoch was chosen; `selects`: on the validation examples."""
    if not selects:
        return f"""The training ended after
epoch {best["epoch"]:g}, as it was planned to; no epoch was selected on them."""
    if not best["epoch"]:
        return """These were also used
to choose the strength of the n-gram model, so expect slightly lower values on new text."""
    return f"""These were also used
to select the epoch ({best["epoch"]:g}), so expect slightly lower values on new text."""


def _fitted(refit: Mapping[str, Any] | None, *, fitted: bool, selects: bool) -> str:
    """Return what was fitted on the validation examples after they were evaluated on."""
    if refit is None:
        return (
            ""
            if not fitted
            else """

The linear model in this folder was then fitted again on all labeled examples, including the validation examples, so
that the model can no longer be evaluated on them."""
        )
    return f"""

These are the metrics of a first training. The model in this folder was then trained anew on all {refit["examples"]:,}
labeled examples, including the validation examples, for as many epochs{" as were best" if selects else ""}; it can no
longer be evaluated on them."""


def _ngrams(branch: Mapping[str, Any], ngrams: Mapping[str, Any] | None) -> str:
    if ngrams is None:
        return ""
    about = f"words 1-2, characters {branch['min_n']}-{branch['max_n']}"
    if power := ngrams.get("ratio_power"):
        about += f"; times their log-count ratios to the power {power:g}"
    fitted = "on the validation examples, with misspelled copies if the training has them"
    if folds := ngrams.get("folds"):
        fitted = f"by cross-fitting, on the predictions of {folds} pairs of models for examples that they had not seen"
    return f"""
Beside the network there is a linear model of {ngrams["terms"]:,} n-grams ({about}).
The logits are {ngrams["mixture_network"]:.2f} times the network's plus the linear model's. Their weights and
biases were fitted {fitted}.
The loss there is {ngrams["mixture_loss"]:.4f}, and {ngrams["loss_scaled"]:.4f} with the network alone. The linear
model is in `model.onnx` only: `model.safetensors` holds the network.
"""


def _defaults(config: Mapping[str, Any], *, smooths: bool) -> dict[str, Any]:
    model = config["model"]
    train = config["train"]
    layers = len(model["layers"]) if model["num_layers"] is None else model["num_layers"]
    projection = model["text"]["projection"]
    return {
        "features": ", ".join(f"{key} {value}" for key, value in projection.items()),
        "window, width, layers": f"{model['embedding']['window']}, {model['dim']}, {layers}",
        "epochs": "chosen from the number of rows" if train["epochs"] is None else train["epochs"],
        "batch size": train["batch_size"],
        "learning rate": train["optim"]["lr"],
        "weight decay": train["optim"]["weight_decay"],
        "token dropout": train["token_dropout"],
        **({"label smoothing": train["loss"]["label_smoothing"]} if smooths else {}),
        "seed": train["seed"],
        "initialization": _initialization(config["init"]),
        **_teacher(config["distill"]),
    }


def _initialization(init: Mapping[str, Any]) -> str:
    if init["pretrained"] is not None:
        return f"the weights of {code(Path(init['pretrained']).name)}"
    if init["vectors"] is not None or init["texts"]:
        return "word vectors of unlabeled text"
    return "word vectors of the training texts" if init["training_texts"] else "random"


def _teacher(distill: Mapping[str, Any] | None) -> dict[str, Any]:
    if distill is None:
        return {}
    teacher = distill["teacher"]
    members = distill["members"]
    name = "models like this one" if teacher == "self" else Path(teacher).name
    if distill["fine_tune"]:
        name += ", fine-tuned on the training data"
    return {"teacher": name if members is None else f"{name} ({members})"}


def _kind(model: Mapping[str, Any]) -> str:
    mixers = {mixer["type"] for layer in model["layers"] for mixer in layer["mixers"]}
    return "A pNLP-Mixer" if mixers == {"token_mlp"} else "A model"
