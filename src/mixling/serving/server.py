"""Run a server: one process, or several on one socket; signals, and an orderly stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Semaphore
from types import FrameType
from typing import Any, cast

import uvicorn
from uvicorn.config import Config

from mixling.errors import ConfigError, UserError
from mixling.serving.accepting import Acceptor
from mixling.serving.app import Service
from mixling.serving.metrics import FOLDER_VARIABLE, keep_counts
from mixling.serving.protocol import LimitedProtocol
from mixling.serving.settings import ServerSettings
from mixling.workers import SPAWN, end_with_parent, interrupts_blocked

_LOG = logging.getLogger("mixling.serving")
_BACKLOG = 2048
_AT_ONCE = 8  # connections that one of several processes accepts before the others get some
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_FAILED = 3  # exit code of a worker that cannot start
_RESTART_SECONDS = 1.0  # before another worker is started in place of one that has ended
_RETRY_SECONDS = 5.0  # the same where it could not start
_PAUSE = 0.1  # seconds in which new connections wait, so that the last ones are accepted together
_SLACK = 5.0  # seconds that a process which stops may take beside the waits of the settings


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a server listens; port 0 means any free one."""

    host: str
    port: int

    def listen(self) -> socket.socket:
        """Return a listening socket.

        Raises:
            ConfigError: the address is in use or is none of this machine.
        """
        family, address = self._resolve()
        try:
            listener = socket.socket(family, socket.SOCK_STREAM)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(_BACKLOG)
        except OSError as error:
            raise self._error(error) from None
        return listener

    @property
    def number(self) -> str:
        """The host as a number.

        Raises:
            ConfigError: there is none.
        """
        return str(self._resolve()[1][0])

    def _resolve(self) -> tuple[socket.AddressFamily, tuple[Any, ...]]:
        try:
            family, _, _, _, address = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)[0]
        except (OSError, OverflowError, UnicodeError) as error:
            raise self._error(error) from None
        return family, address

    def _error(self, error: Exception) -> ConfigError:
        reason = getattr(error, "strerror", None) or error
        return ConfigError(f"cannot listen on {self.host} port {self.port}: {reason}")


def serve(settings: ServerSettings, address: Address, *, workers: int = 1, verbose: bool = False) -> None:
    """Serve until SIGTERM or SIGINT; the models are opened first, so that a damaged one is an error at once.

    Args:
        workers: processes; each has its own models.
        verbose: log each request.

    Raises:
        UserError: a model, the keys or the address cannot be used.
    """
    _log_to_stderr()
    if workers == 1:
        service = Service(settings)
        with address.listen() as listener:
            _run(service, listener, verbose=verbose, started=lambda: _announce(listener, service))
        return
    with tempfile.TemporaryDirectory(prefix="mixling-metrics-") as folder:
        os.environ[FOLDER_VARIABLE] = folder  # before the metrics are made
        try:
            with address.listen() as listener:
                _Workers(settings, listener, count=workers, verbose=verbose).run()
        finally:
            del os.environ[FOLDER_VARIABLE]  # a later server of this process would look for the removed folder


