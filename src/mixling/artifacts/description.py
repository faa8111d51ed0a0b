"""Describing saved models and unfinished runs as a dictionary or as text, without torch."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from mixling.artifacts.artifact import IMAGES, PRETRAINING, TEXT_TO_TEXT, kind_of_model, read_folder
from mixling.artifacts.files import CONFIG_FILE, METRICS_FILE, NEXT, RUN_FILE, WEIGHTS_FILE, read_file
from mixling.artifacts.resume import unfinished_run
from mixling.errors import ModelFileError
from mixling.metrics.base import titled
from mixling.runtime.onnx.session import open_model
from mixling.runtime.quick import ONNX_FILE

_SHOWN_LABELS = 20


def describe(model: str) -> dict[str, Any]:
    """Return facts about a saved model, and about an unfinished run in its folder.

    Raises:
        ModelFileError: there is no model, or a file is damaged.
    """
    saved = any((Path(model) / name).exists() for name in (ONNX_FILE, CONFIG_FILE))
    run = None if saved and not (Path(model) / NEXT).exists() else unfinished_run(model)
    facts = read_folder(model, lambda path: _describe(str(path))) if saved or run is None else {"file": model}
    if run is not None:
        own = {"step": run.step, "total_steps": run.total_steps, "best": run.best, "resume": run.command}
        facts = {**facts, "unfinished": own}
    return facts


def _describe(model: str) -> dict[str, Any]:
    kind = kind_of_model(model)
    if kind in _DESCRIBED:
        return _DESCRIBED[kind](Path(model))
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
        "threshold": metadata.threshold,
        "reading": None if metadata.reading is None else metadata.reading.to_dict(),
        "text": metadata.text.to_dict(),
    }
    if Path(model).is_dir():
        facts["model"] = _read(Path(model), CONFIG_FILE, lambda saved: _body(saved["model"])).get("model")
        facts |= _metrics(Path(model), "data")
        run = _read(Path(model), RUN_FILE, lambda saved: saved["config"])
        facts["files"] = [Path(name).name for name in run.get("config", {}).get("data", {}).get("train", ())] or None
        facts["written"] = datetime.fromtimestamp(file.stat().st_mtime).isoformat(" ", "minutes")
    return {key: value for key, value in facts.items() if value is not None}


def _describe_pretraining(folder: Path) -> dict[str, Any]:
    saved = _read(folder, CONFIG_FILE, lambda saved: (_body(saved["model"]), saved["parameters"]))
    return {
        **_file(folder),
        "task": "none yet; fine-tune the pretrained model with: mixling train FILE --from DIR",
        "parameters": saved["parameters"],
        "text": saved["model"]["text"],
        "model": saved["model"],
        **_metrics(folder),
    }


def _describe_generator(folder: Path) -> dict[str, Any]:
    saved = _read(folder, CONFIG_FILE, lambda saved: (_stacks(saved["model"]), saved["parameters"], saved["tasks"]))
    metrics = _read(folder, METRICS_FILE, lambda saved: (saved["held_out"], saved["validation"], _best(saved["best"])))
    return {
        **_file(folder),
        "task": "text to text; use it with mixling generate",
        "parameters": saved["parameters"],
        "tasks": saved["tasks"],
        "generation": saved["generation"],
        "encoder_decoder": saved["model"],
        **{name: metrics[name] for name in ("held_out", "validation", "best") if name in metrics},
    }


def _describe_images(folder: Path) -> dict[str, Any]:
    saved = _read(
        folder, CONFIG_FILE, lambda saved: (_layers(saved["model"]), saved["parameters"], saved["labels"]["names"])
    )
    return {
        **_file(folder),
        "task": "image classification",
        "parameters": saved["parameters"],
        "labels": saved["labels"]["names"],
        "image_model": saved["model"],
        **_metrics(folder, "data"),
    }


def _metrics(folder: Path, *more: str) -> dict[str, Any]:
    metrics = _read(folder, METRICS_FILE, lambda saved: (_validation(saved["validation"]), _best(saved["best"])))
    return {key: value for key, value in metrics.items() if key in ("best", "validation", *more)}


def _file(folder: Path) -> dict[str, Any]:
    weights = folder / WEIGHTS_FILE
    return {"file": str(weights), "file_bytes": weights.stat().st_size if weights.exists() else 0}


_DESCRIBED: dict[str, Callable[[Path], dict[str, Any]]] = {
    PRETRAINING: _describe_pretraining,
    TEXT_TO_TEXT: _describe_generator,
    IMAGES: _describe_images,
}


def _read(folder: Path, name: str, use: Callable[[Any], object]) -> dict[str, Any]:
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
    if "encoder_decoder" in facts:
        return _rows(_generator_lines(facts) + unfinished)
    if "image_model" in facts:
        return _rows(_image_lines(facts) + unfinished)
    if "text" not in facts:
        return _rows([("file", f"{facts['file']}: no model yet"), *unfinished])
    text, by = facts["text"], f", written by {facts['written_by']}" if "written_by" in facts else ""
    projection = ", ".join(f"{key} {value}" for key, value in text["projection"].items() if key != "type")
    lines = [("file", f"{facts['file']}, {facts['file_bytes'] / 1e6:.2f} MB{by}"), ("task", facts["task"])]
    data, counts = facts.get("data"), {}
    if data is not None:
        counts = data["labels"]
        files = f" of {', '.join(facts['files'])}" if "files" in facts else ""
        lines.append(
            (
                "trained",
                f"{facts['written']}, {data['training']:,} examples{files}, {data['validation']:,} for validation",
            )
        )
    if "reading" in facts:
        lines.append(("answers", _reading(facts["reading"])))
    elif "labels" in facts:
        lines.append(("labels", _labels(facts["labels"], counts)))
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
        lines.append(("body", _body(facts["model"])))
    if "ngrams" in facts:
        ngrams = facts["ngrams"]
        kinds = f"of words 1-2, of characters {ngrams['min_n']}-{ngrams['max_n']}"
        linear = f" + a linear model of {ngrams['terms']:,} n-grams ({kinds})" if ngrams["terms"] else ""
        lines.append(("logits", f"{ngrams['network']:.2f} of the network{linear}"))
    if "threshold" in facts:
        lines.append(("abstains", f"below a probability of {facts['threshold']:.4f}"))
    return _rows(lines + _quality_lines(facts) + unfinished)


def _quality_lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    lines = []
    if "validation" in facts:
        fitted = facts.get("data", {}).get("fitted_on_validation", False)
        before = ", before the model was fitted on these examples, too" * fitted
        lines.append(("validation", _validation(facts["validation"]) + before))
    return lines + ([("best epoch", _best(facts["best"]))] if "best" in facts else [])


def _unfinished_lines(run: dict[str, Any]) -> list[tuple[str, str]]:
    total, best = run["total_steps"], run["best"]
    at = "run before its first checkpoint" if total is None else f"run at step {run['step']:,} of {total:,}"
    lines = [("unfinished", at)]
    if best is not None:
        metrics = {key.removeprefix("val_"): value for key, value in best.items() if key.startswith("val_")}
        lines.append(("best so far", f"epoch {best['epoch']:g}: {_validation(metrics)}"))
    return [*lines, ("resume with", run["resume"])]


def _rows(lines: list[tuple[str, str]]) -> str:
    return "\n".join(f"{name:<11} {value}" for name, value in lines)


def _generator_lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    model, search = facts["encoder_decoder"], facts["generation"]
    lines = [
        ("file", f"{facts['file']}, {facts['file_bytes'] / 1e6:.2f} MB"),
        ("task", facts["task"]),
        ("tasks", ", ".join(item["name"] for item in facts["tasks"]) or "none yet: pretrained by span corruption"),
        ("parameters", f"{facts['parameters']:,}, float32"),
        ("reads", f"up to {model['max_source_len']} subwords"),
        ("writes", f"up to {search['max_len']}, {search['num_beams']} beam{'s' * (search['num_beams'] != 1)}"),
        *_stacks(model),
    ]
    validation: dict[str, Any] = facts.get("validation", {})
    for name, values in validation.items():
        lines.append(
            ("validation" if len(validation) == 1 else f"validation {name}", _validation(values | values["metrics"]))
        )
    if "held_out" in facts:
        lines.append(("held out", _validation(facts["held_out"])))
    if "best" in facts:
        lines.append(("best epoch", _best(facts["best"])))
    return lines


def _image_lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    model, data = facts["image_model"], facts.get("data", {"labels": {}})
    size, colors = model["image_size"], "gray" if model["channels"] == 1 else "RGB"
    patches = f"patches of {model['patch_size']} x {model['patch_size']}"
    lines = [("file", f"{facts['file']}, {facts['file_bytes'] / 1e6:.2f} MB"), ("task", facts["task"])]
    if "training" in data:
        lines.append(("trained", f"{data['training']:,} images, {data['validation']:,} for validation"))
    lines += [
        ("labels", _labels(facts["labels"], data["labels"])),
        ("parameters", f"{facts['parameters']:,}, float32"),
        ("images", f"{size} x {size} pixels, {colors}; {patches}"),
        ("body", f"width {model['dim']}, {_layers(model)}"),
    ]
    return lines + _quality_lines(facts)


def _labels(labels: list[str], counts: dict[str, int]) -> str:
    names = ", ".join(f"{name} ({counts[name]:,})" if name in counts else name for name in labels[:_SHOWN_LABELS])
    more = f", and {len(labels) - _SHOWN_LABELS} more" if len(labels) > _SHOWN_LABELS else ""
    return f"{len(labels)}: {names}{more}"


def _stacks(model: dict[str, Any]) -> list[tuple[str, str]]:
    return [(name, f"width {model['dim']}, {_layers(model[name])}") for name in ("encoder", "decoder")]


def _reading(reading: dict[str, Any]) -> str:
    threshold = reading["threshold"]
    none = "always one" if threshold is None else f"none if its score is higher by more than {threshold:.3g}"
    return f"up to {reading['max_answer']} tokens, {none}"


def _validation(metrics: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value:.4f}" for name, value in titled(metrics).items())


def _best(record: dict[str, Any]) -> str:
    return f"{record['epoch']:g}"


def _body(model: dict[str, Any]) -> str:
    return f"width {model['dim']}, window {model['embedding']['window']}, {_layers(model)}"


def _layers(model: dict[str, Any]) -> str:
    layers = model["layers"]
    count = len(layers) if model["num_layers"] is None else model["num_layers"]
    mixers = " + ".join(dict.fromkeys(mixer["type"] for layer in layers for mixer in layer["mixers"]))
    return f"{count} layer{'s' * (count != 1)} {f'of {mixers}' if mixers else 'without token mixing'}"
