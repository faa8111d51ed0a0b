"""The configuration of training."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from mixling.config import Config
from mixling.tasks.objective import LossConfig
from mixling.training.augmentation import MILD_AUGMENTATION, NO_AUGMENTATION, AugmentationConfig
from mixling.training.optim import OptimConfig

_FEWEST_STEPS = 150  # of a training on few examples
_DISTILLATION_STEPS = 3_750
_PATIENCE = 5  # evaluations without progress

TrackerName = Literal["tensorboard", "trackio", "wandb", "mlflow"]
Initialization = Literal["random", "rows", "text", "model"]


def _several(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


class TrainConfig(Config):
    """How a model is trained.

    For comparison, pNLP-Mixer is trained for 80 epochs with batch size 256, lr 5e-4 and no regularization.
    """

    epochs: int | None = Field(
        default=None, ge=1, description="number of epochs; by default chosen from the number of examples"
    )
    steps: int | None = Field(default=None, ge=1, description="total number of steps; overrides epochs")
    evaluations: int | None = Field(
        default=None,
        ge=1,
        description="minimum number of evaluations; at least one per epoch. Default: 10, or fewer, at least 3, of many "
        "validation examples where those would take more than about a tenth of the time",
    )
    batch_size: int = Field(
        default=64, ge=1, description="examples per step, over all processes; the default for many short texts is 256"
    )
    gradient_accumulation_steps: int = Field(
        default=1, ge=1, description="parts into which the batch of a step is divided to save memory"
    )
    time_budget: float | None = Field(
        default=None, gt=0, description="seconds for all; if needed, fewer epochs or n-grams alone"
    )
    patience: int | None = Field(
        default=None,
        ge=1,
        description="stop after this many evaluations that are no better and have no lower loss; by default 5 where "
        "the number of epochs is chosen from the examples of each label, else never",
    )
    load_best_at_end: bool = Field(
        default=True, description="end with the weights of the best evaluation, not of the last"
    )
    seed: int = Field(default=0, ge=0, lt=2**32, description="seed of all randomness")
    token_dropout: float | None = Field(
        default=None,
        ge=0,
        lt=1,
        description="fraction of words that are replaced by zero vectors; default: by the augmentation",
    )
    augmentation: AugmentationConfig | None = Field(
        default=None, description="changes of training words; default: by task and model"
    )
    loss: LossConfig = LossConfig()
    optim: OptimConfig = OptimConfig()
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        default="auto", description="auto: bfloat16 if the device supports it natively; native steps: float32"
    )
    backend: Literal["torch", "native", "auto"] = Field(
        default="auto",
        description="what computes the steps; auto: native steps for the models that they know, without PyTorch",
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        default="auto", description="auto: a GPU if there is one and a step has enough operations for it"
    )
    compile: Literal["auto", "on", "off"] = Field(
        default="auto",
        description="whether torch.compile compiles the model; auto: on a GPU, from a size on, which no card has "
        "measured yet: until then no model",
    )
    deterministic: bool = Field(
        default=False,
        description="on a GPU: only operations that give the same bytes again, also when resumed; slower",
    )
    track: Annotated[tuple[TrackerName, ...], BeforeValidator(_several)] = Field(
        default=(), description="also send metrics to these, one or several"
    )
    checkpoint_seconds: float = Field(
        default=15.0, gt=0, description="minimum number of seconds between two checkpoints"
    )

    @model_validator(mode="after")
    def _options_are_compatible(self) -> TrainConfig:
        if not self.load_best_at_end and self.patience is not None:
            raise ValueError(
                "patience waits for a better evaluation, load_best_at_end = false ignores them; leave out one"
            )
        return self

    def planned_epochs(self, num_examples: int) -> int:
        """Return `epochs`, by default the number that trains on about 400,000 examples: at least 3, at most 40."""
        return self.epochs or min(max(round(400_000 / max(num_examples, 1)), 3), 40)

    def resolved(
        self,
        num_examples: int,
        *,
        rows_per_label: float | None,
        init: Initialization,
        distilled: bool,
        augmented: bool = True,
        single: bool = True,
        cross_fitted: bool = False,
    ) -> TrainConfig:
        """Return the configuration with epochs, embedding rate, augmentation and token dropout resolved.

        The rules were chosen on the validation splits of SST-2, CLINC150 and SNIPS. Models that are initialized from
        word vectors need fewer epochs, and overfit sooner, the more text the vectors come from and the more examples a
        label has. Vectors of much text are best changed slowly, unless a teacher labels as much text. Many typos, and
        less dropout, raise the accuracy on misspelled and on correct texts (experiments/README.md). This was measured
        with single texts, and no knowledge from other texts; other trainings have fewer typos. Where the examples of
        each label choose the epochs, trainings end after five evaluations without progress: none of 36 became better
        afterwards.

        Args:
            num_examples: number of training examples.
            rows_per_label: training examples per label, for tasks with one label per text, else None.
            init: how the model is initialized.
            distilled: whether the examples are distillation data.
            augmented: whether the task allows changes of the words of its texts.
            single: whether an example is one text with one target, not a pair of texts or words with labels.
            cross_fitted: whether the examples are few and all of them are trained on in the end, by the last epoch.
        """
        epochs = self.planned_epochs(num_examples)
        patience = self.patience
        if self.epochs is None and distilled:
            epochs = min(max(round(_DISTILLATION_STEPS * self.batch_size / max(num_examples, 1)), 3), 20)
        elif self.epochs is None and init == "model":
            epochs = min(max(round(150_000 / max(num_examples, 1)), 3), 20)
        elif self.epochs is None and init != "random" and rows_per_label is not None:
            epochs = min(max(round((280 if init == "text" else 560) / rows_per_label**0.5), 3), 25)
            if patience is None and self.load_best_at_end and self.steps is None and self.time_budget is None:
                patience = _PATIENCE
        if self.epochs is None and cross_fitted:
            steps_per_epoch = math.ceil(num_examples / self.batch_size)
            epochs = min(max(epochs, math.ceil(_FEWEST_STEPS / steps_per_epoch)), 60)
        embedding_lr = self.optim.embedding_lr
        if embedding_lr is None:
            embedding_lr = 0.3 if init == "text" and not distilled else 1.0
        optim = self.optim.model_copy(update={"embedding_lr": embedding_lr})
        augmentation = self.augmentation
        if augmentation is None:
            measured = single and init in ("random", "rows") and not distilled
            augmentation = AugmentationConfig() if measured else MILD_AUGMENTATION
            if cross_fitted and measured:
                augmentation = AugmentationConfig(typos=0.2)
            augmentation = augmentation if augmented else NO_AUGMENTATION
        dropout = self.token_dropout
        if dropout is None:
            dropout = 0.05 if augmentation.typos >= 0.2 and not cross_fitted else 0.2
        changes = {"epochs": epochs, "optim": optim, "augmentation": augmentation, "token_dropout": dropout}
        changes |= {"load_best_at_end": False} if cross_fitted else {"patience": patience}
        return self.model_copy(update=changes)


class NgramConfig(Config):
    """A linear model of word 1-2-grams and character n-grams, whose logits are added to the network's."""

    use: Literal["auto", "always", "never", "alone"] = Field(
        default="never",
        description="auto: unless 100 or more validation rows show no gain; alone: without the network, which is not "
        "trained",
    )
    max_bytes: int | None = Field(
        default=None, ge=1000, description="of the model file that it may take; None: the rest of 1 MB, up to 300,000"
    )
    max_size: int | None = Field(
        None, ge=100_000, description="bytes of the model file, network and n-grams; None: max_bytes decides"
    )
    min_n: int = Field(
        default=3,
        ge=1,
        le=8,
        description="characters of the shortest n-gram; 2 if nothing is set and texts are a word or two",
    )
    max_n: int = Field(
        default=4,
        ge=1,
        le=8,
        description="characters of the longest n-gram; 5 if nothing is set and texts are a word or two",
    )
    strength: float | None = Field(
        default=None, gt=0, description="inverse of the regularization; None: with the lowest loss on validation"
    )
    ratio_power: float | None = Field(
        default=None,
        ge=0,
        le=2,
        description="power of the log-count ratios that n-grams are multiplied by, so that those which distinguish "
        "labels are regularized less; None: 0, 0.5 or 1, with the lowest loss on validation",
    )
    cross_fit: bool | None = Field(
        default=None,
        description="choose the weights of network and branch by networks that each leave out a fold of the examples "
        "that are trained on; None: with up to 600 examples for each label, at most 2,000, or up to 5,000 pairs, "
        "unless epochs or steps are given",
    )
    refit: bool | None = Field(
        default=None,
        description="fit the exported branch on the validation examples, too; None: only if they were split off the "
        "training files",
    )

    @model_validator(mode="after")
    def _ordered(self) -> NgramConfig:
        if self.min_n > self.max_n:
            raise ValueError(f"min_n = {self.min_n} is more than max_n = {self.max_n}; allowed: at most that")
        if self.max_bytes is not None and self.max_size is not None:
            raise ValueError("max_bytes and max_size both say how large the n-grams are; leave one of them out")
        return self


def _without_label_options(train: TrainConfig) -> TrainConfig:
    if train.augmentation is not None:
        raise ValueError("augmentation applies to tasks with labels only; leave it out")
    options = (("token_dropout", train.token_dropout, 0.0), ("loss.class_weights", train.loss.class_weights, "none"))
    for name, value, unused in options:
        if value != unused:
            raise ValueError(f"{name} = {value!r} applies to tasks with labels only; set it to {unused!r}")
    return train


# For models that predict subwords: masked language models and text to text.
TokenTraining = Annotated[TrainConfig, AfterValidator(_without_label_options)]
