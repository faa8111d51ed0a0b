"""The command line called within the test's process, and a small model to call it on."""

from __future__ import annotations

import csv
import io
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from mixling.cli import run


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


class _Stream(io.TextIOWrapper):
    """A standard stream that says whether it is a terminal."""

    def __init__(self, content: bytes = b"", *, terminal: bool = False) -> None:
        super().__init__(io.BytesIO(content), encoding="utf-8", write_through=True)
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    def text(self) -> str:
        return self.buffer.getvalue().decode()  # type: ignore[attr-defined,no-any-return]


Call = Callable[..., Done]


def _call(*args: object, stdin: bytes = b"", terminal: bool = False) -> Done:
    streams = (_Stream(stdin, terminal=terminal), _Stream(terminal=terminal), _Stream())
    old = (sys.argv, sys.stdin, sys.stdout, sys.stderr)
    sys.argv, (sys.stdin, sys.stdout, sys.stderr) = ["mixling", *map(str, args)], streams
    code = 0
    try:
        run()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.argv, sys.stdin, sys.stdout, sys.stderr = old
    return Done(code, streams[1].text(), streams[2].text())


@pytest.fixture(scope="session")
def call() -> Call:
    """Calls `mixling` with these arguments; `terminal` makes standard input and output look like one."""
    return _call


@pytest.fixture(scope="session")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.csv and test.csv: columns review and stars, "good" or "bad" by one word of five each."""
    folder = tmp_path_factory.mktemp("reviews")
    chance = random.Random(0)
    words = {"good": ["great", "lovely", "fine", "superb", "nice"], "bad": ["awful", "boring", "poor", "dull", "weak"]}
    for name, rows in (("train", 240), ("test", 40)):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["id", "review", "stars"])
            for number in range(rows):
                label = chance.choice(["good", "bad"])
                noun = chance.choice(["film", "plot", "cast", "music"])
                table.writerow([number, f"what a {chance.choice(words[label])} {noun}, row {number}", label])
    return folder


@pytest.fixture(scope="session")
def model(call: Call, reviews: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder, trained by `mixling train` on `reviews`."""
    folder = tmp_path_factory.mktemp("runs") / "model"
    options = ["--text", "review", "--label", "stars", "--epochs", "6", "--test-fraction", "0", "-o", folder]
    done = call("train", reviews / "train.csv", *options)
    assert done.code == 0, done.err
    assert done.out.startswith("validation: accuracy ")
    return folder


@pytest.fixture(scope="session")
def tagger(call: Call, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder beside its rows, slots.jsonl: cities and days tagged by one word each."""
    folder = tmp_path_factory.mktemp("slots")
    chance = random.Random(1)
    with (folder / "slots.jsonl").open("w") as file:
        for number in range(200):
            city, day = chance.choice(["oslo", "rome", "lima"]), chance.choice(["monday", "sunday"])
            tokens = f'["fly", "to", "{city}", "on", "{day}", "no{number}"]'
            file.write(f'{{"tokens": {tokens}, "slots": ["O", "O", "B-city", "O", "B-day", "O"]}}\n')
    done = call("train", folder / "slots.jsonl", "--epochs", 6, "--test-fraction", 0, "-o", folder / "tagger")
    assert done.code == 0, done.err
    assert "task: tagging" in done.err
    return folder / "tagger"
