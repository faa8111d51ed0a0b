"""Run a server: one process, or several on one socket; signals, and an orderly stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Semaphore
from types import FrameType
from typing import Any, cast

import uvicorn
from prometheus_client.multiprocess import mark_process_dead
from uvicorn.config import Config

from mixling.errors import ConfigError, UserError
from mixling.serving.accepting import Acceptor
from mixling.serving.app import Service
from mixling.serving.metrics import SHARED
from mixling.serving.protocol import LimitedProtocol
from mixling.serving.settings import ServerSettings
from mixling.workers import SPAWN, end_with_parent

_LOG = logging.getLogger("mixling.serving")
_BACKLOG = 2048
_AT_ONCE = 8  # connections that one of several processes accepts before the others get some
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_FAILED = 3  # exit code of a worker that cannot start: another one could not either
_RESTART_SECONDS = 1.0  # between restarts of a worker


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
        try:
            family, _, _, _, address = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)[0]
            listener = socket.socket(family, socket.SOCK_STREAM)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(_BACKLOG)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(f"cannot listen on {self.host} port {self.port}: {reason}") from None
        return listener


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
        os.environ[SHARED] = folder  # before the metrics are made
        with address.listen() as listener:
            _Workers(settings, listener, count=workers, verbose=verbose).run()


class _Server(uvicorn.Server):
    """uvicorn's server, which stops in two steps and then returns instead of dying of the signal.

    Requests that were sent before the signal may still be in a socket's buffer, and balancers of load go on sending
    until they see /readyz fail. So for a moment all requests are answered, with `Connection: close`; then the server
    accepts no connections and finishes what is in flight.
    """

    def __init__(self, config: Config, service: Service, started: Callable[[], None], *, at_once: int) -> None:
        super().__init__(config)
        self._service, self._report_start, self._at_once = service, started, at_once

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        own = sockets if self.config.loop == "uvloop" else []
        await super().startup([] if own else sockets)
        for listener in own or []:
            acceptor = Acceptor(listener, self._protocol, at_once=self._at_once)
            self.servers.append(cast(asyncio.Server, acceptor))  # uvicorn closes it
        self._report_start()

    def _protocol(self) -> asyncio.Protocol:
        make: Any = self.config.http_protocol_class
        return make(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

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
            self.should_exit = self.force_exit = True  # asked twice
            return
        self._service.stopping = True
        loop = asyncio.get_event_loop()
        loop.call_soon_threadsafe(loop.call_later, self._service.settings.drain_wait, self._stop)

    def _stop(self) -> None:
        self.should_exit = True


def _run(
    service: Service, listener: socket.socket, *, verbose: bool, started: Callable[[], None], at_once: int = _BACKLOG
) -> None:
    settings = service.settings
    limits = {"seconds": settings.client_timeout, "max_header": settings.max_header, "line": service.line}
    protocol = type("_Protocol", (LimitedProtocol,), limits)
    config = Config(
        service,
        loop=_loop(),
        http=protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=verbose,
        proxy_headers=verbose,  # the client's address is needed for the log only
        server_header=False,
        headers=[("X-Content-Type-Options", "nosniff")],
        timeout_keep_alive=settings.keep_alive,
        timeout_graceful_shutdown=settings.drain,
        backlog=_BACKLOG,
    )
    _Server(config, service, started, at_once=at_once).run(sockets=[listener])


def _loop() -> str:
    try:
        import uvloop  # noqa: F401
    except ImportError:  # not for Windows
        return "asyncio"
    return "uvloop"


class _Workers:
    """Keeps worker processes running: restarts one that ends, and stops all on a signal."""

    def __init__(self, settings: ServerSettings, listener: socket.socket, *, count: int, verbose: bool) -> None:
        self._settings, self._listener, self._count, self._verbose = settings, listener, count, verbose
        self._stopping = self._failed = False
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
        self._keep(workers)
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.join()
        if self._failed:
            raise UserError("a worker could not start; its error is above")

    def _keep(self, workers: list[BaseProcess]) -> None:
        """Replace workers that end, until a signal or until one cannot start."""
        while not self._stopping:
            for index, worker in enumerate(workers):
                worker.join(0.1)
                if worker.exitcode is None or self._stopping:
                    continue
                if worker.exitcode == _FAILED:
                    self._failed = self._stopping = True
                    continue
                _LOG.error("worker %s ended with exit code %s; starting another", worker.pid, worker.exitcode)
                mark_process_dead(worker.pid)
                time.sleep(_RESTART_SECONDS)
                workers[index] = self._start()

    def _start(self) -> BaseProcess:
        arguments = (self._settings, self._listener, self._verbose, self._started)
        worker = SPAWN.Process(target=_work, args=arguments, name="mixling-worker")
        worker.start()
        return worker

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True


def _work(settings: ServerSettings, listener: socket.socket, verbose: bool, started: Semaphore) -> None:
    """Be a worker."""
    _log_to_stderr()
    try:
        service = Service(settings)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(_FAILED)
    # Gracefully, so that it does not keep the port.
    end_with_parent(lambda: os.kill(os.getpid(), signal.SIGTERM))
    _run(service, listener, verbose=verbose, started=started.release, at_once=_AT_ONCE)


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
