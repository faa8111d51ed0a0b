"""Folds, duplicates and reports of an audit; that errors are found, the command line's test holds."""

from __future__ import annotations

import csv
import html.parser
import io
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from mixling import ConfigError, DataError, Dataset, Example, use_workers
from mixling.audit import Audit, LabelsAudit, audit_page, leaked, rows_csv, summarize, write_report
from mixling.audit import audit as audit_module
from mixling.audit.audit import audit
from mixling.data import assign_folds
from mixling.data.label_remarks import conflicting
from mixling.text import Text

from ..chromium import NEEDS_CHROMIUM, assert_accessible, chromium


def store(*rows: tuple[Text, str], path: str = "a.csv") -> Dataset:
    return Dataset.from_examples(Example(text, label, path, line) for line, (text, label) in enumerate(rows, 2))


def test_folds_are_even_within_each_label_and_keep_equal_texts_together() -> None:
    rng = np.random.default_rng(0)
    rows = [(f"text {rng.integers(150)}", "b" if rng.random() < 0.2 else "a") for _ in range(300)]
    examples = store(*rows)
    fold = assign_folds(examples, 4, seed=1)
    of_text: dict[str, set[int]] = {}
    for (text, _), number in zip(rows, fold.tolist(), strict=True):
        of_text.setdefault(text, set()).add(number)
    assert all(len(numbers) == 1 for numbers in of_text.values())
    first_labels = dict(reversed(rows))
    for label in "ab":
        sizes = Counter(min(of_text[text]) for text, own in first_labels.items() if own == label)
        assert max(sizes.values()) - min(sizes[number] for number in range(4)) <= 1
    assert np.array_equal(fold, assign_folds(examples, 4, seed=1))
    assert not np.array_equal(fold, assign_folds(examples, 4, seed=2))


def test_more_folds_than_texts_are_refused() -> None:
    with pytest.raises(DataError, match=r"a.csv: 2 distinct texts are too few for 3 folds"):
        assign_folds(store(("x", "a"), ("y", "b"), ("x", "a")), 3, seed=0)


def test_a_label_that_one_fold_has_alone_is_named_before_training() -> None:
    rows = [(f"text {number}", "a") for number in range(12)]
    with pytest.raises(DataError, match=r"a.csv: nearly every text has the label 'a': without one of 3 folds"):
        audit(store(*rows, ("one more", "b")), folds=3)


@pytest.mark.slow
def test_models_that_are_trained_side_by_side_give_the_same_report() -> None:
    rows = [(f"{('good', 'bad')[i % 2]} thing {i % 13}", "ab"[i % 2]) for i in range(40)]
    found, logs = [], []
    for number in (1, 2):
        lines: list[str] = []
        with use_workers(number):
            found.append(audit(store(*rows, ("good film", "b")), folds=3, epochs=2, log=lines.append))
        logs.append(sorted(lines))
    np.testing.assert_array_equal(found[0].probabilities, found[1].probabilities)
    assert found[0].baseline == found[1].baseline
    assert logs[0] == logs[1]
    assert [line[:10] for line in logs[0]] == ["fold 1/3: ", "fold 2/3: ", "fold 3/3: "]


def test_equal_words_with_different_labels() -> None:
    rows = [("Great film", "a"), ("bad", "b"), ("great  FILM", "b"), ("bad", "b"), ("", "a"), ("", "b"), ("film", "a")]
    assert conflicting(store(*rows)) == ((0, 2),)
    assert conflicting(store((("a", "b"), "x"), (("a b", ""), "y"), (("A", "b"), "y"))) == ((0, 2),)


def test_texts_in_both_splits() -> None:
    long = "please play the newest song by the band now"
    train = store(("short", "a"), (long, "a"), ("short", "b"), ("something else entirely new here", "b"))
    test = store((f"{long} please", "a"), ("other", "b"), ("short", "a"), path="test.csv")
    assert leaked(train, test, seed=0) == (((0, 1), (2, 0)), True)


