"""How the code is built, counted from its text: what a newcomer must read, and what a new task or a new name costs.

    python benchmarks/architecture.py                                      # this checkout
    python benchmarks/architecture.py --commits 5e84c5d HEAD               # any commits, side by side

Everything is counted on the syntax trees of the files, by the same rules for every commit; the rules are the functions
below. Written to benchmarks/results/architecture.json.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import subprocess
import tarfile
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from mixling.provenance import provenance

ROOT = Path(__file__).parent.parent
TASKS = {"classification", "multi_label", "tagging", "question_answering", "regression", "text2text"}
LABEL_KINDS = {"single", "multi", "iob", "span"}
OUTPUTS = {"text", "tokens", "units", "spans", "subwords", "vocabulary"}
SUBJECT = re.compile(r"(^|_)(task|kind|output|name|labels?|infer_task)$")
# Packages that the core never imports.
WINGS = (
    "seq2seq", "comparison", "cost", "inspect", "vision",
    "audit", "browser", "bulk", "serving", "transformers", "tuning",
)  # fmt: skip
# Where the parts of the wings were before they were folders of their own.
OLD_WINGS = re.compile(
    r"(seq2seq|encoder_decoder|generation|image|text_to_text|text_metrics|generator|written"
    r"|pair|pairs|pair_\w+|mixing|recombination|spans|forms|unfolding)\.py"
)
OLD_NAMES = re.compile(
    r"tells?|told|says?|said|dev|units?|pieces?|measures?|places?|shares?|faults?|settled?|forms?|frontend"
    r"|survival|observers?|processes|lessons|taught|contest|contestants?|entrants?|standings?|unfold|unfolding|passages?|stretch|house"
    r"|labeller|unlabelled|serialise"
)
OLD_PROSE = re.compile(
    r"\b(tell|tells|told|says?|said|stands?|stood|lacks?|goes on|settled?|taught|lessons|contest|contestants?"
    r"|entrants?|standings?|pieces|(?<!hidden )units(?! of each direction)|faults?|stretch|front end|unfolding)\b"
)


def trees(folder: Path) -> Iterator[tuple[Path, ast.Module]]:
    """Every Python file below a folder, with its path in it and its syntax tree."""
    for path in sorted(folder.rglob("*.py")):
        yield path.relative_to(folder), _parsed(path.read_text())


@cache
def _parsed(source: str) -> ast.Module:
    return ast.parse(source)


def comparisons(source: Path) -> Counter[str]:
    """Count comparisons with the name of a task, label kind or output outside `tasks/`, by file."""
    found: Counter[str] = Counter()
    values = TASKS | LABEL_KINDS | OUTPUTS
    for path, tree in trees(source):
        if path.parts[0] == "tasks":
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare) and _is_about_tasks([node.left, *node.comparators], values):
                found[str(path)] += 1
            if isinstance(node, ast.Match) and any(
                _constants(part) & values for case in node.cases for part in ast.walk(case.pattern)
            ):
                found[str(path)] += len(node.cases)
    return found


def _is_about_tasks(parts: list[ast.expr], values: set[str]) -> bool:
    named = any(
        (isinstance(part, ast.Name) and SUBJECT.search(part.id))
        or (isinstance(part, ast.Attribute) and SUBJECT.search(part.attr))
        or (isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Constant))
        for part in parts
    )
    return named and any(_constants(part) & values for part in parts)


def _constants(node: ast.AST) -> set[str]:
    items = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    if isinstance(node, ast.MatchValue):
        items = [node.value]
    return {item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)}


def files_that_name_a_task(source: Path) -> list[str]:
    """Return the files outside `tasks/` (and the wing of models that write) in which a task's name is a string."""
    out = []
    for path, tree in trees(source):
        named = {
            node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        if path.parts[0] not in ("tasks", "seq2seq") and named & (TASKS - {"text2text"}):
            out.append(str(path))
    return out


def function_lines(source: Path, names: set[str], files: re.Pattern[str]) -> int:
    """Count the lines of the functions with these names in the files that match."""
    return sum(
        node.end_lineno - node.lineno + 1  # type: ignore[operator]
        for path, tree in trees(source)
        if files.fullmatch(str(path))
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name in names
    )


def readers_of_a_run_folder(source: Path) -> list[str]:
    """Return the functions that read config.json or run.json by themselves: they name the file and call a reader."""
    out = []
    readers = {"read_json", "read_file", "read_sealed", "read_text", "read_bytes", "loads", "_read"}
    for path, tree in trees(source):
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef):
                continue
            named = re.search(r"/ ?(CONFIG_FILE|RUN_FILE|'config\.json'|'run\.json')", ast.unparse(node))
            calls = {_name(call.func) for call in ast.walk(node) if isinstance(call, ast.Call)}
            if named and calls & readers:
                out.append(f"{path}:{node.name}")
    return sorted(out)


