"""Classifiers and taggers of the `transformers` library as teachers."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError

from mixling.errors import DataError, ModelFileError, UserError
from mixling.hub import split_revision
from mixling.tasks.base import Task
from mixling.teachers.base import Answer, Teacher, columns_of
from mixling.text.encoder import Text
from mixling.text.labels import LabelSet

_BATCH = 32


class TransformerTeacher(Teacher):
    """A sequence or token classifier; `config.json` names its labels (`id2label`).

    Words of a tagger are answered for by their first subword. What is longer than `max_len` subwords is cut.

    Args:
        path: a local folder, or NAME[@REVISION] on the hub.
    """

    def __init__(self, path: str, *, task: type[Task], max_len: int = 256) -> None:
        self.path, self.task = path, task
        self.tokenizer, self.model = load(path, task)
        self.model.eval()
        self.max_len = longest(self.tokenizer, self.model, max_len)
        names = self.model.config.id2label
        self.names = tuple(str(names[i]) for i in range(len(names)))
        self.key = self._digest()

    def _digest(self) -> str:
        """Of the weights, the configuration and the tokenizer, wherever they lie."""
        found = hashlib.sha256(f"{self.task.kind} {self.max_len} {self.model.config.to_json_string()}".encode())
        for name, value in sorted(self.model.state_dict().items()):
            found.update(name.encode() + value.detach().cpu().contiguous().numpy().tobytes())
        backend = self.tokenizer.backend_tokenizer
        backend.no_truncation()  # what an earlier call left in it
        backend.no_padding()
        found.update(backend.to_str().encode())
        return found.hexdigest()

    def answers(self, texts: Sequence[Text], task: Task) -> list[Answer]:
        columns = columns_of(self.names, task.labels, f"the teacher {self.path}")
        order = sorted(range(len(texts)), key=lambda i: _size(texts[i]))
        out: list[Answer] = [None] * len(texts)
        for first in range(0, len(order), _BATCH):
            batch = order[first : first + _BATCH]
            encoded = encode(self.tokenizer, [texts[i] for i in batch], of_words=task.per_word, max_len=self.max_len)
            padded = self.tokenizer.pad(encoded, return_tensors="pt").to(self.model.device)
            with torch.inference_mode():
                logits = self.model(**padded).logits.float().cpu().numpy()
            for row, location in enumerate(batch):
                values = task.probabilities(logits[row][..., columns]).astype(np.float32)
                out[location] = values if not task.per_word else of_words(values, encoded.word_ids(row))
        return out


def load(path: str, task: type[Task], labels: LabelSet | None = None) -> tuple[Any, Any]:
    """Tokenizer and model.

    Args:
        labels: give the model a new head for these; None: it must have one.

    Raises:
        UserError: the library is not installed.
        ModelFileError: there is no such model at `path`.
    """
    try:
        import transformers
    except ImportError:
        raise UserError('a teacher of the transformers library needs it: pip install "mixling[hf]"') from None
    head = "Token" if task.per_word else "Sequence"
    options: dict[str, Any] = {}
    if labels is not None:
        options = {
            "id2label": dict(enumerate(labels.names)),
            "label2id": {name: i for i, name in enumerate(labels.names)},
            "num_labels": len(labels),
            "ignore_mismatched_sizes": True,
            "problem_type": None if task.exclusive else "multi_label_classification",
        }
    base, revision = split_revision(path)
    if Path(base).is_dir():
        _check_files(Path(base))
    # Code of a folder is never run; without the word the library would ask on standard input.
    source: dict[str, Any] = {"trust_remote_code": False, "revision": revision or "main"}
    with quiet(transformers):
        try:
            config = transformers.AutoConfig.from_pretrained(base, **source)
            architecture = next(iter(config.architectures or ()), "none")
            if labels is None and f"For{head}Classification" not in architecture:
                raise ModelFileError(
                    f"{path}: is {architecture}, which has no head to classify {head.lower()}s; "
                    "train one on the labeled rows with --fine-tune"
                )
            # The fast tokenizers tell which word a subword belongs to; texts of words need the space before them.
            spaced = {"add_prefix_space": True} if task.per_word and config.model_type in ("roberta", "gpt2") else {}
            tokenizer = transformers.AutoTokenizer.from_pretrained(base, use_fast=True, **source, **spaced)
            of_head = getattr(transformers, f"AutoModelFor{head}Classification")
            model = of_head.from_pretrained(base, **source, **options)
        except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise ModelFileError(f"{path}: cannot be read as a model of the transformers library: {reason}") from None
    if not tokenizer.is_fast:
        raise ModelFileError(f"{path}: its tokenizer has no fast form; give a model with a tokenizer.json")
    return tokenizer, model


def _check_files(folder: Path) -> None:
    """Refuse pipes and devices, which the library would wait for.

    Raises:
        ModelFileError: there is one.
    """
    for item in folder.iterdir():
        if item.exists() and not (item.is_file() or item.is_dir()):
            raise ModelFileError(f"{item}: is not a regular file")


def is_transformer(path: str) -> bool:
    """Whether there is a folder of the transformers library, or what may be a name on the hub."""
    folder = Path(path)
    if folder.is_dir():
        return (folder / "tokenizer_config.json").exists() or (folder / "tokenizer.json").exists()
    return path.startswith("hf:")


def longest(tokenizer: Any, model: Any, max_len: int) -> int:
    """`max_len`, or as many subwords as the model has positions for."""
    positions = getattr(model.config, "max_position_embeddings", None) or max_len
    return min(max_len, tokenizer.model_max_length, positions)


def encode(tokenizer: Any, texts: Sequence[Text], *, of_words: bool, max_len: int) -> Any:
    """Texts as the tokenizer's encoding, not padded."""
    options = {"truncation": True, "max_length": max_len}
    if of_words:
        if not all(isinstance(text, list) for text in texts):
            raise DataError("a tagger's teacher reads lists of words")
        return tokenizer(list(texts), is_split_into_words=True, **options)
    if isinstance(texts[0], tuple):
        return tokenizer([text[0] for text in texts], [text[1] for text in texts], **options)
    return tokenizer([text if isinstance(text, str) else " ".join(text) for text in texts], **options)


def first_subwords(word_ids: Sequence[int | None]) -> dict[int, int]:
    """Of each word that has subwords the place of the first."""
    locations: dict[int, int] = {}
    for location, word in enumerate(word_ids):
        if word is not None:
            locations.setdefault(word, location)
    return locations


def of_words(values: npt.NDArray[np.float32], word_ids: Sequence[int | None]) -> npt.NDArray[np.float32]:
    """The rows of words, up to the last that was read; zeros for those without a subword (control characters)."""
    locations = first_subwords(word_ids)
    out = np.zeros((max(locations, default=-1) + 1, values.shape[-1]), np.float32)
    out[list(locations)] = values[list(locations.values())]
    return out


def _size(text: Text) -> int:
    return len(text) if isinstance(text, str) else sum(map(len, text))


@contextmanager
def quiet(transformers: Any) -> Iterator[None]:
    """Without the reports on weights that are new, and without bars."""
    level, bars = transformers.logging.get_verbosity(), transformers.logging.is_progress_bar_enabled()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        transformers.logging.set_verbosity(level)
        if bars:
            transformers.logging.enable_progress_bar()
