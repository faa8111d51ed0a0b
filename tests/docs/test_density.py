"""How the source is written: without circles of imports, and with counts of density that may only fall."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIMITS = {"tuple_assignments": 0.6, "comprehensions": 39.6, "short_functions": 131}  # the first two per 1,000 lines
ADVICE = {
    "tuple_assignments": "assign unrelated values one by one",
    "comprehensions": "a loop, or a function with a name, says more than a comprehension in another",
    "short_functions": "write the lines where they are needed, once",
}


@pytest.fixture(scope="module")
def script(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("benchmarks/architecture.py")


@pytest.mark.slow
def test_the_source_does_not_get_denser(script: ModuleType) -> None:
    source = ROOT / "src" / "mixling"
    counts = {**script.density(source), "short_functions": len(script.short_private_functions(source))}
    assert [f"{counts[name]} {name}: {ADVICE[name]}" for name, limit in LIMITS.items() if counts[name] > limit] == []


@pytest.mark.slow
def test_no_modules_import_each_other(script: ModuleType) -> None:
    assert script.circles(ROOT / "src" / "mixling") == [], "imports in functions and for types count, too"


def test_modules_that_import_each_other_are_found(script: ModuleType, tmp_path: Path) -> None:
    source = tmp_path / "mixling"
    source.mkdir()
    (source / "a.py").write_text("def f():\n    from mixling.b import g\n")
    (source / "b.py").write_text("from mixling.c import h\n")
    (source / "c.py").write_text("if TYPE_CHECKING:\n    from mixling.a import f\n")
    (source / "d.py").write_text("from mixling import a\nfrom mixling.b import g\n")
    assert script.circles(source) == [["mixling.a", "mixling.b", "mixling.c"]]


def test_each_kind_is_counted(script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "a, b = 1, 2\nc, d = function()\n[x for x in (y for y in b)]\n\n\n"
        "def _short():\n    return 1\n\n\ndef _twice():\n    return 1\n\n\n_short()\n_twice(), _twice()\n"
    )
    assert script.density(tmp_path) == {"tuple_assignments": 111.1, "comprehensions": 222.2}
    assert script.short_private_functions(tmp_path) == ["a.py:_short"]
