"""How far a text and an option travel through the code, as benchmarks/value_flow.py counts it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from mixling import TextConfig

ROOT = Path(__file__).parents[2]


def test_the_option_and_the_text_pass_through_few_files() -> None:
    commits = json.loads((ROOT / "benchmarks" / "results" / "value_flow.json").read_text("utf-8"))["commits"]
    newest = commits["checkout"]
    assert newest["train"]["count"] <= 20
    assert newest["predict"]["count"] <= 5


def test_a_value_is_found_in_what_contains_it(load_script: Callable[[str], ModuleType]) -> None:
    holds = load_script("benchmarks/value_flow.py").holds
    assert holds("a", "a")
    assert holds({"key": [("a",)]}, "a")
    assert not holds({"a": 1}, "a")  # a key is no value
    assert holds(TextConfig(projection={"type": "minhash"}), "minhash")
    assert not holds([[[[["a"]]]]], "a")  # too deep


def test_files_are_in_the_order_of_the_calls(tmp_path: Path) -> None:
    package = tmp_path / "mixling"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text("import sys\nfrom mixling import a\na.outer(a.Options(sys.argv[3]))\n")
    (package / "a.py").write_text(
        "from mixling import b\n"
        "class Options:\n    def __init__(self, text): self.text = text\n"
        "def outer(options): b.inner(options.text); unrelated(1)\n"
        "def unrelated(number): pass\n"
    )
    (package / "b.py").write_text("from mixling import c\ndef inner(text): c.last(len(text))\n")
    (package / "c.py").write_text("def last(number): pass\n")
    command = [sys.executable, str(ROOT / "benchmarks" / "value_flow.py"), "--watch", "predict"]
    found = subprocess.run(
        [*command, "--source", str(package)],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(found.stdout.splitlines()[-1]) == ["a.py", "b.py"]
