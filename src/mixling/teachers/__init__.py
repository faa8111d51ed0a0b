"""Teachers: models whose probabilities a smaller model is trained on."""

from typing import TYPE_CHECKING

from mixling.lazy import lazy_imports

if TYPE_CHECKING:
    from mixling.teachers.base import FineTuneConfig, FunctionTeacher, Teacher
    from mixling.teachers.cache import collect_predictions
    from mixling.teachers.encoder import EncoderTeacher, SentenceEncoder
    from mixling.teachers.fine_tuning import fine_tune
    from mixling.teachers.transformer import TransformerTeacher

__getattr__, __dir__ = lazy_imports(__name__)
