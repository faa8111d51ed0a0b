"""Run the graph of a saved model with ONNX Runtime, also in forked processes."""

from __future__ import annotations

import ctypes
import functools
import os
import weakref
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from mixling.arrays import Float32
from mixling.errors import MissingPackage, ModelFileError
from mixling.installation import install_command, is_installed

if TYPE_CHECKING:
    from mixling.text.config import TextConfig
    from mixling.text.vocabulary import Vocabulary

Feed = dict[str, npt.NDArray[Any]]

_MAX_PLANNED = 500  # nodes


class Engine:
    """Runs the graph of a model file that is already checked.

    A session must not be used in a forked process: the threads of its pool do not exist there, and locks held at the
    time of the fork are never released. A forked process therefore opens its own session on its first run.

    Args:
        data: the content of the file, kept for forked processes and for pickling.
        name: the path of the file, for messages.
        num_nodes: number of nodes of the graph.
        num_threads: number of threads of a run.
        later: open the session at the first run only; a model that the native engine runs may never need it.

    Raises:
        ModelFileError: ONNX Runtime cannot read the graph.
    """

    def __init__(self, data: bytes, name: str, *, num_nodes: int, num_threads: int, later: bool = False) -> None:
        self.data = data
        self.name = name
        self.num_nodes = num_nodes
        self.num_threads = num_threads
        self.session: Any = None if later else self._open()
        _ENGINES.add(self)

    def run(self, output: str, feed: Feed, *, only_path: bool = False) -> Float32:
        """Compute one output of the graph.

        Args:
            output: its name.
            feed: the inputs by name.
            only_path: compute only the nodes that the output depends on.

        Raises:
            ModelFileError: the graph cannot be run on these inputs.
        """
        options = _onnxruntime().RunOptions() if only_path else None
        if options is not None:
            options.only_execute_path_to_fetches = True
        try:
            session = self.session
            if session is None:
                session = self.session = self._open()
            logits: Float32 = session.run([output], feed, options)[0]
            return logits
        except Exception as error:  # the binding's exceptions have no other common base class
            raise ModelFileError(f"{self.name}: the graph cannot be run: {first_line(error)}") from None

    def _open(self) -> Any:
        onnxruntime = _onnxruntime()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.num_threads
        options.inter_op_num_threads = 1
        # Planning memory reuse takes time quadratic in the number of nodes: 9 s for a chain of 5,000.
        options.enable_mem_reuse = self.num_nodes <= _MAX_PLANNED
        options.log_severity_level = 4  # errors are raised; standard error belongs to the caller
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # idle threads release their cores
        try:
            # No fallback, because it prints the error and tries the same again.
            return onnxruntime.InferenceSession(
                self.data, options, providers=["CPUExecutionProvider"], enable_fallback=0
            )
        except Exception as error:
            raise ModelFileError(f"ONNX Runtime cannot read it: {first_line(error)}") from None


def require_onnxruntime(what: str) -> None:
    """Raise a MissingPackage where something needs ONNX Runtime, and it is not installed."""
    if not is_installed("onnxruntime"):
        raise MissingPackage(f"{what} needs ONNX Runtime, which is not installed: {install_command('onnx')}")


def check_engine(text: TextConfig, vocabulary: Vocabulary) -> None:
    """Raise a MissingPackage where the C core cannot read texts so, and ONNX Runtime is not installed."""
    if text.projection.type not in ("minhash", "tsp", "subwords"):
        require_onnxruntime(f"a model with the projection {text.projection.type!r}")
    if vocabulary.serialize()[0] != "vocab.txt":
        require_onnxruntime("a model with another vocabulary than WordPiece")


@functools.cache
def _onnxruntime() -> Any:
    """The package, which takes 20 ms to import, without its telemetry.

    Versions from 1.29 on send usage data to Microsoft unless the variable is set before the import; the thread that
    does so also keeps every forked process from ending.

    Raises:
        MissingPackage: it is not installed.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    require_onnxruntime("this")
    import onnxruntime

    if os.environ["ORT_DISABLE_TELEMETRY"] != "0":  # where it was imported before
        onnxruntime.disable_telemetry_events()
    return onnxruntime


_ENGINES: weakref.WeakSet[Engine] = weakref.WeakSet()


def _drop_sessions() -> None:
    """Drop the sessions of the parent process without closing them, which would wait for its threads."""
    for engine in list(_ENGINES):
        if engine.session is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine.session))
            engine.session = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_sessions)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the name of its type if there is no message."""
    text = str(error).strip()
    return text.splitlines()[0][:500] if text else type(error).__name__