def resolvers(source: Path) -> list[str]:
    """Return the modules that lay options over defaults and parse the configuration of a run from them."""
    out = []
    for path, tree in trees(source):
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        parsed = [call for call in calls if _name(call.func) == "parse" and call.args]
        named = re.compile(r"(Run|Pretrain)\w*Config|schema")
        if any(named.search(ast.unparse(call.args[0])) for call in parsed) and any(
            _name(call.func) in ("merge", "layered", "with_changes") for call in calls
        ):
            out.append(str(path))
    return out


def lookups(source: Path) -> int:
    """Count look-ups of an option by its name as a string in the command line."""
    text = "".join(path.read_text() for path in sorted((source / "cli").rglob("*.py")))
    return len(re.findall(r"params(?:\[\"|\.get\(\"|\[')", text))


def commands_that_import_commands(source: Path) -> list[str]:
    """Return the imports from one command of another; a command is a module with a function of its own name."""
    modules = {path.stem: tree for path, tree in trees(source / "cli")}
    commands = {
        name
        for name, tree in modules.items()
        if any(isinstance(node, ast.FunctionDef) and node.name in (name, f"{name}_command") for node in tree.body)
    }
    out = set()
    for name in commands:
        for node in ast.walk(modules[name]):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mixling.cli."):
                other = node.module.split(".")[2]  # type: ignore[union-attr]
                if other in commands:
                    out.add(f"{name} -> {other}")
    return sorted(out)


def deep_imports(*folders: Path) -> int:
    """Count the names that are imported from submodules of mixling rather than from `mixling` itself."""
    return sum(
        len(node.names)
        for folder in folders
        for _, tree in trees(folder)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mixling.")
    )


def private_doors(*folders: Path, source: Path = ROOT / "src" / "mixling") -> int:
    """As `deep_imports`, without the packages that declare what they export (`mixling.mixers` and the like)."""
    packages = {"mixling"} | {
        ".".join(("mixling", *path.parent.relative_to(source).parts)) for path in source.rglob("__init__.py")
    }
    return sum(
        len(node.names)
        for folder in folders
        for _, tree in trees(folder)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").count(".") >= 2 and node.module not in packages
    )


def shared_names(source: Path) -> dict[str, list[str]]:
    """Return the public top-level names that are defined in two or more modules."""
    found: dict[str, list[str]] = defaultdict(list)
    for path, tree in trees(source):
        names: set[str] = set()
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
        for name in names:
            if not name.startswith("_"):
                found[name].append(str(path))
    return {name: files for name, files in sorted(found.items()) if len(files) > 1}


def old_words(source: Path, readme: str) -> dict[str, list[str]]:
    """Return where old words are in public names, configuration keys, options, help and the README: "file:line:
    text"."""
    found: dict[str, list[str]] = {"names": [], "keys": [], "options": [], "readme": []}
    for path, tree in trees(source):
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_") and _old(node.name):
                found["names"].append(f"{path}:{node.lineno}: {node.name}")
            if isinstance(node, ast.ClassDef) and any("Config" in ast.unparse(base) for base in node.bases):
                for item in node.body:
                    if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                        text = " ".join([item.target.id, *_strings(item)])
                        if _old(item.target.id) or OLD_PROSE.search(text):
                            found["keys"].append(f"{path}:{item.lineno}: {text}")
            if path.parts[0] == "cli" and isinstance(node, ast.Call) and _name(node.func) in ("Option", "Argument"):
                for text in _strings(node):
                    old = _old(text.replace("-", "_")) if text.startswith("-") else OLD_PROSE.search(text)
                    if old and text != "--dev":  # the alias of --validation
                        found["options"].append(f"{path}:{node.lineno}: {text}")
    for number, line in enumerate(readme.splitlines(), 1):
        if OLD_PROSE.search(line):
            found["readme"].append(f"README.md:{number}: {line}")
    return found


