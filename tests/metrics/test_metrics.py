"""Reports, against loops, counts by hand and cases with known answers."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from seqeval.metrics.sequence_labeling import precision_recall_fscore_support as span_scores
from sklearn.metrics import confusion_matrix, log_loss, precision_recall_fscore_support, roc_auc_score

from mixling import DataError
from mixling.answers import ConformalSets, LabelSet
from mixling.metrics import ClassificationMetrics, Metrics, format_table
from mixling.metrics.reports import MAX_TABLE_LABELS, classification_report, multilabel_report, tagging_report

THREE = LabelSet(("a", "b", "c"), "single")
TWO = LabelSet(("no", "yes"), "single")
TOPICS = LabelSet(("x", "y", "z"), "multi")
IOB = LabelSet(("O", "B-city", "I-city", "B-day", "I-day"), "iob")


def random_case(labels: int, rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet(np.ones(labels), size=rows)
    return rng.integers(0, labels, rows), probabilities


def f1(right: int, predicted: int, true: int) -> float:
    return 2 * right / (predicted + true) if predicted + true else 0.0


def area(hits: list[bool], scores: list[float]) -> float:
    """ROC-AUC by its meaning: how often a hit is scored above a miss, ties counting half."""
    pairs = [
        (p, q) for p, hit in zip(scores, hits, strict=True) if hit for q, h in zip(scores, hits, strict=True) if not h
    ]
    return sum(1.0 if p > q else 0.5 if p == q else 0.0 for p, q in pairs) / len(pairs)


@pytest.mark.parametrize("count", [3, MAX_TABLE_LABELS + 1])
def test_parts_of_the_rows_have_the_metrics_of_all(count: int) -> None:
    rng = np.random.default_rng(0)
    labels = LabelSet(tuple(f"label {number}" for number in range(count)), "single")
    probabilities = rng.dirichlet(np.ones(count), 50)
    targets = np.where(rng.random(50) < 0.5, probabilities.argmax(1), rng.integers(count, size=50))
    options = {
        "threshold": float(np.median(probabilities.max(1))),
        "conformal": ConformalSets(method="aps", coverage=0.9, quantile=0.5),
    }
    whole = classification_report(labels, targets, probabilities, **options)
    parts = (probabilities[first : first + 7] for first in range(0, 50, 7))
    assert classification_report(labels, targets, parts, **options) == whole
    assert (whole.roc_auc is None) == (count > MAX_TABLE_LABELS)
    assert 0 < whole.coverage < 1
    assert 0 < whole.set_coverage < 1


def test_classification_by_loops() -> None:
    targets, probabilities = random_case(3, 60)
    metrics = classification_report(THREE, targets, probabilities)
    predicted = [max(range(3), key=lambda c, row=row: row[c]) for row in probabilities]
    pairs = list(zip(targets.tolist(), predicted, strict=True))
    counts = [[sum(pair == (t, p) for pair in pairs) for p in range(3)] for t in range(3)]
    assert metrics.confusion == tuple(map(tuple, counts))
    assert metrics.n == 60
    assert metrics.accuracy == pytest.approx(sum(t == p for t, p in pairs) / 60)
    scores = []
    for c, row in enumerate(metrics.per_class):
        true, got = sum(t == c for t, _ in pairs), sum(p == c for _, p in pairs)
        assert row.label == THREE.names[c]
        assert row.precision == pytest.approx(counts[c][c] / got)
        assert row.recall == pytest.approx(counts[c][c] / true)
        assert row.support == true
        scores.append(f1(counts[c][c], got, true))
        assert row.f1 == pytest.approx(scores[-1])
    assert metrics.macro_f1 == pytest.approx(sum(scores) / 3)
    assert metrics.log_loss == pytest.approx(-sum(math.log(probabilities[i, t]) for i, t in enumerate(targets)) / 60)
    areas = [area((targets == c).tolist(), probabilities[:, c].tolist()) for c in range(3)]
    assert metrics.roc_auc == pytest.approx(sum(areas) / 3)


@pytest.mark.parametrize("classes", [2, 3])
def test_matthews_is_the_correlation_of_indicators(classes: int) -> None:
    targets, probabilities = random_case(classes, 60)
    found = classification_report((TWO, THREE)[classes - 2], targets, probabilities).matthews
    truth, given = np.eye(classes)[targets], np.eye(classes)[probabilities.argmax(1)]
    covariances = [
        sum(float(np.cov(a[:, c], b[:, c])[0, 1]) for c in range(classes))
        for a, b in ((truth, given), (truth, truth), (given, given))
    ]
    assert found == pytest.approx(covariances[0] / math.sqrt(covariances[1] * covariances[2]))
    if classes == 2:
        assert found == pytest.approx(np.corrcoef(targets, probabilities.argmax(1))[0, 1])
    always = np.tile(np.eye(classes)[0], (60, 1))
    assert classification_report((TWO, THREE)[classes - 2], targets, always).matthews == 0
    assert classification_report((TWO, THREE)[classes - 2], targets, np.eye(classes)[targets]).matthews == 1


def test_binary_auc_is_of_class_one() -> None:
    targets, probabilities = random_case(2, 40, seed=3)
    expected = area((targets == 1).tolist(), probabilities[:, 1].tolist())
    assert classification_report(TWO, targets, probabilities).roc_auc == pytest.approx(expected)
    perfect = classification_report(TWO, np.array([0, 1]), np.array([[0.9, 0.1], [0.2, 0.8]]))
    reverse = classification_report(TWO, np.array([1, 0]), np.array([[0.9, 0.1], [0.2, 0.8]]))
    assert (perfect.roc_auc, reverse.roc_auc) == (1.0, 0.0)


@pytest.mark.parametrize("seed", range(3))
def test_calibration_error_by_loops(seed: int) -> None:
    targets, probabilities = random_case(3, 200, seed)
    probabilities[0] = [1.0, 0.0, 0.0]  # the last bin is closed
    top, right = probabilities.max(1), probabilities.argmax(1) == targets
    expected = 0.0
    for b in range(15):
        members = [i for i in range(200) if b / 15 <= top[i] < (b + 1) / 15 or (b == 14 and top[i] == 1.0)]
        if members:
            gap = sum(right[i] for i in members) / len(members) - sum(top[i] for i in members) / len(members)
            expected += len(members) / 200 * abs(gap)
    assert classification_report(THREE, targets, probabilities).calibration_error == pytest.approx(expected)


def test_calibration_error_of_known_cases() -> None:
    half = np.tile([0.75, 0.25], (4, 1))
    assert classification_report(TWO, np.array([0, 0, 0, 1]), half).calibration_error == pytest.approx(0.0)
    assert classification_report(TWO, np.array([1, 1, 1, 1]), half).calibration_error == pytest.approx(0.75)
    # A probability of 1 shares the last bin: half of its two rows are right at a mean confidence of 0.975.
    certain = np.array([[1.0, 0.0], [0.95, 0.05]])
    assert classification_report(TWO, np.array([1, 0]), certain).calibration_error == pytest.approx(0.975 - 0.5)


def test_absent_classes_leave_the_macro_scores() -> None:
    # "b" is met nowhere, "c" is predicted but never true.
    probabilities = np.array([[0.8, 0.1, 0.1], [0.3, 0.1, 0.6]])
    metrics = classification_report(THREE, np.array([0, 0]), probabilities)
    assert metrics.macro_f1 == pytest.approx((2 / 3 + 0) / 2)
    assert metrics.roc_auc is None
    assert [row.support for row in metrics.per_class] == [2, 0, 0]
    assert [(row.precision, row.recall) for row in metrics.per_class] == [(1.0, 0.5), (0.0, 0.0), (0.0, 0.0)]
    metrics = classification_report(THREE, np.array([0, 2]), probabilities)
    assert metrics.roc_auc == 1.0  # of "a" and "c"
    assert metrics.accuracy == 1.0


def test_one_row_one_class() -> None:
    metrics = classification_report(TWO, np.array([1]), np.array([[0.25, 0.75]]))
    assert (metrics.accuracy, metrics.macro_f1, metrics.roc_auc) == (1.0, 1.0, None)
    assert metrics.log_loss == pytest.approx(-math.log(0.75))
    assert "ROC-AUC -," in metrics.summary()


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_low_precision_and_certain_probabilities_are_scored(dtype: type) -> None:
    targets, probabilities = random_case(3, 50)
    exact = classification_report(THREE, targets, probabilities)
    rounded = classification_report(THREE, targets, probabilities.astype(dtype))
    assert rounded.log_loss == pytest.approx(exact.log_loss, rel=1e-2)
    certain = classification_report(TWO, np.array([0, 1]), np.array([[0, 1], [0, 1]], dtype=dtype))
    assert math.isfinite(certain.log_loss)


def test_the_callers_probabilities_stay_as_they_are() -> None:
    targets, probabilities = random_case(3, 5)
    probabilities *= 1 + 1e-9
    before = probabilities.copy()
    classification_report(THREE, targets, probabilities)
    np.testing.assert_array_equal(probabilities, before)


def test_multilabel_by_loops() -> None:
    rng = np.random.default_rng(0)
    targets, probabilities = rng.integers(0, 2, (50, 3)), rng.random((50, 3))
    metrics = multilabel_report(TOPICS, targets, probabilities, thresholds=0.4)
    got = [[int(p >= 0.4) for p in row] for row in probabilities]
    assert metrics.subset_accuracy == sum(row == true for row, true in zip(got, targets.tolist(), strict=True)) / 50
    totals = np.zeros(3)
    scores = []
    for c, row in enumerate(metrics.per_class):
        right = sum(got[i][c] and targets[i, c] for i in range(50))
        predicted, true = sum(g[c] for g in got), int(targets[:, c].sum())
        totals += right, predicted, true
        scores.append(f1(right, predicted, true))
        assert (row.label, row.support) == (TOPICS.names[c], true)
        assert (row.precision, row.recall) == (pytest.approx(right / predicted), pytest.approx(right / true))
        assert row.f1 == pytest.approx(scores[-1])
    assert metrics.micro_f1 == pytest.approx(f1(*totals))
    assert metrics.macro_f1 == pytest.approx(sum(scores) / 3)
    areas = [area((targets[:, c] == 1).tolist(), probabilities[:, c].tolist()) for c in range(3)]
    assert metrics.roc_auc == pytest.approx(sum(areas) / 3)


def test_multilabel_absent_labels() -> None:
    targets = np.array([[1, 0, 0], [0, 0, 1]])
    probabilities = np.array([[0.9, 0.1, 0.6], [0.2, 0.1, 0.5]])
    metrics = multilabel_report(TOPICS, targets, probabilities)
    assert metrics.macro_f1 == pytest.approx((1 + 2 / 3) / 2)  # without "y"
    assert metrics.roc_auc == pytest.approx((1 + 0) / 2)
    assert metrics.subset_accuracy == 0.5
    nothing = multilabel_report(TOPICS, np.zeros((2, 3), dtype=int), np.zeros((2, 3)))
    assert (nothing.subset_accuracy, nothing.micro_f1, nothing.macro_f1, nothing.roc_auc) == (1.0, 0.0, 0.0, None)


def test_multilabel_with_one_label() -> None:
    labels = LabelSet(("spam",), "multi")
    metrics = multilabel_report(labels, np.array([[1], [0], [1]]), np.array([[0.9], [0.8], [0.1]]))
    assert [(row.precision, row.recall, row.support) for row in metrics.per_class] == [(0.5, 0.5, 2)]
    assert metrics.subset_accuracy == pytest.approx(1 / 3)


def test_tagging_by_hand() -> None:
    targets = [IOB.ids(tags.split()) for tags in ("O B-city I-city O", "B-day I-day", "O B-city")]
    predictions = [IOB.ids(tags.split()) for tags in ("O B-city O O", "B-day I-day", "B-day B-city")]
    metrics = tagging_report(IOB, targets, predictions)
    assert (metrics.n, metrics.n_words) == (3, 8)
    assert metrics.word_accuracy == pytest.approx(6 / 8)
    assert metrics.word_accuracy_without_o == pytest.approx(4 / 5)
    assert metrics.sentence_accuracy == pytest.approx(1 / 3)
    # true spans 3, predicted 4, right 2
    assert metrics.span_precision == pytest.approx(2 / 4)
    assert metrics.span_recall == pytest.approx(2 / 3)
    assert metrics.span_f1 == pytest.approx(4 / 7)
    city, day = metrics.per_class
    assert (city.label, city.precision, city.recall, city.support) == ("city", 0.5, 0.5, 2)
    assert (day.label, day.precision, day.recall, day.support) == ("day", 0.5, 1.0, 1)


def test_tagging_counts_spans_as_python_sets_do() -> None:
    rng = np.random.default_rng(1)
    lengths = rng.integers(0, 8, 40)
    targets, predictions = ([rng.integers(0, 5, n) for n in lengths] for _ in range(2))
    metrics = tagging_report(IOB, targets, predictions)

    def spans(sentences: list[np.ndarray]) -> set[tuple[int, str, int, int]]:
        """A span is a start (B, or I after something else) and the I's of its type that follow."""
        found = set()
        for s, ids in enumerate(sentences):
            tags = [IOB.names[i] for i in ids]
            for i, tag in enumerate(tags):
                starts = tag[0] == "B" or (tag[0] == "I" and (i == 0 or tags[i - 1][2:] != tag[2:]))
                if starts:
                    end = i + 1
                    while end < len(tags) and tags[end] == f"I-{tag[2:]}":
                        end += 1
                    found.add((s, tag[2:], i, end))
        return found

    true, got = spans(targets), spans(predictions)
    assert metrics.span_precision == pytest.approx(len(true & got) / len(got))
    assert metrics.span_recall == pytest.approx(len(true & got) / len(true))
    assert metrics.n == 40
    assert metrics.sentence_accuracy == sum((t == p).all() for t, p in zip(targets, predictions, strict=True)) / 40


