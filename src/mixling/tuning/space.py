"""The space of a search: keys of the configuration, and the values that each may have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import Field, model_validator

from mixling.config import Config, parse, read_toml
from mixling.errors import ConfigError
from mixling.runs.resolve.config import RunConfig
from mixling.tasks import task_type

Value = bool | int | float | str
Space = dict[str, "Dimension"]

# training examples: below, smaller batches and models; above, deeper models
_FEW = 2_000
_MANY = 20_000
_LEAST_STEPS = 10  # per epoch, with the largest batch


class Dimension(Config):
    """The values of one key: a range, or a list of choices.

    A range whose ends are whole numbers has only whole numbers.
    """

    low: int | float | None = None
    high: int | float | None = None
    log: bool = Field(default=False, description="draw the logarithm uniformly, for a range of positive numbers")
    choices: tuple[Value, ...] | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _range_or_choices(self) -> Dimension:
        if (self.choices is None) == (self.low is None) or (self.low is None) != (self.high is None):
            raise ValueError("is neither {low = ..., high = ...} nor {choices = [...]}; give one of them")
        if self.low is not None and self.high is not None:
            if self.low > self.high:
                raise ValueError(f"low = {self.low} is more than high = {self.high}; allowed: at most that")
            if self.log and self.low <= 0:
                raise ValueError(f"low = {self.low} has no logarithm; allowed with log: more than 0")
        elif self.log:
            raise ValueError("log applies to ranges, not to choices; leave it out")
        return self

    @property
    def whole(self) -> bool:
        """Whether this is a range of whole numbers."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    def extremes(self) -> tuple[Value, ...]:
        """Return the values that are checked before the search: all choices, or both ends of the range."""
        if self.choices is not None:
            return self.choices
        assert self.low is not None
        assert self.high is not None
        return self.low, self.high


def read_space(path: str) -> Space:
    """Read a space from a TOML file, whose keys are the configuration's, such as `train.optim.lr`.

    Raises:
        ConfigError: the file cannot be read, has no keys, or a key has neither a range nor choices.
    """
    space = dict(_dimensions(read_toml(path), "", path))
    if not space:
        raise ConfigError(f"{path}: has no keys; write for example: train.optim.lr = {{low = 0.0005, high = 0.01}}")
    return space


def _dimensions(table: Mapping[str, Any], prefix: str, path: str) -> Iterator[tuple[str, Dimension]]:
    for key, value in table.items():
        name = f"{prefix}{key}"
        if not isinstance(value, Mapping):
            raise ConfigError(
                f"{path}: {name}: got {value!r}; allowed: {{low = ..., high = ...}} or {{choices = [...]}} (a single "
                "value is given by --set or --config)"
            )
        if value.keys() & Dimension.model_fields.keys():
            yield name, parse(Dimension, value, where=f"{path}: {name}")
        else:
            yield from _dimensions(value, f"{name}.", path)


def check_space(space: Space, configure: Callable[[Mapping[str, Any]], RunConfig], *, where: str) -> None:
    """Check that the configuration has every key of a space, and allows its extreme values.

    Args:
        configure: returns the configuration with these values, by dotted keys; raises a ConfigError.

    Raises:
        ConfigError: it lacks the key.
    """
    for name, dimension in space.items():
        for value in dimension.extremes():
            try:
                configure({name: value})
            except ConfigError as error:
                raise ConfigError(f"{where}: {name} = {value!r}: {error}") from None


def default_space(config: RunConfig, *, examples: int, labels: int | None) -> Space:
    """Return a space of eight keys around a configuration's values.

    Few examples get small batches and models to choose from, many get deep models.

    Args:
        config: resolved, with the model.
        examples: the number of training examples.
        labels: the number of labels, for tasks with one label per text; else None.
    """
    model = config.model
    train = config.train.resolved(
        examples,
        rows_per_label=None if labels is None else examples / labels,
        init=config.initialization.kind,
        distilled=False,
        augmented=not task_type(config.task).windows,
    )
    assert train.epochs is not None
    space = {
        "train.optim.lr": Dimension(low=train.optim.lr / 4, high=min(train.optim.lr * 4, 1.0), log=True),
        "train.optim.embedding_lr": Dimension(low=0.1, high=3.0, log=True),
        "train.token_dropout": Dimension(low=0.0, high=0.5),
        "train.epochs": Dimension(low=max(1, train.epochs // 2), high=max(2, round(train.epochs * 1.5)), log=True),
        "train.batch_size": Dimension(choices=_batch_sizes(train.batch_size, examples)),
        "model.dim": Dimension(choices=_around(model.dim, examples)),
    }
    projection = model.text.projection
    if projection.hashed and projection.num_features is not None:
        space["model.text.projection.num_features"] = Dimension(choices=_around(projection.num_features, examples))
    else:
        space["train.optim.weight_decay"] = Dimension(low=0.01, high=0.3, log=True)
    depth = len(model.blocks)
    if len(model.layers) == 1:
        deepest = depth + (1 if examples < _MANY else 2)
        space["model.num_layers"] = Dimension(low=max(1, depth - 1), high=deepest)
    else:
        space["train.loss.label_smoothing"] = Dimension(low=0.0, high=0.2)
    return space


def _batch_sizes(default: int, examples: int) -> tuple[int, ...]:
    """Return the default and two others, which are smaller if there are few examples."""
    sizes = (default // 4, default // 2, default) if examples < _FEW else (default // 2, default, 2 * default)
    small_enough = tuple(size for size in sizes if 1 <= size <= examples / _LEAST_STEPS)
    return small_enough if len(small_enough) > 1 else (max(1, sizes[0] // 2), max(1, sizes[0]))


def _around(value: int, examples: int) -> tuple[int, ...]:
    """Return half of an even value, the value and twice it; few examples do not get the last."""
    sizes = (value // 2, value, 2 * value)
    return sizes[:2] if examples < _FEW else sizes
