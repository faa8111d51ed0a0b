"""Multi-query associative recall: pairs of a key and a value, and later the keys again, each asking for its value.

Task: Zoology (Arora et al. 2023, arXiv:2312.04927), section 4. A text begins with its pairs. Each key comes once more,
after a gap that follows a power law (exponent .01), so that most are asked for soon; random symbols stand everywhere
else. Half of the symbols are keys, half are values. Recall is the fraction of asked values that are predicted right; to
guess among a text's values gives 1 in the number of its pairs.

Smaller than there, so that minutes of a processor do: 128 symbols in place of 8,192, 4, 8 and 16 pairs in 32, 64 and
128 tokens, and few steps, each on new texts. A token is the sum of its symbol's vector, the previous symbol's through a
matrix (for Zoology's short convolution: a value knows its key), and its position's, which is learned; all mixers alike.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._pytree import tree_leaves

from mixling.data.batches import Indices
from mixling.errors import ConfigError
from mixling.layers.positions import Positions
from mixling.models.encoder import Encoder
from mixling.models.model import count_parameters, seeded
from mixling.networks.blocks import BlockConfig, FeedForwardConfig
from mixling.networks.mixer import MixerConfig
from mixling.tasks.objective import TokenObjective
from mixling.training.backends.pytorch import TorchBackend
from mixling.training.config import TrainConfig
from mixling.training.dataset_adapter import Targeted, TrainingData
from mixling.training.loop import Trainer

DIM = 64
NUM_BLOCKS = 2
PAIRS_BY_LENGTH = {32: 4, 64: 8, 128: 16}  # by the tokens of a text
CHOOSING = 64  # tokens of the texts that choose the learning rate
RATES = (1e-3, 3e-3, 1e-2)
STEPS = 400
BATCH = 16  # texts of a step
EVALUATED = 512  # texts of validation, and as many of test
SYMBOLS = 64  # keys, and as many values
_POWER = 0.01
_VALIDATION = 1  # streams of random numbers; training has 0
_TEST = 2


def block(mixer: MixerConfig) -> BlockConfig:
    """Return the block that a mixer stands in."""
    return BlockConfig(mixers=(mixer,), feed_forward=FeedForwardConfig(ffn_dim=2 * DIM))


def draw_texts(count: int, length: int, seed: list[int]) -> tuple[npt.NDArray[np.int64], ...]:
    """Return texts (B, N), the places that ask (B, K), and the values asked for (B, K), numbered from 0.

    Symbols from 0 on are keys, those from SYMBOLS on are values.
    """
    rng = np.random.default_rng(seed)
    pairs = PAIRS_BY_LENGTH[length]
    texts = rng.integers(2 * SYMBOLS, size=(count, length))
    keys, values = (rng.random((count, SYMBOLS)).argsort(axis=1)[:, :pairs] for _ in range(2))
    texts[:, 0 : 2 * pairs : 2] = keys
    texts[:, 1 : 2 * pairs : 2] = values + SYMBOLS
    # Gaps are drawn without replacement, with probabilities p: the largest sums of log p and Gumbel noise are taken.
    gaps = np.arange((length - 2 * pairs) // 2)
    noise = rng.gumbel(size=(count, len(gaps))) + (_POWER - 1) * np.log(gaps + 1)
    places = 2 * pairs + 2 * noise.argsort(axis=1)[:, ::-1][:, :pairs]
    np.put_along_axis(texts, places, keys, axis=1)
    return texts, places, values


@dataclass(frozen=True)
class RecallBatch:
    """Texts, and the places that ask."""

    texts: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The arguments of `RecallModel.forward`."""
        return self.texts, self.places

    @property
    def num_tokens(self) -> int:
        """The number of tokens."""
        return self.texts.size


class RecallObjective(TokenObjective):
    """Cross-entropy of the values."""

    metric = "recall"


@dataclass(frozen=True)
class RecallData(TrainingData):
    """Texts of `length` tokens, drawn anew for each step."""

    length: int
    steps: int
    objective = RecallObjective()

    def __len__(self) -> int:
        return self.steps * BATCH

    def epoch(self, number: int, batch_size: int, *, seed: int) -> list[Indices]:
        return list(np.arange(len(self)).reshape(-1, batch_size))

    def batch(self, indices: Indices, chosen: Indices, *, seed: int, step: int) -> Targeted:
        texts, places, values = draw_texts(len(indices), self.length, [seed, 0, step])
        return RecallBatch(texts[chosen], places[chosen]), values[chosen], None

    def evaluate(self, model: TorchBackend) -> tuple[dict[str, float], float]:
        return self.recalled(model.module, _VALIDATION)

    @torch.inference_mode()
    def recalled(self, model: nn.Module, stream: int = _TEST) -> tuple[dict[str, float], float]:
        """Return recall and loss on validation or test texts."""
        texts, places, values = map(torch.from_numpy, draw_texts(EVALUATED, self.length, [0, stream]))
        logits = model.eval()(texts, places)
        loss = F.cross_entropy(logits.flatten(0, 1), values.flatten())
        return {"recall": float((logits.argmax(-1) == values).double().mean())}, float(loss)


