"""How much annotators agree: Cohen's kappa and Krippendorff's alpha for labels that have no order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any

from mixling.labeling.lines import canonical


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """The agreement of annotators.

    Attributes:
        texts: that several of them answered.
        alpha: Krippendorff's; None where it is undefined: no such texts, or all answers are equal.
        kappas: Cohen's, of two annotators each, who share texts; None where it is undefined.
    """

    texts: int
    alpha: float | None
    kappas: Mapping[tuple[str, str], float | None]


def agreement_of(answers: Sequence[Mapping[str, Any]]) -> Agreement:
    """Return the agreement of annotators; answers of several labels, or of spans, are equal or not, as a whole.

    Args:
        answers: of each text, by annotator.
    """
    shared = defaultdict(list)
    of_texts = []
    for one in answers:
        if len(one) < 2:
            continue
        names = {name: canonical(value) for name, value in sorted(one.items())}
        of_texts.append([*names.values()])
        for first, second in combinations(names, 2):
            shared[first, second].append((names[first], names[second]))
    kappas = {pair: cohen(both) for pair, both in shared.items()}
    return Agreement(texts=len(of_texts), alpha=krippendorff(of_texts), kappas=kappas)


def cohen(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Return Cohen's kappa of pairs of answers (J. Cohen, 1960); None: both always gave one label."""
    observed = sum(first == second for first, second in pairs) / len(pairs)
    firsts, seconds = map(Counter, zip(*pairs, strict=True))
    expected = sum(count * seconds[label] for label, count in firsts.items()) / len(pairs) ** 2
    return None if expected == 1 else (observed - expected) / (1 - expected)


def krippendorff(units: Sequence[Sequence[str]]) -> float | None:
    """Return Krippendorff's alpha for nominal labels, of units that have at least two each; None: it is undefined.

    Source: K. Krippendorff, Computing Krippendorff's Alpha-Reliability (2011), part C.
    """
    totals = Counter(chain.from_iterable(units))
    number = totals.total()
    disagreed = 0.0
    for unit in units:
        agreed = sum(count * count for count in Counter(unit).values())
        disagreed += (len(unit) ** 2 - agreed) / (len(unit) - 1)
    expected = sum(count * (number - count) for count in totals.values())
    return None if expected == 0 else 1 - (number - 1) * disagreed / expected


def number_of(value: float | None) -> str:
    """Return a coefficient as it is shown."""
    return "undefined" if value is None else f"{value:.2f}"
