"""The model card: front matter that YAML reads, numbers that are the report's."""

from __future__ import annotations

from typing import Any

import pytest

from mixling import RunConfig
from mixling.answers import LabelSet
from mixling.config import parse
from mixling.export.card import model_card
from mixling.tasks import Task, task_type

yaml = pytest.importorskip("yaml")

VALIDATION: dict[str, dict[str, Any]] = {
    "classification": {"n": 50, "accuracy": 0.9375, "macro_f1": 0.875, "log_loss": 0.25, "roc_auc": None},
    "multi_label": {"n": 50, "subset_accuracy": 0.5, "micro_f1": 0.75, "macro_f1": 0.625, "roc_auc": 0.9},
    "tagging": {
        "n": 50, "n_words": 400, "word_accuracy": 0.9375, "word_accuracy_without_o": None, "span_precision": 0.75,
        "span_recall": 0.5, "span_f1": 0.6, "sentence_accuracy": 0.25,
    },
    "question_answering": {"n": 50, "n_unanswerable": 0, "exact_match": 0.5, "f1": 0.75, "answerable_f1": None},
}  # fmt: skip
LABELS: dict[str, tuple[tuple[str, ...], str]] = {
    "classification": (("no", "yes: 'a' `b`\n---"), "single"),
    "multi_label": (("a", "b"), "multi"),
    "tagging": (("O", "B-city", "I-city"), "iob"),
    "question_answering": (("start", "end"), "span"),
}


def made(task: str) -> Task:
    return task_type(task)(LabelSet(*LABELS[task]))


def card(task: str, options: dict[str, Any] | None = None, /, **changes: Any) -> str:
    report = {
        "validation": VALIDATION[task],
        "best": {"step": 40, "epoch": 7.5, "train_loss": 0.5},
        "precision": "int8",
        "quantization": {"agreement": 0.995, "accuracy_drop": -0.25},
        "parameters": 208_279,
        "file_bytes": 456_000,
        **changes,
    }
    return model_card(
        RunConfig(task=task, **(options or {})).to_dict(), report, made(task), folder_files={"x.y": "a file"}
    )


def front_matter(text: str) -> dict[str, Any]:
    start, head, _ = text.split("---\n", 2)
    assert start == ""
    return dict(yaml.safe_load(head))


@pytest.mark.parametrize(
    ("task", "pipeline", "metrics"),
    [
        ("classification", "text-classification", {"accuracy": 0.9375, "f1": 0.875}),
        ("multi_label", "text-classification", {"f1": 0.75}),
        ("tagging", "token-classification", {"accuracy": 0.9375, "precision": 0.75, "recall": 0.5, "f1": 0.6}),
        ("question_answering", "question-answering", {"exact_match": 0.5, "f1": 0.75}),
    ],
)
def test_front_matter(task: str, pipeline: str, metrics: dict[str, float]) -> None:
    values = front_matter(card(task))
    assert values["library_name"] == "mixling"
    assert values["pipeline_tag"] == pipeline
    assert values["metrics"] == list(metrics)
    (result,) = values["model-index"][0]["results"]
    assert {item["type"]: item["value"] for item in result["metrics"]} == metrics
    assert result["task"]["type"] == pipeline
    assert result["dataset"].keys() >= {"name", "type"}  # the hub requires both


def test_every_metric_of_the_report_is_reported() -> None:
    text = card("tagging")
    for name, value in VALIDATION["tagging"].items():
        if isinstance(value, float):
            title = name.replace("_", " ").replace("f1", "F1").replace("without o", "without O")
            assert f"| {title} | {value:.4f} |" in text
    scores = {"calibration_error": 0.25, "accuracy": 0.5, "macro_f1": 0.75, "n": 50}
    table = card("classification", validation={**VALIDATION["classification"], **scores})
    assert (
        table.index("| accuracy | 0.5000 |") < table.index("| macro F1 | 0.7500 |") < table.index("| calibration error")
    )
    assert "208,279 parameters, 0.46 MB" in text
    assert "99.50% of the decisions" in text
    assert "accuracy is 0.25 points higher" in text
    assert "`x.y`: a file" in text


