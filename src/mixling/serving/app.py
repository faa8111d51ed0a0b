"""The application: routes, and what all of them share (keys, errors, metrics)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections.abc import Awaitable
from time import perf_counter

from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from mixling.errors import DataError, UserError
from mixling.serving import predicting
from mixling.serving.arriving import TICKET
from mixling.serving.body import Bodies, ClientGone, Handler, has_body
from mixling.serving.callers import REQUEST, Callers
from mixling.serving.keys import ApiKeys
from mixling.serving.metrics import ServerMetrics
from mixling.serving.models import ModelStore
from mixling.serving.openapi import OpenApiDocument
from mixling.serving.page import page_routes
from mixling.serving.problems import JsonResponse, Problem
from mixling.serving.scheduling import Line, Scheduler
from mixling.serving.schemas import LARGE_BODY
from mixling.serving.settings import ServerSettings
from mixling.serving.waiting import Waiting

_LOG = logging.getLogger("mixling.serving")
# Python threads take turns this often (its default is 5 ms), so that large requests do not hold up small ones.
_SWITCH_SECONDS = 0.0005


class Service:
    """The state of a server process, and its ASGI application.

    Raises:
        UserError: a model or the file of keys cannot be used.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.metrics = ServerMetrics(settings.drift_window)
        self.models = ModelStore(
            settings.models, max_texts=settings.max_texts, max_chars=settings.max_chars, too_long=settings.too_long
        )
        self.scheduler = Scheduler(queue=settings.queue, timeout=settings.timeout, on_batch=self.metrics.batch)
        self.line = Line(settings.max_wait)
        self.metrics.begin(self.models.names, lambda: self.scheduler.waiting)
        self.bodies = Bodies(limit=settings.max_body, total=settings.max_buffered)
        self.waiting = Waiting(settings.max_buffered)
        self.stopping = False
        self._turnstile = asyncio.Lock()
        self._callers = Callers(settings.hosts, settings.cors)
        self._keys = None if settings.keys_file is None else ApiKeys.read(settings.keys_file)
        self._document = OpenApiDocument(self.models, settings, keys=self._keys is not None)
        routes = [
            *self._routes(predicting.prediction_handlers(self.models, self.scheduler, self.metrics), "POST"),
            *self._routes({"/v1/models": self._models, "/v1/models/{model}": self._model}),
            *self._routes({"/openapi.json": self._openapi, "/metrics": self._metrics}),
            *self._routes({"/healthz": self._alive, "/health": self._alive, "/readyz": self._ready}, public=True),
            *self._routes(page_routes(), public=True),
        ]
        self._known = self._known_paths(routes)
        self._router = Router(routes, redirect_slashes=False, default=self._endpoint("other", self._not_found))
        self._app: ASGIApp = self._route
        if settings.cors:
            self._app = CORSMiddleware(
                self._app,
                allow_origins=settings.cors,
                allow_methods=["GET", "POST"],
                allow_headers=["Authorization", "Content-Type"],
                max_age=3600,
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        scope["app"] = self  # Starlette then raises for a wrong method, instead of answering it
        begin = perf_counter()
        try:
            self._callers.check(scope)
            await self._app(scope, receive, send)
            return
        except HTTPException as error:
            headers = dict(error.headers or {})
            allowed = f"; allowed: {headers['Allow']}" if "Allow" in headers else ""
            problem = Problem(error.status_code, f"{scope['method']} is not allowed here{allowed}", headers=headers)
        except Problem as refusal:
            problem = refusal
        await self._send(problem.response(), scope, receive, send, unread=True)
        self.metrics.answered("other", problem.status, perf_counter() - begin)

    def _route(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if (known := self._known.get((scope["method"], scope["path"]))) is None:
            return self._router(scope, receive, send)
        endpoint, scope["path_params"] = known
        return endpoint(scope, receive, send)

    def _known_paths(self, routes: list[Route]) -> dict[tuple[str, str], tuple[ASGIApp, dict[str, str]]]:
        """Return the endpoints of the models by method and path: to match patterns takes as long as a prediction."""
        found: dict[tuple[str, str], tuple[ASGIApp, dict[str, str]]] = {}
        for route in routes:
            if set(route.param_convertors) == {"model"}:
                for name in self.models.names:
                    for method in route.methods or ():
                        found[method, route.path.format(model=name)] = (route.app, {"model": name})
        return found

    def _routes(self, handlers: dict[str, Handler], method: str = "GET", *, public: bool = False) -> list[Route]:
        return [
            Route(path, self._endpoint(path, handler, public=public, waits=method == "POST"), methods=[method])
            for path, handler in handlers.items()
        ]

    def _endpoint(self, route: str, handler: Handler, *, public: bool = False, waits: bool = False) -> ASGIApp:
        """Return the application of a route: checks the key, receives the body, and sends errors as problems.

        Args:
            public: whether no key is needed.
            waits: whether requests that have waited for too long are refused.
        """
        keys = None if public else self._keys
        bodies = self.bodies
        line = self.line

        async def endpoint(scope: Scope, receive: Receive, send: Send) -> None:
            begin = perf_counter()
            unread = True
            try:
                if keys is not None and not keys.admit(scope["headers"]):
                    challenge = {"WWW-Authenticate": "Bearer"}
                    raise Problem(401, "an API key is needed: send Authorization: Bearer KEY", headers=challenge)
                body = await bodies.receive(scope, receive)
                unread = False
                try:
                    if len(body) > LARGE_BODY:  # to check it may take long: one at a time, and others in between
                        async with self._turnstile:
                            await asyncio.sleep(0)
                    if waits:  # a server that stops answers all
                        line.leave(None if self.stopping else scope.get(TICKET))
                    response = await handler(scope, body)
                finally:
                    bodies.release(body)
            except ClientGone:
                self.metrics.answered(route, 499, perf_counter() - begin)
                return
            except Problem as problem:
                response = problem.response()
            except DataError as error:
                response = Problem(422, str(error)).response()
            except UserError as error:
                _LOG.error("%s: %s", route, error)
                response = Problem(500, "the model cannot predict for this; see the log of the server").response()
            except Exception:
                _LOG.exception("%s: internal error", route)
                response = Problem(500, "internal error; see the log of the server").response()
            await self._send(response, scope, receive, send, unread=unread)
            self.metrics.answered(route, response.status_code, perf_counter() - begin)

        return _AsgiEndpoint(endpoint)

    async def _send(
        self, response: Response, scope: Scope, receive: Receive, send: Send, *, unread: bool = False
    ) -> None:
        """Send an answer; the connection is closed behind it if the body was not read, or if the server stops."""
        if self.stopping or (unread and has_body(scope)):
            response.headers["Connection"] = "close"
        if REQUEST in scope:
            response.raw_headers.append((b"mixling-request", scope[REQUEST]))
        await response(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        """Watch the model files while the server runs."""
        await receive()
        sys.setswitchinterval(_SWITCH_SECONDS)
        watcher: asyncio.Task[None] | None = None
        if (interval := self.settings.reload_interval) > 0:
            watcher = asyncio.create_task(self.models.watch(interval, self.metrics.reloaded))
        await send({"type": "lifespan.startup.complete"})
        await receive()
        if watcher is not None:
            watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watcher
        self.scheduler.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _models(self, scope: Scope, body: bytes) -> Response:
        return JsonResponse({"models": [predicting.description(loaded) for loaded in self.models]})

    async def _model(self, scope: Scope, body: bytes) -> Response:
        return JsonResponse(predicting.description(predicting.find_model(self.models, scope["path_params"]["model"])))

    async def _openapi(self, scope: Scope, body: bytes) -> Response:
        return JsonResponse(self._document.get())

    async def _metrics(self, scope: Scope, body: bytes) -> Response:
        return self.metrics.response()

    async def _alive(self, scope: Scope, body: bytes) -> Response:
        return JsonResponse({"status": "alive"})

    async def _ready(self, scope: Scope, body: bytes) -> Response:
        if self.stopping:
            raise Problem(503, "the server is stopping", headers={"Retry-After": "1"})
        return JsonResponse({"status": "ready"})

    async def _not_found(self, scope: Scope, body: bytes) -> Response:
        raise Problem(404, f"there is no {scope['path'][:200]!r}; /docs and /openapi.json list the routes")


class _AsgiEndpoint:
    """An ASGI application that Starlette's `Route` does not take for a function of a request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        return self._app(scope, receive, send)
