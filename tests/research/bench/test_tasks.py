"""The tasks of `mixling bench`: generated expressions have their values, and rows of each kind are trained on."""

from __future__ import annotations

import gzip
import json
import statistics
from pathlib import Path

import numpy as np
import pytest

from mixling import ConfigError
from mixling.mixers import IdentityConfig, TokenMLPConfig
from mixling.research.bench import expression, listops, run_task, tasks


def value_of(tokens: list[str]) -> int:
    """Read by a stack: at each `end` the innermost operation is replaced by its value."""
    stack: list[list[str]] = [[]]
    for token in tokens:
        if token == "end":
            name, *digits = stack.pop()
            values = [int(digit) for digit in digits]
            made = {
                "max": max(values),
                "min": min(values),
                "median": statistics.median_high(values),
                "sum": sum(values) % 10,
            }
            stack[-1].append(str(made[name]))
        elif token.isdigit():
            stack[-1].append(token)
        else:
            stack.append([token])
    return int(stack[0][0])


def test_expressions_have_their_values() -> None:
    rng = np.random.default_rng(0)
    found = [expression(rng, 4) for _ in range(400)]
    assert [value for _, value in found] == [value_of(tokens) for tokens, _ in found]
    assert {token for tokens, _ in found for token in tokens} >= {"max", "min", "median", "sum", "end", "7"}
    data = listops(50, 30, seed=1)
    assert all(5 <= len(str(text).split()) <= 30 for text in data.texts)
    assert list(listops(50, 30, seed=1).texts) == list(data.texts)


def test_a_task_without_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--data: got nothing; this task needs the folder"):
        run_task(TokenMLPConfig(), "sick", None)
    with pytest.raises(ConfigError, match=r"--data: got .*none; this task needs the folder"):
        run_task(TokenMLPConfig(), "cogs", tmp_path / "none")


@pytest.mark.slow
def test_rows_of_labels_are_trained_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tasks, "GENERATED", (200, 60, 60))
    monkeypatch.setattr(tasks, "RATES", (1e-3, 3e-3))
    lines: list[str] = []
    found = run_task(TokenMLPConfig(hidden_dim=8), "listops", None, lines.append)
    assert found["rate"] == float(max(found["validation"], key=found["validation"].__getitem__))
    assert 0 <= found["test"] <= 1
    assert [line.partition(": ")[0] for line in lines] == [
        f"token_mlp, listops, learning rate {rate}" for rate in ("0.001", "0.003")
    ]
    for split in ("train", "dev", "test"):
        rows = [{"text": f"a {i} b", "text_pair": f"c {i}", "label": "ab"[i % 2]} for i in range(80)]
        (tmp_path / "sick").mkdir(exist_ok=True)
        with gzip.open(tmp_path / "sick" / f"{split}.jsonl.gz", "wt") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    assert run_task(IdentityConfig(), "sick", tmp_path)["test"] <= 1


@pytest.mark.slow
def test_text_to_text_is_trained_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tasks, "RATES", (1e-2,))
    (tmp_path / "cogs").mkdir()
    for split in ("train", "dev", "gen"):
        with gzip.open(tmp_path / "cogs" / f"{split}.jsonl.gz", "wt") as file:
            file.writelines(
                json.dumps({"source": f"w{i % 5} ran", "target": f"run ( w{i % 5} )"}) + "\n" for i in range(64)
            )
    assert run_task(TokenMLPConfig(hidden_dim=8), "cogs", tmp_path)["test"] <= 1