def test_labels_cannot_break_the_page() -> None:
    text = card("classification")
    assert text.count("\n---\n") == 1  # the end of the front matter
    assert "``yes: 'a' `b`\N{REPLACEMENT CHARACTER}---``" in text


def test_a_float_model_reports_of_no_gate() -> None:
    assert "8-bit" not in card("classification", quantization=None, precision="float32")


def test_it_is_deterministic() -> None:
    assert card("tagging") == card("tagging")


@pytest.mark.parametrize(
    ("values", "reported"),
    [
        ({}, ["| initialization | random |"]),
        ({"init": {"training_texts": True}}, ["| initialization | word vectors of the training texts |"]),
        ({"init": {"pretrained": "runs/first"}}, ["| initialization | the weights of `first` |"]),
        (
            {"init": {"texts": ["a.txt"]}, "distill": {"teacher": "teachers/big", "fine_tune": True}},
            [
                "| initialization | word vectors of unlabeled text |",
                "| teacher | big, fine-tuned on the training data |",
            ],
        ),
        ({"distill": {"teacher": "self", "members": 3}}, ["| teacher | models like this one (3) |"]),
        ({"distill": {"teacher": "self"}}, ["| teacher | models like this one |"]),
    ],
)
def test_what_it_began_with_and_who_distilled_it(values: dict[str, Any], reported: list[str]) -> None:
    config = parse(RunConfig, values, where="test").to_dict()
    report = {
        "validation": VALIDATION["classification"],
        "best": {"step": 40, "epoch": 1, "train_loss": 0.5},
        "precision": "int8",
        "parameters": 1,
        "file_bytes": 1,
    }
    text = model_card(config, report, made("classification"), folder_files={})
    assert all(line in text for line in reported)
    assert ("| teacher |" in text) == ("distill" in values)


def test_data_and_labels_have_their_numbers_and_nothing_of_a_label_is_markup() -> None:
    rows = [
        {"label": label, "precision": 0.5, "recall": 0.25, "f1": 1 / 3, "support": 40}
        for label in LABELS["classification"][0]
    ]
    validation = {**VALIDATION["classification"], "per_class": rows, "confusion": [[1, 2], [3, 4]]}
    data = {"training": 1200, "validation": 80, "labels": {"no": 700}}
    text = card("classification", validation=validation, data=data)
    assert "Trained on 1,200 examples; 80 examples" in text
    assert "| `no` | 0.500 | 0.250 | 0.333 | 40 | 700 |" in text
    assert "| ``yes: 'a' `b`" in text
    assert "](confusion.png)" in text
    assert "](confusion.png)" not in card("tagging")


def test_the_weakest_labels_are_limits() -> None:
    rows = [{"label": f"l{i}", "f1": value, "support": 10 + i} for i, value in enumerate((0.9, 0.25, 0.5, 0.75))]
    text = card("classification", validation={**VALIDATION["classification"], "per_class": rows})
    assert "lowest F1 on validation: `l1` (0.25 on 11 examples), `l2` (0.50 on 12 examples), `l3` (0.75" in text
    few = card("classification", validation={**VALIDATION["classification"], "per_class": rows[:3]})
    assert "lowest F1" not in few


def test_only_an_epoch_that_was_selected_is_called_so() -> None:
    ngrams = {"terms": 9, "mixture_network": 0.5, "mixture_loss": 0.25, "loss_scaled": 0.5}
    refit = {"examples": 60}
    text = card("classification", ngrams=ngrams, refit=refit)
    assert "used\nto select the epoch (7.5)" in text
    assert "for as many epochs as were best;" in text
    assert "fitted on the validation examples, with" in text
    assert "log-count" not in text
    last = {"train": {"load_best_at_end": False}}
    text = card("classification", last, ngrams={**ngrams, "folds": 4, "ratio_power": 0.5}, refit=refit)
    assert "characters 3-4; times their log-count ratios to the power 0.5).\n" in text
    assert "ended after\nepoch 7.5, as it was planned to; no epoch was selected" in text
    assert "as were best" not in text
    assert "cross-fitting, on the predictions of 4 pairs of models" in text


