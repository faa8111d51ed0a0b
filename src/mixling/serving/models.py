"""The models of a server: opened, and opened again when their files are replaced."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

from mixling.artifacts.artifact import kind_of_model
from mixling.artifacts.files import CONFIG_FILE
from mixling.errors import DataError, UserError
from mixling.features.cells import with_missing
from mixling.opening import open_regular
from mixling.runtime.predictor import Predictor
from mixling.runtime.quick import ONNX_FILE
from mixling.serving.scheduling import Scheduler
from mixling.serving.schemas import RequestType, option_names, request_type
from mixling.text.clean import clean
from mixling.text.encoder import Text

EXAMPLES_FILE = "examples.txt"
_EXAMPLES = 8
_EXAMPLE_BYTES = 1 << 14
_LOG = logging.getLogger("mixling.serving")
# seconds for a look at a model's file: until the next has its turn, until it is logged
_TURN = 1.0
_PATIENCE = 10.0
_Stamp = tuple[int, int, int]  # inode, size and time of the last change


@dataclass(frozen=True)
class Loaded:
    """A model as it is answered with: a request uses one from its beginning to its end.

    Attributes:
        version: the first 12 hexadecimal digits of the SHA-256 of the model file.
        requests: checks the JSON of requests.
        examples: texts, or several each, to click on the page.
    """

    name: str
    version: str
    predictor: Predictor
    requests: RequestType
    examples: tuple[Text, ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The keys of a request that hold texts; a request has one of them."""
        return self.requests.inputs

    @property
    def task(self) -> str:
        """The name of the task."""
        return self.predictor.metadata.task

    @property
    def engine(self) -> str:
        """What computes."""
        return self.predictor.engine

    def description(self) -> dict[str, Any]:
        """Return the fields specific to this kind of model in its description."""
        predictor = self.predictor
        metadata = self.predictor.metadata
        out: dict[str, Any] = {"options": list(option_names(predictor))}
        if predictor.task.has_labels:
            out["labels"] = list(predictor.labels.names)
        if metadata.texts:
            out["texts"] = list(metadata.texts)
        if predictor.features:
            out["columns"] = list(predictor.features)
        if self.examples:
            out["examples"] = list(self.examples)
        sizes = {"parameters": metadata.parameters, "precision": metadata.precision}
        return out | sizes | {"max_tokens": predictor.text_config.max_len}