class RecallModel(nn.Module):
    """Symbols (B, N) and places (B, K) to logits of the values (B, K, SYMBOLS)."""

    def __init__(self, mixer: MixerConfig, *, length: int, causal: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(2 * SYMBOLS, DIM)
        nn.init.normal_(self.table.weight, std=DIM**-0.5)
        self.before = nn.Linear(DIM, DIM, bias=False)
        self.positions = Positions("learned", dim=DIM, max_len=length)
        self.encoder = Encoder([block(mixer)] * NUM_BLOCKS, dim=DIM, max_len=length, final_norm=True, causal=causal)
        self.head = nn.Linear(DIM, SYMBOLS)

    def forward(self, texts: Int[Tensor, "B N"], places: Int[Tensor, "B K"]) -> Float[Tensor, "B K C"]:
        x = self.table(texts)
        x = self.encoder(self.positions(x + self.before(F.pad(x[:, :-1], (0, 0, 1, 0)))))
        logits: Tensor = self.head(x.gather(1, places[..., None].expand(-1, -1, DIM)))
        return logits


def train_recall(
    mixer: MixerConfig, *, length: int, causal: bool, rate: float, steps: int = STEPS
) -> tuple[RecallModel, float]:
    """Train a model, and return it with its recall on validation."""
    with seeded(0):
        model = RecallModel(mixer, length=length, causal=causal)
    values = {"steps": steps, "batch_size": BATCH, "evaluations": 1, "backend": "torch", "device": "cpu"}
    optim = {"lr": rate, "embedding_lr": 1.0}
    config = TrainConfig.model_validate({**values, "precision": "float32", "optim": optim})
    history = Trainer(model, RecallData(length, steps), config).fit()
    return model, float(history[-1]["val_recall"])


def _estimate_seconds(mixer: MixerConfig, *, causal: bool, steps: int) -> float:
    """Return how long all trainings of a form take, by a step on the longest texts and the number of tokens."""
    longest = max(PAIRS_BY_LENGTH)
    model = RecallModel(mixer, length=longest, causal=causal)
    texts, places, _ = map(torch.from_numpy, draw_texts(BATCH, longest, [0, 0]))
    model(texts, places).sum().backward()
    begun = time.perf_counter()
    model(texts, places).sum().backward()
    tokens = sum(PAIRS_BY_LENGTH) + (len(RATES) - 1) * CHOOSING
    return (time.perf_counter() - begun) * steps * tokens / longest


@torch.inference_mode()
def state_size(mixer: MixerConfig, length: int) -> int:
    """Return how many numbers the causal form keeps of a text of this length, in all layers."""
    encoder = RecallModel(mixer, length=length, causal=True).encoder
    state = encoder.start(torch.zeros(1, DIM))
    for _ in range(length):
        _, state = encoder.step(torch.zeros(1, DIM), state)
    return sum(leaf.numel() for leaf in tree_leaves(state) if isinstance(leaf, Tensor) and leaf.is_floating_point())


@dataclass(frozen=True, kw_only=True)
class Recalled:
    """The recall of one form of a mixer.

    Attributes:
        form: full: every token sees the whole text; causal: it sees the tokens before it.
        parameters: of the blocks, at the greatest length.
        validation: recall by learning rate, at CHOOSING tokens.
        rate: the best of them, which all lengths are trained with.
        recall: on test, by tokens.
        state: numbers that the causal form keeps of the longest text; None: it is the full form.
    """

    form: str
    parameters: int
    validation: dict[str, float]
    rate: float
    recall: dict[str, float]
    state: int | None

    def to_dict(self) -> dict[str, Any]:
        """Return the values of a file of results."""
        return asdict(self)


def causal_choices(mixer: MixerConfig) -> list[bool]:
    """Return whether a mixer can be causal: False, or False and True.

    Raises:
        ConfigError: it does not fit the width.
    """
    RecallModel(mixer, length=min(PAIRS_BY_LENGTH), causal=False)
    try:
        RecallModel(mixer, length=min(PAIRS_BY_LENGTH), causal=True)
    except ConfigError:
        return [False]
    return [False, True]


def run_recall(
    mixer: MixerConfig,
    *,
    steps: int = STEPS,
    without: Collection[str] = (),
    most_seconds: float = math.inf,
    log: Callable[[str], None] = lambda message: None,
) -> Iterator[Recalled]:
    """Train the full and the causal form of a mixer, but for `without`, at all rates and lengths; yield their recall.

    Args:
        most_seconds: a form that would take longer is left out, which is logged.

    Raises:
        ConfigError: the mixer does not fit the width.
    """
    for causal in causal_choices(mixer):
        form = "causal" if causal else "full"
        if form in without:
            continue
        seconds = 0.0 if most_seconds == math.inf else _estimate_seconds(mixer, causal=causal, steps=steps)
        if seconds > most_seconds:
            log(f"{mixer.type}, {form}: would take {seconds / 60:.0f} minutes, and is left out; try smaller options")
            continue
        models: dict[float, RecallModel] = {}
        validation: dict[float, float] = {}
        for rate in RATES:
            models[rate], validation[rate] = train_recall(mixer, length=CHOOSING, causal=causal, rate=rate, steps=steps)
            log(f"{mixer.type}, {form}, {CHOOSING} tokens, learning rate {rate:g}: {validation[rate]:.3f}")
        best = max(RATES, key=validation.__getitem__)
        recall = {}
        for length in PAIRS_BY_LENGTH:
            model = models[best]
            if length != CHOOSING:
                model, _ = train_recall(mixer, length=length, causal=causal, rate=best, steps=steps)
            metrics, _ = RecallData(length, steps).recalled(model)
            recall[str(length)] = round(metrics["recall"], 4)
            log(f"{mixer.type}, {form}, {length} tokens, test: {recall[str(length)]:.3f}")
        yield Recalled(
            form=form,
            parameters=count_parameters(model.encoder),
            validation={f"{rate:g}": round(value, 4) for rate, value in validation.items()},
            rate=best,
            recall=recall,
            state=state_size(mixer, max(PAIRS_BY_LENGTH)) if causal else None,
        )


def table() -> dict[str, dict[str, Any]]:
    """Return the results of all mixers of the library, by name; `experiments/bench.py` writes them."""
    found: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("table.json").read_text("utf-8"))
    return found
