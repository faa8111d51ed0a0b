"""What a token mixer costs, and what it remembers: a benchmark for any registered mixer, minutes long on two cores."""

from typing import TYPE_CHECKING

from mixling.lazy import lazy_imports

if TYPE_CHECKING:
    from mixling.research.bench.recall import (
        CHOOSING,
        DIM,
        NUM_BLOCKS,
        PAIRS_BY_LENGTH,
        SYMBOLS,
        RecallData,
        RecallModel,
        causal_choices,
        draw_texts,
        run_recall,
        state_size,
        train_recall,
    )
    from mixling.research.bench.tasks import expression, listops, run_task

__getattr__, __dir__ = lazy_imports(__name__)
