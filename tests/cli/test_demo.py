"""The demo on three of its languages, which is quick."""

from __future__ import annotations

from pathlib import Path

import pytest

from mixling.cli.demo import SENTENCES

from .conftest import Call

LANGUAGES = {"el": "Greek", "th": "Thai", "ru": "Russian"}


def test_the_demo(call: Call, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("babel")
    monkeypatch.setattr("mixling.data.samples.LANGUAGES", LANGUAGES)
    folder = tmp_path / "languages"
    done = call("demo", "-o", folder, "--epochs", 1)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    accuracy = float(lines[0].partition("accuracy ")[2].partition(",")[0])
    assert accuracy > 0.95  # three alphabets, but some names are written in Latin letters
    assert {line.split()[-1] for line in lines[2:5]} == set(LANGUAGES.values())
    assert [line.partition(")  ")[2] for line in lines[5:]] == list(SENTENCES)
    assert lines[-1].startswith("Russian (")
    written = (folder / "model.onnx").stat().st_mtime_ns

    done = call("demo", "-o", folder, "--text", "Καλημέρα σε όλους", "--text", "สวัสดีตอนเช้า")
    assert [line.split()[0] for line in done.out.splitlines()] == ["Greek", "Thai"]
    assert "earlier demo" in done.err
    assert (folder / "model.onnx").stat().st_mtime_ns == written

    done = call("demo", "-o", folder, stdin="Доброе утро\n\n".encode(), terminal=True)
    assert "Russian (" in done.out
    assert done.code == 0

    done = call("demo", "-o", model)
    assert done.code == 2
    assert "other things than languages" in done.err
