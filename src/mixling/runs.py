"""A run: from a configuration and data to a folder that holds the model, its measures and its record."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from mixling.config import Config, parse
from mixling.data.batches import TextSet
from mixling.data.examples import ColumnsConfig, read_examples
from mixling.data.splits import check_labels, report_duplicates, split_dev
from mixling.data.store import ExampleStore
from mixling.data.tables import OnBadRow
from mixling.errors import ConfigError, ModelFileError, TrainingError
from mixling.export.card import model_card
from mixling.export.onnx import export_onnx
from mixling.export.quantize import Gate, check_gate, measure_gate
from mixling.inspect.plots import confusion_matrix, training_curves
from mixling.models.model import Model, ModelConfig, build_model, count_parameters
from mixling.models.presets import DEFAULT_PRESET, PRESETS
from mixling.runtime.predictor import Predictor
from mixling.storage import remove_leftovers, write_atomic, write_json
from mixling.tasks.base import Task, TaskName
from mixling.tasks.classification import Classification, MultiLabel
from mixling.tasks.evaluation import evaluate
from mixling.tasks.metrics import ClassificationMetrics, Metrics
from mixling.tasks.token_labelling import TokenLabelling
from mixling.text.encoder import TextEncoder, train_vocabulary
from mixling.text.labels import LabelKind, LabelSet, Targets
from mixling.text.vocabulary import Vocabulary
from mixling.training.distributed import Processes
from mixling.training.loop import CHECKPOINT, Observer, Trainer, TrainingData
from mixling.training.predict import predict_logits
from mixling.training.recipe import TrainConfig
from mixling.version import __version__

FORMAT_VERSION = 1
RUN_FILE, CONFIG_FILE, WEIGHTS_FILE, ONNX_FILE = "run.json", "config.json", "model.safetensors", "model.onnx"
_VOCABULARY_BYTES = 32 << 20  # text that a vocabulary is trained on

TASKS: dict[TaskName, tuple[type[Task], LabelKind]] = {
    "classification": (Classification, "single"),
    "multi_label": (MultiLabel, "multi"),
    "tagging": (TokenLabelling, "iob"),
}


class DataConfig(Config):
    """Where the examples are."""

    train: tuple[str, ...] = ()
    dev: tuple[str, ...] = Field((), description="empty: a share of the training rows is set aside")
    dev_fraction: float = Field(0.1, gt=0, lt=1)
    columns: ColumnsConfig = ColumnsConfig()
    on_bad_row: Literal["error", "skip"] = "error"
    file_format: str | None = None


class RunConfig(Config):
    """All that decides what a run gives; it stands in the run folder as run.json."""

    task: TaskName = "classification"
    data: DataConfig = DataConfig()
    model: ModelConfig = PRESETS[DEFAULT_PRESET]
    train: TrainConfig = TrainConfig()
    precision: Literal["int8", "float32"] = Field("int8", description="of the weights in model.onnx")


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a finished run gives.

    metrics: of the exported model on dev.
    gate: how the 8-bit model compares with the float one; None where it was not asked for.
    """

    folder: Path
    labels: LabelSet
    metrics: Metrics
    history: list[dict[str, Any]]
    parameters: int
    precision: str
    gate: Gate | None


def read_data(
    config: RunConfig, *, spool_dir: Path | None, say: Callable[[str], None]
) -> tuple[ExampleStore, ExampleStore]:
    """Read, split and check the training and dev examples; what a user should know is said.

    Raises:
        DataError: rows, labels or files that cannot be used.
    """
    data = config.data
    on_bad_row = OnBadRow(data.on_bad_row)

    def load(sources: tuple[str, ...]) -> ExampleStore:
        examples = read_examples(
            sources, task=config.task, columns=data.columns, on_bad_row=on_bad_row, file_format=data.file_format
        )
        return ExampleStore.from_examples(examples, spool_dir=spool_dir)

    train = load(data.train)
    if data.dev:
        dev = load(data.dev)
        repeated = report_duplicates(train, dev)
        if repeated:
            say(f"{repeated} of {len(dev)} dev texts stand in the training rows too: dev will look too good")
    else:
        train, dev = split_dev(train, fraction=data.dev_fraction, seed=config.train.seed)
    if on_bad_row.skipped:
        say(f"{on_bad_row.skipped} bad rows were skipped; the first: " + "; ".join(on_bad_row.messages[:3]))
    check_labels(train, dev)
    say(f"{len(train):,} training and {len(dev):,} dev examples")
    return train, dev


