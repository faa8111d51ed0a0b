"""Write the README.md of a run folder: a model card in the format of the model hub.

The text is in card.md beside this file: parts with a name, each a format string.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from mixling.errors import printable
from mixling.metrics.base import titled
from mixling.metrics.reliability import ReliabilityBin, format_reliability
from mixling.tasks.base import Task
from mixling.text.config import default_names

_SHOWN_LABELS = 50


@functools.cache
def _parts() -> dict[str, str]:
    """Return the parts of card.md by name, without their last line ends."""
    _, *found = re.split(r"(?m)^=== (\w+)\n", (files(__package__) / "card.md").read_text("utf-8"))
    return {name: text.removesuffix("\n") for name, text in zip(found[::2], found[1::2], strict=True)}


def _part(name: str, **values: Any) -> str:
    return _parts()[name].format(**values)


def model_card(
    config: Mapping[str, Any],
    report: Mapping[str, Any],
    task: Task,
    *,
    folder_files: Mapping[str, str],
    pairs: bool = False,
    texts: Sequence[str] = (),
    beside: Sequence[str] = (),
) -> str:
    """Return the text of the card; equal arguments give equal text.

    Args:
        config: a RunConfig as JSON values.
        report: the content of metrics.json.
        folder_files: the files of the folder, with a description of each.
        pairs, texts: whether the model takes several texts, and their names, as for `export_onnx`.
        beside: the names of the columns that it reads beside a text.
    """
    validation = report["validation"]
    arguments, text = task.card_inputs(pairs=pairs)
    if beside or texts:
        arguments = "rows.csv"
        first, *further = texts or default_names(1 + pairs)
        row = {first: "a text", **dict.fromkeys(further, "another"), **dict.fromkeys(beside, "...")}
        text = json.dumps(row, ensure_ascii=False).replace("`", r"\u0060")
    names = task.labels.names
    labels = ", ".join(map(code, names[:_SHOWN_LABELS]))
    if len(names) > _SHOWN_LABELS:
        labels += f" and {len(names) - _SHOWN_LABELS} more (see `config.json`)"
    heading, outputs = task.card_outputs(config["reading"]) or ("Labels", labels)
    data = report.get("data")
    decisions = label_table(validation, data)
    decisions += "\n![Confusion matrix on validation](confusion.png)\n" if validation.get("confusion") else ""
    decisions += "\n![Training curves](curves.png)\n" * (report["best"]["train_loss"] is not None)
    decisions += _levels(validation.get("levels") or ())
    decisions += _calibration(report.get("calibration"), validation)
    decisions += _abstention(report.get("abstention"), report.get("out_of_scope"))
    decisions += _other_thresholds(report.get("risk_coverage") or ())
    decisions += f"\n{task.card_quantization(report['quantization'])}\n" if report.get("quantization") else ""
    decisions += _ngrams(config["ngrams"], report.get("ngrams"))
    decisions += _sets(report.get("conformal"), validation)
    chosen = config["decisions"]["label_thresholds"] or config["decisions"].get("metric")
    decisions += _thresholds(report.get("label_thresholds"), chosen)
    mixers = {mixer["type"] for layer in config["model"]["layers"] for mixer in layer["mixers"]}
    selects = config["train"]["load_best_at_end"]
    fitted = (data or {}).get("fitted_on_validation", False)
    epoch = report["best"]["epoch"]
    selection = "no_selection"
    if selects:
        selection = "selected_epoch" if epoch else "selected_strength"
    crossed = (data or {}).get("cross_validated", False)
    measured = f"the exported {report['precision']} model"
    if fitted:
        measured = f"{'models that were' if crossed else 'a model that was'} not fitted on them"
    again = _part("crossed" if crossed else "fitted") if fitted else ""
    if (refit := report.get("refit")) is not None:
        again = _part("refitted", examples=refit["examples"], best=" as were best" if selects else "")
    # The hub's YAML has no text from the user, only fixed words and numbers.
    values = {name: (key, validation[key]) for name, key in task.card_metrics.items() if validation[key] is not None}
    written = _part(
        "card",
        pipeline=task.pipeline,
        metric_names="\n".join(f"- {name}" for name in values),
        metric_values="\n".join(
            f"    - type: {name}\n      name: {key.replace('_', ' ')}\n      value: {value:.6f}"
            for name, (key, value) in values.items()
        ),
        kind="A pNLP-Mixer" if mixers == {"token_mlp"} else "A model",
        purpose=task.purpose.format(n=len(task.labels)),
        parameters=report["parameters"],
        megabytes=report["file_bytes"] / 1e6,
        precision=report["precision"],
        arguments=arguments,
        test_file=task.test_file,
        text=text,
        usage=task.usage,
        heading=heading,
        outputs=outputs,
        data=_data(data, config["data"]),
        n=validation["n"],
        examples="labeled" if crossed else "validation",
        measured=measured,
        selection=_part(selection, epoch=epoch),
        fitted=again,
        metrics=_table(titled(validation), "{:.4f}"),
        decisions=decisions,
        settings=_table(_settings(config, smooths=task.smooths), "{}"),
        limits=task.card_limits(config["model"]["text"], config["reading"]),
        weakest=_weakest_labels(validation),
        files="\n".join(f"- `{name}`: {what}" for name, what in folder_files.items()),
    )
    return written + "\n"


def code(name: str) -> str:
    """Return a label as Markdown code on one line, fenced by more backticks than it contains."""
    line = printable(name)
    fence = "`"
    while fence in line:
        fence += "`"
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def cell(label: str) -> str:
    """Return a label as code in a cell of a Markdown table."""
    return code(label).replace("|", "\\|")


def _table(values: Mapping[str, Any], format_spec: str) -> str:
    return "\n".join(f"| {name} | {format_spec.format(value)} |" for name, value in values.items())


def _data(data: Mapping[str, Any] | None, sources: Mapping[str, Any]) -> str:
    if data is None:
        return ""
    names = ", ".join(code(Path(name).name) for name in sources["train"])
    held = "of the files named for validation" if sources["validation"] else "that were set aside"
    used = f"; {data['validation']:,} examples {held} were used for validation"
    if data.get("cross_validated", False):
        used = ""
    return _part("data", of=f" of {names}" if names else "", training=data["training"], validation=used) + "\n"


def label_table(validation: Mapping[str, Any], data: Mapping[str, Any] | None) -> str:
    """Return the metrics of each label, the first 50 of them."""
    rows: Sequence[Mapping[str, Any]] = validation.get("per_class") or ()
    if not rows or not {"label", "precision", "recall", "f1", "support"} <= rows[0].keys():
        return ""
    counts = {} if data is None else data["labels"]
    lines = []
    for row in rows[:_SHOWN_LABELS]:
        numbers = f"{row['precision']:.3f} | {row['recall']:.3f} | {row['f1']:.3f} | {row['support']:,}"
        count = f"{counts[row['label']]:,}" if row["label"] in counts else ""
        lines.append(f"| {cell(row['label'])} | {numbers} | {count} |")
    return _part("labels", rows="\n".join(lines), more=_more(len(rows))) + "\n"


def _more(number: int) -> str:
    return f"\n\n{number - _SHOWN_LABELS} more are in `metrics.json`." if number > _SHOWN_LABELS else ""


def _weakest_labels(validation: Mapping[str, Any]) -> str:
    """Return an item of the list of limitations: the three labels with the lowest F1, of four or more."""
    rows: Sequence[Mapping[str, Any]] = validation.get("per_class") or ()
    if len(rows) < 4 or not {"label", "f1", "support"} <= rows[0].keys():
        return ""
    weakest = sorted(rows, key=lambda row: (row["f1"], row["support"]))[:3]
    names = ", ".join(f"{code(row['label'])} ({row['f1']:.2f} on {row['support']:,} examples)" for row in weakest)
    return f"- The labels with the lowest F1 on validation: {names}.\n"


def _calibration(calibration: Mapping[str, Any] | None, validation: Mapping[str, Any]) -> str:
    if calibration is None:
        return ""
    bins = tuple(None if item is None else ReliabilityBin(**item) for item in validation.get("reliability", ()))
    diagram = f"\n```\n{format_reliability(bins)}\n```\n" if any(bins) else ""
    return _part("calibration", **calibration, diagram=diagram)


def _abstention(abstention: Mapping[str, Any] | None, out_of_scope: Mapping[str, Any] | None) -> str:
    if abstention is None or abstention["threshold"] is None:
        return ""
    wanted = abstention["wanted"]
    examples = "validation examples"
    if wanted is not None and out_of_scope is not None:
        examples += " and out-of-scope texts, answers to which are wrong"
    why = "by out-of-scope texts" if wanted is None else f"for an accuracy of {wanted:g} of the answers"
    return _part("abstention", **abstention, why=why, examples=examples) + "\n"


def _other_thresholds(risk_coverage: Sequence[Mapping[str, Any]]) -> str:
    # One threshold may be enough for several accuracies; the highest is shown.
    different = {item["threshold"]: item for item in risk_coverage if item["threshold"] is not None}
    row = "| {wanted:g} | {threshold:.4f} | {coverage:.1%} | {accuracy:.4f} |"
    rows = "\n".join(row.format(**item) for item in different.values())
    return _part("other_thresholds", rows=rows) + "\n" if rows else ""


def _levels(levels: Sequence[Mapping[str, Any]]) -> str:
    row = "| {0} | {labels} | {accuracy:.4f} | {flat_accuracy:.4f} | {macro_f1:.4f} | {flat_macro_f1:.4f} |"
    rows = "\n".join(row.format(number, **level) for number, level in enumerate(levels, start=1))
    return _part("levels", rows=rows) + "\n" if rows else ""


def _sets(conformal: Mapping[str, Any] | None, validation: Mapping[str, Any]) -> str:
    if conformal is None:
        return ""
    smallest = " and may be empty" if conformal["method"] == "lac" else ", with the most probable label in each"
    sizes = {name: validation[name] for name in ("set_size", "set_coverage")}
    return _part("sets", **{**conformal, "method": conformal["method"].upper()}, **sizes, smallest=smallest) + "\n"


def _thresholds(thresholds: Mapping[str, Any] | None, by: float | str | None) -> str:
    """Return the thresholds of labels; `by` is a metric, such as "f1", or a wanted precision."""
    if not thresholds:
        return ""
    lines = []
    for name, item in list(thresholds.items())[:_SHOWN_LABELS]:
        if item["threshold"] is None:
            lines.append(f"| {cell(name)} | 0.5 | | | too few examples |")
            continue
        note = "" if item["reached"] else "the highest precision that was found"
        numbers = f"{item['threshold']:.4f} | {item['precision']:.3f} | {item['recall']:.3f}"
        lines.append(f"| {cell(name)} | {numbers} | {note} |")
    why = f"the highest {by.replace('f1', 'F1')}" if isinstance(by, str) else f"a precision of {by:g}"
    return _part("thresholds", why=why, rows="\n".join(lines), more=_more(len(thresholds))) + "\n"


def _ngrams(branch: Mapping[str, Any], ngrams: Mapping[str, Any] | None) -> str:
    if ngrams is None:
        return ""
    about = f"words 1-2, characters {branch['min_n']}-{branch['max_n']}"
    if power := ngrams.get("ratio_power"):
        about += f"; times their log-count ratios to the power {power:g}"
    fitted = "on the validation examples, with misspelled copies if the training has them"
    if folds := ngrams.get("folds"):
        fitted = f"by cross-fitting, on the predictions of {folds} pairs of models for examples that they had not seen"
    return _part("ngrams", **{**ngrams, "about": about, "fitted": fitted}) + "\n"


def _settings(config: Mapping[str, Any], *, smooths: bool) -> dict[str, Any]:
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
