"""Metrics, computed with NumPy alone, so that a base install can evaluate a saved model."""

from typing import TYPE_CHECKING

from mixling.lazy import lazy_imports

if TYPE_CHECKING:
    from mixling.metrics.abstention import choose_abstention
    from mixling.metrics.base import ClassificationMetrics, Metrics, ProbabilityMetrics, format_table
    from mixling.metrics.intervals import bootstrap, percentiles, rate_interval, resampled, wilson
    from mixling.metrics.out_of_scope import choose_rejection, out_of_scope_report
    from mixling.metrics.reliability import ReliabilityBin, calibration_error, calibration_error_by_chance
    from mixling.metrics.slices import Slice, SliceColumn, each_value, holm, worst_slices

__getattr__, __dir__ = lazy_imports(__name__)