def test_tagging_without_spans() -> None:
    metrics = tagging_report(IOB, [np.array([0, 0])], [np.array([0, 0])])
    assert (metrics.word_accuracy, metrics.word_accuracy_without_o, metrics.span_f1) == (1.0, None, 0.0)
    assert [(row.label, row.support) for row in metrics.per_class] == [("city", 0), ("day", 0)]
    assert "without O -" in metrics.summary()
    only_day = tagging_report(IOB, [np.array([0, 3])], [np.array([0, 0])])
    assert [(row.label, row.recall, row.support) for row in only_day.per_class] == [("city", 0.0, 0), ("day", 0.0, 1)]
    assert (only_day.word_accuracy, only_day.word_accuracy_without_o) == (0.5, 0.0)
    invented = tagging_report(IOB, [np.array([0, 0])], [np.array([0, 3])])
    assert [(row.label, row.precision, row.support) for row in invented.per_class] == [
        ("city", 0.0, 0),
        ("day", 0.0, 0),
    ]
    assert (invented.word_accuracy, invented.word_accuracy_without_o) == (0.5, None)


@pytest.mark.parametrize("n", [5, 300])
def test_areas_and_losses_are_those_of_scikit_learn(n: int) -> None:
    """With ties, with classes that no text has, and with certain answers that are wrong."""
    rng = np.random.default_rng(n)
    targets = rng.integers(0, 2, n) * 2
    few = np.array([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.125, 0.375, 0.5], [0.0, 1.0, 0.0]])
    probabilities = few[rng.integers(0, 4, n)]
    metrics = classification_report(THREE, targets, probabilities)
    areas = [roc_auc_score(targets == c, probabilities[:, c]) for c in (0, 2)]
    assert metrics.roc_auc == pytest.approx(np.mean(areas), abs=1e-12)
    assert metrics.log_loss == pytest.approx(log_loss(targets, probabilities, labels=[0, 1, 2]))


