from typing import Any

def sum_by_feature(
    numbers: int, starts: Any, columns: Any, values: Any, of_texts: Any, sums: Any, squares: Any
) -> None: ...
def fit_margins(
    labels: int,
    starts: Any,
    columns: Any,
    values: Any,
    signs: Any,
    costs: Any,
    duals: Any,
    weights: Any,
    scale: Any,
    tolerance: float,
    most_passes: int,
) -> None: ...
def fit_own_terms(
    starts: Any,
    columns: Any,
    values: Any,
    costs: Any,
    text_starts: Any,
    texts: Any,
    member_starts: Any,
    members: Any,
    term_starts: Any,
    terms: Any,
    weights: Any,
    most_texts: int,
    tolerance: float,
    most_passes: int,
) -> None: ...