def test_the_reliability_diagram_of_calibrated_probabilities() -> None:
    bins = [None, {"count": 1200, "confidence": 0.75, "accuracy": 0.5}]
    validation = {**VALIDATION["classification"], "reliability": bins}
    report = {"slope": 1.5, "offset": None, "error_before": 0.1, "error": 0.0125}
    text = card("classification", validation=validation, calibration=report)
    assert "was 0.1000 before and is 0.0125 now" in text
    assert f"\n0.500-1.000       1,200  0.750     0.500  {'#' * 20}{' ' * 10}|\n" in text
    assert text.count("```") % 2 == 0
    assert "decisions   mean" not in card("classification", validation=validation, calibration=None)


def test_when_it_abstains_and_other_thresholds_are_described() -> None:
    chosen = {"wanted": 0.9, "threshold": 0.7, "coverage": 0.5, "accuracy": 0.93}
    others = [
        {"wanted": 0.9, "threshold": 0.25, "coverage": 1.0, "accuracy": 0.96},
        {"wanted": 0.95, "threshold": 0.25, "coverage": 1.0, "accuracy": 0.96},
        {"wanted": 0.99, "threshold": None, "coverage": 0.5, "accuracy": 0.98},
    ]
    text = card("classification", abstention=chosen, risk_coverage=others)
    assert "chosen for an accuracy of 0.9 of the answers on the validation examples: 50.0%" in text
    assert "| 0.95 | 0.2500 | 100.0% | 0.9600 |" in text
    assert "| 0.9 | 0.2500" not in text
    assert "| 0.99 |" not in text
    assert "and out-of-scope texts, answers to which are wrong: 50.0%" in card(
        "classification", abstention=chosen, out_of_scope={"texts": 3}
    )
    text = card("classification", abstention={**chosen, "wanted": None}, out_of_scope={"texts": 3})
    assert "chosen by out-of-scope texts on the validation examples:" in text
    assert "`--threshold P`" not in card("classification", risk_coverage=None)


def test_label_sets_and_thresholds_are_described() -> None:
    validation = {**VALIDATION["classification"], "set_coverage": 0.9625, "set_size": 1.5}
    sets = {"method": "aps", "coverage": 0.95, "quantile": 0.8, "examples": 321}
    text = card("classification", validation=validation, conformal=sets)
    assert "with a probability of at least 0.95" in text
    assert "321 validation examples that chose nothing" in text
    assert "1.50\nlabels on average, with the most probable label in each; 96.2% have the right one" in text
    assert "labels on average and may be empty" in card(
        "classification", validation=validation, conformal={**sets, "method": "lac"}
    )
    assert "## Sets of labels" not in card("classification", conformal=None)

    found = {
        "a|b": {"threshold": 0.31251, "precision": 0.75, "recall": 0.5, "reached": True},
        "rare": {"threshold": None, "precision": 0.0, "recall": 0.0, "reached": False},
        "hard": {"threshold": 0.9, "precision": 0.8, "recall": 0.25, "reached": False},
    }
    text = card("multi_label", {"decisions": {"label_thresholds": 0.9}}, label_thresholds=found)
    assert "chosen for a precision of 0.9 on" in text
    assert "| `a\\|b` | 0.3125 | 0.750 | 0.500 |  |" in text
    assert "| `rare` | 0.5 | | | too few examples |" in text
    assert "| `hard` | 0.9000 | 0.800 | 0.250 | the highest precision that was found |" in text
    many = {f"label {index}": found["a|b"] for index in range(53)}
    text = card("multi_label", {"decisions": {"label_thresholds": "f1"}}, label_thresholds=many)
    assert "chosen for the highest F1 on" in text
    assert "3 more are in `metrics.json`" in text
    assert text.count("| `label ") == 50
    assert "## Thresholds" not in card("multi_label", label_thresholds=None)