def fit(
    config: RunConfig,
    train: ExampleStore,
    dev: ExampleStore,
    *,
    folder: Path,
    weights: npt.NDArray[np.float32] | None = None,
    resume: bool = False,
    processes: Processes | None = None,
    observer: Observer | None = None,
    say: Callable[[str], None] = lambda message: None,
) -> Run | None:
    """Train, choose the best epoch on dev, export, measure what was exported, and write the run folder.

    Args:
        weights: one for each training example.
        resume: go on from the folder's checkpoint.

    Returns:
        the run; None in processes other than the main one.

    Raises:
        UserError: of the kind that fits; see `Trainer.fit`.
    """
    processes = processes or Processes()
    task_type, kind = TASKS[config.task]
    labels = label_set(train, kind)
    counts = train.label_counts()
    task = task_type(labels, config.train.loss, np.array([counts.get(name, 0) for name in labels.names]))
    text = config.model.text
    vocabulary = (
        Vocabulary.load(text.vocabulary)
        if text.vocabulary is not None
        else train_vocabulary(train.sample_texts(_VOCABULARY_BYTES, config.train.seed), text)
    )
    encoder = TextEncoder(text, vocabulary)
    data = TrainingData(
        train=TextSet(train, encoder, keep=not train.spooled),
        train_targets=labels.targets([train.target(i) for i in range(len(train))]),
        dev=TextSet(dev, encoder, keep=not dev.spooled),
        dev_targets=labels.targets([dev.target(i) for i in range(len(dev))]),
        weights=weights,
        where=train.where,
    )
    model = build_model(config.model, num_outputs=len(labels), output=task.output, seed=config.train.seed)
    if model.frontend.embeddings is not None:
        if text.projection.num_features != len(vocabulary):
            raise ConfigError(
                f"projection 'embedding': num_features is {text.projection.num_features}, but the vocabulary has "
                f"{len(vocabulary)} units; set model.text.projection.num_features and model.text.vocabulary to fit"
            )
        model.frontend.load_embeddings(config.model.frontend.embeddings)
    say(f"{len(labels)} labels, {len(vocabulary):,} units, {count_parameters(model):,} parameters")
    say_truncated(data.train, text.max_len, say)
    if processes.is_main:
        remove_leftovers(folder)
        if not resume:
            (folder / CHECKPOINT).unlink(missing_ok=True)  # of an older run: it must not be taken for this one's
            write_json(folder / RUN_FILE, {**_provenance(), "config": config.to_dict(), "finished": False})
    trainer = Trainer(
        model, task, data, config.train,
        folder=folder,
        fingerprint=_fingerprint(config, train, dev, vocabulary, weights),
        processes=processes,
        observer=observer,
    )  # fmt: skip
    history = trainer.fit(resume=resume)
    if not processes.is_main:
        return None
    model.cpu()
    run = _write(config, model, encoder, labels, data, dev, history, folder, say)
    write_json(folder / RUN_FILE, {**_provenance(), "config": config.to_dict(), "finished": True})
    (folder / CHECKPOINT).unlink(missing_ok=True)  # last: a run cut off before must not begin anew
    return run


def label_set(train: ExampleStore, kind: LabelKind) -> LabelSet:
    """The labels of the training examples; of every slot both B- and I-."""
    names = list(train.label_counts())
    if kind == "iob":
        names = ["O", *(prefix + name[2:] for name in names if name != "O" for prefix in ("B-", "I-"))]
    return LabelSet.from_labels(names, kind)


def load_model(folder: str | Path) -> tuple[Model, TextEncoder, LabelSet, TaskName]:
    """The float model of a run folder, for torch.

    Raises:
        ModelFileError: a file of the folder is missing or damaged.
    """
    folder = Path(folder)
    try:
        saved = json.loads((folder / CONFIG_FILE).read_text("utf-8"))
        if saved["format_version"] != FORMAT_VERSION:
            raise ModelFileError(
                f"{folder / CONFIG_FILE}: format {saved['format_version']!r}; this version reads {FORMAT_VERSION}"
            )
        config = parse(ModelConfig, saved["model"], where=str(folder / CONFIG_FILE))
        labels, task = LabelSet.from_dict(saved["labels"]), saved["task"]
        name = str(saved["vocabulary"])
        vocabulary = Vocabulary.parse(name, (folder / Path(name).name).read_text("utf-8"))
        model = build_model(config, num_outputs=len(labels), output=TASKS[task][0].output)
        model.load_state_dict(load_file(folder / WEIGHTS_FILE))
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError, ValidationError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ModelFileError(f"{folder}: is not a complete run folder: {reason}") from None
    return model.eval(), TextEncoder(config.text, vocabulary), labels, task


