"""Begin a task: write its file and its test, with the members that an author has to think about.

    python tools/new.py task NAME

The new task predicts one label for a text and can be trained at once: `mixling train rows.csv --task NAME`. Change what
differs; `src/mixling/tasks/base.py` has what else a task can state. `make picture` writes the task into the reference.
"""

from __future__ import annotations

import argparse
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

TASK = '''"""{title}: say here what is predicted, and how it is learned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from mixling.answers.predictions import Prediction
from mixling.data.examples import Target
from mixling.metrics.base import ClassificationMetrics, Score
from mixling.metrics.quantization import QuantizationCheck, compare_quantized
from mixling.metrics.reports import classification_report
from mixling.tasks.base import Task
from mixling.tasks.classification import LabelReader
from mixling.text.encoder import Encoded, Text

if TYPE_CHECKING:
    from torch import Tensor

    from mixling.networks import Output


class {class_name}(Task):
    """{title}."""

    # How it is learned and decoded
    name = "{name}"
    kind = "{name}"
    gives = "one label a text"
    output: Output = "text"
    metric = "accuracy"
    reader = LabelReader

    def targets(self, targets: Iterable[Any]) -> npt.NDArray[np.int64]:
        return self.labels.ids(targets)

    def loss(self, logits: Tensor, targets: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        import torch
        from torch.nn import functional as F

        losses = F.cross_entropy(logits, targets, reduction="none", label_smoothing=self.loss_config.label_smoothing)
        scale = torch.ones_like(losses) if weights is None else weights
        return (losses * scale).sum(), scale.sum()

    def decode(self, logits: npt.NDArray[Any], encoded: Encoded, text: Text) -> Prediction:
        label = self.labels.names[int(self.probabilities(logits).argmax())]
        return Prediction(label=label, truncated=encoded.truncated, empty=encoded.is_empty)

    def evaluate(self, outputs: Sequence[Any], targets: Any, *, tables: bool = True) -> ClassificationMetrics:
        probabilities = self.probabilities(np.stack(outputs))
        return classification_report(self.labels, np.asarray(targets), probabilities, unseen=self.unseen, tables=tables)

    def compare_quantized(self, before: Sequence[Any], after: Sequence[Any], targets: Any) -> QuantizationCheck:
        return compare_quantized(np.stack(before).argmax(-1), np.stack(after).argmax(-1), np.asarray(targets))

    # How it is presented and compared
    purpose = "assigns one of {{n}} labels to a text"
    usage = "prediction.label"
    card_metrics: ClassVar[Mapping[str, str]] = {{"accuracy": "accuracy"}}
    csv_columns = ("label",)
    headline = "accuracy"
    aside = ("macro_f1",)

    @classmethod
    def lines(cls, prediction: Prediction) -> list[str]:
        return [str(prediction.label)]

    @classmethod
    def csv_values(cls, prediction: Prediction) -> list[Any]:
        return [prediction.label]

    @classmethod
    def answer(cls, prediction: Prediction, text: Text) -> Target:
        return prediction.label

    def score(self, targets: Sequence[Target], answers: Sequence[Target]) -> Score:
        task = self.with_unknown(targets, answers)
        truth = np.asarray(task.targets(targets))
        predicted = np.asarray(task.targets(answers))
        report = classification_report(task.labels, truth, np.eye(len(task.labels))[predicted], tables=False)
        numbers = report.numbers()
        hits = np.asarray(truth == predicted, np.float64)
        return Score({{key: numbers[key] for key in (self.headline, *self.aside)}}, hits, np.ones(len(hits)))
'''

TEST = '''"""{title}: state here what the tests compare with."""

from __future__ import annotations

import numpy as np

from mixling.answers import LabelSet
from mixling.tasks import task_type


def test_the_greatest_logit_decides() -> None:
    task = task_type("{name}")(LabelSet(("no", "yes"), "{name}"))
    report = task.evaluate(np.array([[1.0, 2.0], [3.0, 0.0]]), task.targets(["yes", "yes"])).numbers()
    assert report["accuracy"] == 0.5
'''


def write(name: str, root: Path) -> list[Path]:
    """Write the files of a task.

    Raises:
        SystemExit: the name is no name of a Python file, or taken.
    """
    if not name.isidentifier() or name != name.lower():
        raise SystemExit(f"error: {name!r}: a task is named like a Python file: lower case, digits and _")
    values = {"name": name, "class_name": name.title().replace("_", ""), "title": name.replace("_", " ").capitalize()}
    files = {
        root / "src" / "mixling" / "tasks" / f"{name}.py": TASK,
        root / "tests" / "tasks" / f"test_{name}.py": TEST,
    }
    for path in files:
        if path.exists():
            raise SystemExit(f"error: {path} exists; choose another name")
    for path, template in files.items():
        path.write_text(template.format(**values), "utf-8")
    return list(files)


def main() -> None:
    """Read the arguments, write the files and print what to do with them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("concept", choices=["task"])
    parser.add_argument("name")
    options = parser.parse_args()
    paths = [path.relative_to(ROOT) for path in write(options.name, ROOT)]
    for path in paths:
        print(path)
    print(f"next: python -m pytest {paths[-1]}")


if __name__ == "__main__":
    main()
