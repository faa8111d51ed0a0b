"""The files of examples, their columns, and how they are read."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field, field_serializer, field_validator, model_validator

from mixling.config import Config
from mixling.features.kinds import parse_features
from mixling.text.config import check_together

LABEL_DELIMITER = "|"
_OPTIONS = ("text", "text_pair", "label", "features")  # columns that have an option


def column_option(key: str, value: str = "COLUMN") -> str:
    """Return the words of a command line that name a column of `ColumnsConfig`."""
    if key in _OPTIONS:
        return f"--{'text' if key == 'text_pair' else key} {value}"
    return f"--set data.columns.{key}={value}"


def text_options(names: Sequence[str]) -> list[str]:
    """Return the words of a command line that name the columns of texts."""
    return [word for name in names for word in ("--text", name)]


class ColumnsConfig(Config):
    """The names of the columns; None: there is no such column."""

    text: str = Field(default="text", description="the text")
    text_pair: tuple[str, ...] = Field(default=(), description="further texts that belong to it, such as a second one")
    features: tuple[str, ...] = Field(
        default=(), description="columns beside the text: NAME, or NAME:KIND of number, category or date"
    )
    label: str = Field(default="label", description="the label, labels or number")
    labels: tuple[str, ...] | None = Field(
        default=None, min_length=2, description="several labels: columns of 0 and 1, one for each label"
    )
    label_delimiter: str = Field(default=LABEL_DELIMITER, min_length=1, description="between several labels of a cell")
    tokens: str = Field(default="tokens", description="tagging: the words")
    slots: str = Field(default="slots", description="tagging: the tags, or spans of characters of the text")
    sentence: str | None = Field(
        default=None, description="tagging, a word in each row: rows of a sentence share a value"
    )
    tags: str | None = Field(
        default=None, description="tagging: the scheme of the tags, or names of tags that are numbers: O,B-x"
    )
    question: str = Field(default="question", description="the question")
    context: str = Field(default="context", description="the text that has the answer")
    answers: str = Field(default="answers", description="the answers and where they start")
    group: str | None = Field(default=None, description="rows of one group stay on one side of the validation split")

    @field_validator("labels", "features", mode="before")
    @classmethod
    def _list_of_names(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return next(csv.reader([value], skipinitialspace=True), [])
        except csv.Error as error:
            raise ValueError(f"got {value!r}; allowed: names as in a line of CSV") from error

    @field_validator("text_pair", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        return () if value is None else (value,) if isinstance(value, str) else value

    @field_serializer("text_pair")
    def _as_of_pairs(self, value: tuple[str, ...]) -> Any:
        return value[0] if len(value) == 1 else value or None  # as configurations of pairs always had it

    @model_validator(mode="after")
    def _different_texts(self) -> ColumnsConfig:
        check_together(self.texts)
        return self

    @field_validator("label_delimiter")
    @classmethod
    def _without_escapes(cls, value: str) -> str:
        return value.replace("\\t", "\t").replace("\\n", "\n")

    @field_validator("features")
    @classmethod
    def _with_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        parse_features(value)
        return value

    @property
    def texts(self) -> tuple[str, ...]:
        """The names of the columns of the text, or of the texts that belong together."""
        return (self.text, *self.text_pair)

    @property
    def beside(self) -> tuple[str, ...]:
        """The names of the columns beside the text."""
        return tuple(parse_features(self.features))

    def names(self) -> set[str]:
        """Return the names of all columns that may be read."""
        values = self.model_dump(
            exclude={"label_delimiter", "labels", "tags", "features", "text_pair"}, exclude_none=True
        )
        return {"id", *values.values(), *self.text_pair, *(self.labels or ()), *self.beside}


class DataConfig(Config):
    """The files of examples and how they are read."""

    train: tuple[str, ...] = Field(default=(), description="files of labeled examples")
    validation: tuple[str, ...] = Field(default=(), description="empty: a fraction of the training rows is set aside")
    validation_fraction: float = Field(
        default=0.1, gt=0, lt=1, description="fraction of the training rows that is set aside"
    )
    test: tuple[str, ...] = Field(
        default=(), description="files that are read once, at the end, to test the finished model"
    )
    test_fraction: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="without test files: fraction of the training rows that is held out to test on",
    )
    columns: ColumnsConfig = ColumnsConfig()
    on_bad_row: Literal["error", "skip"] = Field(
        default="error", description="stop at a malformed row, or skip and count it"
    )
    file_format: str | None = Field(default=None, description="format of the files; by default from their names")

    @property
    def is_tested(self) -> bool:
        """Whether there are rows that the finished model is tested on."""
        return bool(self.test) or self.test_fraction > 0

    @model_validator(mode="after")
    def _one_test(self) -> DataConfig:
        if self.test and self.test_fraction:
            raise ValueError("test names files (--test), and test_fraction holds rows out: give only one of the two")
        return self

    @model_validator(mode="after")
    def _groups_are_for_splits(self) -> DataConfig:
        if self.columns.group is not None and self.validation:
            raise ValueError(
                f"columns.group: got {self.columns.group!r} together with validation (--validation); groups "
                "control which training rows are set aside for validation, so give only one of the two"
            )
        return self
