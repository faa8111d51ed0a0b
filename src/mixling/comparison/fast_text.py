"""The fastText baseline, if its package is installed."""

from __future__ import annotations

import itertools
import random
import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mixling.comparison.baselines import Baseline, BaselineKind
from mixling.comparison.tfidf_features import sides_of
from mixling.data.examples import Target, names_of
from mixling.installation import is_installed
from mixling.tasks.base import Task
from mixling.text.encoder import Text

MISSING = "not installed; pip install fasttext-wheel"
GRID = {"wordNgrams": (1, 2), "epoch": (5, 25), "lr": (0.1, 0.5, 1.0)}
BUCKETS = 1 << 18  # buckets of word pairs; the default, two million, would make a file of 0.8 GB
_WORD = re.compile(r"\w+|[^\w\s]")
_LABEL = "/label/"  # begins no word of `as_line`, so that no word of a text is taken for a label


def as_line(text: Text) -> str:
    """Return a text as a line for fastText: lower-cased words and punctuation, a second text's prefixed."""
    first, *second = (_WORD.findall(part.lower()) for part in sides_of(text))
    line = " ".join([*first, *(f"2:{word}" for words in second for word in words)])
    return line.encode("utf-8", "replace").decode("utf-8")  # lone surrogates cannot be encoded


class FastText(Baseline):
    """fastText's supervised model on one thread; one-vs-all losses for multi-label.

    Its file has the indices of labels, since names may contain spaces.
    """

    def __init__(self, file: Path, names: Sequence[str], options: dict[str, Any], *, many: bool, seed: int) -> None:
        import fasttext

        begin = time.perf_counter()
        self.options = options
        self._names = names
        self._many = many
        self._model = fasttext.train_supervised(
            str(file),
            **options,
            label=_LABEL,
            dim=100,
            bucket=BUCKETS if options["wordNgrams"] > 1 else 0,
            loss="ova" if many else "softmax",
            thread=1,
            seed=seed,
            verbose=0,
        )
        matrices = self._model.f.getInputMatrix(), self._model.f.getOutputMatrix()
        self.parameters = sum(np.asarray(matrix).size for matrix in matrices)
        self.seconds = time.perf_counter() - begin

    def predict(self, texts: Sequence[Text]) -> list[Target]:
        # `predict` fails with NumPy 2.
        ask = self._model.f.predict
        if self._many:
            answers = (ask(f"{as_line(text)}\n", -1, 0.5, "strict") for text in texts)
            found = ([self._number(label) for _, label in answer] for answer in answers)
            return [tuple(sorted(self._names[i] for i in numbers if i < len(self._names))) for numbers in found]
        return [self._names[self._number(ask(f"{as_line(text)}\n", 1, 0.0, "strict")[0][1])] for text in texts]

    @staticmethod
    def _number(label: str) -> int:
        return int(label.removeprefix(_LABEL))

    def size(self) -> int:
        with tempfile.TemporaryDirectory(prefix="mixling-") as folder:
            file = Path(folder) / "model.bin"
            self._model.save_model(str(file))
            return file.stat().st_size


def fit_fasttext(
    task: type[Task],
    texts: Sequence[Text],
    targets: Sequence[Target],
    *,
    seed: int,
    only: Sequence[Mapping[str, Any]] = (),
) -> Iterator[FastText]:
    """Yield one fit per choice of the grid, or of the choices `only`.

    The lines are shuffled: fastText reads its file in order, and loses up to 9 points if it is sorted by label. It
    skips texts without a label, so they get a label that is none of the names.

    Raises:
        Exception: fastText fails with all options, as with a high rate it may alone.
    """
    many = not task.exclusive
    rows = list(map(names_of, targets))
    names = sorted({name for row in rows for name in row})
    numbers: dict[str | None, int] = {name: number for number, name in enumerate([*names, None])}
    lines = [
        " ".join([*(f"{_LABEL}{numbers[name]}" for name in row or (None,)), as_line(text)])
        for text, row in zip(texts, rows, strict=True)
    ]
    random.Random(seed).shuffle(lines)
    with tempfile.TemporaryDirectory(prefix="mixling-") as folder:
        file = Path(folder) / "train.txt"
        file.write_text("\n".join(lines) + "\n", "utf-8")
        grid = [dict(zip(GRID, values, strict=True)) for values in itertools.product(*GRID.values())]
        failed: Exception | None = None
        fits = 0
        for options in [dict(choice) for choice in only] or grid:
            try:
                fitted = FastText(file, names, options, many=many, seed=seed)
            except Exception as error:  # such as NaN
                failed = error
                continue
            fits += 1
            yield fitted
        if not fits and failed is not None:
            raise failed


fasttext = BaselineKind(
    title=lambda task: "fasttext",
    about=lambda task: "fastText's supervised model, width 100; words alone or in pairs, epochs and rate chosen",
    fit=fit_fasttext,
    missing=lambda: "" if is_installed("fasttext") else MISSING,
)
