"""The numbers that papers print, beside ours."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

TABLE_5 = {
    "bert-base": 100.8,
    "bert-large": 341.2,
    "gmlp-base": 158.0,
    "gmlp-large": 430.1,
    "gmlp-x-large": 1091.3,
    "amlp-base": 128.9,
    "amlp-large": 370.3,
}


@pytest.fixture(scope="module")
def experiment(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("experiments/printed_counts.py")


def compared(experiment: ModuleType, model: str, table: str) -> Any:
    (row,) = [row for row in experiment.PRINTED if row.model == model and row.source.endswith(table)]
    return experiment.compare_counts(row)


@pytest.mark.parametrize("name", TABLE_5)
def test_flops_and_parameters_of_gmlp_table_5(experiment: ModuleType, name: str) -> None:
    row = compared(experiment, name, "gMLP, Table 5")
    assert row.printed.gflops == TABLE_5[name]
    assert row.gflops == pytest.approx(row.printed.gflops, rel=0.006)
    assert row.ratio == pytest.approx(1, rel=0.005)


@pytest.mark.parametrize(
    ("name", "table", "millions"),  # counted by hand: the papers' layers, and the heads that their numbers include
    [
        ("pnlp-mixer-x-small", "Table 5", 0.208279),
        ("gmlp-s", "Table 1", 19.500524),
        ("hypermixer", "section 4.3", 10.98),
        ("remixer-scaled-base", "Table 1", 210.60),
    ],
)
def test_our_side_of_the_printed_numbers(experiment: ModuleType, name: str, table: str, millions: float) -> None:
    row = compared(experiment, name, table)
    assert row.parameters == pytest.approx(1e6 * millions, rel=1e-3)
    assert (row.gflops is None) == (row.printed.gflops is None)


def test_each_printed_number_is_a_line_of_the_table(experiment: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row for row in experiment.PRINTED if row.model in ("pnlp-mixer-x-small", "gmlp-ti")]
    monkeypatch.setattr(experiment, "PRINTED", rows)
    lines = [line.split() for line in experiment.lines()]
    assert lines[1][:4] == ["pnlp-mixer-x-small", "0.2M", "0.208M", "+4.1%"]
    assert lines[2][-5:] == ["pNLP-Mixer,", "Table", "7,", "1024", "tokens"]
    assert lines[4][:7] == ["gmlp-ti", "5.9M", "5.896M", "-0.1%", "2.7", "2.7", "-0.9%"]
