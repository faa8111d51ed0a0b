"""Metrics of a server, as Prometheus reads them."""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Callable
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from starlette.responses import Response

from mixling.serving.drift import DriftMetrics

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"  # set where several processes serve: the folder of their metrics

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
_SIZES = (1, 2, 4, 8, 16, 32, 64)


class ServerMetrics:
    """Counts requests, texts, batches and reloads.

    Args:
        drift_window: texts that are compared at a time with the profile of their model; 0: none.

    Attributes:
        drift: compares them.
    """

    def __init__(self, drift_window: int = 0) -> None:
        self.registry = registry = CollectorRegistry()
        self._requests = Counter("mixling_requests", "Answered requests.", ["route", "status"], registry=registry)
        self._seconds = Histogram(
            "mixling_request_seconds", "Time to an answer.", ["route"], buckets=_SECONDS, registry=registry
        )
        self._texts = Counter("mixling_texts", "Texts that were predicted for.", ["model"], registry=registry)
        batches = Histogram(
            "mixling_batch_texts", "Texts predicted together in the loop.", buckets=_SIZES, registry=registry
        )
        self.batch: Callable[[int], None] = batches.observe
        self._waiting = Gauge(
            "mixling_waiting_texts", "Texts that wait.", registry=registry, multiprocess_mode="livesum"
        )
        self._reloads = Counter("mixling_reloads", "Replaced model files in use.", ["model"], registry=registry)
        self._failures = Counter(
            "mixling_reload_failures", "Replaced model files that cannot be used.", ["model"], registry=registry
        )
        self.drift = DriftMetrics(registry, drift_window)
        self._answered: dict[tuple[str, int], tuple[Callable[[], None], Callable[[float], None]]] = {}
        self._predicted: dict[str, Callable[[float], None]] = {}

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count an answer."""
        if (found := self._answered.get((route, status))) is None:
            counter = self._requests.labels(route, str(status))
            found = self._answered[route, status] = (counter.inc, self._seconds.labels(route).observe)
        found[0]()
        found[1](seconds)

    def predicted(self, model: str, texts: int) -> None:
        """Count texts that were predicted for."""
        if (count := self._predicted.get(model)) is None:
            count = self._predicted[model] = self._texts.labels(model).inc
        count(texts)

    def begin(self, models: tuple[str, ...], waiting: Callable[[], int]) -> None:
        """Show the counters of these models from the start, and the number of waiting texts."""
        for model in models:
            self._texts.labels(model)
            self._reloads.labels(model)
            self._failures.labels(model)
        self._count_waiting = waiting

    def reloaded(self, model: str, used: bool) -> None:
        """Count a model file that was replaced."""
        (self._reloads if used else self._failures).labels(model).inc()

    def response(self) -> Response:
        """Return all metrics, including the other processes'."""
        self._waiting.set(self._count_waiting())
        registry = self.registry
        if os.environ.get(FOLDER_VARIABLE):
            registry = CollectorRegistry()
            MultiProcessCollector(registry)
        try:
            text = generate_latest(registry)
        except FileNotFoundError:  # a worker has just ended
            text = generate_latest(registry)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


def keep_counts(process: int) -> None:
    """Add the counts of a process that has ended to the counts before it, and remove its files.

    With a file for each of them, metrics would take longer with every worker that ends.

    Args:
        process: its id; its metrics are in the folder that all share.
    """
    mark_process_dead(process)
    for kind in ("counter", "histogram"):
        path = Path(os.environ[FOLDER_VARIABLE], f"{kind}_{process}.db")
        if not path.exists():
            continue
        counts = MmapedDict(str(path.with_name(f"{kind}_ended.db")))
        with contextlib.suppress(RuntimeError, ValueError, struct.error):  # it was killed while it wrote a new count
            for name, value, stamp, _ in MmapedDict.read_all_values_from_file(str(path)):
                counts.write_value(name, counts.read_value(name)[0] + value, stamp)
        counts.close()
        path.unlink()