def test_a_report_without_tables_has_the_same_numbers() -> None:
    targets, probabilities = random_case(3, 40)
    several = np.eye(3, dtype=int)[targets]
    tags = [probabilities.argmax(1)]
    for whole, brief in (
        [classification_report(THREE, targets, probabilities, tables=tables) for tables in (True, False)],
        [multilabel_report(TOPICS, several, probabilities, tables=tables) for tables in (True, False)],
        [tagging_report(IOB, [targets], tags, tables=tables) for tables in (True, False)],
    ):
        assert brief.numbers() == whole.numbers()
        assert brief.numbers().keys() < whole.to_dict().keys()
        assert whole.per_class != brief.per_class == ()
        assert brief.to_dict().get("confusion", []) == []


def test_nothing_to_evaluate_is_reported() -> None:
    with pytest.raises(DataError, match="no rows"):
        classification_report(THREE, np.zeros(0, dtype=int), np.zeros((0, 3)))
    with pytest.raises(DataError, match="no rows"):
        multilabel_report(TOPICS, np.zeros((0, 3)), np.zeros((0, 3)))
    for sentences in ([], [np.zeros(0, dtype=int)]):
        with pytest.raises(DataError, match="no rows"):
            tagging_report(IOB, sentences, sentences)


def test_predictions_of_another_length_are_a_problem() -> None:
    with pytest.raises(AssertionError):
        tagging_report(IOB, [np.array([0, 1])], [np.array([0])])
    with pytest.raises(AssertionError):
        classification_report(THREE, np.array([0]), np.ones((1, 2)))


