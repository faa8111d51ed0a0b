"""Describing saved models and unfinished runs as a dictionary or as text, without torch."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from mixling.artifacts.artifact import kind_of_model, read_folder
from mixling.artifacts.files import CONFIG_FILE, METRICS_FILE, NEXT, RUN_FILE, WEIGHTS_FILE, read_file
from mixling.artifacts.kinds import kind_named
from mixling.artifacts.resume import unfinished_run
from mixling.errors import ModelFileError, shown
from mixling.metrics.base import titled
from mixling.runtime.onnx.session import open_model
from mixling.runtime.quick import ONNX_FILE

NAME_WIDTH = 12  # characters before the values of a summary
_SHOWN_LABELS = 20


def describe(model: str) -> dict[str, Any]:
    """Return facts about a saved model, and about an unfinished run in its folder.

    Raises:
        ModelFileError: there is no model, or a file is damaged.
    """
    saved = any((Path(model) / name).exists() for name in (ONNX_FILE, CONFIG_FILE))
    run = None if saved and not (Path(model) / NEXT).exists() else unfinished_run(model)
    facts = (
        read_folder(model, lambda path: {"kind": (kind := kind_of_model(path)).name, **kind.describe(path)})
        if saved or run is None
        else {"file": model}
    )
    if run is not None:
        own = {"step": run.step, "total_steps": run.total_steps, "best": run.best, "resume": run.command}
        facts = {**facts, "unfinished": own}
    return facts


def describe_predictor(model: str | Path) -> dict[str, Any]:
    """Return facts about a model.onnx, and about its run if a folder is named."""
    opened = open_model(model)
    metadata = opened.metadata
    file = Path(model) / ONNX_FILE if Path(model).is_dir() else Path(model)
    facts: dict[str, Any] = {
        "file": str(file),
        "file_bytes": file.stat().st_size,
        "task": metadata.task,
        "precision": metadata.precision,
        "parameters": metadata.parameters,
        "written_by": f"mixling {metadata.library}",
        "labels": list(opened.task.labels.names) if opened.task.has_labels else None,
        "vocabulary_size": len(opened.vocabulary),
        "ngrams": None
        if opened.branch is None or metadata.ngrams is None
        else {"terms": len(opened.branch.terms), **metadata.ngrams.to_dict()},
        "columns": None if opened.columns is None else opened.columns.summary(),
        "threshold": metadata.threshold,
        "levels": (metadata.rule.levels or None) if metadata.rule else None,
        "reading": None if metadata.reading is None else metadata.reading.to_dict(),
        "text": metadata.text.to_dict(),
    }
    if Path(model).is_dir():
        facts["model"] = read_values(Path(model), CONFIG_FILE, lambda saved: body_line(saved["model"])).get("model")
        facts |= run_metrics(Path(model), "data")
        run = read_values(Path(model), RUN_FILE, lambda saved: saved["config"])
        facts["files"] = [Path(name).name for name in run.get("config", {}).get("data", {}).get("train", ())] or None
        facts["written"] = datetime.fromtimestamp(file.stat().st_mtime).isoformat(" ", "minutes")
    return {key: value for key, value in facts.items() if value is not None}


def run_metrics(folder: Path, *more: str) -> dict[str, Any]:
    """Return the best epoch and the validation metrics of a run folder, and further entries of metrics.json."""
    metrics = read_values(
        folder, METRICS_FILE, lambda saved: (validation_line(saved["validation"]), best_line(saved["best"]))
    )
    return {key: value for key, value in metrics.items() if key in ("best", "validation", *more)}


def weights_file(folder: Path) -> dict[str, Any]:
    """Return the path and the size of the weights of a run folder."""
    weights = folder / WEIGHTS_FILE
    return {"file": str(weights), "file_bytes": weights.stat().st_size if weights.exists() else 0}


def read_values(folder: Path, name: str, use: Callable[[Any], object]) -> dict[str, Any]:
    """Return the file's values, or nothing if it does not exist; `use` accesses them to find missing keys early."""
    try:
        saved = read_file(folder, name)
        use(saved)
        return saved
    except FileNotFoundError:
        return {}
    except KeyError as error:
        raise ModelFileError(f"{folder / name}: is damaged: {error} is missing") from None
    except (ValueError, TypeError, AttributeError) as error:
        raise ModelFileError(f"{folder / name}: is damaged: {error}") from None


def summary(facts: dict[str, Any]) -> str:
    """Return the result of `describe` as readable lines."""
    unfinished = _unfinished_lines(facts["unfinished"]) if "unfinished" in facts else []
    if "kind" not in facts:
        return _rows([("file", f"{facts['file']}: no model yet"), *unfinished])
    return _rows([*kind_named(facts["kind"]).summary(facts), *unfinished])


