"""How the code is built, counted from its text: its size, what stands where, and how it is written.

    python benchmarks/architecture.py                                      # this checkout
    python benchmarks/architecture.py --commits 10892229 HEAD              # any commits, side by side

Everything is counted on the syntax trees of the files, by the same rules for every commit; the rules are the functions
below. Through how many files a value passes is counted by benchmarks/value_flow.py. Written to
benchmarks/results/architecture.json.
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
KINDS = {"TRAINING", "PRETRAINING", "TEXT_TO_TEXT", "IMAGES"}
# Where the research side was before it had a folder.
RESEARCH = (
    "research",
    "mixers",
    "layers",
    "models",
    "seq2seq",
    "vision",
    "inspect",
    "cost",
    "transformers",
    "teachers",
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


def comparisons(source: Path, values: set[str]) -> int:
    """Count the comparisons with a string, or a name, of `values` outside `tasks/`."""
    found = 0
    for path, tree in trees(source):
        for node in ast.walk(tree):
            if path.parts[0] != "tasks" and isinstance(node, ast.Compare):
                parts = [item for side in (node.left, *node.comparators) for item in ast.walk(side)]
                texts = {item.value for item in parts if isinstance(item, ast.Constant) and isinstance(item.value, str)}
                found += bool(values & (texts | {item.id for item in parts if isinstance(item, ast.Name)}))
    return found


def lines(root: Path) -> dict[str, int]:
    """Count the lines of Python of the product and of the research side, and those of C."""
    source, counts = root / "src" / "mixling", Counter[str]()
    for path, _ in trees(source):
        side = "research" if path.parts[0] in RESEARCH else "product"
        counts[side] += len((source / path).read_text("utf-8").splitlines())
    for path in [*source.rglob("*.c"), *source.rglob("*.h")]:
        counts["c"] += len(path.read_text("utf-8").splitlines())
    return dict(counts)


def fan_out(source: Path) -> tuple[int, str]:
    """Return the most modules of mixling that a module imports, and which module it is; packages do not count."""
    return max(
        (
            len({node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and _is_ours(node)}),
            str(path),
        )
        for path, tree in trees(source)
        if path.name != "__init__.py"
    )


def _is_ours(node: ast.ImportFrom) -> bool:
    return (node.module or "").startswith("mixling.")


def circles(source: Path) -> list[list[str]]:
    """Return the groups of modules that import each other, in functions and for types, too."""
    modules = {".".join(("mixling", *path.with_suffix("").parts)).removesuffix(".__init__"): tree
               for path, tree in trees(source)}  # fmt: skip
    imports = {}
    for name, tree in modules.items():
        if (source.parent / name.replace(".", "/")).is_dir():
            continue
        nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
        names = {f"{node.module}.{item.name}" for node in nodes for item in node.names}
        imports[name] = ((names | {str(node.module) for node in nodes}) & modules.keys()) - {name}
    reach = {name: _reachable(name, imports) for name in imports}
    groups = {frozenset(other for other in reach[name] if name in reach.get(other, ())) for name in imports}
    return sorted(sorted(group) for group in groups if len(group) > 1)


def _reachable(start: str, imports: dict[str, set[str]]) -> set[str]:
    seen, waiting = set[str](), [start]
    while waiting:
        for other in imports.get(waiting.pop(), ()):
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    return seen


def density(source: Path) -> dict[str, float]:
    """Return tuple assignments and comprehensions in each thousand lines with code or docstrings."""
    counts, size = Counter[str](), 0
    for path, tree in trees(source):
        size += sum(bool(line.strip()) and not line.strip().startswith("#") for line in
                    (source / path).read_text("utf-8").splitlines())  # fmt: skip
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
                counts["tuple_assignments"] += isinstance(node.targets[0], ast.Tuple)
            counts["comprehensions"] += isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp)
    return {name: round(1000 * count / size, 1) for name, count in counts.items()}


def short_private_functions(source: Path) -> list[str]:
    """Return the private functions of up to five lines of code that their module names once, to call them.

    One that is named as a value, as in a table or as a callback, needs its name.
    """
    found = []
    for path, tree in trees(source):
        used = Counter(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
        called = {
            node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        for node in tree.body:
            if (
                isinstance(node, ast.FunctionDef)
                and node.name.startswith("_")
                and used[node.name] <= 1
                and node.name in called
            ):
                body = node.body[1:] if ast.get_docstring(node) is not None else node.body
                if body and (body[-1].end_lineno or 0) - body[0].lineno < 5:
                    found.append(f"{path}:{node.name}")
    return found


PHRASES = re.compile(r"\b(th(?:at|ose) of|so many|of which|what is|ha(?:s|ve) not)\b")


def phrases(source: Path) -> int:
    """Count the phrases that a native reader stumbles over, in Python and C."""
    files = [path for ending in ("*.py", "*.c", "*.h") for path in source.rglob(ending)]
    return sum(len(PHRASES.findall(" ".join(path.read_text("utf-8").split()))) for path in files)


def surface(root: Path) -> dict[str, int]:
    """Count the rows of the reference: options of commands and keys of the configuration of `train`."""
    folder = root / "docs" / "reference"
    commands, keys = ((folder / name).read_text("utf-8") for name in ("commands.md", "configuration.md"))
    return {
        "options": len(re.findall(r"(?m)^\| `(?:-\w, )?--", commands)),
        "keys": len(re.findall(r"(?m)^\| `[a-z_.]+` ", keys)),
    }


def private_doors(*folders: Path, source: Path = ROOT / "src" / "mixling") -> int:
    """Count the names that are imported from modules, rather than from packages, which declare what they export."""
    packages = {"mixling"} | {
        ".".join(("mixling", *path.parent.relative_to(source).parts)) for path in source.rglob("__init__.py")
    }
    return sum(
        len(node.names)
        for folder in folders
        for _, tree in trees(folder)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("mixling.")
        if node.module.count(".") >= 2 and node.module not in packages
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
    """Return where old words are in public names, configuration keys, options, help, C and the README: "file:line:
    text"."""
    found: dict[str, list[str]] = {"names": [], "keys": [], "options": [], "c": [], "readme": []}
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
    for path in sorted(path for ending in ("*.c", "*.h") for path in source.rglob(ending)):
        found["c"] += _old_in_c(path.read_text("utf-8"), str(path.relative_to(source)))
    for number, line in enumerate(readme.splitlines(), 1):
        if OLD_PROSE.search(line):
            found["readme"].append(f"README.md:{number}: {line}")
    return found


