"""Write docs/recipes.md: the training recipes by name, from `mixling.runs.resolve.recipes`.

python docs/recipes.py
"""

from __future__ import annotations

from pathlib import Path

from mixling.runs.resolve import RECIPES
from mixling.runs.resolve.recipes import Recipe

_COMMANDS = {
    "train": "`mixling train`",
    "pretrain": "`mixling pretrain`",
    "text2text": "`mixling train --task text2text`, `mixling pretrain --objective span-corruption`",
    "image_classification": "`mixling train --task image_classification`",
}
_INTRODUCTION = """# Training recipes

<!-- Written by `python docs/recipes.py`; a test compares it with the code. -->

`--recipe NAME` trains with the hyper-parameters that a paper prints, instead of mixling's own, which are for small
models and chosen on validation data:

<!-- not run: a model of 18 layers -->
```sh
mixling sample messages
mixling train messages.csv --text message --label topic --model gmlp-18 --recipe gmlp-table9 -o runs/topics
```

A TOML file (`recipe = "NAME"`), other options and `--set` override a recipe's values, and `run.json` in the run's
folder has all values that were used. HyperMixer has no recipe: its hyper-parameters are in an appendix that was not
available.
"""


def render() -> str:
    """Return the page."""
    return "\n".join([_INTRODUCTION, *(_section(name, recipe) for name, recipe in RECIPES.items())])


def _section(name: str, recipe: Recipe) -> str:
    rows = [f"| source | {recipe.source} |", f"| for | {', '.join(_COMMANDS[kind] for kind in recipe.kinds)} |"]
    values = {**_flat(recipe.train, "train"), **_flat(recipe.model, "model"), **_flat(recipe.augment, "augment")}
    if recipe.dropout is not None:
        values["dropout of the model"] = recipe.dropout
    rows += [f"| `{key}` | {_shown(value)} |" for key, value in values.items()]
    rows += [
        f"| the paper chooses `{key}` from | {', '.join(map(_shown, grid))} |" for key, grid in recipe.grid.items()
    ]
    if recipe.open:
        rows.append(f"| not in the paper | {recipe.open} |")
    return "\n".join([f"## {name}", "", "| | |", "|---|---|", *rows, ""])


def _flat(values: object, path: str) -> dict[str, object]:
    if not hasattr(values, "items"):
        return {path: values}
    return {key: item for name, value in values.items() for key, item in _flat(value, f"{path}.{name}").items()}


def _shown(value: object) -> str:
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value).lower()


if __name__ == "__main__":
    Path(__file__).with_name("recipes.md").write_text(render(), "utf-8")
