"""A tiny model and a few rows to train it on, so that a whole training takes a fraction of a second."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from mixling import Dataset, Example, ModelConfig, TextConfig, TextEncoder, TrainConfig, build_model
from mixling.answers import LabelSet
from mixling.data import TextSet
from mixling.mixers import MixerConfig, TokenMLPConfig
from mixling.models import weights_of
from mixling.networks import BlockConfig, EmbeddingConfig, FeedForwardConfig, HeadConfig
from mixling.tasks import Classification, Tagging, Task
from mixling.text import MinHash, Text, train_vocabulary
from mixling.training import Augmenter, DistributedContext, LabeledData, Trainer
from mixling.training.backends.choose import make_network, trains_natively

LABELS = ("down", "left", "up")
MakeTrainer = Callable[..., Trainer]


def model_config(
    *, dropout: float = 0.1, mixer: MixerConfig | None = None, num_layers: int = 1, dim: int = 8
) -> ModelConfig:
    """A pNLP-Mixer of a few hundred weights, or one with another mixer."""
    mixer = mixer or TokenMLPConfig(hidden_dim=8)
    block = BlockConfig(mixers=(mixer,), feed_forward=FeedForwardConfig(ffn_dim=dim), dropout=dropout)
    return ModelConfig(
        text=TextConfig(projection=MinHash(num_features=64, num_hashes=8), max_len=12, vocabulary_size=200),
        embedding=EmbeddingConfig(window=1),
        dim=dim,
        layers=(block,),
        num_layers=num_layers,
        head=HeadConfig(dropout=dropout),
    )


def rows(count: int, *, seed: int, tagged: bool = False, pairs: bool = False) -> Dataset:
    """Texts of 1 to 11 made-up words; one of them tells the label, which is wrong in a tenth of the rows.

    Of pairs it is in the second text; the first is made up as a whole.
    """
    rng = np.random.default_rng(seed)
    filler = ["".join(rng.choice(list("abcdefgh"), size=4)) for _ in range(60)]

    def example(number: int) -> Example:
        label = LABELS[rng.integers(3)]
        words = [*rng.choice(filler, size=rng.integers(0, 11)).tolist(), label]
        rng.shuffle(words)
        if tagged:
            tags = tuple("B-way" if word in LABELS else "O" for word in words)
            return Example(words, tags, "rows.jsonl", number + 1)
        shown = label if rng.random() < 0.9 else LABELS[rng.integers(3)]
        text: Text = " ".join(words)
        if pairs:
            text = (" ".join(rng.choice(filler, size=4)), " ".join(words[-5:] if label in words[-5:] else [label]))
        return Example(text, shown, "rows.csv", number + 2)

    return Dataset.from_examples(example(number) for number in range(count))


def trainer(
    config: TrainConfig,
    *,
    num_train: int = 50,
    num_validation: int = 20,
    tagged: bool = False,
    pairs: bool = False,
    mixer: MixerConfig | None = None,
    dropout: float = 0.1,
    num_layers: int = 1,
    dim: int = 8,
    keep: bool = True,
    train: Dataset | None = None,
    weights: npt.NDArray[np.float32] | None = None,
    **options: Any,
) -> Trainer:
    """A trainer that has not begun; `options` are those of `Trainer`."""
    kind_of_rows = {"tagged": tagged, "pairs": pairs}
    train, validation = train or rows(num_train, seed=1, **kind_of_rows), rows(num_validation, seed=2, **kind_of_rows)
    labels = LabelSet(("O", "B-way", "I-way"), "iob") if tagged else LabelSet(LABELS, "single")
    kind: type[Task] = Tagging if tagged else Classification
    counts = train.label_counts()
    task = kind(labels, config.loss, np.array([counts.get(name, 0) for name in labels.names]))
    shape = model_config(dropout=dropout, mixer=mixer, num_layers=num_layers, dim=dim)
    encoder = TextEncoder(shape.text, train_vocabulary(train.sample_texts(1 << 20, 0), shape.text))
    changes = config.augmentation
    augmenter = None if changes is None else Augmenter.of_texts(changes, encoder, train.sample_texts(1 << 20, 0))
    data = LabeledData(
        objective=task,
        token_dropout=config.token_dropout or 0.0,
        train=TextSet(train, encoder, keep=keep),
        train_targets=task.targets(train.targets),
        validation=TextSet(validation, encoder, keep=keep),
        validation_task=task,
        validation_targets=task.targets(validation.targets),
        augmenter=augmenter,
        weights=weights,
    )
    ranks = options.get("distributed") or DistributedContext()
    model: Any = build_model(shape, num_outputs=len(labels), output=task.output, seed=config.seed)
    if config.backend != "torch" and trains_natively(shape, task, config, ranks, distilled=False):
        weights = weights_of(model)
        model = make_network(shape, len(labels), task.output)
        model.restore(weights)
    return Trainer(model, data, config, **options)


@pytest.fixture(name="trainer")
def _trainer() -> MakeTrainer:
    return trainer


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """An empty folder for a run."""
    folder = tmp_path / "run"
    folder.mkdir()
    return folder
