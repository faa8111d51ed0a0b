from typing import Any

def fit_margins(
    starts: Any, columns: Any, values: Any, signs: Any, costs: Any, weights: Any, tolerance: float, most_passes: int
) -> None: ...
