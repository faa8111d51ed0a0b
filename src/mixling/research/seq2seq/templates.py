"""Templates that turn rows of GLUE and SuperGLUE into pairs of texts, as in T5.

Source: Raffel et al., Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer (2020),
section 2.4 and appendix D: the task's name, then each field, preceded by its name; the target is the label's name. The
order of fields is the appendix's. Differences and additions:

- BoolQ, which is not in the appendix, has the question first (T5's code has the passage first), so that truncation
  keeps it.
- WSC: T5 generates the noun, is trained on the true rows only, and compares generations with the candidate by rules.
  Here the candidate is given (`noun:`) and the target is True or False, so that false rows are used as well and exact
  match is the task's accuracy. The pronoun is between asterisks, as in T5.
- A field may be empty if another is not: the official files of QQP and MultiRC have such rows.
- COPA's targets are choice1 and choice2, ReCoRD's entities are listed once each, fields are stripped.
- WiC has no part of speech, which SuperGLUE's rows do not have.
- STS-B's numbers are rounded to .2, halves to even; metrics compare with the rounded number as well.
- SNLI and ConjNLI, which T5 does not have, are as MNLI under their own names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mixling.data.readers.rows import Row
from mixling.errors import ConfigError, DataError, near_miss
from mixling.research.seq2seq.flatten import FlatPart, identity, multirc, problem, record, wsc
from mixling.research.seq2seq.pair import Pair

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

TemplateColumns = tuple[str, ...]
"""The names that a column may have: the first is the task's own; the first one in a row is read."""

HIGHEST = 5.0
"""The maximum of STS-B's numbers; the minimum is 0."""

_NO_LABEL: tuple[Any, ...] = (None, "", -1, "-1", "-", [])  # in JSON, CSV, hubs, SNLI (annotators disagree), ReCoRD
_BOTH = ("False", "True")
_NLI = ("entailment", "neutral", "contradiction")


@dataclass(frozen=True, kw_only=True)
class Template:
    """The rules by which rows of a task become pairs.

    Attributes:
        name: the name of the task, with which sources begin.
        fields: the fields of the source, in order, with their columns.
        label: the columns of the label.
        labels: the names of labels, in the order of their ids; empty if targets are not labels.
        metrics: the metrics of the benchmark for this task (see `mixling.research.seq2seq.metrics`).
        flatten: yields the flat examples of a row.
        columns: the columns that a row must have, if they differ from the fields and the label.
        parse_label: returns the correct targets for a label, or an error message.
    """

    name: str
    fields: Mapping[str, TemplateColumns]
    label: TemplateColumns = ("label",)
    labels: tuple[str, ...] = ()
    metrics: tuple[Metric, ...] = ("accuracy",)
    flatten: Callable[[Row], Iterator[FlatPart]] = identity
    columns: tuple[TemplateColumns, ...] | None = None
    parse_label: Callable[[Template, Any], tuple[str, ...] | str] | None = None

    def check_columns(self, row: Row, *, labeled: bool) -> None:
        """Check that the row has the columns, but not values that are nested in them.

        Raises:
            DataError: one is missing.
        """
        for columns in self.columns or (*self.fields.values(), self.label):
            if (labeled or columns != self.label) and not any(name in row.values for name in columns):
                names = " or ".join(map(repr, columns))
                known = near_miss(columns[0], row.values) if row.values else "there are none"
                line = row.line if row.own_columns else None
                message = f"no column {names}, which the template {self.name} needs; among the columns, {known}"
                raise DataError(message, path=row.path, line=line)

    def pairs(self, row: Row, *, labeled: bool, training: bool = True) -> list[Pair]:
        """Return the pairs of a row: one, except for MultiRC (one for each answer) and ReCoRD (one for each query).

        Args:
            labeled: whether a label is required; False: it is read if present.
            training: True: a pair for each correct target; False: one pair with all of them, the first as its target.

        Raises:
            DataError: the row cannot be used.
        """
        pairs = [pair for part in self.flatten(row) for pair in self._pairs(row, part, labeled, training)]
        if not pairs:
            raise problem(row, f"has no questions, which the template {self.name} needs")
        return pairs

    def _pairs(self, row: Row, part: FlatPart, labeled: bool, training: bool) -> Iterator[Pair]:
        texts = {name: _text(row, part, columns) for name, columns in self.fields.items()}
        if not any(texts.values()):
            raise problem(row, f"{part.where}{' and '.join(map(repr, texts))}: empty, and a text is needed")
        source = " ".join([self.name, *(f"{name}: {text}" for name, text in texts.items())])
        right = self._right(row, part, labeled=labeled)
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

    def _right(self, row: Row, part: FlatPart, *, labeled: bool) -> tuple[str, ...]:
        name = _present(part, self.label)
        value = part.values.get(name)
        value = value.strip() if isinstance(value, str) else value
        if value in _NO_LABEL:
            if labeled:
                allowed = f"; allowed: {', '.join(self.labels)}" if self.labels else ""
                raise problem(row, f"{part.where}there is no label ({name!r} is {value!r}){allowed}")
            return ()
        right = (self.parse_label or _label)(self, value)
        if isinstance(right, str):
            raise problem(row, f"{part.where}column {name!r} holds {str(value)[:40]!r}; {right}")
        return right


