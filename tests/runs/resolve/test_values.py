"""Every key of a configuration, with values that are natural to write: one error, or a configuration that is JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mixling.errors import ConfigError, UserError
from mixling.research.pretraining import MASKED_LM
from mixling.research.seq2seq import PAIRS
from mixling.research.vision import IMAGE_RUNS
from mixling.runs.resolve import LABELS, Spec, resolve

KINDS: dict[str, tuple[Spec[Any], dict[str, Any]]] = {
    "train": (LABELS, {"task": "classification"}),
    "pretrain": (MASKED_LM, {}),
    "text2text": (PAIRS, {}),
    "images": (IMAGE_RUNS, {}),
}
NUMBERS = ["inf", "-inf", "nan", "1e400", "1_000", "0x10", "-1", "0", "1.5", "9" * 30, "9" * 5000, "10%", "5s", "1,5"]
NULS = ['"\\u0000"', '["a\\u0000b"]']
OTHERS = ["true", "''", "[]", "[1]", '["a", "a"]', "[[]]", "[{}]", "{}", "{a = 1}", "{a.b = inf}", "none", "[" * 5000]
DATES = ["2026-01-01", "2026-01-01T00:00:00Z", "07:32:00", "[2026-01-01]"]


def keys(value: Any, path: str = "") -> Iterator[str]:
    """Yield the names of all keys, tables and items of lists included."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
    for name, inner in items:
        yield f"{path}{name}"
        yield from keys(inner, f"{path}{name}.")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("values", [NUMBERS, OTHERS, DATES, NULS], ids=["numbers", "others", "dates", "nuls"])
def test_every_key_has_one_error_or_a_value_that_is_json(kind: str, values: list[str]) -> None:
    spec, given = KINDS[kind]
    names = list(keys(resolve(given, spec=spec).config.model_dump(mode="json")))
    assert len(names) > 20
    for name in [*names, "nothing", "train.nothing"]:
        for value in values:
            try:
                config = resolve(given, spec=spec, overrides=[f"{name}={value}"]).config
            except (UserError, OSError):  # the latter, such as a file name that is too long, is one line of the command
                continue
            except Exception as error:
                pytest.fail(f"{name}={value[:20]}: {type(error).__name__}: {error}")
            assert "\\u0000" not in json.dumps(config.to_dict(), allow_nan=False)


def test_a_file_has_one_error_as_well(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    for value in [*NUMBERS[:10], *OTHERS[:10], *DATES, *NULS]:
        for text in (f"task = {value}", f"seed = {value}", f"train = {value}", f"[train.optim]\nclip_norm = {value}"):
            path.write_text(text)
            try:
                config = resolve({"task": None}, spec=LABELS, toml=str(path)).config
            except UserError:
                continue
            json.dumps(config.to_dict(), allow_nan=False)


@pytest.mark.parametrize("content", ["a = " + "[" * 100_000, "a = " + "9" * 5000, "a" + ".a" * 2_000 + " = 1"])
def test_a_file_that_is_deep_or_long_is_one_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "run.toml").write_text(content)
    with pytest.raises(ConfigError, match=r"run.toml: "):
        resolve({}, spec=LABELS, toml=str(tmp_path / "run.toml"))


@pytest.mark.parametrize(
    "text", ['model = "a\\u0000"', '[init]\npretrained = "\\u0000"', '[data]\nfiles = ["\\u0000"]']
)
def test_a_nul_in_a_file_is_an_error_that_names_the_key(text: str, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"(model|run\.toml: init\.pretrained|run\.toml: data\.files): .*\\x00"):
        resolve({"task": "classification"}, spec=LABELS, toml=str(tmp_path / "run.toml"))
