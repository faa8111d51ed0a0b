"""Comparisons with the baselines a skeptic would ask for, tuned with equal care and measured in one run."""

from typing import TYPE_CHECKING

from mixling.lazy import lazy_imports

if TYPE_CHECKING:
    from mixling.comparison.baselines import (
        TFIDF_STRENGTHS,
        Baseline,
        BaselineKind,
        LinearBaseline,
        choose,
        fit_tfidf,
        tfidf,
    )
    from mixling.comparison.benchmark import BASELINES, LabeledRows, TrainedSystem, chosen_systems, train_all
    from mixling.comparison.candidates import matched_transformer
    from mixling.comparison.failures import Failure, Failures
    from mixling.comparison.fast_text import as_line, fasttext
    from mixling.comparison.outcome import Comparison, compare
    from mixling.comparison.tfidf_features import TfidfFeatures
    from mixling.comparison.with_columns import WITH_COLUMNS, column_baselines

__getattr__, __dir__ = lazy_imports(__name__)
