"""From logits to labels: the part of tasks that a predictor needs before anything else, and so imports little."""

from __future__ import annotations

import math

from mixling.answers.predictions import JSON_DIGITS, Prediction, certain_part, prediction_of_label, rounded, softmax
from mixling.lazy import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import numpy as np
    import numpy.typing as npt

    from mixling.answers.conformal import ConformalSets
    from mixling.answers.decision import DecisionRule
    from mixling.answers.predictions import Read


class LabelDecoder:
    """Makes predictions of one label each.

    Args:
        names: of the labels (C,).
        threshold: the top probability below which predictions abstain; None: they never do.
        conformal: makes sets of labels; None: predictions have none.
        rule: which label is the answer; None: the most probable one.
    """

    per_word = False
    has_probabilities = True
    json_of_texts = True

    def __init__(
        self,
        names: Sequence[str],
        *,
        threshold: float | None = None,
        conformal: ConformalSets | None = None,
        rule: DecisionRule | None = None,
    ) -> None:
        self.names = names
        self.threshold = threshold
        self.conformal = conformal
        self.rule = rule

    def probabilities(self, logits: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return the probabilities (..., C) of logits (..., C).

        Raises:
            ModelFileError: a logit is not finite.
        """
        import numpy as np

        values = np.asarray(logits, dtype=np.float64)
        assert values.shape[-1] == len(self.names), f"{values.shape[-1]} logits for {len(self.names)} labels"
        if not np.isfinite(values).all():
            raise _not_finite()
        return softmax(values)

    def decode(self, logits: npt.NDArray[Any], read: Read, text: object = None) -> Prediction:
        """Return the prediction of logits (C,); raises like `probabilities`."""
        if self.conformal is not None or (self.rule is not None and self.rule.levels):
            return self.decode_many([logits], [read])[0]
        values = logits.tolist()  # for one text, plain Python is faster than NumPy
        assert len(values) == len(self.names), f"{len(values)} logits for {len(self.names)} labels"
        if not math.isfinite(sum(values)):
            raise _not_finite()
        top = max(values)
        best = values.index(top) if self.rule is None else self.rule.answer(values)
        abstained = None
        if self.threshold is not None:
            total = sum(math.exp(value - top) for value in values)
            abstained = math.exp(values[best] - top) / total < self.threshold
        return prediction_of_label(self.names[best], self._normalized_by_name, values, read, abstained)

    def decode_many(
        self, logits: Sequence[npt.NDArray[Any]], read: Sequence[Read], texts: object = None
    ) -> list[Prediction]:
        """Return the predictions of logits (B, C); raises like `probabilities`."""
        if not len(logits):
            return []
        import numpy as np

        stacked = np.asarray(logits)
        make = self._by_name
        rows = self.probabilities(stacked)
        return [
            prediction_of_label(label, make, row, item, abstains, label_set, path)
            for (label, abstains, path), row, item, label_set in zip(
                self._answers(stacked, rows), rows, read, self._label_sets(rows), strict=True
            )
        ]

    def _answers(
        self, logits: npt.NDArray[Any], probabilities: npt.NDArray[np.float64]
    ) -> list[tuple[str, bool | None, dict[str, float] | None]]:
        """Return the answer to each text, whether the model abstains from it, and the path to it through levels."""
        if self.rule is None or not self.rule.levels:
            best = self.best(logits)
            labels = map(self.names.__getitem__, best.tolist())
            return [(*item, None) for item in zip(labels, self._abstained(probabilities, best), strict=True)]
        tree = self.rule.tree
        paths = [
            tree.path_of(*(part.tolist() for part in row)) for row in zip(*tree.descend(probabilities), strict=True)
        ]
        if self.threshold is None:
            return [([*path][-1], None, path) for path in paths]
        return [(*certain_part(path, self.threshold), path) for path in paths]

    def best(self, logits: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Return the ids (B,) of the labels that logits (B, C) are answered with."""
        return logits.argmax(-1) if self.rule is None else self.rule.answers(logits)

    def _label_sets(self, probabilities: npt.NDArray[np.float64]) -> Sequence[tuple[str, ...] | None]:
        if self.conformal is None:
            return [None] * len(probabilities)
        import numpy as np

        members = self.conformal.members(probabilities)
        order = np.argsort(-probabilities, axis=1, kind="stable").tolist()
        return [tuple(self.names[i] for i in row if of[i]) for row, of in zip(order, members, strict=True)]

    def _abstained(self, probabilities: npt.NDArray[np.float64], best: npt.NDArray[np.int64]) -> Sequence[bool | None]:
        if self.threshold is None:
            return [None] * len(probabilities)
        import numpy as np

        uncertain: Sequence[bool | None] = (probabilities[np.arange(len(best)), best] < self.threshold).tolist()
        return uncertain

    def json_lines(self, logits: npt.NDArray[Any], read: Sequence[Read]) -> list[str]:
        """Return the predictions of logits (B, C) as JSON, with line ends; raises like `probabilities`."""
        import json

        names = [json.dumps(name, ensure_ascii=False) for name in self.names]
        rows = ", ".join(f"{name.replace('%', '%%')}: %.{JSON_DIGITS}f" for name in names)
        ends = _json_ends()
        templates = [f'{{"label": %s, %s%s%s"probabilities": {{{rows}}}, {end}\n' for end in ends]
        marks = {None: "", False: '"abstained": false, ', True: '"abstained": true, '}
        probabilities = self.probabilities(logits)
        sets = [
            "" if found is None else f'"label_set": {json.dumps(found, ensure_ascii=False)}, '
            for found in self._label_sets(probabilities)
        ]

        answers = self._answers(logits, probabilities)
        found_paths = [
            "" if path is None else f'"path": {json.dumps(rounded(path), ensure_ascii=False)}, ' for *_, path in answers
        ]
        return [
            templates[item.truncated + 2 * item.is_empty]
            % (json.dumps(label, ensure_ascii=False), marks[abstained], found, path, *row)
            for (label, abstained, _), row, item, found, path in zip(
                answers, probabilities.tolist(), read, sets, found_paths, strict=True
            )
        ]

    def _by_name(self, probabilities: npt.NDArray[np.float64]) -> dict[str, float]:
        return dict(zip(self.names, probabilities.tolist(), strict=True))

    def _normalized_by_name(self, logits: list[float]) -> dict[str, float]:
        top = max(logits)
        exponentials = [math.exp(value - top) for value in logits]
        total = sum(exponentials)
        return dict(zip(self.names, [value / total for value in exponentials], strict=True))


def parts_of_json(names: Sequence[str]) -> tuple[tuple[bytes, ...], tuple[bytes, ...], tuple[bytes, ...]]:
    """Return what the lines of `LabelDecoder.json_lines`, without a threshold, have besides probabilities.

    Returns:
        the beginning of a line for each label; the prefix of each probability; and the end for each of the flags.
    """
    import json

    quoted = [json.dumps(name, ensure_ascii=False) for name in names]
    starts = [f'{{"label": {name}, "probabilities": {{' for name in quoted]
    before = [f"{', ' * (number > 0)}{name}: " for number, name in enumerate(quoted)]
    ends = [f"}}, {end}\n" for end in _json_ends()]
    return _encoded(starts), _encoded(before), _encoded(ends)


def _encoded(parts: Sequence[str]) -> tuple[bytes, ...]:
    return tuple(part.encode() for part in parts)


def _json_ends() -> list[str]:
    import json

    return [json.dumps(Prediction(truncated=bool(flags & 1), empty=flags > 1).to_dict())[1:] for flags in range(4)]


def _not_finite() -> Exception:
    from mixling.answers.labels import not_finite

    return not_finite()
