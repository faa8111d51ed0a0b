"""The complete configuration as commented TOML: it is read back as it was, and nothing is missing."""

from __future__ import annotations

import itertools
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mixling import PRESETS, ConfigError
from mixling.config import Config
from mixling.research.pretraining import MASKED_LM
from mixling.research.seq2seq import PAIRS, SEQ2SEQ_PRESETS
from mixling.research.vision import IMAGE_PRESETS, IMAGE_RUNS
from mixling.runs.resolve import LABELS, Spec, resolve
from mixling.runs.resolve.toml import default_toml

NAMED = [(LABELS, name) for name in PRESETS] + [(PAIRS, name) for name in SEQ2SEQ_PRESETS]
NAMED += [(IMAGE_RUNS, name) for name in IMAGE_PRESETS]


@pytest.mark.parametrize(
    ("spec", "model"), [(LABELS, None), (MASKED_LM, None), (PAIRS, None), (MASKED_LM, "bert-tiny"), *NAMED]
)
def test_what_is_printed_is_read_back_as_the_default(spec: Spec[Any], model: str | None, tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(default_toml(spec, model))
    assert resolve({}, spec=spec, toml=str(file)).config == resolve({"model": model}, spec=spec).config


def keys(config: Config) -> Iterator[str]:
    """The keys of a configuration and of those in it."""
    for name in type(config).model_fields:
        yield name
        value = getattr(config, name)
        for item in value if isinstance(value, tuple) else [value]:
            if isinstance(item, Config):
                yield from keys(item)


@pytest.mark.parametrize("spec", [LABELS, MASKED_LM, PAIRS, IMAGE_RUNS])
def test_every_key_has_a_line_with_its_type_before_it(spec: Spec[Any]) -> None:
    lines = default_toml(spec).splitlines()
    found = set()
    for before, line in itertools.pairwise(lines):
        if match := re.match(r"(?:# )*(\w+) =", line):
            found.add(match[1])
            assert before.startswith("# ")
            assert before.endswith((")", "this line")), before
        elif match := re.match(r"(?:# )*\[+(?:\w+\.)*(\w+)\]+$", line):
            found.add(match[1])
    assert set(keys(resolve({}, spec=spec).config)) <= found


def test_descriptions_types_limits_and_defaults_are_stated() -> None:
    text = default_toml(LABELS)
    parts = "# parts into which the batch of a step is divided to save memory (integer >= 1, default 1)\n"
    assert f"{parts}gradient_accumulation_steps = 1\n" in text
    assert '# the optimizer ("adamw" | ' in text
    assert (
        "# seconds for all; if needed, fewer epochs or n-grams alone (number > 0, default none)\n# time_budget =\n"
        in text
    )


def test_what_is_in_comments_can_be_taken_out_of_them(tmp_path: Path) -> None:
    head, mark, rest = default_toml(LABELS).partition("# [distill]\n")
    section = mark + rest.partition("\n\n")[0]
    values = tomllib.loads(re.sub("(?m)^# ", "", section).replace("# teacher =", 'teacher = "self"'))
    assert values["distill"]["teacher"] == "self"
    assert values["distill"]["copies"] == 2
    assert "distill" not in tomllib.loads(head)


def test_a_model_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'mixling-small'"):
        default_toml(LABELS, "mixling-smal")


@pytest.mark.slow
def test_the_command_line_prints_what_train_takes(call: Any, tmp_path: Path) -> None:
    rows = [{"text": f"{'good' if i % 2 else 'bad'} film {i}", "label": "ab"[i % 2]} for i in range(40)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    printed = call("config", "mixling-tiny").out
    (tmp_path / "run.toml").write_text(printed)
    done = call(
        "train", tmp_path / "rows.jsonl", "--config", tmp_path / "run.toml", "--epochs", 1, "-o", tmp_path / "run"
    )
    assert done.code == 0, done.err
    assert json.loads((tmp_path / "run" / "run.json").read_text())["config"]["model"]["dim"] == 32
    assert call("config", "pretrain").out == default_toml(MASKED_LM)
    assert call("config", "text2text").out == default_toml(PAIRS)
    assert call("config", "image_classification").out == default_toml(IMAGE_RUNS)
    assert call("config", "deit-s").out == default_toml(IMAGE_RUNS, "deit-s")
    refused = call("config", "pretain")
    assert (refused.code, "did you mean 'pretrain'" in refused.err) == (2, True)
