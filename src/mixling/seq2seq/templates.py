"""The rows of GLUE's and SuperGLUE's tasks as pairs of texts, as T5 puts them.

Source: Raffel et al., Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer (2020),
section 2.4 and appendix D: the task's name, then each field with its name before it; the target is the label's name.
Fields stand in the order of that appendix. Decided beyond it:

- BoolQ, which the appendix lacks, has the question first (T5's code has the passage first): a source that is cut keeps
  it.
- WSC. T5 learns to write the noun, from the rows that are true only, and to measure compares what was written with the
  candidate, by rules. Here the candidate is told (`noun:`) and the target is True or False, so that rows that are false
  are learnt from, too, and exact match is the task's accuracy. The pronoun stands between asterisks, as in T5.
- A field may be an empty string where another is not: the official files of QQP and MultiRC have such rows.
- COPA's targets are choice1 and choice2, ReCoRD's entities are told once each, outer spaces of a field are cut.
- WiC has no part of speech: SuperGLUE's rows lack it.
- STS-B's numbers are rounded to .2, halves to even; measures, too, compare with the rounded number.
- SNLI and ConjNLI, which T5 does not have, look like MNLI under their own names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mixling.data.readers.rows import Row
from mixling.errors import ConfigError, DataError, near_miss
from mixling.seq2seq import flatten as unfolding
from mixling.seq2seq.flatten import Part, problem
from mixling.seq2seq.pair import Pair

Metric = Literal[
    "accuracy",
    "f1",
    "f1a",
    "macro_f1",
    "matthews",
    "pearson",
    "question_exact_match",
    "spearman",
    "squad_exact_match",
    "squad_f1",
]

Columns = tuple[str, ...]
"""The names that a column may have: the first is the task's own, and the first that stands in a row is read."""

HIGHEST = 5.0
"""Of STS-B's numbers, which begin at 0."""

_NO_LABEL: tuple[Any, ...] = (None, "", -1, "-1", "-", [])  # of JSON, CSV, hubs; SNLI where judges disagreed; ReCoRD
_BOTH = ("False", "True")
_NLI = ("entailment", "neutral", "contradiction")


@dataclass(frozen=True, kw_only=True)
class Template:
    """How a row of a task becomes pairs.

    Attributes:
        name: the task's; a source begins with it.
        fields: of the source, in its order, with their columns.
        label: the columns of the label.
        labels: in the order of the task's integers; empty where a target is no label.
        metrics: that the benchmark takes the task's score from (see `mixling.seq2seq.metrics`).
        flatten: the flat examples of a row.
        columns: that a row must have where they are not those of the fields and the label.
        right: of a label, the right answers, or what is wrong with it.
    """

    name: str
    fields: Mapping[str, Columns]
    label: Columns = ("label",)
    labels: tuple[str, ...] = ()
    metrics: tuple[Metric, ...] = ("accuracy",)
    flatten: Callable[[Row], Iterator[Part]] = unfolding.whole
    columns: tuple[Columns, ...] | None = None
    right: Callable[[Template, Any], tuple[str, ...] | str] | None = None

    def check_columns(self, row: Row, *, labeled: bool) -> None:
        """Whether the row has the columns; of what is nested in them this says nothing.

        Raises:
            DataError: one is missing.
        """
        for columns in self.columns or (*self.fields.values(), self.label):
            if (labeled or columns != self.label) and not any(name in row.values for name in columns):
                names = " or ".join(map(repr, columns))
                known = near_miss(columns[0], row.values) if row.values else "there are none"
                line = row.line if row.own_columns else None
                message = f"no column {names}, which the form {self.name} reads; of the row's columns, {known}"
                raise DataError(message, path=row.path, line=line)

    def pairs(self, row: Row, *, labeled: bool, training: bool = True) -> list[Pair]:
        """The row's pairs: one, but for MultiRC (one for each answer) and ReCoRD.

        Args:
            labeled: False reads rows to answer: a label is read where it stands, and may be missing.
            training: True gives a pair for each right answer; False one for all, with the first as its target.

        Raises:
            DataError: the row cannot be used.
        """
        found = [pair for part in self.flatten(row) for pair in self._pairs(row, part, labeled, training)]
        if not found:
            raise problem(row, f"has nothing to answer, which the form {self.name} needs")
        return found

    def _pairs(self, row: Row, part: Part, labeled: bool, training: bool) -> Iterator[Pair]:
        texts = {name: _text(row, part, columns) for name, columns in self.fields.items()}
        if not any(texts.values()):
            raise problem(row, f"{part.where}{' and '.join(map(repr, texts))}: empty, and a text is needed")
        source = " ".join([self.name, *(f"{name}: {text}" for name, text in texts.items())])
        right = self._right(row, part, labeled)
        targets: tuple[str | None, ...] = (right if training else right[:1]) or (None,)
        for target in targets:
            yield Pair(
                source=source,
                target=target,
                path=row.path,
                line=row.line,
                question=part.question,
                references=right if len(right) > 1 else (),
            )

    def _right(self, row: Row, part: Part, labeled: bool) -> tuple[str, ...]:
        name = _present(part, self.label)
        value = part.values.get(name)
        value = value.strip() if isinstance(value, str) else value
        if value in _NO_LABEL:
            if labeled:
                allowed = f"; allowed: {', '.join(self.labels)}" if self.labels else ""
                raise problem(row, f"{part.where}there is no label ({name!r} is {value!r}){allowed}")
            return ()
        right = (self.right or _label)(self, value)
        if isinstance(right, str):
            raise problem(row, f"{part.where}column {name!r} holds {str(value)[:40]!r}; {right}")
        return right


