"""Measures of written answers, against counts by hand, loops after the definitions, and scikit-learn and scipy."""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import pytest
import sacrebleu
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import f1_score, matthews_corrcoef

from mixling import ConfigError, DataError, UserError
from mixling.data import OnBadRow
from mixling.metrics import format_table
from mixling.research.seq2seq import TEMPLATES, Pair, PairColumns, read_pairs
from mixling.research.seq2seq.metrics import TextMetrics, text_report
from mixling.research.seq2seq.templates import Metric


def pairs(targets: Sequence[str], **more: Sequence[Any]) -> list[Pair]:
    """Pairs with the targets; of `more`, each has its own."""
    rows = [dict(zip(more, values, strict=True)) for values in zip(*more.values(), strict=True)] or [{}] * len(targets)
    return [
        Pair(source="s", target=target, path="f.jsonl", line=line, **row)
        for line, (target, row) in enumerate(zip(targets, rows, strict=True), 1)
    ]


def drawn(labels: Sequence[str], size: int, seed: int, *junk: str) -> tuple[list[str], list[str]]:
    """What is right, and answers that may be `junk`, too."""
    draw = random.Random(seed)
    return draw.choices(labels, k=size), draw.choices([*labels, *junk], k=size)


def f1(right: Sequence[bool], given: Sequence[bool]) -> float:
    both = sum(r and g for r, g in zip(right, given, strict=True))
    return 2 * both / (sum(right) + sum(given)) if any(right) or any(given) else 0.0


def test_exact_match_ignores_outer_white_space_only() -> None:
    right = pairs(["a cat", "a cat", "a cat", "a cat", " a cat\n"])
    report = text_report([" a cat\n", "A cat", "a  cat", "a cat.", "a cat"], right)
    assert (report.n, report.exact_match) == (5, 2 / 5)
    assert report.numbers() == {"exact_match": 2 / 5}
    assert report.score is report.no_label is report.bleu is None
    assert not report.groups


def test_any_right_answer_counts() -> None:
    right = pairs(["x", "x", "x"], references=[("x", "y"), ("x", "y"), ()])
    assert text_report(["y", "z", "y"], right).exact_match == 1 / 3


def test_kinds() -> None:
    right = pairs(["a", "b", "c", "d"], group=["short", "long", "short", None])
    report = text_report(["-", "b", "c", "-"], right)
    assert [(group.group, group.n, group.exact_match) for group in report.groups] == [
        ("long", 1, 1.0),
        ("short", 2, 0.5),
    ]


@pytest.mark.parametrize(
    "template", [name for name, template in TEMPLATES.items() if template.metrics == ("accuracy",)]
)
def test_accuracy(template: str) -> None:
    right, given = drawn(TEMPLATES[template].labels, 40, 1, "maybe")
    report = text_report(given, pairs(right), template=template)
    hits = sum(r == g for r, g in zip(right, given, strict=True))
    assert report.numbers() == pytest.approx(
        {"accuracy": hits / 40, "exact_match": hits / 40, "score": hits / 40, "no_label": given.count("maybe") / 40}
    )


@pytest.mark.parametrize("template", ["mrpc", "qqp"])
def test_an_answer_that_is_no_label_is_the_other_one_in_f1(template: str) -> None:
    no, yes = TEMPLATES[template].labels
    right, given = drawn((no, yes), 60, 2, "maybe", yes.upper())
    other = {no: yes, yes: no}
    meant = [g if g in other else other[r] for r, g in zip(right, given, strict=True)]
    report = text_report(given, pairs(right), template=template)
    accuracy = sum(r == g for r, g in zip(right, given, strict=True)) / 60
    expected = f1([r == yes for r in right], [m == yes for m in meant])
    assert list(report.metrics) == ["f1", "accuracy"]
    assert report.metrics == pytest.approx({"f1": expected, "accuracy": accuracy})
    assert report.metrics["f1"] == pytest.approx(f1_score(right, meant, pos_label=yes))
    assert report.score == pytest.approx((expected + accuracy) / 2)
    assert report.no_label == pytest.approx(sum(g not in other for g in given) / 60)
    # 2 of 3 that are to be yes are said so, one no is taken for yes: precision and recall 2/3
    by_hand = text_report([yes, yes, "?", "?", no], pairs([yes, yes, yes, no, no]), template=template)
    assert by_hand.metrics == pytest.approx({"f1": 2 / 3, "accuracy": 3 / 5})
    assert text_report([no, no], pairs([no, no]), template=template).metrics["f1"] == 0


