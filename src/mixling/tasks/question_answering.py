"""Question answering: the span of a context that answers a question, or no answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from mixling.answers.labels import LabelSet
from mixling.answers.predictions import Prediction
from mixling.data.cells import read_cell
from mixling.data.config import ColumnsConfig
from mixling.data.dataset import Dataset
from mixling.data.examples import Example, RowReader
from mixling.data.readers.rows import SKIP, Row
from mixling.data.readers.squad import read_answers
from mixling.data.values import is_blank, row_error, shown_value, string_of
from mixling.errors import DataError, printable
from mixling.metrics.base import Score
from mixling.metrics.quantization import QuantizationCheck, quantization_check
from mixling.metrics.squad import AnswerMetrics, answer_report, score_answer
from mixling.tasks.base import Choice, Task
from mixling.tasks.objective import LossTerms
from mixling.tasks.sample import Sample
from mixling.text.encoder import Encoded, Text
from mixling.text.words import split_words, word_spans

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor

    from mixling.networks.config import Output

ANSWER_ENDS = LabelSet(("start", "end"), "span")
"""The two numbers that a model has for each token: how likely an answer starts there, and ends there."""

_SAMPLE = 1000  # questions to sample
# columns of files in which a question has one answer
_ANSWERS = ("answer", "answer_text")
_START = "answer_start"


class QuestionReader(RowReader):
    """Reads a question, a context, and answers in the formats of `read_answers`.

    The start of a single answer may be in a column `answer_start`. An `id` is a string or an integer, unique in all
    sources.
    """

    wanted = ("question", "context", "answers")
    further = (*_ANSWERS, _START)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._ids: set[str] = set()

    def column(self, key: str, row: Row) -> str | None:
        name = super().column(key, row)
        is_default = key == "answers" and name == ColumnsConfig.model_fields[key].default
        others = (other for other in _ANSWERS if is_default and name not in row.values and other in row.values)
        return next(others, name)

    def example(self, row: Row) -> Example:
        columns = self.columns
        name = row.values.get("id")
        if name is not None and (isinstance(name, bool) or not isinstance(name, str | int)):
            got = shown_value(name)
            raise row_error(row, f"column 'id' is {got}; a string or an integer is allowed; correct it {SKIP}")
        question = string_of(row, columns.question, needs_words=True)
        text = (question, string_of(row, columns.context, needs_words=True))
        answers = None
        value = read_cell(row.values.get(self.column("answers", row) or ""))
        start = row.values.get(_START)
        if isinstance(value, str) and not is_blank(start):
            value = {"text": value, "start": int(start) if isinstance(start, str) and start.isdecimal() else start}
        if self.labeled or value is not None:
            read = read_answers(value, text[1])
            if isinstance(read, str):
                where = "" if name is None else f"question {name!r}: "
                raise row_error(row, f"{where}{read}; correct the row {SKIP}")
            answers = read
        if name is not None:
            name = str(name)
            if name in self._ids:
                raise row_error(row, f"the id {name!r} occurs twice; give each question its own {SKIP}")
            self._ids.add(name)
        return Example(text, None, row.path, row.line, name, answers)


class QuestionAnswering(Task):
    """Start and end of an answer: the mean of two cross-entropies over the tokens of a window.

    The softmax is over the separator and the context after it; the separator means "no answer here", like BERT's [CLS]
    on SQuAD 2.0. Targets come from `EncodedWindows.targets`. Label smoothing is over the same tokens.
    """

    name = "question_answering"
    kind = "span"
    gives = "an answer a question"
    output: Output = "tokens"
    metric = "f1"
    reader = QuestionReader
    own_columns = frozenset({"question", "context", "answers"})
    windows = True
    has_labels = False
    pipeline = "question-answering"
    card_metrics: ClassVar[Mapping[str, str]] = {"exact_match": "exact_match", "f1": "f1"}
    purpose = "finds the answer to a question in a text"
    usage = "prediction.answer.text, prediction.answer.start, prediction.answer.score"
    test_file = "test.json"
    may_be_cut = "question"
    csv_columns = ("answer", "start", "end", "score", "no_answer")
    headline = "f1"
    aside = ("exact_match",)
    resamples = "the questions"
    keeps = ("id",)

    @classmethod
    def recognize(cls, sample: Sample) -> str | None:
        names = sample.first.keys()
        if sample.names_text or not {"question", "context"} <= names or names.isdisjoint({"answers", *_ANSWERS}):
            return None
        return f"{sample.path} has questions, contexts and answers"

    @classmethod
    def label_set(cls, train: Dataset) -> LabelSet:
        return ANSWER_ENDS

    def check(self) -> None:
        if self.labels.names != ANSWER_ENDS.names:
            got = ", ".join(self.labels.names)
            raise DataError(f"got the labels {got}; where answers are found they are start and end")

    def targets(self, targets: Iterable[Any]) -> npt.NDArray[Any] | list[npt.NDArray[Any]]:
        return []  # targets belong to windows, which are made from the texts

    @classmethod
    def choose_model(cls, train: Dataset) -> Choice:
        """Return a mixer for up to 256 tokens that distinguishes question and context.

        Its tokens are subwords if answers begin or end within words, as in languages written without spaces.
        """
        lengths = []
        inside = 0
        answers = 0
        step = max(1, len(train) // _SAMPLE)
        for text, known in zip(train.texts[::step], train.answers[::step], strict=True):
            question = text[0]
            context = text[1]
            lengths.append(len(split_words(question)) + len(split_words(context)) + 1)
            answer = known.first
            if answer is not None:
                edges = {edge for span in word_spans(context, len(context)) for edge in span}
                answers += 1
                inside += not edges.issuperset(answer)
        within = inside > 0.05 * answers
        longest = 256 if within else int(np.quantile(lengths, 0.95))
        max_len = min(max(-(-longest // 32) * 32, 64), 256)
        tokens = "subwords" if within else "words"
        changes = {"text": {"max_len": max_len, "overlap": True, "segments": True, "tokens": tokens}}
        why = "questions and contexts" + ("; answers begin or end within words" if within else "")
        return Choice("mixling-mixer", changes, why)

    def loss(
        self, logits: Float[Tensor, "B N 2"], targets: Int[Tensor, "B 4"], weights: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        import torch

        separator = targets[:, :1]
        length = targets[:, 1:2]
        ends = targets[:, 2:]
        tokens = torch.arange(logits.shape[1], device=logits.device)
        allowed = ((tokens >= separator) & (tokens < length))[..., None]  # (B, N, 1)
        logs = logits.masked_fill(~allowed, -torch.inf).log_softmax(1)
        losses = -logs.gather(1, ends[:, None])[:, 0]  # (B, 2)
        smoothing = self.loss_config.label_smoothing
        if smoothing:
            others = -logs.masked_fill(~allowed, 0).sum(1) / allowed.sum(1)
            losses = (1 - smoothing) * losses + smoothing * others
        scale = torch.ones_like(losses[:, 0]) if weights is None else weights
        return (losses.mean(1) * scale).sum(), scale.sum()

    def loss_terms(self, *, transitions: bool) -> LossTerms:
        return LossTerms("spans", self.loss_config.label_smoothing)

    def logits_shape(self, texts: int, tokens: int) -> tuple[int, ...]:
        return (texts, tokens, len(self.labels))

    def decode(self, logits: npt.NDArray[Any], encoded: Encoded, text: Text) -> Prediction:
        raise AssertionError("answers are found in windows, see `find_answer`")

    def evaluate(self, outputs: Sequence[Any], targets: Any, *, tables: bool = True) -> AnswerMetrics:
        return answer_report(outputs, targets)

    def score(self, targets: Sequence[Any], answers: Sequence[Any]) -> Score:
        """Score the texts of answers, "" for none, against the right ones."""
        scores = np.array([score_answer(text, right) for text, right in zip(answers, targets, strict=True)])

        def metrics(rows: npt.NDArray[np.int64]) -> dict[str, float]:
            return dict(zip(("exact_match", "f1"), scores[rows].mean(0).tolist(), strict=True))

        return Score(metrics(np.arange(len(scores))), len(scores), metrics)

    @classmethod
    def answer(cls, prediction: Prediction, text: Text) -> str:
        return "" if prediction.answer is None else prediction.answer.text

    @classmethod
    def constant(cls, targets: Sequence[Any]) -> Callable[[Text], str]:
        """Return what gives every question no answer."""
        return lambda text: ""

    def compare_quantized(self, before: Sequence[Any], after: Sequence[Any], targets: Any) -> QuantizationCheck:
        """Compare answers: agreement counts whole answers, accuracy is exact match."""
        changed = [(a, b, right) for a, b, right in zip(before, after, targets, strict=True) if a != b]
        lost = [int(score_answer(a, right)[0]) - int(score_answer(b, right)[0]) for a, b, right in changed]
        return quantization_check(np.array(lost, np.int64), changed=len(changed), decisions=len(before))

    @classmethod
    def sample_inputs(cls, *, pairs: bool) -> list[str]:
        return ["--question", "a question", "--context", "a text"]

    @classmethod
    def card_inputs(cls, *, pairs: bool) -> tuple[str, str]:
        return '--question "..." --context "..."', '("a question", "the text that may answer it")'

    def card_outputs(self, reading: Mapping[str, Any]) -> tuple[str, str]:
        threshold = reading["threshold"]
        none = (
            "It always gives one, also where there is none: no training question lacked an answer."
            if threshold is None
            else "It answers that there is none if the score of that exceeds the best answer's by more than "
            f"{threshold:.3g}."
        )
        text = f"An answer is a span of at most {reading['max_answer']} tokens, with its character offsets.\n{none}"
        return "Answers", text

    @classmethod
    def card_limits(cls, text: Mapping[str, Any], reading: Mapping[str, Any]) -> str:
        asked = min(reading["max_question"], text["max_len"] // 2)
        return f"""- It reads the first {asked} {text["tokens"]} of a question; `prediction.truncated` is true if there
  were more. Texts of any length are read, in overlapping windows of {text["max_len"]} {text["tokens"]} with the
  question: the score of an answer depends on the text in its window only.
- Exact match and F1 are SQuAD's, which leave out English articles and ASCII punctuation."""

    @classmethod
    def csv_values(cls, prediction: Prediction) -> list[Any]:
        values = prediction.to_dict()
        values |= {"score": f"{values['score']:.6f}", "no_answer": str(values["no_answer"]).lower()}
        return [values[key] for key in cls.csv_columns]

    @classmethod
    def lines(cls, prediction: Prediction) -> list[str]:
        answer = prediction.answer
        assert answer is not None
        span = f"{printable(answer.text)}  (characters {answer.start} to {answer.end})"
        return [f"{'(no answer)' if answer.is_none else span}  {answer.score:.1%}"]
