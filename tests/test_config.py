"""Configurations: unknown keys, wrong values, TOML, `--set` and merging."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field, ValidationError, model_validator

from mixling import ConfigError, RunConfig
from mixling.config import Config, merge, parse, read_overrides, read_toml
from mixling.errors import near_miss, shown_list


class Circle(Config):
    type: Literal["circle"] = "circle"
    radius: float = Field(1.0, gt=0)


class Square(Config):
    type: Literal["square"] = "square"
    side_length: int = Field(1, ge=1)


class Layer(Config):
    width: int = 4
    norm: Literal["pre", "post"] = "pre"


class Picture(Config):
    shape: Annotated[Circle | Square, Field(discriminator="type")] = Circle()
    layers: tuple[Layer, ...] = ()
    extra: Layer | None = None
    title: str = ""

    @model_validator(mode="after")
    def _check(self) -> Picture:
        if self.title == "forbidden":
            raise ValueError("a title may not be forbidden")
        return self


def problem(values: dict) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(Picture, values, where="picture.toml")
    return str(caught.value)


def test_items_of_a_list_are_changed_by_their_numbers() -> None:
    base = {"layers": [{"a": 1, "b": [{"c": 1}]}, {"a": 2}], "x": (1, 2)}
    made = merge(base, read_overrides(["layers.0.b.0.c=5", "layers.1.a=7", "x.1=9"]))
    assert made == {"layers": [{"a": 1, "b": [{"c": 5}]}, {"a": 7}], "x": [1, 9]}
    assert base["layers"] == [{"a": 1, "b": [{"c": 1}]}, {"a": 2}]
    with pytest.raises(ConfigError, match=r"layers\.2: there is no such item; layers has 2, counted from 0"):
        merge(base, {"layers": {"2": {"a": 1}}})


def test_defaults_and_given_values() -> None:
    read = parse(Picture, {"layers": [{"width": 7}], "shape": {"type": "square", "side_length": 3}}, where="x")
    assert read == Picture(layers=(Layer(width=7),), shape=Square(side_length=3))
    assert read.extra is None


def test_configurations_are_frozen_and_keyword_only() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Layer().width = 5  # type: ignore[misc]
    with pytest.raises(TypeError):
        Layer(5)  # type: ignore[call-arg]


def test_a_complete_dictionary_of_json_values_round_trips() -> None:
    config = Picture(layers=(Layer(), Layer(norm="post")), shape=Square(side_length=2), extra=Layer())
    values = json.loads(json.dumps(config.to_dict()))
    assert values["layers"][0] == {"width": 4, "norm": "pre"}
    assert parse(Picture, values, where="x") == config


@pytest.mark.parametrize(
    ("values", "location", "hint"),
    [
        ({"titel": "a"}, "'titel'", "did you mean 'title'? allowed: extra, layers, shape, title"),
        ({"layers": [{}, {"widht": 3}]}, "'layers.1.widht'", "did you mean 'layers.1.width'? allowed: norm, width"),
        ({"extra": {"nrom": "pre"}}, "'extra.nrom'", "did you mean 'extra.norm'?"),
        # In a union the keys of the member that `type` names are meant, and its tag is no part of the place.
        ({"shape": {"type": "square", "side": 3}}, "'shape.side'", "did you mean 'shape.side_length'?"),
        ({"shape": {"type": "circle", "side_length": 3}}, "'shape.side_length'", "allowed: radius, type"),
        # A key that stands deeper, in every member of a union.
        ({"radius": 3}, "'radius'", "did you mean 'shape.radius'?"),
        ({"side_lenght": 3}, "'side_lenght'", "did you mean 'shape.side_length'?"),
        ({"type": "circle"}, "'type'", "did you mean 'shape.type'?"),
    ],
)
def test_an_unknown_key_is_reported_with_its_location_and_the_near_miss(values: dict, location: str, hint: str) -> None:
    message = problem(values)
    assert message.startswith(f"picture.toml: unknown key {location}; ")
    assert hint in message


def test_of_many_choices_a_very_near_one_stands_alone() -> None:
    names = [f"mixling-{name}" for name in ("small", "base", "tiny", "mixer", "large", "huge")]
    assert near_miss("mixling-smal", names) == "did you mean 'mixling-small'? (6 are allowed)"
    assert near_miss("mixling-smal", names[:5]).endswith(f"allowed: {', '.join(names[:5])}")
    assert near_miss("ling", names).startswith("did you mean 'mixling-")  # not very near: the others are listed, too
    assert near_miss("ling", names).endswith(f"allowed: {', '.join(names)}")
    assert near_miss("zzz", map(str, range(100, 130))).endswith(" and 10 more")


def test_no_near_miss_is_invented() -> None:
    assert "did you mean" not in problem({"qqqq": 1})


@pytest.mark.parametrize(
    ("values", "reported"),
    [
        ({"layers": [{"width": "wide"}]}, ["layers.0.width: got 'wide'", "; allowed: integer"]),
        ({"layers": [{"width": True}]}, ["layers.0.width: got 'true'", "; allowed: integer"]),
        ({"layers": [{"norm": "mid"}]}, ["layers.0.norm: got 'mid'", '; allowed: "pre" | "post"']),
        ({"layers": {"width": 1}}, ["layers: got", "allowed: a list"]),
        ({"title": 5}, ["title: got 5", "; allowed: text"]),
        ({"shape": {"radius": -1.0, "type": "circle"}}, ["shape.radius: got -1.0", "; allowed: number > 0"]),
        ({"shape": {"radius": float("nan"), "type": "circle"}}, ["shape.radius: got nan", "; allowed: "]),
        ({"shape": "square"}, ["shape: got 'square'", '{ type = "square" }', "types: circle, square"]),
        ({"shape": ["circel"]}, ["shape: got ['circel']", '{ type = "circle" }']),
        ({"shape": {"type": "circel"}}, ["shape: unknown type 'circel'", "did you mean 'circle'?", "circle, square"]),
        ({"shape": "circle"}, ["shape: got 'circle'"]),
        ({"title": "forbidden"}, ["picture.toml: a title may not be forbidden"]),
    ],
)
def test_a_wrong_value_is_reported_with_what_was_got_and_what_is_allowed(values: dict, reported: list[str]) -> None:
    message = problem(values)
    assert message.startswith("picture.toml: ")
    assert all(part in message for part in reported), message


def test_every_problem_is_reported_at_once() -> None:
    assert len(problem({"titel": 1, "layers": [{"width": "x"}]}).splitlines()) == 2


def test_toml_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('title = "é"\n[[layers]]\nwidth = 3\n', "utf-8")
    assert read_toml(tmp_path / "a.toml") == {"title": "é", "layers": [{"width": 3}]}


@pytest.mark.parametrize(
    ("content", "reported"),
    [(b"a = 1\nb = = 2\n", "line 2"), (b"a = 1\na = 2\n", "line 2"), (b"a = '\xff'\n", "UTF-8")],
)
def test_a_problem_in_toml_is_reported_with_its_line(tmp_path: Path, content: bytes, reported: str) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read_toml(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert reported in str(caught.value)


def test_a_missing_file_and_a_folder_are_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"b\.toml: cannot be read: No such file"):
        read_toml(tmp_path / "b.toml")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read_toml(tmp_path)


@pytest.mark.parametrize(
    ("item", "nested"),
    [
        ("a=1", {"a": 1}),
        ("train.optim.lr=1e-3", {"train": {"optim": {"lr": 0.001}}}),
        (" a.b = true ", {"a": {"b": True}}),
        ("a=post", {"a": "post"}),
        ('a="5"', {"a": "5"}),
        ("a=x=y", {"a": "x=y"}),
        ("a=[1, 2]", {"a": [1, 2]}),
        ("a={b = 1, c = 'd'}", {"a": {"b": 1, "c": "d"}}),
        ("a=", {"a": ""}),
        ("a=C:\\data\\vocab.txt", {"a": "C:\\data\\vocab.txt"}),
    ],
)
def test_an_override_is_read(item: str, nested: dict) -> None:
    assert read_overrides([item]) == nested


def test_overrides_share_tables_and_the_later_one_wins() -> None:
    assert read_overrides(["a.b=1", "a.c=2", "d=3", "a.b=4"]) == {"a": {"b": 4, "c": 2}, "d": 3}


@pytest.mark.parametrize("item", ["lr", "=3", " =3", ""])
def test_an_override_without_key_and_value_is_refused(item: str) -> None:
    with pytest.raises(ConfigError, match=r"--set train\.optim\.lr=0\.001"):
        read_overrides([item])


@pytest.mark.parametrize("items", [["a=1", "a.b=2"], ["a.b=2", "a=1"]])
def test_overrides_that_contradict_each_other_are_refused(items: list[str]) -> None:
    with pytest.raises(ConfigError, match="'a'"):
        read_overrides(items)


def test_merge_goes_into_tables_and_changes_neither_side() -> None:
    base, changes = {"a": {"b": 1, "c": {"d": 2}}, "e": [1, 2]}, {"a": {"c": {"f": 3}}, "e": [9]}
    assert merge(base, changes) == {"a": {"b": 1, "c": {"d": 2, "f": 3}}, "e": [9]}
    assert base == {"a": {"b": 1, "c": {"d": 2}}, "e": [1, 2]}
    assert changes == {"a": {"c": {"f": 3}}, "e": [9]}


def test_a_table_of_another_type_replaces_the_old_one_and_one_of_the_same_type_does_not() -> None:
    base = Picture(shape=Circle(radius=5)).to_dict()
    assert merge(base, {"shape": {"type": "square"}})["shape"] == {"type": "square"}
    assert merge(base, {"shape": {"type": "circle"}})["shape"] == {"type": "circle", "radius": 5.0}
    assert merge(base, {"shape": {"radius": 2.0}})["shape"] == {"type": "circle", "radius": 2.0}


def test_ratios_of_counts_need_labels() -> None:
    with pytest.raises(ConfigError, match=r"ngrams\.ratio_power: regression has no labels"):
        parse(RunConfig, {"task": "regression", "ngrams": {"ratio_power": 0.5}}, where="options")
    assert parse(RunConfig, {"ngrams": {"ratio_power": 0.5}}, where="options").ngrams.ratio_power == 0.5


def test_very_many_names_are_neither_compared_nor_listed() -> None:
    """A table of strangers may have millions of columns."""
    names = [f"column {number}" for number in range(1_000_000)]
    begin = time.process_time()
    said = near_miss("colunm 12", names), shown_list(names)
    assert time.process_time() - begin < 10  # a minute, if all are compared
    assert all(len(one) < 500 for one in said), said
    assert said[1].startswith("'column 0', 'column 1', ")
    assert said[1].endswith(" and 999,980 more")
    assert shown_list(names[:2]) == "'column 0', 'column 1'"