@pytest.mark.parametrize("seed", range(3))
def test_class_scores_are_those_of_scikit_learn(seed: int) -> None:
    targets, probabilities = random_case(3, 60, seed)
    predictions = probabilities.argmax(1)
    metrics = classification_report(THREE, targets, probabilities)
    expected = precision_recall_fscore_support(targets, predictions, labels=[0, 1, 2], zero_division=0)
    got = [(row.precision, row.recall, row.f1, row.support) for row in metrics.per_class]
    np.testing.assert_allclose(np.array(got).T, np.array(expected), rtol=1e-12)
    np.testing.assert_array_equal(metrics.confusion, confusion_matrix(targets, predictions, labels=[0, 1, 2]))


def test_span_scores_are_those_of_seqeval() -> None:
    rng = np.random.default_rng(2)
    lengths = rng.integers(1, 9, 50)
    targets, predictions = ([rng.integers(0, 5, n) for n in lengths] for _ in range(2))
    metrics = tagging_report(IOB, targets, predictions)
    tags = [[[IOB.names[i] for i in sentence] for sentence in side] for side in (targets, predictions)]
    expected = span_scores(*tags, average="micro", zero_division=0)[:3]
    assert (metrics.span_precision, metrics.span_recall, metrics.span_f1) == pytest.approx(expected)
    got = [(row.precision, row.recall, row.f1, row.support) for row in metrics.per_class]
    np.testing.assert_allclose(np.array(got).T, np.array(span_scores(*tags, average=None, zero_division=0)))


