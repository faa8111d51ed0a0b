"""Which text comes next: random ones, which test the model, and those that teach it most."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator
from itertools import chain, islice

from mixling.labeling.record import Record
from mixling.labeling.texts import FileTexts

STRATEGIES = ("suggest", "uncertain", "random")
TESTS = 5  # every fifth text is a random one, which no model learns before all are labeled
_LEASE = 900.0  # seconds in which a text that a page has is not given to another one


def is_test(key: str) -> bool:
    """Return whether the text with this fingerprint is one of the fifth that models are tested on."""
    return _rank(key, "test") % TESTS == 0


def _rank(key: str, purpose: str) -> int:
    return int.from_bytes(hashlib.blake2b(f"{purpose} {key}".encode(), digest_size=8).digest())


class Queue:
    """Gives pages the texts to label next.

    The tests are a random fifth of all texts, drawn by their fingerprints; they are asked in a random order, whatever a
    model says, so that they are a fair sample of the file. The others come in the order that a strategy has chosen, and
    at random until a model has been trained.

    Args:
        overlap: percent of the texts that every annotator is asked; the others are asked of one.
    """

    def __init__(self, texts: FileTexts, record: Record, *, overlap: float = 0) -> None:
        self._record = record
        shuffled = sorted(texts.by_key, key=lambda key: _rank(key, "order"))
        self._given = {key for key, text in texts.by_key.items() if text.given is not None}
        self.tests = [key for key in shuffled if is_test(key)]
        self.others = [key for key in shuffled if not is_test(key)]
        self._shared = [key for key in shuffled if _rank(key, "overlap") % 10_000 < 100 * overlap]
        self._overlap = frozenset(self._shared)
        self.chosen: list[str] = []  # by the strategy, the best first
        self._leases: dict[str, tuple[str, float]] = {}
        answered = [is_test(key) for key in record.texts()]
        self._asked = [answered.count(False), answered.count(True)]

    def next(self, page: str, annotator: str, count: int, *, holding: Iterable[str]) -> list[str]:
        """Return the fingerprints of texts to label, fewer than `count` if no more are left.

        Args:
            page: a name of the page that asks.
            holding: the texts that it has; others that it was given are free again.
        """
        now = time.monotonic()
        held = set(holding)
        leases = self._leases.items()
        self._leases = {
            key: (owner, end) for key, (owner, end) in leases if end > now and (owner != page or key in held)
        }
        self._leases |= dict.fromkeys(held, (page, now + _LEASE))
        out: list[str] = []
        while len(out) < count:
            key = self._choose(annotator)
            if key is None:
                break
            self._leases[key] = page, now + _LEASE
            self._asked[is_test(key)] += 1
            out.append(key)
        return out

    def _choose(self, annotator: str) -> str | None:
        is_due = self._asked[1] * TESTS <= sum(self._asked)
        # What others have answered, and this annotator should, too, comes first every second time.
        again = self._second_opinions(annotator) if sum(self._asked) % 2 else iter(())
        others = chain(self.chosen, self.others)
        first, then = (self.tests, others) if is_due else (others, self.tests)
        for keys in (again, first, then, self._skipped(annotator)):
            for key in keys:
                if key not in self._leases and (keys is again or self._is_open(key, annotator)):
                    return key
        return None

    def _is_open(self, key: str, annotator: str) -> bool:
        last = self._record.last(key, annotator)
        if last is not None or key in self._given:
            return False
        return key in self._overlap or not self._record.answers(key)

    def _second_opinions(self, annotator: str) -> Iterator[str]:
        for key in self._shared:
            if self._record.answers(key) and self._is_open(key, annotator):
                yield key

    def _skipped(self, annotator: str) -> Iterator[str]:
        for key in [*self.tests, *self.others]:
            last = self._record.last(key, annotator)
            if last is not None and last["what"] == "skip":
                yield key

    def upcoming_tests(self, count: int) -> list[str]:
        """Return the next tests that nobody has answered."""
        open_ = (key for key in self.tests if not self._record.answers(key) and key not in self._given)
        return list(islice(open_, count))
