"""Classifiers of the `transformers` library as teachers."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError

from mixling.answers.labels import LabelSet
from mixling.errors import DataError, ModelFileError, UserError
from mixling.hub import split_revision
from mixling.installation import install_command
from mixling.layers.precision import has_bfloat16
from mixling.tasks.base import Task
from mixling.teachers.base import Probabilities, Teacher, label_columns
from mixling.text.encoder import Text

_BATCHES = {"cpu": 32, "cuda": 256}  # texts per pass; a GPU needs more of them to be busy


class TransformerTeacher(Teacher):
    """A sequence or token classifier; `id2label` in its config.json names the labels.

    It computes on a GPU if there is one. The prediction of a word comes from its first subword. Products are in
    bfloat16 where that is faster, which changes probabilities by some thousandths, unless `exact`.

    Args:
        path: a local folder, or NAME[@REVISION] on the hub.
        task: the type of the task.
        max_len: number of subwords at which texts are truncated.

    Raises:
        UserError, ModelFileError: see `load_transformer`.
    """

    def __init__(self, path: str, *, task: type[Task], max_len: int = 256, exact: bool = False) -> None:
        self.path = path
        self.task = task
        self.exact = exact
        self.tokenizer, self.model = load_transformer(path, task)
        self.model.eval().to(default_device())
        self.max_len = longest(self.tokenizer, self.model, max_len)
        names = self.model.config.id2label
        self.names = tuple(str(names[i]) for i in range(len(names)))
        self.key = self._digest()

    def _digest(self) -> str:
        """Return a hash of weights, configuration and tokenizer, independent of their path."""
        products = "" if self.exact or not has_bfloat16(self.model.device) else " bfloat16"
        content = f"{self.task.kind} {self.max_len} {model_hash(self.tokenizer, self.model)}{products}"
        return hashlib.sha256(content.encode()).hexdigest()

    def predict(self, texts: Sequence[Text], task: Task) -> list[Probabilities]:
        columns = label_columns(self.names, task.labels, f"the teacher {self.path}")
        out: list[Probabilities] = [None] * len(texts)
        for batch in batches_by_length(texts, self.model.device):
            encoded = encode(self.tokenizer, [texts[i] for i in batch], per_word=task.per_word, max_len=self.max_len)
            padded = self.tokenizer.pad(encoded, return_tensors="pt").to(self.model.device)
            with torch.inference_mode(), nullcontext() if self.exact else autocast(self.model.device):
                logits = self.model(**padded).logits.float().cpu().numpy()
            for row, index in enumerate(batch):
                values = task.probabilities(logits[row][..., columns]).astype(np.float32)
                out[index] = values if not task.per_word else word_rows(values, encoded.word_ids(row))
        return out


def autocast(device: torch.device) -> torch.autocast:
    """Return a context in which products are in bfloat16 if the device computes them faster."""
    # Without the cache, casts of weights last one pass, so that a step of the optimizer changes them.
    return torch.autocast(device.type, torch.bfloat16, enabled=has_bfloat16(device), cache_enabled=False)


def load_transformer(path: str, task: type[Task], labels: LabelSet | None = None) -> tuple[Any, Any]:
    """Load a tokenizer and a classifier.

    Args:
        path: a local folder, or NAME[@REVISION] on the hub.
        labels: give the model a new head for these labels; None: it must have a head.

    Raises:
        UserError: the library is not installed.
        ModelFileError: the model does not exist, cannot be read, has no head or no fast tokenizer.
    """
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

    def check(config: Any) -> None:
        architecture = next(iter(config.architectures or ()), "none")
        if labels is None and f"For{head}Classification" not in architecture:
            raise ModelFileError(
                f"{path}: is {architecture}, which has no head to classify {head.lower()}s; "
                "train one on the labeled data with --fine-tune"
            )

    return _load(path, f"AutoModelFor{head}Classification", options, check=check, words=task.per_word)


def load_body(path: str) -> tuple[Any, Any, Path | None]:
    """Load a tokenizer, a model without a head, and its folder, if it is local; raises as `load_transformer`."""
    folder = Path(path)
    return *_load(path, "AutoModel", {}), folder if folder.is_dir() else None


def _load(
    path: str,
    class_name: str,
    options: dict[str, Any],
    *,
    check: Callable[[Any], None] = lambda config: None,
    words: bool = False,
) -> tuple[Any, Any]:
    try:
        import transformers
    except ImportError:
        raise UserError(f"{path}: needs the transformers library: {install_command('hf')}") from None
    base, revision = split_revision(path)
    if Path(base).is_dir():
        for item in Path(base).iterdir():
            if item.exists() and not (item.is_file() or item.is_dir()):
                raise ModelFileError(f"{item}: is not a regular file")  # on which the library would block
    # Code in a folder is never run; without this option the library would ask on standard input.
    source: dict[str, Any] = {"trust_remote_code": False, "revision": revision or "main"}
    with quiet(transformers):
        try:
            config = transformers.AutoConfig.from_pretrained(base, **source)
            check(config)
            # Fast tokenizers know which word a subword belongs to; words need a space before them.
            spaced = {"add_prefix_space": True} if words and config.model_type in ("roberta", "gpt2") else {}
            tokenizer = transformers.AutoTokenizer.from_pretrained(base, use_fast=True, **source, **spaced)
            # Weights that are saved in 16 bits would be trained in 16 bits, which loses small steps.
            model = getattr(transformers, class_name).from_pretrained(base, dtype=torch.float32, **source, **options)
        except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise ModelFileError(f"{path}: cannot be read as a model of the transformers library: {reason}") from None
    if not tokenizer.is_fast:
        raise ModelFileError(f"{path}: has no fast tokenizer; give a model with a tokenizer.json")
    return tokenizer, model


def longest(tokenizer: Any, model: Any, max_len: int) -> int:
    """Return `max_len`, limited by the positions of the model."""
    positions = getattr(model.config, "max_position_embeddings", None) or max_len
    return int(min(max_len, tokenizer.model_max_length, positions))


def encode(tokenizer: Any, texts: Sequence[Text], *, per_word: bool, max_len: int) -> Any:
    """Encode texts without padding.

    Raises:
        DataError: a text is not a list of words, though `per_word`.
    """
    options = {"truncation": True, "max_length": max_len}
    if per_word:
        if not all(isinstance(text, list) for text in texts):
            raise DataError("a teacher for token labels needs lists of words")
        return tokenizer(list(texts), is_split_into_words=True, **options)
    if isinstance(texts[0], tuple):
        check_pairs(texts)
        return tokenizer([text[0] for text in texts], [text[1] for text in texts], **options)
    return tokenizer([text if isinstance(text, str) else " ".join(text) for text in texts], **options)


def first_subwords(word_ids: Sequence[int | None]) -> dict[int, int]:
    """Return the index of the first subword of each word that has subwords."""
    first: dict[int, int] = {}
    for index, word in enumerate(word_ids):
        if word is not None:
            first.setdefault(word, index)
    return first


def word_rows(values: npt.NDArray[np.float32], word_ids: Sequence[int | None]) -> npt.NDArray[np.float32]:
    """Return the rows of words up to the last one read; zeros for words without subwords (control characters)."""
    first = first_subwords(word_ids)
    out = np.zeros((max(first, default=-1) + 1, values.shape[-1]), np.float32)
    out[list(first)] = values[list(first.values())]
    return out


def model_hash(tokenizer: Any, model: Any) -> str:
    """Return a hash of weights, configuration and tokenizer, independent of their path."""
    out = hashlib.sha256(model.config.to_json_string().encode())
    for name, value in sorted(model.state_dict().items()):
        out.update(name.encode() + value.detach().cpu().contiguous().numpy().tobytes())
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()  # remove the state of earlier calls
    backend.no_padding()
    out.update(backend.to_str().encode())
    return out.hexdigest()


def default_device() -> torch.device:
    """Return the device that encoders and teachers compute on: a GPU if there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def batches_by_length(texts: Sequence[Text], device: torch.device) -> Iterator[list[int]]:
    """Yield the indices of texts in batches of similar length, so that little is padded."""
    order = sorted(range(len(texts)), key=lambda i: _length(texts[i]))
    size = _BATCHES[device.type]
    for first in range(0, len(order), size):
        yield order[first : first + size]


def _length(text: Text) -> int:
    """Return a text's characters or words, or a pair's characters."""
    return len(text) if isinstance(text, str) else sum(map(len, text))


def check_pairs(texts: Sequence[Text]) -> None:
    """Refuse more than two texts that belong together, which no Transformer reads.

    Raises:
        DataError: there are.
    """
    if len(texts[0]) > 2:
        raise DataError(f"a Transformer reads one text or a pair; got {len(texts[0])} texts that belong together")


@contextmanager
def quiet(transformers: Any) -> Iterator[None]:
    """Disable the library's warnings about new weights, and its progress bars."""
    level = transformers.logging.get_verbosity()
    bars = transformers.logging.is_progress_bar_enabled()
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