def every_report() -> list[Metrics]:
    targets, probabilities = random_case(3, 20)
    return [
        classification_report(THREE, targets, probabilities.astype(np.float32)),
        multilabel_report(TOPICS, np.eye(3, dtype=int)[targets], probabilities),
        tagging_report(IOB, [targets], [probabilities.argmax(1)]),
    ]


@pytest.mark.parametrize("index", range(3))
def test_reports_are_json_one_line_and_a_table(index: int) -> None:
    metrics = every_report()[index]
    values = metrics.to_dict()
    assert json.loads(json.dumps(values)) == values
    assert set(values) == set(metrics.__dataclass_fields__)
    assert "\n" not in metrics.summary()
    lines = format_table(metrics).splitlines()
    assert lines[0] == metrics.summary()
    assert lines[2].split() == ["class", "precision", "recall", "F1", "support"]
    assert [line.split()[0] for line in lines[3:]] == [row.label for row in metrics.per_class]
    assert {len(line) for line in lines[2:]} == {len(lines[2])}
    first = metrics.per_class[0]
    numbers = [f"{first.precision:.4f}", f"{first.recall:.4f}", f"{first.f1:.4f}", f"{first.support}"]
    assert lines[3].split()[1:] == numbers


def one_a_class(names: tuple[str, ...], wrong: set[int]) -> ClassificationMetrics:
    """A row for each class; those of `wrong` are taken for the next class."""
    n = len(names)
    got = [(i + 1) % n if i in wrong else i for i in range(n)]
    return classification_report(LabelSet(names, "single"), np.arange(n), np.eye(n)[got])


def test_long_tables_keep_the_worst_classes_and_state_so() -> None:
    names = tuple(f"c{i:02d}" for i in range(60))
    lines = format_table(one_a_class(names, {50, 58})).splitlines()
    shown = [line.split()[0] for line in lines[3:-1]]
    # c50 and c58 are never found; c51 and c59 are predicted for them too. The other classes are all right.
    assert shown == [*names[:36], "c50", "c51", "c58", "c59"]
    assert lines[-1] == "(40 of 60 classes, by lowest F1; 20 are left out)"
    assert len(format_table(one_a_class(names[:40], set())).splitlines()) == 43


def test_classes_without_a_case_are_the_first_to_be_left_out() -> None:
    names = tuple(f"c{i:02d}" for i in range(50))
    metrics = classification_report(LabelSet(names, "single"), np.arange(40) + 10, np.eye(50)[10:])
    assert [line.split()[0] for line in format_table(metrics).splitlines()[3:-1]] == list(names[10:])


def test_names_cannot_break_the_table() -> None:
    lines = format_table(one_a_class(("中文", "\x1b[2J\nx", "y" * 100), set())).splitlines()
    assert len(lines) == 6
    assert "\x1b" not in "".join(lines)
    assert lines[3] == "中文" + " " * 36 + lines[5][40:]  # each character takes two columns
    assert lines[5].startswith("y" * 39 + "…  ")