def model_lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the lines of `summary` about a model that reads texts."""
    text = facts["text"]
    by = f", written by {facts['written_by']}" if "written_by" in facts else ""
    projection = ", ".join(f"{key} {value}" for key, value in text["projection"].items() if key != "type")
    lines = [("file", f"{facts['file']}, {facts['file_bytes'] / 1e6:.2f} MB{by}"), ("task", facts["task"])]
    data = facts.get("data")
    counts = {}
    if data is not None:
        counts = data["labels"]
        files = f" of {', '.join(facts['files'])}" if "files" in facts else ""
        others = "" if data.get("cross_validated", False) else f", {data['validation']:,} for validation"
        lines.append(("trained", f"{facts['written']}, {data['training']:,} examples{files}{others}"))
    if "reading" in facts:
        reading = facts["reading"]
        threshold = reading["threshold"]
        none = "always one" if threshold is None else f"none if its score is higher by more than {threshold:.3g}"
        lines.append(("answers", f"up to {reading['max_answer']} tokens, {none}"))
    elif "labels" in facts:
        lines.append(("labels", labels_line(facts["labels"], counts)))
    subwords = f", {facts['vocabulary_size']:,} subwords" if "vocabulary_size" in facts else ""
    lines += [
        ("parameters", f"{facts['parameters']:,}, {facts.get('precision', 'float32')}"),
        ("text", f"up to {text['max_len']} {text['tokens']}{subwords}"),
        ("projection", f"{text['projection']['type']}: {projection}"),
    ]
    if (latency := facts.get("latency")) is not None:
        engine = latency["engine"].partition(" (")[0]
        lines.append(("latency", f"{latency['milliseconds']:.3f} ms for {latency['of']} here ({engine} engine)"))
    if "model" in facts:
        lines.append(("body", body_line(facts["model"])))
    if "ngrams" in facts:
        ngrams = facts["ngrams"]
        kinds = f"of words 1-2, of characters {ngrams['min_n']}-{ngrams['max_n']}"
        linear = f" + a linear model of {ngrams['terms']:,} n-grams ({kinds})" if ngrams["terms"] else ""
        lines.append(("logits", f"{ngrams['network']:.2f} of the network{linear}"))
    if "columns" in facts:
        lines.append(("columns", facts["columns"]))
    if "threshold" in facts:
        lines.append(("abstains", f"below a probability of {facts['threshold']:.4f}"))
    if "levels" in facts:
        lines.append(("levels", f"of labels are separated by {shown(facts['levels'])}; answered from the top down"))
    return lines + quality_lines(facts)


def quality_lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the lines about validation metrics and the best epoch."""
    lines = []
    if "validation" in facts:
        data = facts.get("data", {})
        before = ", before the model was fitted on these examples, too" * data.get("fitted_on_validation", False)
        if data.get("cross_validated", False):
            before = f", by cross-validation on {facts['validation']['n']:,} examples"
        lines.append(("validation", validation_line(facts["validation"]) + before))
    name = "epochs" if facts.get("data", {}).get("cross_validated", False) else "best epoch"
    return lines + ([(name, best_line(facts["best"]))] if "best" in facts else [])


def _unfinished_lines(run: dict[str, Any]) -> list[tuple[str, str]]:
    total = run["total_steps"]
    best = run["best"]
    at = "run before its first checkpoint" if total is None else f"run at step {run['step']:,} of {total:,}"
    lines = [("unfinished", at)]
    if best is not None:
        metrics = {key.removeprefix("val_"): value for key, value in best.items() if key.startswith("val_")}
        lines.append(("best so far", f"epoch {best['epoch']:g}: {validation_line(metrics)}"))
    return [*lines, ("resume with", run["resume"])]


def _rows(lines: list[tuple[str, str]]) -> str:
    return "\n".join(f"{name:<{NAME_WIDTH - 1}} {value}" for name, value in lines)


def labels_line(labels: list[str], counts: dict[str, int]) -> str:
    """Return the number of labels and their names, with the number of training examples of each."""
    names = ", ".join(f"{name} ({counts[name]:,})" if name in counts else name for name in labels[:_SHOWN_LABELS])
    more = f", and {len(labels) - _SHOWN_LABELS} more" if len(labels) > _SHOWN_LABELS else ""
    return f"{len(labels)}: {names}{more}"


def validation_line(metrics: dict[str, Any]) -> str:
    """Return metrics as one line."""
    return ", ".join(f"{name} {value:.4f}" for name, value in titled(metrics).items())


def best_line(record: dict[str, Any]) -> str:
    """Return the best epoch."""
    return f"{record['epoch']:g}"


def body_line(model: dict[str, Any]) -> str:
    """Return the width and the layers of a model."""
    return f"width {model['dim']}, window {model['embedding']['window']}, {layers_line(model)}"


def layers_line(model: dict[str, Any]) -> str:
    """Return the number of layers and their mixers."""
    layers = model["layers"]
    count = len(layers) if model["num_layers"] is None else model["num_layers"]
    mixers = " + ".join(dict.fromkeys(mixer["type"] for layer in layers for mixer in layer["mixers"]))
    return f"{count} layer{'s' * (count != 1)} {f'of {mixers}' if mixers else 'without token mixing'}"