def test_cb_is_the_mean_of_accuracy_and_macro_f1() -> None:
    labels = TEMPLATES["cb"].labels
    right, given = drawn(labels, 50, 3)
    report = text_report(given, pairs(right), template="cb")
    accuracy = sum(r == g for r, g in zip(right, given, strict=True)) / 50
    macro = sum(f1([r == c for r in right], [g == c for g in given]) for c in labels) / 3
    assert report.metrics == pytest.approx({"accuracy": accuracy, "macro_f1": macro})
    assert report.score == pytest.approx((accuracy + macro) / 2)
    assert macro == pytest.approx(f1_score(right, given, average="macro"))
    # Right: e e c. "dunno" is a miss of e alone; n occurs nowhere. F1 of e: 2/3, of c: 1.
    report = text_report(
        ["entailment", "dunno", "contradiction"],
        pairs(["entailment", "entailment", "contradiction"]),
        template="cb",
    )
    assert report.metrics["macro_f1"] == pytest.approx((2 / 3 + 1) / 2)
    # A label that is only given counts, with F1 0.
    report = text_report(["neutral", "entailment"], pairs(["entailment", "entailment"]), template="cb")
    assert report.metrics["macro_f1"] == pytest.approx((2 / 3 + 0) / 2)


def test_multirc_by_its_definition() -> None:
    right, given = drawn(("False", "True"), 90, 4, "Truth")
    draw = random.Random(5)
    questions = [f"q{draw.randrange(30)}" for _ in right]
    given = [r if draw.random() < 0.7 else g for r, g in zip(right, given, strict=True)]
    report = text_report(given, pairs(right, question=questions), template="multirc")
    meant = [g if g in ("False", "True") else str(r == "False") for r, g in zip(right, given, strict=True)]
    whole = [
        all(r == g for r, g, q in zip(right, given, questions, strict=True) if q == name) for name in set(questions)
    ]
    assert 0 < sum(whole) < len(whole)
    assert report.metrics == pytest.approx(
        {
            "f1a": f1([r == "True" for r in right], [m == "True" for m in meant]),
            "question_exact_match": sum(whole) / len(whole),
        }
    )
    assert report.score == pytest.approx(sum(report.metrics.values()) / 2)


def test_record_is_normalized_and_takes_the_best_entity() -> None:
    right = pairs(
        ["New York", "the Bank of Oslo", "Rome", "Anna"],
        references=[("New York", "NYC"), (), (), ("Anna", "Anna Berg")],
    )
    report = text_report(["nyc.", "bank oslo", "Paris", "Miss Anna Berg"], right, template="record")
    # Words: nyc = nyc; {bank, oslo} of {bank, of, oslo}; none; {anna, berg} of {miss, anna, berg}.
    assert report.metrics == pytest.approx(
        {"squad_exact_match": 1 / 4, "squad_f1": (1 + 2 * 2 / (2 + 3) + 0 + 2 * 2 / (3 + 2)) / 4}
    )
    assert report.exact_match == 0
    assert report.no_label is None


def test_cola_is_matthews_correlation() -> None:
    no, yes = TEMPLATES["cola"].labels
    right, given = drawn((no, yes), 60, 6, "fine")
    other = {no: yes, yes: no}
    meant = [g if g in other else other[r] for r, g in zip(right, given, strict=True)]
    counts = {(r, m): 0 for r in other for m in other}
    for r, m in zip(right, meant, strict=True):
        counts[r, m] += 1
    tp, tn, fp, fn = counts[yes, yes], counts[no, no], counts[no, yes], counts[yes, no]
    expected = (tp * tn - fp * fn) / math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    report = text_report(given, pairs(right), template="cola")
    assert report.numbers()["matthews"] == pytest.approx(expected)
    assert report.metrics["matthews"] == pytest.approx(matthews_corrcoef(right, meant))
    assert text_report([yes, yes], pairs([yes, no]), template="cola").metrics["matthews"] == 0