def _strings(node: ast.AST) -> list[str]:
    parts = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant))
    return [value for value in parts if isinstance(value, str)]


def _old(name: str) -> set[str]:
    parts = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower().split("_")
    return {part for part in parts if OLD_NAMES.fullmatch(part)}


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def lines(source: Path) -> dict[str, int]:
    """Count the lines of the source, of it without the wings (wherever these were), and the same of lines with code."""
    counts = {path: len((source / path).read_text().splitlines()) for path, _ in trees(source)}
    code = {path: _code_lines((source / path).read_text(), tree) for path, tree in trees(source)}
    wings = {path: count for path, count in counts.items() if path.parts[0] in WINGS or OLD_WINGS.fullmatch(path.name)}
    return {
        "all": sum(counts.values()),
        "core": sum(counts.values()) - sum(wings.values()),
        "code": sum(code.values()),
        "code_of_core": sum(code.values()) - sum(code[path] for path in wings),
    }


def _code_lines(text: str, tree: ast.Module) -> int:
    """Count the lines that are neither blank nor a comment nor part of a docstring."""
    documented = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            documented |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines = ((number, line.strip()) for number, line in enumerate(text.splitlines(), 1))
    return sum(bool(line) and not line.startswith("#") and number not in documented for number, line in lines)


def figures(root: Path) -> dict[str, Any]:
    """Return all figures of a checkout."""
    source = root / "src" / "mixling"
    compared = comparisons(source)
    orchestration = {"fit", "_fit", "pretrain", "_pretrain", "fit_pairs", "_fit_pairs", "run", "train_model", "execute"}
    shared = shared_names(source)
    readers = readers_of_a_run_folder(source)
    return {
        "comparisons_on_tasks": {"count": compared.total(), "files": len(compared), "where": dict(compared)},
        "files_that_name_a_task": files_that_name_a_task(source),
        "orchestration_lines": function_lines(
            source,
            orchestration,
            re.compile(r"(runs/(fit|training|pretrain|text_to_text|run)|seq2seq/(run|training))\.py"),
        ),
        "readers_of_a_run_folder": readers,
        "resolvers": resolvers(source),
        "lookups_by_string": lookups(source),
        "commands_that_import_commands": commands_that_import_commands(source),
        "deep_imports": {
            "experiments_and_benchmarks": deep_imports(root / "experiments", root / "benchmarks"),
            "tests": deep_imports(root / "tests"),
        },
        "imports_of_modules_behind_packages": {
            "experiments_and_benchmarks": private_doors(root / "experiments", root / "benchmarks"),
            "tests": private_doors(root / "tests"),
        },
        "names_in_two_modules": shared,
        "old_words": {name: len(items) for name, items in old_words(source, (root / "README.md").read_text()).items()},
        "lines": lines(source),
    }


def main() -> None:
    """Count, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", nargs="*", default=[], help="instead of this checkout")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "architecture.json")
    options = parser.parse_args()
    origin = provenance()
    found: dict[str, Any] = {}
    for commit in options.commits:
        name = subprocess.run(
            ["git", "rev-parse", "--short", commit], cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout.strip()
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(fileobj=io.BytesIO(archive)) as tree:
                tree.extractall(folder, filter="data")
            found[name] = figures(Path(folder))
    if not found:
        found["checkout"] = figures(ROOT)
    options.out.write_text(json.dumps({"provenance": origin, "commits": found}, indent=2) + "\n")
    for name, values in found.items():
        print(f"## {name}")
        for key, value in values.items():
            print(f"{key}: {_short(value)}")


def _short(value: Any) -> Any:
    if isinstance(value, list):
        return f"{len(value)} {value if len(value) < 12 else ''}"
    if isinstance(value, dict):
        return {key: item for key, item in value.items() if key != "where"} if len(value) < 12 else len(value)
    return value


if __name__ == "__main__":
    main()
