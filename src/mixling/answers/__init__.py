"""What a model answers with: labels, predictions, spans, decoding and sets."""

from mixling.lazy import TYPE_CHECKING, lazy_imports

if TYPE_CHECKING:
    from mixling.answers.conformal import ConformalSets, Method, conformal_scores, fit_conformal
    from mixling.answers.decision import DecisionRule, answers_by_level, answers_of, offsets_of, targets_by_level
    from mixling.answers.labels import LabelSet
    from mixling.answers.levels import LabelTree, level_problems
    from mixling.answers.predictions import softmax
    from mixling.answers.questions import Answers, Found
    from mixling.answers.tag_sequences import TagSequences

__getattr__, __dir__ = lazy_imports(__name__)