def test_stsb_correlates_numbers() -> None:
    draw = random.Random(7)
    right = [f"{draw.randrange(26) / 5:.1f}" for _ in range(50)]
    given = [str(min(5, max(0, float(r) + draw.gauss(0, 1)))) for r in right]
    given[:6] = ["much", "nan", "inf", "-0.2", "5.2", ""]
    numbers = [0.0] * 6 + [float(g) for g in given[6:]]
    x, y = [float(r) for r in right], numbers
    report = text_report(given, pairs(right), template="stsb")

    def correlation(x: list[float], y: list[float]) -> float:
        mx, my = sum(x) / len(x), sum(y) / len(y)
        top = sum((a - mx) * (b - my) for a, b in zip(x, y, strict=True))
        return top / math.sqrt(sum((a - mx) ** 2 for a in x) * sum((b - my) ** 2 for b in y))

    def ranks(x: list[float]) -> list[float]:
        return [sum(b < a for b in x) + (sum(b == a for b in x) + 1) / 2 for a in x]

    assert report.metrics == pytest.approx({"pearson": correlation(x, y), "spearman": correlation(ranks(x), ranks(y))})
    assert report.metrics == pytest.approx({"pearson": pearsonr(x, y)[0], "spearman": spearmanr(x, y)[0]})
    assert report.no_label == pytest.approx(6 / 50)
    assert text_report(["4", "1.00"], pairs(["5.0", "0.0"]), template="stsb").numbers() == pytest.approx(
        {"pearson": 1, "spearman": 1, "score": 1, "exact_match": 0, "no_label": 0}
    )
    for same in (["3.0", "3.0"], ["a", "b"]):
        metrics = text_report(same, pairs(["1.0", "2.0"]), template="stsb").metrics
        assert metrics == {"pearson": 0, "spearman": 0}
    assert text_report(["1.0", "2.0"], pairs(["3.0", "3.0"]), template="stsb").metrics == {"pearson": 0, "spearman": 0}
    assert text_report(["1.0"], pairs(["1.0"]), template="stsb").score == 0


def test_bleu_and_chrf_are_sacrebleus() -> None:
    given = ["the cat sat on the mat", "a dog barked at night", "rain"]
    right = pairs(["the cat sat on a mat", "a dog barked", "rain fell"], references=[
        ("the cat sat on a mat", "the cat sat on the mat"), (), ("rain fell", "it rained", "rain")
    ])  # fmt: skip
    report = text_report(given, right, bleu=True)
    streams = [
        ["the cat sat on a mat", "a dog barked", "rain fell"],
        ["the cat sat on the mat", None, "it rained"],
        [None, None, "rain"],
    ]
    assert report.bleu == pytest.approx(sacrebleu.corpus_bleu(given, streams).score)
    assert report.chrf == pytest.approx(sacrebleu.corpus_chrf(given, streams).score)
    one = text_report(["a b c d e x"], pairs(["a b c d e f"]), bleu=True)
    # 5 of 6 words, 4 of 5 pairs, 3 of 4, 2 of 3; as long as what is right, so no penalty
    assert one.bleu == pytest.approx(100 * (5 / 6 * 4 / 5 * 3 / 4 * 2 / 3) ** 0.25)
    assert {"bleu", "chrf"} <= one.numbers().keys()
    assert "BLEU 75.98, chrF" in one.summary()


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_report_is_json_and_one_line(template: str) -> None:
    texts = {"stsb": ("1.0", "2.2"), "record": ("a", "b")}.get(template) or TEMPLATES[template].labels[:2]
    right = pairs(texts, question=["q", "r"], group=["k", "k"])
    report = text_report(list(texts), right, template=template)
    assert report.score == pytest.approx(1)
    assert tuple(report.metrics) == TEMPLATES[template].metrics
    assert set(report.metrics) < set(report.numbers())
    outputs = json.loads(json.dumps(report.to_dict()))
    assert outputs["metrics"] == report.metrics
    assert outputs["groups"] == [{"group": "k", "n": 2, "exact_match": 1.0}]
    assert outputs["n"] == 2
    assert format_table(report) == report.summary()
    assert report.summary().startswith("exact match 1.0000, ")
    assert report.summary().endswith(", 2 pairs")
    assert (", mean 1.0000" in report.summary()) == (len(report.metrics) > 1)


