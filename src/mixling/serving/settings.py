"""Settings of a server: its models, its limits and who may use it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mixling.artifacts.artifact import fetch_run
from mixling.artifacts.files import CONFIG_FILE
from mixling.config import read_overrides
from mixling.errors import ConfigError, near_miss, shown
from mixling.hub import fetch_folder, on_hub
from mixling.runtime.hub_model import check_copy
from mixling.runtime.quick import ONNX_FILE
from mixling.samples.sets import saved_model

GENERATION = "text2text"  # the task of models that generate text
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """What a server process needs; picklable, so that workers get a copy.

    Attributes:
        models: names and paths of saved models; the first is the page's default.
        hosts: names under which the server answers; none: under any.
        keys_file: file with one API key a line; None: everyone may send requests.
        cors: origins whose pages may send requests.
        max_body: bytes of a request's body.
        max_buffered: bytes of all bodies that are being received or processed; and as many in all connections that
            wait to be read, by the server or by clients.
        max_texts, max_chars: texts of a request, characters of a text.
        queue: texts that may wait for a prediction; more are refused with 503.
        max_wait: seconds that a request may wait behind others in the event loop; later it is refused with 503.
        timeout: seconds until a waiting request is answered with 504.
        keep_alive: seconds that an idle connection stays open.
        client_timeout: seconds for a request to arrive.
        max_header: bytes of a request's head.
        drain_wait: seconds after SIGTERM in which new requests are still answered while /readyz reports 503.
        drain: seconds after that for requests in flight.
        reload_interval: seconds between looks at the model files; 0: never.
        drift_window: texts of a model that are compared at a time with its profile; 0: never.
        too_long: as of `Predictor`.
    """

    models: tuple[tuple[str, Path], ...]
    hosts: tuple[str, ...] = ()
    keys_file: Path | None = None
    cors: tuple[str, ...] = ()
    max_body: int = 1 << 20
    max_buffered: int = 64 << 20
    max_texts: int = 1024
    max_chars: int = 100_000
    queue: int = 1024
    max_wait: float = 0.05
    timeout: float = 10.0
    keep_alive: int = 5
    client_timeout: float = 10.0
    max_header: int = 64 << 10
    drain_wait: float = 0.5
    drain: int = 10
    reload_interval: float = 1.0
    drift_window: int = 1000
    too_long: str = "windows"


# The limits that --set sets, and their least values.
LIMITS = {
    "queue": 1,
    "max_wait": 0.001,
    "timeout": 0.1,
    "max_body": 1,
    "client_timeout": 0.1,
    "reload_interval": 0,
    "drift_window": 0,
    "drain_wait": 0,
}


def with_limits(settings: ServerSettings, overrides: Sequence[str]) -> ServerSettings:
    """Return settings with other limits, given as LIMIT=NUMBER.

    Raises:
        ConfigError: there is no such limit, or it does not have such a value.
    """
    limits = read_overrides(overrides)
    for name, value in limits.items():
        if name not in LIMITS:
            raise ConfigError(f"--set {name}: there is no such limit; {near_miss(name, LIMITS)}")
        whole = isinstance(getattr(settings, name), int)
        fits = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
        if not fits or not LIMITS[name] <= value < math.inf:
            kind = "a whole number" if whole else "a number"
            raise ConfigError(f"--set {name}: got {shown(value)}; allowed: {kind} from {LIMITS[name]}")
    return replace(settings, **limits)


def named_models(arguments: list[str]) -> tuple[tuple[str, Path], ...]:
    """Return names and paths of models given as `PATH` or `NAME=PATH`; paths may be `hf:NAME[@REVISION]`, or
    `demo`, the packaged model.

    Without a name, a model is named after its folder, its file without `.onnx`, or on the hub.

    Raises:
        ConfigError: a name has characters other than letters, digits, `.`, `_` and `-`, or two models have the same.
    """
    models: dict[str, Path] = {}
    for argument in arguments:
        name, sep, path = argument.partition("=")
        if not sep or Path(argument).exists():
            name = model_name(Path(argument.partition("@")[0] if on_hub(argument) else argument))
            path = argument
        elif not name.strip(".") or _UNSAFE.search(name):
            raise ConfigError(f"{argument}: the name {name!r} is not allowed; use letters, digits, '.', '_' and '-'")
        if name in models:
            raise ConfigError(f"two models have the name {name!r}: {models[name]} and {path}; name one as NAME=PATH")
        models[name] = _fetch(path) if on_hub(path) else saved_model(path)
    return tuple(models.items())


def _fetch(name: str) -> Path:
    """Return the local copy of a model on the hub: its `model.onnx`, or the folder of one that generates text."""
    folder = fetch_folder(name, [ONNX_FILE, CONFIG_FILE])
    if not (folder / ONNX_FILE).exists():
        return fetch_run(name)
    check_copy(folder / ONNX_FILE, name)
    return folder / ONNX_FILE


def model_name(path: Path) -> str:
    """Return the name of a model that was given none: of letters, digits, `.`, `_` and `-`."""
    path = path.absolute()
    name = path.parent.name if path.name == ONNX_FILE else path.name.removesuffix(".onnx")
    return _UNSAFE.sub("-", name).strip("-.") or "model"
