"""Sentence encoders, and linear classifiers on their embeddings as teachers.

An encoder is used as it is, so that a teacher takes one pass over the labeled texts, and few of them suffice (linear
probing, as in SetFit without its fine-tuning, Tunstall et al. 2022).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from mixling.data.dataset import Dataset
from mixling.data.splits import unseen
from mixling.errors import ConfigError, ModelFileError
from mixling.storage import read_json
from mixling.tasks.base import Task
from mixling.tasks.objective import LossConfig
from mixling.teachers.base import Probabilities, Teacher
from mixling.teachers.transformer import (
    batches_by_length,
    check_pairs,
    default_device,
    encode,
    load_body,
    longest,
    model_hash,
)
from mixling.text.encoder import Text

STRENGTHS = (1.0, 10.0, 100.0, 1000.0)  # embeddings have norm 1, hence the little regularization
_ITERATIONS = 200
_POOLING_FILE = "1_Pooling/config.json"  # of the sentence-transformers library


class SentenceEncoder:
    """Embeddings of texts by a model of the `transformers` library, with norm 1.

    Token vectors are averaged, or the first one is taken, as `1_Pooling/config.json` of a sentence-transformers folder
    requires; without that file they are averaged. The embedding of a pair (u, v) is [u, v, |u - v|, u * v] (InferSent,
    Conneau et al. 2017).

    Args:
        path: a local folder, or NAME[@REVISION] on the hub.
        max_len: number of subwords at which texts are truncated.

    Raises:
        UserError: the library is not installed.
        ModelFileError: the model cannot be read, or needs another pooling.
    """

    def __init__(self, path: str, *, max_len: int = 256) -> None:
        self.tokenizer, self.model, folder = load_body(path)
        self.model.eval().to(default_device())
        self.max_len = longest(self.tokenizer, self.model, max_len)
        self.pooling = "mean"
        if folder is not None and (file := folder / _POOLING_FILE).is_file():
            modes = {name.removeprefix("pooling_mode_") for name, on in read_json(file).items() if on is True}
            modes &= {"cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens"}
            if modes not in ({"mean_tokens"}, {"cls_token"}):
                raise ModelFileError(f"{file}: got {', '.join(sorted(modes)) or 'nothing'}; allowed: mean or cls")
            self.pooling = "mean" if "mean_tokens" in modes else "cls"

    @property
    def key(self) -> str:
        """A hash of everything that embeddings depend on."""
        return hashlib.sha256(
            f"{model_hash(self.tokenizer, self.model)} {self.max_len} {self.pooling}".encode()
        ).hexdigest()

    @property
    def parameters(self) -> int:
        """The number of weights."""
        return sum(weight.numel() for weight in self.model.parameters())

    def embed(self, texts: Sequence[Text]) -> npt.NDArray[np.float32]:
        """Return the embeddings (n, E) of n texts, or (n, 4 E) of n pairs."""
        if texts and isinstance(texts[0], tuple):
            check_pairs(texts)
            first, second = (self.embed([pair[side] for pair in texts]) for side in (0, 1))
            return np.concatenate([first, second, np.abs(first - second), first * second], axis=1)
        out = np.zeros((len(texts), self.model.config.hidden_size), np.float32)
        for batch in batches_by_length(texts, self.model.device):
            encoded = encode(self.tokenizer, [texts[i] for i in batch], per_word=False, max_len=self.max_len)
            padded = self.tokenizer.pad(encoded, return_tensors="pt").to(self.model.device)
            with torch.inference_mode():
                vectors = self.model(**padded).last_hidden_state.float()
                if self.pooling == "mean":
                    mask = padded["attention_mask"][..., None].to(vectors.dtype)
                    pooled = (vectors * mask).sum(1) / mask.sum(1).clamp_min(1)
                else:
                    pooled = vectors[:, 0]
                out[batch] = torch.nn.functional.normalize(pooled, dim=-1).cpu().numpy()
        return out


class EncoderTeacher(Teacher):
    """A linear classifier on the embeddings of a sentence encoder.

    Args:
        encoder: of the texts.
        weights: (C, E) and biases (C,), in the order of the labels `names`.
    """

    def __init__(self, encoder: SentenceEncoder, weights: torch.Tensor, biases: torch.Tensor) -> None:
        self.encoder = encoder
        self._weights = weights.numpy()
        self._biases = biases.numpy()
        content = hashlib.sha256(encoder.key.encode() + self._weights.tobytes() + self._biases.tobytes())
        self.key = content.hexdigest()

    @classmethod
    def fit(cls, path: str, train: Dataset, validation: Dataset, task: Task, *, max_len: int = 256) -> EncoderTeacher:
        """Fit a teacher on the training examples; the log-loss on the validation examples chooses the regularization.

        Args:
            path: the encoder, see `SentenceEncoder`.

        Raises:
            ConfigError: the task labels words.
            UserError, ModelFileError: see `SentenceEncoder`.
        """
        if task.per_word:
            raise ConfigError(
                f"teacher: a sentence encoder does not label words, as {task.name} needs; use another one"
            )
        encoder = SentenceEncoder(path, max_len=max_len)
        objective = type(task)(task.labels, LossConfig(label_smoothing=0.0))
        validation = validation.subset(np.setdiff1d(np.arange(len(validation)), unseen(validation, task.labels.names)))

        def embedded(examples: Dataset) -> tuple[torch.Tensor, torch.Tensor]:
            targets = torch.from_numpy(np.asarray(task.targets(examples.targets)))
            return torch.from_numpy(encoder.embed(list(examples.texts))), targets

        labeled = embedded(train)
        held_out = embedded(validation)
        fits = [_fit(objective, *labeled, strength=strength) for strength in STRENGTHS]
        losses = [_loss(objective, *held_out, *fit) for fit in fits]
        return cls(encoder, *fits[int(np.argmin(losses))])

    def predict(self, texts: Sequence[Text], task: Task) -> list[Probabilities]:
        if not texts:
            return []
        logits = self.encoder.embed(texts) @ self._weights.T + self._biases
        return list(task.probabilities(logits).astype(np.float32))


def _fit(
    task: Task, features: torch.Tensor, targets: torch.Tensor, *, strength: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return weights (C, E) and biases (C,) that minimize mean loss + |W|^2 / (2 n strength), by L-BFGS."""
    weights = torch.zeros(len(task.labels), features.shape[1], requires_grad=True)
    biases = torch.zeros(len(task.labels), requires_grad=True)
    optimizer = torch.optim.LBFGS([weights, biases], max_iter=_ITERATIONS, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        total, count = task.loss(features @ weights.T + biases, targets, None)
        loss = total / count + weights.square().sum() / (2 * len(features) * strength)
        loss.backward()
        return loss

    optimizer.step(closure)
    return weights.detach(), biases.detach()


def _loss(
    task: Task, features: torch.Tensor, targets: torch.Tensor, weights: torch.Tensor, biases: torch.Tensor
) -> float:
    total, count = task.loss(features @ weights.T + biases, targets, None)
    return float(total / count)
