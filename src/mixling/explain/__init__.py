"""Why a model gives an answer: the effect of each word, found by leaving words out; never torch."""

from mixling.lazy import TYPE_CHECKING, lazy_imports

if TYPE_CHECKING:
    from mixling.explain.explanation import Explanation, WordEffect, explanation_lines, explanation_page
    from mixling.explain.shapley import Game, exact_shapley, leave_one_out, sampled_shapley

__getattr__, __dir__ = lazy_imports(__name__)
