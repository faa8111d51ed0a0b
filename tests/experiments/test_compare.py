"""Results are compared with a tolerance, and what only one file has is reported."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def compare(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("experiments/compare.py")


def test_numbers_are_compared_by_difference_or_ratio(
    compare: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = {"MinHash": {"mean": {"f1": 0.5}, "perplexity": 100, "seconds": 5, "seeds": [0.1, 0.2]}, "same": "a"}
    for name, f1, perplexity, far in (("near", 0.51, 101, 0), ("f1", 0.53, 100, 1), ("both", 0.4, 104, 2)):
        mine = {"MinHash": {**theirs["MinHash"], "mean": {"f1": f1}, "perplexity": perplexity, "seconds": 900}}
        (tmp_path / "mine.json").write_text(json.dumps(mine))
        (tmp_path / "theirs.json").write_text(json.dumps(theirs))
        monkeypatch.setattr("sys.argv", ["x", str(tmp_path / "mine.json"), "--with", str(tmp_path / "theirs.json")])
        with pytest.raises(SystemExit) as left:
            compare.main()
        assert bool(left.value.code) == bool(far), name
        assert f"4 numbers, {far} further apart than 0.02" in capsys.readouterr().out


def test_a_missing_number_is_reported(
    compare: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.json").write_text('{"a": 1}')
    (tmp_path / "theirs.json").write_text('{"a": 1, "b": [2]}')
    monkeypatch.setattr("sys.argv", ["x", str(tmp_path / "mine.json"), "--with", str(tmp_path / "theirs.json")])
    with pytest.raises(SystemExit, match="True"):
        compare.main()
    assert f"b.0: only in {tmp_path / 'theirs.json'}" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["x", str(tmp_path / "nothing.json")])
    with pytest.raises(SystemExit, match="no such file, and no revision of git"):
        compare.main()