def say_truncated(texts: TextSet, max_len: int, say: Callable[[str], None]) -> None:
    """Tell how many texts are longer than the model reads."""
    sample = texts.encode(range(0, len(texts), max(1, len(texts) // 2000)))
    share = sum(item.truncated for item in sample) / len(sample)
    if share > 0.02:
        say(f"{share:.0%} of the texts are cut at {max_len} words; --set model.text.max_len=N reads more")


def _write(
    config: RunConfig,
    model: Model,
    encoder: TextEncoder,
    labels: LabelSet,
    data: TrainingData,
    dev: ExampleStore,
    history: list[dict[str, Any]],
    folder: Path,
    say: Callable[[str], None],
) -> Run:
    vocabulary = encoder.vocabulary
    name, content = vocabulary.serialise()
    write_atomic(folder / name, content)
    parameters = count_parameters(model)
    saved = {"task": config.task, "model": config.model.to_dict(), "labels": labels.to_dict(), "vocabulary": name}
    write_json(folder / CONFIG_FILE, {"format_version": FORMAT_VERSION, "parameters": parameters, **saved})
    state = {key: value.contiguous() for key, value in sorted(model.state_dict().items())}
    write_atomic(folder / WEIGHTS_FILE, save(state, {"format": "pt"}))

    def export(precision: Literal["int8", "float32"]) -> list[npt.NDArray[np.float32]]:
        """Write model.onnx and ask it about dev."""
        content = export_onnx(
            model, text=config.model.text, task=config.task, labels=labels, vocabulary=vocabulary, precision=precision
        )
        write_atomic(folder / ONNX_FILE, content)
        predictor = Predictor(folder / ONNX_FILE, num_threads=torch.get_num_threads())
        out: list[npt.NDArray[np.float32]] = []
        for first in range(0, len(dev), 1024):
            texts = [dev.text(i) for i in range(first, min(first + 1024, len(dev)))]
            out += predictor.logits(predictor.encoder.encode(texts))
        return out

    float_logits = predict_logits(model, data.dev)
    gate, precision, logits = None, config.precision, export(config.precision)
    if precision == "int8":
        gate = _gate(labels, float_logits, logits, data.dev_targets)
        refusal = check_gate(gate)
        if refusal is not None:
            say(f"{refusal}; model.onnx holds float32 weights")
            precision, logits = "float32", export("float32")
    metrics = evaluate(labels, logits, data.dev_targets)
    best = next(record for record in reversed(history) if record["best"])
    report = {
        "dev": metrics.to_dict(),
        "best": {key: best[key] for key in ("epoch", "step", "train_loss", "dev_loss")},
        "precision": precision,
        "gate": None if gate is None else asdict(gate),
        "parameters": parameters,
        "file_bytes": (folder / ONNX_FILE).stat().st_size,
    }
    write_json(folder / "metrics.json", report)
    if isinstance(metrics, ClassificationMetrics):
        confusion_matrix(np.array(metrics.confusion), labels.names, folder / "confusion.png")
    training_curves(history, folder / "curves.png")
    write_atomic(folder / "README.md", model_card(config.to_dict(), report, labels, folder_files=_FILES))
    return Run(
        folder=folder, labels=labels, metrics=metrics, history=history,
        parameters=parameters, precision=precision, gate=gate,
    )  # fmt: skip


def _gate(
    labels: LabelSet, before: list[npt.NDArray[np.float32]], after: list[npt.NDArray[np.float32]], targets: Targets
) -> Gate:
    """The gate's measure; of a tagger over all words that have logits."""
    if labels.kind == "iob":
        gold = np.concatenate([np.asarray(tags)[: len(row)] for tags, row in zip(targets, before, strict=True)])
        return measure_gate(np.concatenate(before), np.concatenate(after), gold, kind=labels.kind)
    return measure_gate(np.stack(before), np.stack(after), np.asarray(targets), kind=labels.kind)


_FILES = {
    ONNX_FILE: "the model, its configuration, vocabulary and labels: this file alone predicts",
    WEIGHTS_FILE: "the float weights, for torch",
    CONFIG_FILE: "the configuration of the model, and its labels",
    RUN_FILE: "the complete configuration of the run",
    "metrics.json": "measures on the dev split",
    "metrics.jsonl": "measures of every evaluation",
}


def _provenance() -> dict[str, Any]:
    return {
        "format_version": FORMAT_VERSION,
        "mixling": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
    }


def _fingerprint(
    config: RunConfig,
    train: ExampleStore,
    dev: ExampleStore,
    vocabulary: Vocabulary,
    weights: npt.NDArray[np.float32] | None,
) -> str:
    """Identifies what a checkpoint belongs to: configuration and content of the data, not where the files lie."""
    values = config.model_dump(mode="json", exclude={"data": True, "train": {"checkpoint_seconds"}})
    out = hashlib.sha256(json.dumps([values, *vocabulary.serialise()], sort_keys=True).encode())
    for store in (train, dev):
        out.update(store.text_hashes().tobytes())
        out.update(json.dumps(store.label_counts(), sort_keys=True).encode())
        ids = store.class_ids()
        out.update(b"" if ids is None else np.ascontiguousarray(ids).tobytes())
    out.update(b"" if weights is None else weights.tobytes())
    return out.hexdigest()


def resumed_config(folder: Path) -> tuple[RunConfig, bool]:
    """The configuration of the run in a folder, and whether the run is finished.

    Raises:
        TrainingError: there is no run in the folder.
        ModelFileError: its record is damaged.
    """
    path = folder / RUN_FILE
    try:
        saved = json.loads(path.read_text("utf-8"))
        return parse(RunConfig, saved["config"], where=str(path)), bool(saved["finished"])
    except FileNotFoundError:
        raise TrainingError(
            f"{path}: there is no run to resume; start one with: mixling train FILE -o {folder}"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelFileError(f"{path}: is damaged: {error}") from None
