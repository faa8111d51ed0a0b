"""The configuration of a training."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from mixling.config import Config
from mixling.tasks.base import LossConfig
from mixling.training.distributed import Parallel
from mixling.training.optim import OptimConfig

Start = Literal["random", "rows", "text", "model"]


class TrainConfig(Config):
    """How a model is trained; pNLP-Mixer's own defaults is 80 epochs, batch size 256, lr 5e-4 and no regularisation."""

    epochs: int | None = Field(None, ge=1, description="None: by the data (see `resolved`)")
    steps: int | None = Field(None, ge=1, description="steps in all, whatever the epochs")
    evaluations: int = Field(10, ge=1, description="least number; one an epoch where there are more epochs")
    batch_size: int = Field(64, ge=1, description="examples per step, over all processes")
    gradient_accumulation_steps: int = Field(
        1, ge=1, description="parts of a step's examples, one after another, for less memory"
    )
    parallel: Parallel = Field("ddp", description="of several processes: each has the model (ddp), or a part (fsdp)")
    time_budget: float | None = Field(None, gt=0, description="seconds for the training steps; fewer epochs if needed")
    patience: int | None = Field(None, ge=1, description="evaluations without a better one after which to stop")
    load_best_at_end: bool = Field(True, description="end with the weights of the best evaluation, not of the last")
    seed: int = Field(0, ge=0, lt=2**32)
    token_dropout: float = Field(0.2, ge=0, lt=1, description="share of words that are replaced by zero vectors")
    loss: LossConfig = LossConfig()
    optim: OptimConfig = OptimConfig()
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="auto: bfloat16 where the device computes in it"
    )
    device: Literal["auto", "cpu", "cuda"] = "auto"
    track: Literal["none", "tensorboard"] = Field("none", description="where else curves go: DIR/tensorboard")
    checkpoint_seconds: float = Field(15.0, gt=0, description="least time between two checkpoints")

    @model_validator(mode="after")
    def _optimiser_can_be_shared_out(self) -> TrainConfig:
        # It wants means over rows and columns, for which torch's Adafactor has no parts to write to: it stops.
        if self.parallel == "fsdp" and self.optim.name == "adafactor":
            raise ValueError(
                "parallel = 'fsdp' and optim.name = 'adafactor' exclude each other: Adafactor needs whole matrices; "
                "set parallel = 'ddp', or optim.name = 'adamw'"
            )
        return self

    @model_validator(mode="after")
    def _patience_needs_a_best(self) -> TrainConfig:
        if not self.load_best_at_end and self.patience is not None:
            raise ValueError(
                "patience waits for a better evaluation, load_best_at_end = false ignores them; leave out one"
            )
        return self

    def planned_epochs(self, num_examples: int) -> int:
        """`epochs`, or as many as make about 400,000 examples seen: at least 3, at most 40."""
        return self.epochs or min(max(round(400_000 / max(num_examples, 1)), 3), 40)

    def resolved(
        self, num_examples: int, *, rows_per_label: float | None, start: Start, distilled: bool
    ) -> TrainConfig:
        """With what is left open decided by the data; chosen on the validation splits of SST-2, CLINC150 and SNIPS.

        A model that begins with word vectors needs fewer epochs, the fewer the more text they are of: it learns a label
        from many rows in a few, and after that learns the rows. Vectors of much text should stay near to what they
        were, unless a teacher labels as much.

        Args:
            rows_per_label: of a task with one label a text, else None.
            start: what the bottleneck begins with: random numbers, vectors of the training text, or of more text.
            distilled: the examples are a teacher's.
        """
        epochs = self.planned_epochs(num_examples)
        if self.epochs is None and distilled:
            epochs = min(max(round(240_000 / max(num_examples, 1)), 3), 20)
        elif self.epochs is None and start == "model":
            epochs = min(max(round(150_000 / max(num_examples, 1)), 3), 20)
        elif self.epochs is None and start != "random" and rows_per_label is not None:
            epochs = min(max(round((280 if start == "text" else 560) / rows_per_label**0.5), 3), 25)
        fraction = self.optim.embedding_lr
        if fraction is None:
            fraction = 0.3 if start == "text" and not distilled else 1.0
        optim = self.optim.model_copy(update={"embedding_lr": fraction})
        return self.model_copy(update={"epochs": epochs, "optim": optim})


class NgramConfig(Config):
    """A linear model of word 1-2-grams and character n-grams, whose logits are added to those of the network."""

    use: Literal["auto", "always", "never"] = Field("never", description="auto: where it lowers the loss on validation")
    max_bytes: int | None = Field(
        None, ge=1000, description="of the model file that it may take; None: what is left of 1 MB, up to 300,000"
    )
    min_n: int = Field(3, ge=1, le=8, description="characters of the shortest n-gram")
    max_n: int = Field(4, ge=1, le=8, description="characters of the longest n-gram")
    strength: float | None = Field(
        None, gt=0, description="inverse of the regularisation; None: with the lowest loss on validation"
    )

    @model_validator(mode="after")
    def _ordered(self) -> NgramConfig:
        if self.min_n > self.max_n:
            raise ValueError(f"min_n = {self.min_n} is more than max_n = {self.max_n}; allowed: at most that")
        return self


def _of_subwords(train: TrainConfig) -> TrainConfig:
    of_labels = (("token_dropout", train.token_dropout, 0.0), ("loss.class_weights", train.loss.class_weights, "none"))
    for name, value, unused in of_labels:
        if value != unused:
            raise ValueError(f"{name} = {value!r} is of tasks with labels; here it has no use, set {unused!r}")
    return train


# Of models that tell subwords, of text or of what is hidden in it.
TokenTraining = Annotated[TrainConfig, AfterValidator(_of_subwords)]