def test_each_of_several_labels_is_in_all_folds() -> None:
    rng = np.random.default_rng(0)
    targets = [tuple(name for name, p in (("a", 0.7), ("b", 0.3), ("c", 0.06)) if rng.random() < p) for _ in range(300)]
    examples = Dataset.from_examples(Example(f"t {i}", names, "a.jsonl", i) for i, names in enumerate(targets))
    fold = assign_folds(examples, 5, seed=0)
    sizes = np.bincount(fold[["c" in names for names in targets]], minlength=5)
    assert sizes.max() - sizes.min() <= 1


@pytest.fixture
def several(monkeypatch: pytest.MonkeyPatch) -> Audit:
    """An audit of texts with several labels, with probabilities as if models had been trained."""
    probabilities = np.array([[0.9, 0.1, 0], [0.9, 0.8, 0], [0.05, 0.9, 0], [0.1, 0.05, 0], [0.95, 0.02, 0.0]])
    answers = [("a",), ("a", "b"), ("b",), (), ("a",)]
    monkeypatch.setattr(audit_module, "out_of_fold", lambda *args, **options: (probabilities, answers))
    targets = [("a",), ("a", "b"), ("a", "b"), (), ("c", "b")]
    texts = ["w <b>", "x", "y", "W  <B>", "z"]
    rows = [Example(texts[i], target, "a.jsonl", i + 1) for i, target in enumerate(targets)]
    return audit(Dataset.from_examples(rows), task="multi_label", folds=2)


def test_missing_and_superfluous_labels_are_found(several: Audit) -> None:
    assert isinstance(several, LabelsAudit)
    assert several.names == ("a", "b", "c")
    # y has a, and z has b, that no model expects; z lacks a. Only one text has c, so nothing about c can be learned.
    assert np.argwhere(several.label_errors).tolist() == [[2, 0], [4, 0], [4, 1]]
    assert several.errors.tolist() == [False, False, True, False, True]
    assert several.quality.tolist() == pytest.approx([0.9, 0.8, 0.05, 0.9, 0.02])
    assert [item[0] for item in several.suggested] == ["a", "a|b", "b", "", "a|c"]
    assert [(item.example, item.suggested) for item in several.findings()] == [(4, "c"), (2, "b"), (4, "a|b|c")]
    assert [item.probability for item in several.findings()] == pytest.approx([0.02, 0.05, 0.05])
    assert several.mixed_up == (("a", "missing", 1), ("a", "superfluous", 1), ("b", "superfluous", 1))
    assert several.conflicts == ((0, 3),)
    assert several.metric == "micro_f1"
    assert several.baseline == pytest.approx(2 * 4 / (5 + 7))
    assert several.rare == (("a", 3), ("b", 3), ("c", 1))


def test_the_report_of_several_labels(several: Audit) -> None:
    rows = list(csv.DictReader(io.StringIO(rows_csv(several))))
    assert [row["label"] for row in rows] == ["a", "a|b", "a|b", "", "c|b"]
    assert [row["suggested"] for row in rows] == ["a", "a|b", "b", "", "a|c"]
    assert (rows[2]["label_probability"], rows[2]["suggested_probability"]) == ("0.050000", "0.950000")
    page = audit_page(several, title="t")
    assert "Improbable labels: 3" in page
    assert "Missing and superfluous labels: 3" in page
    lines = summarize(several)
    assert any(line.startswith("labels that the models find improbable: 2 (40.0%); micro F1 on ") for line in lines)
    assert "most often wrong: a is missing, 1 examples" in lines
    assert lines[-1].startswith("micro F1 on unseen parts: mixling 0.")
    assert several.to_dict()["baseline_micro_f1"] == several.baseline


