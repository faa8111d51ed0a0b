"""The training loop, with its optimizers, checkpoints and distributed processes."""

from typing import TYPE_CHECKING

from mixling.lazy import lazy_imports

if TYPE_CHECKING:
    from mixling.training.augmentation import NO_AUGMENTATION, AugmentationConfig, Augmenter, BatchPart
    from mixling.training.backends.context import DistributedContext
    from mixling.training.callbacks import Callback as Callback
    from mixling.training.callbacks import CallbackList as CallbackList
    from mixling.training.callbacks import Step as Step
    from mixling.training.checkpoint import load_checkpoint, save_checkpoint
    from mixling.training.config import NgramConfig
    from mixling.training.dataset_adapter import LabeledData, predict_logits
    from mixling.training.files import CHECKPOINT, HISTORY
    from mixling.training.interrupts import Interrupts, Terminated, terminations
    from mixling.training.loop import Trainer
    from mixling.training.optim import OptimConfig, learning_rate
    from mixling.training.plan import default_evaluations
    from mixling.training.prefetch import Prefetcher
    from mixling.training.questions import WindowSet
    from mixling.training.state import TrainingState

__getattr__, __dir__ = lazy_imports(__name__)
