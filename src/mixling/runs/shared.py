"""What trainings on the same examples have in common: word vectors, a vocabulary, encoded texts."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Any, TypeVar, cast

_T = TypeVar("_T")


class Shared:
    """Results that do not depend on the model or the seed, each computed once for several trainings in a process.

    Attributes:
        saved: seconds that computing the results again would have taken, for fair comparisons.
    """

    def __init__(self) -> None:
        self.saved = 0.0
        self._results: dict[Hashable, tuple[Any, float, tuple[object, ...]]] = {}

    def get(self, make: Callable[[], _T], *key: Hashable, of: tuple[object, ...] = ()) -> _T:
        """Return what `make` returned when it was first called with the key and these objects.

        Args:
            of: the objects, such as data sets, that the result belongs to; compared by identity.
        """
        whole = (*key, *map(id, of))
        if whole in self._results:
            result, seconds, _ = self._results[whole]
            self.saved += seconds
            return cast(_T, result)
        begin = time.perf_counter()
        result = make()
        self._results[whole] = result, time.perf_counter() - begin, of  # identities are unique while objects live
        return result
