"""Exporting the best model so far of an unfinished run of `mixling train` or `mixling distill`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from pydantic import ValidationError

from mixling.answers.labels import LabelSet
from mixling.artifacts.files import SETUP_FILE, read_file
from mixling.artifacts.resume import Unfinished
from mixling.config import parse
from mixling.errors import ModelFileError, TrainingError, UserError
from mixling.export.onnx import export_onnx
from mixling.networks.config import ModelConfig
from mixling.runtime.onnx.session import Precision
from mixling.storage import write_sealed
from mixling.tasks import task_type
from mixling.text.vocabulary import Vocabulary
from mixling.text.windows import ReadingConfig
from mixling.training.backends.choose import make_network
from mixling.training.checkpoint import load_checkpoint
from mixling.training.files import CHECKPOINT


def write_setup(
    folder: Path,
    model: ModelConfig,
    labels: LabelSet,
    vocabulary: Vocabulary,
    *,
    task: str,
    precision: Precision,
    pairs: bool,
    texts: Sequence[str],
    reading: ReadingConfig,
) -> None:
    """Write the files needed besides the checkpoint to build the model without the data.

    Args:
        model: the model's configuration, completed for the vocabulary.
        precision: of the exported weights, by default.
        pairs, texts: whether several texts belong together, and their names, as for `export_onnx`.
    """
    own = {"task": task, "model": model.to_dict(), "precision": precision, "pairs": pairs, "reading": reading.to_dict()}
    own |= {"texts": list(texts)} if texts else {}
    write_sealed(folder / SETUP_FILE, {**own, "labels": labels.to_dict(), "vocabulary": vocabulary.serialize()})


def export_best(run: Unfinished, *, precision: Precision | None = None) -> tuple[bytes, Precision]:
    """Return the best model so far as the content of an ONNX file, and the precision of its weights.

    Args:
        precision: by default the run's.

    Raises:
        TrainingError: there is no evaluation yet, or the run does not train on labeled examples.
        ModelFileError: a file is missing or damaged.
    """
    if run.best is None:
        raise TrainingError(f"{run.folder}: the run has no evaluation yet; resume it with: {run.command}")
    path = run.folder / SETUP_FILE
    try:
        saved = read_file(run.folder, SETUP_FILE)
    except FileNotFoundError:
        raise TrainingError(
            f"{path}: is missing: the run has no labeled examples or is of another version; resume it: {run.command}"
        ) from None
    arrays, _ = load_checkpoint(run.folder / CHECKPOINT)
    try:
        config = parse(ModelConfig, saved["model"], where=str(path))
        task = task_type(saved["task"])(LabelSet.from_dict(saved["labels"]))
        vocabulary = Vocabulary.parse(*saved["vocabulary"])
        network = make_network(config, len(task.labels), task.output)
        best = {name.removeprefix("best/"): value for name, value in arrays.items() if name.startswith("best/")}
        network.restore(best)
        reading = parse(ReadingConfig, saved["reading"], where=str(path)) if task.windows else None
        chosen = precision or cast(Precision, saved["precision"])
        content = export_onnx(
            network,
            text=config.text,
            task=task.name,
            labels=task.labels,
            vocabulary=vocabulary,
            precision=chosen,
            pairs=saved["pairs"],
            texts=saved.get("texts", ()),
            reading=reading,
        )
    except UserError as error:
        raise ModelFileError(f"{path}: is damaged: {error}") from None
    except (ValueError, KeyError, TypeError, RuntimeError, ValidationError) as error:
        raise ModelFileError(f"{path}: is damaged: {str(error).splitlines()[0] if str(error) else error!r}") from None
    return content, chosen
