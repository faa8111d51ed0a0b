"""Whether the texts of requests are like those that their model was measured on, for `/metrics`.

Of a window of texts four numbers each are kept; when it is full they are compared as `mixling drift` does, and the next
one begins. No text is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

from prometheus_client import CollectorRegistry, Counter, Gauge

from mixling.answers.predictions import Prediction
from mixling.drift.profile import KnownWords, Profile
from mixling.drift.report import Observed, compare_observed, observe
from mixling.serving.models import Loaded
from mixling.text.encoder import Text

# To look at texts takes at most this fraction of the time; texts that would take more are not looked at.
_SHARE = 0.01
_SAVED = 0.05  # seconds of it that a quiet server saves up
_OF_REQUEST = 32  # texts of a request that are looked at, at equal distances


@dataclass
class _Window:
    """The texts of a model since the last comparison."""

    version: str
    profile: Profile
    known: KnownWords
    observed: list[Observed] = field(default_factory=list)


class DriftMetrics:
    """Compares windows of texts with the profile of their model.

    Args:
        registry: of the gauges; with several processes each has its own window, by its id.
        window: texts; 0: nothing is compared.
    """

    def __init__(self, registry: CollectorRegistry, window: int) -> None:
        self._size = window
        self._windows: dict[str, _Window] = {}
        self._saved = _SAVED
        self._last = perf_counter()

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, ["model", *labels], registry=registry, multiprocess_mode="liveall")

        self._distance = gauge(
            "mixling_drift_distance", "Fraction of texts in other bins than the model's, last window.", "statistic"
        )
        self._moved = gauge("mixling_drift_moved", "1: beyond the limits of `mixling drift`, last window.", "statistic")
        self._estimate = gauge("mixling_drift_accuracy_estimate", "Accuracy that the confidence promises, last window.")
        self._reliable = gauge("mixling_drift_reliable", "0: what moved makes the estimate unreliable, last window.")
        self._compared = Counter(
            "mixling_drift_windows", "Windows of texts that were compared.", ["model"], registry=registry
        )

    def predicted(self, loaded: Loaded, texts: Sequence[Text], predictions: Sequence[Prediction]) -> None:
        """Look at some texts of a request, as far as time allows, and at their predictions."""
        begin = perf_counter()
        self._saved = min(_SAVED, self._saved + _SHARE * (begin - self._last))
        self._last = begin
        if self._saved <= 0 or (window := self._window(loaded)) is None:
            return
        for index in range(0, len(texts), -(-len(texts) // _OF_REQUEST) or 1):
            window.observed.append(observe(texts[index], predictions[index], window.known))
        if len(window.observed) >= self._size:
            self._compare(loaded.name, window)
        self._saved -= perf_counter() - begin

    def _window(self, loaded: Loaded) -> _Window | None:
        """Return the window of a model; None: it keeps no profile, or nothing is compared."""
        window = self._windows.get(loaded.name)
        if window is None or window.version != loaded.version:
            profile = loaded.predictor.metadata.profile
            if profile is None or not self._size:
                return None
            window = _Window(loaded.version, profile, KnownWords(profile.known_words))
            self._windows[loaded.name] = window
        return window

    def _compare(self, name: str, window: _Window) -> None:
        found = compare_observed(window.profile, window.observed)
        window.observed.clear()
        for movement in found.movements:
            statistic = movement.name.replace(" ", "_")
            self._distance.labels(name, statistic).set(movement.distance)
            self._moved.labels(name, statistic).set(movement.moved)
        if found.estimate is not None:
            self._estimate.labels(name).set(found.estimate)
        self._reliable.labels(name).set(found.reliable)
        self._compared.labels(name).inc()