def test_equal_labels_in_another_order_are_no_conflict() -> None:
    targets = [("a", "b"), ("b", "a"), ("a", "b")]
    rows = Dataset.from_examples(Example("x", target, "a", i) for i, target in enumerate(targets))
    assert conflicting(rows) == ()


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Audit:
    """An audit of five examples, with probabilities as if models had been trained."""
    probabilities = np.array([[0.9, 0.1, 0], [0.2, 0.8, 0], [0.95, 0.05, 0], [0.1, 0.9, 0], [0.6, 0.4, 0]])
    answers = ["<b>x", "y", "y", "y", "<b>x"]
    monkeypatch.setattr(audit_module, "out_of_fold", lambda *args, **options: (probabilities, answers))
    rows = [("play =1+1", "<b>x"), ("rain", "y"), ("play <i>this</i>", "y"), ("Rain", "<b>x"), ("rare", "z")]
    return audit(store(*rows), test=store(("rain", "y"), path="test.csv"), folds=2)


def test_what_is_found(found: Audit) -> None:
    assert found.names == ("<b>x", "y", "z")
    assert found.quality.tolist() == [0.9, 0.8, 0.05, 0.1, 0.0]
    assert found.ranked().tolist() == [2, 3]  # the only example of z cannot be learned, so it is no error
    assert [name for name, _ in found.suggested] == ["<b>x", "y", "<b>x", "y", "<b>x"]
    assert [(item.example, item.suggested) for item in found.findings()] == [(2, "<b>x"), (3, "y")]
    assert found.conflicts == ((1, 3),)
    assert found.leaks == ((0, 1),)
    assert found.metrics.numbers()["accuracy"] == 0.4
    assert found.baseline == 0.6
    assert found.rare == (("<b>x", 2), ("y", 2), ("z", 1))
    assert found.mixed_up == (("<b>x", "y", 1), ("y", "<b>x", 1), ("z", "<b>x", 1))


def test_the_table_has_a_row_for_each_example(found: Audit) -> None:
    rows = list(csv.DictReader(io.StringIO(rows_csv(found))))
    assert [row["text"] for row in rows] == ["play =1+1", "rain", "play <i>this</i>", "Rain", "rare"]
    assert [row["improbable"] for row in rows] == ["0", "0", "1", "1", "0"]
    assert [row["conflict"] for row in rows] == ["", "1", "", "1", ""]
    assert [row["also_in_test"] for row in rows] == ["", "test.csv:2", "", "", ""]
    assert (rows[2]["line"], rows[2]["label_probability"], rows[2]["suggested"]) == ("4", "0.050000", "<b>x")


def test_the_page_escapes_the_data_and_loads_nothing(found: Audit) -> None:
    tags: list[str] = []
    cells: list[str] = []
    parser = html.parser.HTMLParser()
    parser.handle_starttag = lambda tag, attrs: tags.append(tag)  # type: ignore[method-assign]
    parser.handle_data = cells.append  # type: ignore[method-assign]
    parser.feed(audit_page(found, title="Audit of <a>"))
    assert not {"link", "img", "iframe", "b", "i", "a"} & set(tags)
    assert tags.count("script") == 1
    assert {"Audit of <a>", "play <i>this</i>", "<b>x", "test.csv:2"} <= set(cells)
    assert "Improbable labels: 2" in cells
    assert "Equal texts with different labels: 2" in cells


def test_a_label_cannot_end_the_attribute_that_holds_it(found: Audit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(found), "suggested", [('" onclick="x', 1.0)] * 5)
    assert 'data-suggested="&quot; onclick=&quot;x"' in audit_page(found, title="t")


@pytest.mark.parametrize("_", [pytest.param(None, marks=NEEDS_CHROMIUM)])
def test_the_page_filters_sorts_and_saves_decisions(found: Audit, tmp_path: Path, _: None) -> None:
    write_report(found, tmp_path, title="t")
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 390, "height": 900})
        failed: list[str] = []
        page.on("pageerror", lambda error: failed.append(str(error)))
        page.goto((tmp_path / "report.html").as_uri())
        assert_accessible(page)
        rows = page.locator("table").first.locator("tbody tr")
        assert [text.split()[0] for text in rows.all_inner_texts()] == ["a.csv:4", "a.csv:5"]
        page.get_by_role("button", name="where").first.dblclick()
        assert [text.split()[0] for text in rows.all_inner_texts()] == ["a.csv:5", "a.csv:4"]
        page.get_by_label("Filter rows").fill("PLAY")
        assert [row.is_visible() for row in rows.all()] == [False, True]
        page.get_by_label("decision on a.csv:4").select_option("change")
        page.reload()  # what was decided stays
        with page.expect_download() as download:
            page.get_by_role("button", name="Save decisions (1)").click()
        with open(download.value.path(), encoding="utf-8", newline="") as file:
            saved = list(csv.DictReader(file))
        assert failed == []
    assert saved == [{"path": "a.csv", "line": "4", "label": "y", "decision": "change", "new_label": "<b>x"}]