def _text(row: Row, part: FlatPart, columns: TemplateColumns) -> str:
    name = _present(part, columns)
    value = part.values.get(name)
    if value is None:
        raise problem(row, f"{part.where}{name!r} is missing, and a text is needed")
    if not isinstance(value, str):
        got = f"{type(value).__name__} ({str(value)[:40]})"
        raise problem(row, f"{part.where}{name!r} is not text but {got}")
    return value.strip()


def _present(part: FlatPart, columns: TemplateColumns) -> str:
    return next((name for name in columns if name in part.values), columns[0])


def _label(template: Template, value: Any) -> tuple[str, ...] | str:
    """Return the label with a name (in any case) or number; booleans are names of the labels False and True."""
    if isinstance(value, float) and value.is_integer():  # Parquet columns with empty cells hold integers as floats
        value = int(value)
    known = {label.lower(): label for label in template.labels} | {
        str(i): label for i, label in enumerate(template.labels)
    }
    label = known.get(str(value).lower())
    if label is None:
        return f"{near_miss(str(value), template.labels)}, or their numbers, 0 to {len(template.labels) - 1}"
    return (label,)


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
        return "a list of non-empty entities is allowed"
    return tuple(dict.fromkeys(entity.strip() for entity in value))


def _nli(name: str) -> Template:
    premise = ("premise", "sentence1", "text")
    hypothesis = ("hypothesis", "sentence2", "text_pair")
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
        flatten=multirc,
        columns=(("passage", "paragraph"),),
    ),
    Template(
        name="record",
        fields={name: (name,) for name in ("query", "entities", "passage")},
        metrics=("squad_f1", "squad_exact_match"),
        flatten=record,
        columns=(("passage",),),
        parse_label=_entities,
    ),
    Template(name="rte", fields=_SENTENCES, labels=("entailment", "not_entailment")),
    Template(name="wic", fields={name: (name,) for name in ("sentence1", "sentence2", "word")}, labels=_BOTH),
    Template(
        name="wsc",
        fields={"noun": ("noun",), "text": ("text",)},
        labels=_BOTH,
        flatten=wsc,
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
    Template(
        name="stsb", fields=_SENTENCES, label=("label", "score"), metrics=("pearson", "spearman"), parse_label=_rounded
    ),
    _nli("mnli"),
    Template(
        name="qnli",
        fields={"question": ("question", "text"), "sentence": ("sentence", "text_pair")},
        labels=("entailment", "not_entailment"),
    ),
    Template(name="wnli", fields=_SENTENCES, labels=("not_entailment", "entailment")),
    # Natural language inference outside of both
    _nli("snli"),
    _nli("conjnli"),
)

TEMPLATES: Mapping[str, Template] = {template.name: template for template in _ALL}


def find_template(name: str) -> Template:
    """Return the template of a task.

    Raises:
        ConfigError: there is no such template.
    """
    if name not in TEMPLATES:
        raise ConfigError(f"unknown template {name!r}; {near_miss(name, TEMPLATES)}")
    return TEMPLATES[name]