# Names that a C file gives: of functions, types and values of an enum at the left margin, and of fields of structs.
C_NAMES = re.compile(r"(?m)^(?:[a-z_][\w ]*[ *])([a-z_]\w+)\(|^ {4}(?:[a-z_]\w*[ *]+)+([a-z_]\w*)(?:\[[^]]*\])?;")


C_WORDS = {"unit", "units", "share", "shares"}  # a factor of integers, of recurrent layers; to use in common


def _old_in_c(text: str, path: str) -> list[str]:
    """Return the old words in names of functions and fields of a C file: "file:line: name"."""
    names = ((text.count("\n", 0, match.start()) + 1, match[1] or match[2]) for match in C_NAMES.finditer(text))
    return [f"{path}:{line}: {name}" for line, name in names if _old(name) - C_WORDS]


def _strings(node: ast.AST) -> list[str]:
    parts = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant))
    return [value for value in parts if isinstance(value, str)]


def _old(name: str) -> set[str]:
    parts = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower().split("_")
    return {part for part in parts if OLD_NAMES.fullmatch(part)}


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def figures(root: Path) -> dict[str, Any]:
    """Return all figures of a checkout."""
    source = root / "src" / "mixling"
    return {
        "lines": lines(root),
        "files_in_runs": len([*(source / "runs").glob("[!_]*.py")]),
        "files_over_320_lines": sum(len(path.read_text("utf-8").splitlines()) > 320 for path in source.rglob("*.py")),
        "fan_out": fan_out(source),
        "circles": len(circles(source)),
        "comparisons_with_a_kind": comparisons(source, KINDS),
        "comparisons_with_a_task": comparisons(source, TASKS),
        "per_thousand_lines": density(source),
        "short_private_functions_with_one_caller": len(short_private_functions(source)),
        "phrases": phrases(source),
        "surface": surface(root),
        "deep_imports": {
            "experiments_and_benchmarks": private_doors(root / "experiments", root / "benchmarks", source=source),
            "tests": private_doors(root / "tests", source=source),
        },
        "names_in_two_modules": shared_names(source),
        "old_words": {name: len(items) for name, items in old_words(source, (root / "README.md").read_text()).items()},
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