class _Server(uvicorn.Server):
    """uvicorn's server, which stops in two steps and then returns instead of dying of the signal.

    Requests that were sent before the signal may still be in a socket's buffer, and balancers of load go on sending
    until they see /readyz fail. So for a moment all requests are answered, with `Connection: close`; then the server
    accepts no connections and finishes requests in flight.
    """

    def __init__(
        self, config: Config, service: Service, started: Callable[[], None], *, at_once: int, alone: bool
    ) -> None:
        super().__init__(config)
        self._service = service
        self._report_start = started
        self._at_once = at_once
        self._alone = alone
        self._acceptors: list[Acceptor] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        own = sockets if self.config.loop == "uvloop" else []
        await super().startup([] if own else sockets)
        for listener in own or []:
            acceptor = Acceptor(listener, self._protocol, at_once=self._at_once)
            self._acceptors.append(acceptor)
            self.servers.append(cast(asyncio.Server, acceptor))  # uvicorn closes it
        self._report_start()

    def _protocol(self) -> asyncio.Protocol:
        make: Any = self.config.http_protocol_class
        protocol: asyncio.Protocol = make(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return protocol

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        old = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in old.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._service.stopping:
            if self._alone:  # asked twice; a worker is asked by whoever asks all processes, and by its parent
                self.should_exit = self.force_exit = True
                for number in _SIGNALS:
                    signal.signal(number, signal.SIG_DFL)
            return
        self._service.stopping = True
        loop = asyncio.get_event_loop()
        loop.call_soon_threadsafe(loop.call_later, self._service.settings.drain_wait, self._pause)

    def _pause(self) -> None:
        for acceptor in self._acceptors:
            acceptor.pause()
        asyncio.get_running_loop().call_later(_PAUSE, self._stop)

    def _stop(self) -> None:
        self.should_exit = True


def _run(
    service: Service, listener: socket.socket, *, verbose: bool, started: Callable[[], None], at_once: int | None = None
) -> None:
    """Serve until a signal.

    Args:
        started: called when requests are answered.
        at_once: connections that one of several processes accepts before the others get some; None: this one is alone.
    """
    settings = service.settings
    limits = {"seconds": settings.client_timeout, "max_header": settings.max_header}
    protocol = type("_Protocol", (LimitedProtocol,), {**limits, "line": service.line, "waiting": service.waiting})
    config = Config(
        service,
        loop=_loop(),
        http=protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=verbose,
        proxy_headers=False,  # anybody can write them, and the log would show what they say
        server_header=False,
        headers=[("X-Content-Type-Options", "nosniff")],
        timeout_keep_alive=settings.keep_alive,
        timeout_graceful_shutdown=settings.drain,
        backlog=_BACKLOG,
    )
    _Server(config, service, started, at_once=at_once or _BACKLOG, alone=at_once is None).run(sockets=[listener])
    service.scheduler.close()
    if not service.scheduler.ends(within=1.0):
        _LOG.error("a prediction did not end; it is dropped")
        sys.stderr.flush()
        os._exit(0)


def _loop() -> str:
    try:
        import uvloop  # noqa: F401
    except ImportError:  # not for Windows
        return "asyncio"
    return "uvloop"


class _Workers:
    """Keeps worker processes running: restarts one that ends, and stops all on a signal."""

    def __init__(self, settings: ServerSettings, listener: socket.socket, *, count: int, verbose: bool) -> None:
        self._settings = settings
        self._listener = listener
        self._count = count
        self._verbose = verbose
        self._serving = self._stopping = self._killing = self._failed = False
        self._started = SPAWN.Semaphore(0)

    def run(self) -> None:
        """Run until a signal, and until the workers have ended.

        Raises:
            UserError: the workers cannot start.
        """
        service = Service(self._settings)  # so that errors are found once, and here
        for number in _SIGNALS:
            signal.signal(number, self._stop)
        workers = [self._start() for _ in range(self._count)]
        for _ in workers:
            while not self._stopping and not self._started.acquire(timeout=0.1):
                if any(worker.exitcode is not None for worker in workers):
                    break
        if not self._stopping and all(worker.exitcode != _FAILED for worker in workers):
            _announce(self._listener, service)
            self._serving = True
        self._keep(workers)
        self._listener.close()  # or the system would accept connections for nobody
        for worker in workers:
            worker.terminate()
        end = time.monotonic() + _PAUSE + self._settings.drain_wait + self._settings.drain + _SLACK
        while any(worker.exitcode is None for worker in workers):
            wait([worker.sentinel for worker in workers if worker.exitcode is None], timeout=0.1)
            if self._killing or time.monotonic() > end:
                for worker in workers:
                    worker.kill()
        if self._failed:
            raise UserError("a worker could not start; its error is above")

    def _keep(self, workers: list[BaseProcess]) -> None:
        """Replace workers that end, until a signal, or until one cannot start though none has served so far.

        A worker may end while a model's file is damaged; the others serve the old model, and it is started again.
        """
        due: dict[int, float] = {}  # when the successor of a worker is started
        while not self._stopping:
            wait([worker.sentinel for worker in workers if worker.exitcode is None], timeout=0.1)
            for index, worker in enumerate(workers):
                if worker.exitcode is None or self._stopping:
                    continue
                if worker.exitcode == _FAILED and not self._serving:
                    self._failed = self._stopping = True
                elif index not in due:
                    seconds = _RETRY_SECONDS if worker.exitcode == _FAILED else _RESTART_SECONDS
                    ended = f"worker {worker.pid} ended with exit code {worker.exitcode}"
                    _LOG.error("%s; starting another in %g s", ended, seconds)
                    assert worker.pid is not None
                    keep_counts(worker.pid)
                    due[index] = time.monotonic() + seconds
                elif time.monotonic() >= due[index]:
                    del due[index]
                    workers[index] = self._start()

    def _start(self) -> BaseProcess:
        arguments = (self._settings, self._listener, self._verbose, self._started)
        worker = SPAWN.Process(target=_work, args=arguments, name="mixling-worker")
        with interrupts_blocked():  # there, too: Ctrl-C reaches all processes, and this one ends them
            worker.start()
        return worker

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._killing = self._stopping  # asked twice
        self._stopping = True


def _work(settings: ServerSettings, listener: socket.socket, verbose: bool, started: Semaphore) -> None:
    """Be a worker."""
    _log_to_stderr()
    try:
        service = Service(settings)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(_FAILED)
    orphaned = threading.Event()

    def end() -> None:  # gracefully, so that it does not keep the port
        orphaned.set()
        os.kill(os.getpid(), signal.SIGTERM)

    end_with_parent(end)
    _run(service, listener, verbose=verbose, started=started.release, at_once=_AT_ONCE)
    if orphaned.is_set():
        shutil.rmtree(os.environ[FOLDER_VARIABLE], ignore_errors=True)


def _announce(listener: socket.socket, service: Service) -> None:
    host, port = listener.getsockname()[:2]
    host = f"[{host}]" if ":" in host else host
    for loaded in service.models:
        print(f"{loaded.name}: {loaded.task}, engine {loaded.engine}", file=sys.stderr)
    print(f"serving on http://{host}:{port}", file=sys.stderr, flush=True)


def _log_to_stderr() -> None:
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    logging.getLogger("mixling.serving").setLevel(logging.INFO)
    logging.getLogger("uvicorn.access").setLevel(logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # a client's malformed request is no warning here