def test_the_files_and_the_summary(found: Audit, tmp_path: Path) -> None:
    write_report(found, tmp_path / "report", title="t")
    assert sorted(path.name for path in (tmp_path / "report").iterdir()) == ["audit.json", "report.html", "rows.csv"]
    values = json.loads((tmp_path / "report" / "audit.json").read_text())
    assert (values["improbable"], values["likely_errors"], values["leaks"], values["rare"]["z"]) == (2, 0, 1, 1)
    lines = summarize(found)
    assert "labels that the models find improbable: 2 (40.0%); accuracy on unseen parts 0.4000" in lines
    first = next(
        line for line in lines if line.startswith("none is probable enough to be called an error; look first at")
    )
    assert values["first"] == 2
    for wrong, precision in values["precision_of_first"].items():
        assert f"{precision:.0%}" in first
        assert f"{float(wrong):.0%}" in first
    assert "texts with different labels: 1 (2 examples)" in lines


def test_mistakes() -> None:
    examples = store(("x", "a"), ("y", "b"))
    with pytest.raises(ConfigError, match="folds: got 1; at least 2"):
        audit(examples, folds=1)
    with pytest.raises(DataError, match="every text has the same label, 'a'"):
        audit(store(("x", "a"), ("y", "a")))
    tags = Dataset.from_examples([Example(["a", "b"], ("O", "B-x"), "t.jsonl", 1)])
    with pytest.raises(DataError, match="an audit needs one label per text"):
        audit(tags)
    with pytest.raises(DataError, match="an audit needs a list of labels per text"):
        audit(examples, task="multi_label")
    with pytest.raises(ConfigError, match="task: got 'regression'; allowed: classification, multi_label, tagging"):
        audit(tags, task="regression")


@pytest.mark.parametrize("wrong", [0.05, 0.1])
@pytest.mark.parametrize("accuracy", [0.75, 0.95])
def test_the_precision_of_the_first_is_the_fraction_of_wrong_labels(
    monkeypatch: pytest.MonkeyPatch, wrong: float, accuracy: float
) -> None:
    """Models that are right on a fraction of the texts judge labels of which some were replaced."""
    rng, number, names = np.random.default_rng(5), 6000, "abcd"
    truth = rng.integers(0, 4, number)
    sure = rng.beta(8, 1, number)
    guess = np.where(rng.random(number) < accuracy, truth, rng.integers(0, 4, number))
    probabilities = (1 - sure)[:, None] * rng.dirichlet(np.ones(4), number)
    probabilities[np.arange(number), guess] += sure
    replaced = rng.random(number) < wrong
    given = np.where(replaced, (truth + rng.integers(1, 4, number)) % 4, truth)
    answers = [names[i] for i in guess]
    monkeypatch.setattr(audit_module, "out_of_fold", lambda *args, **options: (probabilities, answers))
    found = audit(store(*((f"text {i}", names[label]) for i, label in enumerate(given))), folds=2)
    order = [finding.example for finding in found.findings()]
    for first in (50, len(order) // 2, len(order)):
        # Planted labels are tried on models that err, too, which makes the fraction a little too low or too high.
        assert found.precision(first, wrong) == pytest.approx(replaced[order[:first]].mean(), abs=0.12)
    likely = found.num_likely()
    if wrong == 0.05 and likely:
        assert replaced[order[:likely]].mean() > 0.8
    assert found.num_first() == (likely or 50)
