"""Push a saved model to the Hugging Face hub, with a card that its users, and the hub, can read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from mixling.artifacts.artifact import load, read_folder
from mixling.artifacts.files import CARD_FILE, SEEN_FILE, TEST_FILE, run_files
from mixling.errors import ModelFileError
from mixling.hub import HUB, upload
from mixling.runtime.quick import ONNX_FILE

_FENCE = "---\n"


def push(
    model: str | Path,
    name: str,
    *,
    private: bool = False,
    revision: str | None = None,
    token: str | None = None,
    license: str | None = None,
    languages: Sequence[str] = (),
    datasets: Sequence[str] = (),
    examples: Sequence[str] = (),
) -> str:
    """Upload a saved model in one commit, create the repository if it is missing, and return the commit.

    All files that the run wrote are uploaded, but no checkpoint, and neither the hashes of the rows that were trained
    on nor the rows that were held out. `run.json` has the names of the data files.

    Args:
        model: a run folder, or a `model.onnx`, which is uploaded with a short card.
        name: the repository, such as "org/name".
        private: create the repository as private; one that exists stays as it is.
        revision: the branch, which is created if it is missing; by default the main one.
        token: an access token that may write, instead of HF_TOKEN and the one of `hf auth login`.
        license, languages, datasets: for the card: a license of the hub such as "apache-2.0", languages such as "en",
            data sets of the hub.
        examples: texts that visitors of the model's page can try.

    Raises:
        ModelFileError: there is no complete model, or the hub cannot be reached or refuses access.
        ConfigError: the name is malformed.
        MissingPackage: huggingface_hub is not installed.
    """
    name = name.removeprefix(HUB)
    load(model)  # refuses a damaged model before anything is uploaded
    files = read_folder(model, _files)
    for name_of_rows in (SEEN_FILE, TEST_FILE):
        files.pop(name_of_rows, None)
    card = files.get(CARD_FILE, b"").decode() or _short_card(name)
    data: dict[str, Any] = {"license": license, "language": list(languages), "datasets": list(datasets)}
    data["widget"] = [{"text": text} for text in examples]
    data = {key: value for key, value in data.items() if value}
    files[CARD_FILE] = with_metadata(card, name, data, trained=_day(Path(model))).encode()
    return upload(name, files, private=private, revision=revision, token=token, message="Upload a model of mixling")


def _day(model: Path) -> date | None:
    """Return the day on which model.onnx was written; None for a model without one, such as a pretrained one."""
    file = model / ONNX_FILE if model.is_dir() else model
    return date.fromtimestamp(file.stat().st_mtime) if file.exists() else None


def _files(path: Path) -> dict[str, bytes]:
    try:
        return run_files(path) if path.is_dir() else {ONNX_FILE: path.read_bytes()}
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror or error}") from None


def with_metadata(card: str, name: str, data: Mapping[str, Any], *, trained: date | None = None) -> str:
    """Return a card with more metadata, and with the name of the repository in its examples and its results.

    Args:
        trained: the day on which the model was written; a run's own card has none, so that equal runs have equal files.
    """
    import yaml  # of huggingface_hub

    found: dict[str, Any] = {}
    if card.startswith(_FENCE):
        _, head, card = card.split(_FENCE, 2)
        found = yaml.safe_load(head) or {}
    found |= data
    for results in found.get("model-index", ()):
        results["name"] = name.rpartition("/")[2]
        for result in results["results"]:
            if datasets := data.get("datasets"):
                result["dataset"] |= {"name": datasets[0], "type": datasets[0]}
    head = yaml.safe_dump(found, sort_keys=False, allow_unicode=True, width=1000)
    body = card.replace('Predictor(".")  # this folder, or just its model.onnx', f'Predictor.from_pretrained("{name}")')
    body = re.sub(r"(mixling (?:evaluate|export|generate|predict|serve|show)) \.(?=\s)", rf"\1 {HUB}{name}", body)
    if trained is not None:
        body = body.replace("\nTrained on ", f"\nTrained on {trained} on ", 1)
    body = body.replace("--from . ", f"--from {HUB}{name} ").replace(
        "pip install mixling\n", 'pip install "mixling[hub]"\n'
    )
    return f"{_FENCE}{head}{_FENCE}{body}"


def _short_card(name: str) -> str:
    return f"""{_FENCE}library_name: mixling
tags:
- mixling
- onnx
{_FENCE}
# {name}

```python
from mixling import Predictor

predictor = Predictor(".")  # this folder, or just its model.onnx
```
"""