class LoadedOther(Protocol):
    """A model of another kind than `Loaded`, opened by its kind (`RunKind.serve`)."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def requests(self) -> RequestType: ...
    @property
    def task(self) -> str: ...
    @property
    def engine(self) -> str: ...
    @property
    def inputs(self) -> tuple[str, ...]: ...
    @property
    def answer(self) -> dict[str, Any]:
        """The properties of an answer, as JSON schema; all are required."""

    def description(self) -> dict[str, Any]: ...

    async def predict(self, scheduler: Scheduler, texts: Sequence[Any], options: Any) -> list[dict[str, Any]]:
        """Return the JSON values of the answers."""


AnyLoaded = Loaded | LoadedOther


class ModelStore:
    """The models by name.

    Args:
        models: names and paths.
        max_texts, max_chars: limits of requests.
        too_long: as of `Predictor`.

    Raises:
        ModelFileError: a file is missing, damaged or not a model.
    """

    def __init__(
        self, models: tuple[tuple[str, Path], ...], *, max_texts: int, max_chars: int, too_long: str = "windows"
    ) -> None:
        self._paths = dict(models)
        self._limits = (max_texts, max_chars)
        self._too_long = too_long
        self._stamps = {name: _stamp(path) for name, path in models}
        self._loaded: dict[str, AnyLoaded] = {name: self._open(name) for name in self._paths}

    def __getitem__(self, name: str) -> AnyLoaded:
        return self._loaded[name]

    def get(self, name: str) -> AnyLoaded | None:
        return self._loaded.get(name)

    def __iter__(self) -> Iterator[AnyLoaded]:
        return iter(self._loaded.values())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._paths)

    @property
    def version(self) -> tuple[str, ...]:
        """The versions of all models."""
        return tuple(loaded.version for loaded in self)

    def reload(self, name: str) -> bool | None:
        """Open a model again if its file was replaced; the old one is kept if the new one cannot be used.

        Returns:
            whether the new file is used; None: there is none.
        """
        stamp = _stamp(self._paths[name])
        if stamp is None or stamp == self._stamps[name]:
            return None
        self._stamps[name] = stamp  # a damaged file is tried once
        try:
            self._loaded[name] = loaded = self._open(name)
        except UserError as error:
            _LOG.error("model %s: the new file cannot be used, the old model is kept: %s", name, error)
            return False
        except Exception:  # a defect; the other models must be watched nevertheless
            _LOG.exception("model %s: the new file cannot be used, the old model is kept", name)
            return False
        _LOG.info("model %s: replaced by version %s", name, loaded.version)
        return True

    async def watch(self, interval: float, report: Callable[[str, bool], None]) -> None:
        """Reload models whose files are replaced, until cancelled.

        A file may be on a disk that does not answer, so each look is made in a thread that nobody waits for.

        Args:
            interval: seconds.
            report: called with the name of a replaced model and whether the new file is used.
        """
        looks: dict[str, tuple[asyncio.Future[bool | None], float]] = {}
        late: set[str] = set()
        while True:
            await asyncio.sleep(interval)
            for name in self.names:
                turn = 0.0 if name in looks else _TURN
                if name not in looks:
                    looks[name] = _in_thread(self.reload, name), monotonic()
                look, begin = looks[name]
                await asyncio.wait([look], timeout=turn)
                if look.done():
                    del looks[name]
                    late.discard(name)
                    if (used := look.result()) is not None:
                        report(name, used)
                elif monotonic() - begin > _PATIENCE and name not in late:
                    late.add(name)
                    _LOG.error("model %s: its file cannot be read so far; the old model is kept", name)

    def _open(self, name: str) -> AnyLoaded:
        path = self._paths[name]
        (max_texts, max_chars) = self._limits
        if path.is_dir() and not (path / ONNX_FILE).exists() and (kind := kind_of_model(path)).generates:
            other: LoadedOther = kind.serve(name, path, max_texts=max_texts, max_chars=max_chars)
            return other
        predictor = Predictor(path, too_long=self._too_long)
        _try_out(predictor)
        version = hashlib.sha256(predictor.content).hexdigest()[:12]
        requests = request_type(predictor, max_texts, max_chars)
        return Loaded(name, version, predictor, requests, _examples(path, predictor))


def _in_thread(function: Callable[[str], bool | None], name: str) -> asyncio.Future[bool | None]:
    """Call a function in a thread that may outlive the event loop, and that the process does not wait for."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[bool | None] = loop.create_future()

    def finish(found: bool | None) -> None:
        if not future.done():
            future.set_result(found)

    def run() -> None:
        found = function(name)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(finish, found)

    threading.Thread(target=run, name="mixling-reload", daemon=True).start()
    return future


def _file_of(path: Path) -> Path:
    """Return the file that is written last when a model is replaced; its content depends on all the others."""
    if not path.is_dir():
        return path
    onnx = path / ONNX_FILE
    return onnx if onnx.exists() else path / CONFIG_FILE


def _examples(path: Path, predictor: Predictor) -> tuple[Text, ...]:
    """Return the first lines of the file of examples beside a model, with tabs between texts that belong together.

    A link is not followed: in the folder of a stranger, it could show a file of this machine.
    """
    file = (path if path.is_dir() else path.parent) / EXAMPLES_FILE
    if file.is_symlink():
        return ()
    try:
        with open_regular(file) as content:
            lines = content.read(_EXAMPLE_BYTES).decode("utf-8", "replace").split("\n")
    except OSError:
        return ()
    found: list[Text] = []
    for line in filter(None, map(str.strip, lines)):
        text = clean(line, _EXAMPLE_BYTES)[0]
        number = len(predictor.text_names or ("",))
        parts = tuple(text.split("\t", number - 1))
        if number == 1:
            found.append(text)
        elif len(parts) == number:
            found.append(parts)
    return tuple(found[:_EXAMPLES])


def _stamp(path: Path) -> _Stamp | None:
    """Return what changes when a model's file is replaced; None while there is no file."""
    try:
        status = os.stat(_file_of(path))
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _try_out(predictor: Predictor) -> None:
    """Predict for a text, or several, so that a model that cannot is found before it is used."""
    number = len(predictor.text_names or ("",))
    tried = ("a",) * number if number > 1 else "a"
    try:
        predictor.predict_one(with_missing(tried, predictor.feature_names))
    except DataError:  # a task of another package may take neither
        return