def _text(row: Row, part: Part, columns: Columns) -> str:
    name = _present(part, columns)
    value = part.values.get(name)
    if value is None:
        raise problem(row, f"{part.where}{name!r} is missing, and a text is needed")
    if not isinstance(value, str):
        got = f"{type(value).__name__} ({str(value)[:40]})"
        raise problem(row, f"{part.where}{name!r} is not text but {got}")
    return value.strip()


def _present(part: Part, columns: Columns) -> str:
    return next((name for name in columns if name in part.values), columns[0])


def _label(template: Template, value: Any) -> tuple[str, ...] | str:
    """A label by its name, in any case, or by its number; a boolean is one where the labels are False and True."""
    if isinstance(value, float) and value.is_integer():  # as a column of Parquet with empty cells holds integers
        value = int(value)
    known = {label.lower(): label for label in template.labels} | {
        str(i): label for i, label in enumerate(template.labels)
    }
    found = known.get(str(value).lower())
    if found is None:
        return f"{near_miss(str(value), template.labels)}, or their numbers, 0 to {len(template.labels) - 1}"
    return (found,)


def _rounded(template: Template, value: Any) -> tuple[str, ...] | str:
    try:
        number = float("nan") if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if not 0 <= number <= HIGHEST:
        return f"a number from 0 to {HIGHEST:g} is allowed"
    return (f"{round(number * 5) / 5:.1f}",)


def _entities(template: Template, value: Any) -> tuple[str, ...] | str:
    if not isinstance(value, list) or not all(isinstance(entity, str) and entity.strip() for entity in value):
        return "a list of right entities is allowed, none of them empty"
    return tuple(dict.fromkeys(entity.strip() for entity in value))


def _nli(name: str) -> Template:
    premise, hypothesis = ("premise", "sentence1", "text"), ("hypothesis", "sentence2", "text_pair")
    fields = {"hypothesis": hypothesis, "premise": premise}
    return Template(name=name, fields=fields, labels=_NLI, label=("label", "gold_label"))


_SENTENCE = {"sentence": ("sentence", "text")}
_SENTENCES = {"sentence1": ("sentence1", "premise", "text"), "sentence2": ("sentence2", "hypothesis", "text_pair")}
_MRPC = {"sentence1": ("sentence1", "#1 String", "text"), "sentence2": ("sentence2", "#2 String", "text_pair")}
_QQP = {"question1": ("question1", "text"), "question2": ("question2", "text_pair")}
_CB = {"hypothesis": ("hypothesis", "text_pair"), "premise": ("premise", "text")}

_ALL = (
    # SuperGLUE
    Template(
        name="boolq", fields={"question": ("question", "text"), "passage": ("passage", "text_pair")}, labels=_BOTH
    ),
    Template(
        name="cb", fields=_CB, labels=("entailment", "contradiction", "neutral"), metrics=("accuracy", "macro_f1")
    ),
    Template(
        name="copa",
        fields={name: (name,) for name in ("choice1", "choice2", "premise", "question")},
        labels=("choice1", "choice2"),
    ),
    Template(
        name="multirc",
        fields={name: (name,) for name in ("question", "answer", "paragraph")},
        labels=_BOTH,
        metrics=("f1a", "question_exact_match"),
        flatten=unfolding.multirc,
        columns=(("passage", "paragraph"),),
    ),
    Template(
        name="record",
        fields={name: (name,) for name in ("query", "entities", "passage")},
        metrics=("squad_f1", "squad_exact_match"),
        flatten=unfolding.record,
        columns=(("passage",),),
        right=_entities,
    ),
    Template(name="rte", fields=_SENTENCES, labels=("entailment", "not_entailment")),
    Template(name="wic", fields={name: (name,) for name in ("sentence1", "sentence2", "word")}, labels=_BOTH),
    Template(
        name="wsc",
        fields={"noun": ("noun",), "text": ("text",)},
        labels=_BOTH,
        flatten=unfolding.wsc,
        columns=(("text",), ("target", "text_pair", "span2_text"), ("label",)),
    ),
    # GLUE
    Template(name="cola", fields=_SENTENCE, labels=("unacceptable", "acceptable"), metrics=("matthews",)),
    Template(name="sst2", fields=_SENTENCE, labels=("negative", "positive")),
    Template(
        name="mrpc",
        fields=_MRPC,
        label=("label", "Quality"),
        labels=("not_equivalent", "equivalent"),
        metrics=("f1", "accuracy"),
    ),
    Template(
        name="qqp",
        fields=_QQP,
        label=("label", "is_duplicate"),
        labels=("not_duplicate", "duplicate"),
        metrics=("f1", "accuracy"),
    ),
    Template(name="stsb", fields=_SENTENCES, label=("label", "score"), metrics=("pearson", "spearman"), right=_rounded),
    _nli("mnli"),
    Template(
        name="qnli",
        fields={"question": ("question", "text"), "sentence": ("sentence", "text_pair")},
        labels=("entailment", "not_entailment"),
    ),
    Template(name="wnli", fields=_SENTENCES, labels=("not_entailment", "entailment")),
    # Entailment that belongs to neither
    _nli("snli"),
    _nli("conjnli"),
)

TEMPLATES: Mapping[str, Template] = {template.name: template for template in _ALL}


def find_template(name: str) -> Template:
    """The form of a task.

    Raises:
        ConfigError: there is none of this name.
    """
    if name not in TEMPLATES:
        raise ConfigError(f"unknown form {name!r}; {near_miss(name, TEMPLATES)}")
    return TEMPLATES[name]
