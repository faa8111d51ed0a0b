"""The sections of a model card about how answers are made of probabilities: calibration, thresholds, conformal sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mixling.export.card_data import SHOWN_LABELS, cell
from mixling.metrics.reliability import ReliabilityBin, format_reliability


def calibration_section(calibration: Mapping[str, Any] | None, validation: Mapping[str, Any]) -> str:
    """Return what calibration did to the probabilities, given the entry of metrics.json and the validation metrics."""
    if calibration is None:
        return ""
    bins = tuple(None if item is None else ReliabilityBin(**item) for item in validation.get("reliability", ()))
    diagram = f"\n```\n{format_reliability(bins)}\n```\n" if any(bins) else ""
    return f"""
The probabilities are calibrated: logits were scaled to minimize the loss on the validation examples, where the
calibration error of the network was {calibration["error_before"]:.4f} before and is {calibration["error"]:.4f} now. On
data with other proportions of labels they have to be calibrated again.
{diagram}"""


def abstention_section(
    abstention: Mapping[str, Any] | None,
    risk_coverage: Sequence[Mapping[str, Any]] | None,
    out_of_scope: Mapping[str, Any] | None,
) -> str:
    """Return when the model abstains, and what other thresholds do, given the entries of metrics.json."""
    return _abstains(abstention, out_of_scope) + _other_thresholds(risk_coverage or ())


def _abstains(abstention: Mapping[str, Any] | None, out_of_scope: Mapping[str, Any] | None) -> str:
    if abstention is None or abstention["threshold"] is None:
        return ""
    wanted = abstention["wanted"]
    examples = "validation examples"
    why = "by out-of-scope texts" if wanted is None else f"for an accuracy of {wanted:g} of the answers"
    if wanted is not None and out_of_scope is not None:
        examples += " and out-of-scope texts, answers to which are wrong"
    return f"""
It abstains (`prediction.abstained`) where the top probability is below {abstention["threshold"]:.4f}. This threshold
was chosen {why} on the {examples}: {abstention["coverage"]:.1%} of them are answered, with an accuracy of
{abstention["accuracy"]:.4f}.
"""


def _other_thresholds(risk_coverage: Sequence[Mapping[str, Any]]) -> str:
    # One threshold may be enough for several accuracies; the highest is shown.
    different = {item["threshold"]: item for item in risk_coverage if item["threshold"] is not None}
    rows = [
        f"| {item['wanted']:g} | {item['threshold']:.4f} | {item['coverage']:.1%} | {item['accuracy']:.4f} |"
        for item in different.values()
    ]
    if not rows:
        return ""
    return f"""
With `--threshold P` it abstains where the top probability is below P. On the validation examples:

| wanted accuracy of answers | threshold | answered | accuracy |
|---|---|---|---|
{chr(10).join(rows)}
"""


def conformal_section(conformal: Mapping[str, Any] | None, validation: Mapping[str, Any]) -> str:
    """Return what the conformal sets promise, given the entry of metrics.json and the validation metrics."""
    if conformal is None:
        return ""
    smallest = " and may be empty" if conformal["method"] == "lac" else ", with the most probable label in each"
    return f"""
## Sets of labels

`prediction.label_set` has the right label with a probability of at least {conformal["coverage"]:g}, on texts that are
drawn as the validation examples were (conformal prediction, {conformal["method"].upper()}). The sets were fitted on
{conformal["examples"]:,} validation examples that chose nothing. On the others they have {validation["set_size"]:.2f}
labels on average{smallest}; {validation["set_coverage"]:.1%} have the right one.
"""


def thresholds_section(thresholds: Mapping[str, Any] | None, by: float | str | None) -> str:
    """Return the thresholds of labels, the first 50 of them.

    Args:
        thresholds: the entry of metrics.json.
        by: what they were chosen by: "f1", another metric, or a wanted precision.
    """
    if not thresholds:
        return ""
    why = f"the highest {by.replace('f1', 'F1')}" if isinstance(by, str) else f"a precision of {by:g}"
    lines = []
    for name, item in list(thresholds.items())[:SHOWN_LABELS]:
        if item["threshold"] is None:
            lines.append(f"| {cell(name)} | 0.5 | | | too few examples |")
            continue
        note = "" if item["reached"] else "the highest precision that was found"
        numbers = f"{item['threshold']:.4f} | {item['precision']:.3f} | {item['recall']:.3f}"
        lines.append(f"| {cell(name)} | {numbers} | {note} |")
    left = len(thresholds) - SHOWN_LABELS
    more = f"\n\n{left} more are in `metrics.json`." if left > 0 else ""
    return f"""
## Thresholds

A label is predicted from its own threshold on, chosen for {why} on the validation examples. `--threshold LABEL=P`
replaces it.

| label | threshold | precision | recall | |
|---|---|---|---|---|
{chr(10).join(lines)}{more}
"""
