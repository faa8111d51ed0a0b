"""Public names, configuration keys, options, help, C and the README use the words of docs/glossary.md."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("benchmarks/architecture.py")


def test_old_words_are_gone(script: ModuleType) -> None:
    found = script.old_words(ROOT / "src" / "mixling", (ROOT / "README.md").read_text("utf-8"))
    found["c"] = [line for line in found["c"] if "kept.c" not in line]  # `places`, which is being worked on
    assert not any(found.values()), f"docs/glossary.md has the new words, in its last table: {found}"


def test_each_kind_of_old_word_is_found(script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "cli").mkdir()
    (tmp_path / "cli" / "train.py").write_text("typer.Option('--dev-fraction', help='Share that is told.')\n")
    (tmp_path / "config.py").write_text(
        "class A(Config):\n    dev: int\n    b: int = Field(1, description='the stretch')\n"
    )
    (tmp_path / "runs.py").write_text("def settle_units() -> None: ...\ndef _dev() -> None: ...\n")
    (tmp_path / "a.c").write_text("struct a {\n    uint32_t *places; /* told */\n};\nstatic int tell(int unit) {\n")
    assert script.old_words(tmp_path, "One command tells.\n") == {
        "names": ["runs.py:1: settle_units"],
        "keys": ["config.py:2: dev", "config.py:3: b the stretch"],
        "options": ["cli/train.py:1: --dev-fraction", "cli/train.py:1: Share that is told."],
        "c": ["a.c:2: places", "a.c:4: tell"],
        "readme": ["README.md:1: One command tells."],
    }


def test_a_public_name_has_one_home(script: ModuleType) -> None:
    assert script.shared_names(ROOT / "src" / "mixling") == {}, "name one of the two after what is special about it"


def test_a_name_in_two_modules_is_found(script: ModuleType, tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("def report() -> None: ...\ndef _own() -> None: ...\n")
    assert script.shared_names(tmp_path) == {"report": ["a.py", "b.py"]}


def test_stumbling_phrases_do_not_come_back(script: ModuleType) -> None:
    assert script.phrases(ROOT / "src" / "mixling") <= 20, (
        f"write subject, verb and object, with a noun in place of {script.PHRASES.pattern}"
    )


# The pages that most readers see have none of these phrases; all others together, only fewer than today.
MOST_READ = (
    "README.md", "docs/index.md", "docs/tutorial.md", "docs/faq.md", "docs/live.md", "docs/costs.md",
    "docs/compatibility.md", "docs/how-to/bad-model.md", "docs/how-to/choose-a-model.md", "docs/how-to/recipes.md",
    "docs/how-to/trust.md", "docs/how-to/few-labels.md", "docs/how-to/production.md", "docs/browser.md",
)  # fmt: skip


def stumbling(script: ModuleType, text: str) -> list[str]:
    """The phrases of a page, without its blocks and without the perfect tense."""
    found: list[str] = script.PHRASES.findall(re.sub(r"(?ms)^ *```.+?^ *```", "", text))
    return [phrase for phrase in found if not phrase.startswith("ha")]


@pytest.mark.parametrize("name", MOST_READ)
def test_the_most_read_pages_have_no_stumbling_phrase(script: ModuleType, name: str) -> None:
    assert stumbling(script, (ROOT / name).read_text("utf-8")) == [], "write a noun, then subject, verb and object"


def test_stumbling_phrases_of_other_pages_only_become_fewer(script: ModuleType) -> None:
    assert stumbling(script, "It has not said what is\n```sh\nwhat is\n```\nso many") == ["what is", "so many"]
    pages = sorted((ROOT / "docs").rglob("*.md"))
    assert sum(len(stumbling(script, page.read_text("utf-8"))) for page in pages) <= 81


def test_phrases_are_found_across_lines_and_in_c(script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("# the ids that\n# of\n")
    (tmp_path / "b.c").write_text("/* so many bytes,\n   of which none is, has not */\n")
    assert script.phrases(tmp_path) == 3