def test_answers_that_are_no_label_are_reported() -> None:
    report = text_report(["entails", "entailment"], pairs(["entailment"] * 2), template="rte")
    assert "50.00% not a label" in report.summary()
    assert "none of" not in text_report(["entailment"], pairs(["entailment"]), template="rte").summary()


def test_every_metric_is_of_some_form() -> None:
    assert {evaluate for template in TEMPLATES.values() for evaluate in template.metrics} == set(get_args(Metric))


@pytest.mark.parametrize(
    ("right", "template", "message"),
    [
        ([], None, "there is nothing to evaluate"),
        ([Pair(source="s", target=None, path="f", line=3)], None, "^f:3: there is no target"),
        (pairs(["yes"]), "rte", "^f.jsonl:1: the template rte has no label 'yes'; allowed: entailment, not_entailment"),
        (pairs(["yes"]), "stsb", "^f.jsonl:1: the template stsb allows numbers from 0 to 5; got 'yes'"),
        (pairs(["True"]), "multirc", "^f.jsonl:1: .* groups answers by question"),
    ],
)
def test_what_cannot_be_evaluated_is_reported(right: list[Pair], template: str | None, message: str) -> None:
    with pytest.raises(DataError, match=message):
        text_report(["a"] * len(right), right, template=template)


def test_an_unknown_form_is_reported_first() -> None:
    with pytest.raises(ConfigError, match="did you mean 'stsb'"):
        text_report([], [], template="sts-b")


@pytest.mark.parametrize(
    ("template", "bleu", "module", "package"),
    [
        ("cb", False, "sklearn.metrics", "scikit-learn"),
        ("stsb", False, "scipy.stats", "scipy"),
        (None, True, "sacrebleu", "sacrebleu"),
    ],
)
def test_a_missing_library_is_named(
    monkeypatch: pytest.MonkeyPatch, template: str | None, bleu: bool, module: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    targets = ["1.0", "2.0"] if template == "stsb" else ["neutral", "entailment"]
    with pytest.raises(UserError, match=rf'need {package}; install it by pip install .*\[torch\]"'):
        text_report(targets, pairs(targets), template=template, bleu=bleu)


@pytest.mark.parametrize(
    ("template", "file"),
    [("cb", "cb/dev"), ("cola", "cola/dev"), ("mrpc", "mrpc/dev"), ("multirc", "fewglue/MultiRC_train"),
     ("record", "fewglue/ReCoRD_train"), ("wsc", "wsc/dev"), ("stsb", "stsb/dev")],
)  # fmt: skip
def test_right_answers_of_real_rows_have_the_greatest_score(shared_data: Path, template: str, file: str) -> None:
    path = shared_data / f"{file}.jsonl.gz"
    right = list(read_pairs([path], columns=PairColumns(), on_bad_row=OnBadRow(), template=template, training=False))
    perfect: TextMetrics = text_report([pair.right[-1] for pair in right], right, template=template)
    assert perfect.score == pytest.approx(1)
    assert perfect.exact_match == 1
    assert not perfect.no_label
    nothing = text_report(["?"] * len(right), right, template=template)
    assert nothing.score == pytest.approx(-1 if template == "cola" else 0)


def test_rounding_leaves_stsbs_numbers_what_they_are(shared_data: Path) -> None:
    """Measures compare with rounded numbers, as T5's do: what is right then correlates with the numbers themselves."""
    path = shared_data / "stsb" / "dev.jsonl.gz"
    right = list(read_pairs([path], columns=PairColumns(), on_bad_row=OnBadRow(), template="stsb"))
    plain = PairColumns(source="text", target="text_pair", group="label")
    numbers = [pair.group or "" for pair in read_pairs([path], columns=plain, on_bad_row=OnBadRow())]
    assert min(text_report(numbers, right, template="stsb").metrics.values()) > 0.999
