from typing import Any

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
