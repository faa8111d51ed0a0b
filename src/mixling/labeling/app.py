"""The page of `mixling label` and its requests, over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
import signal
import sys
import webbrowser
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn.config import Config

from mixling.errors import DataError, StorageError, UserError
from mixling.labeling.exports import EXPORTS
from mixling.labeling.session import LISTS, LabelingSession
from mixling.serving.body import Bodies, ClientGone, has_body
from mixling.serving.callers import Callers
from mixling.serving.keys import ApiKeys
from mixling.serving.page import page_routes
from mixling.serving.problems import JsonResponse, Problem
from mixling.serving.protocol import LimitedProtocol
from mixling.serving.scheduling import Line
from mixling.serving.server import Address
from mixling.serving.waiting import Waiting

_LOG = logging.getLogger("mixling.labeling")
_MOST = 1 << 20  # bytes of a request
_TOTAL = 16 << 20  # of all requests at a time
_LINES = 1000  # of a request
_TEXTS = 10  # that a page may hold
_PASSED = 10_000  # texts that were not decided yet
_NAME = 100  # characters of an annotator's and a page's name
_NO_DISK = 507


class LabelingApp:
    """The ASGI application.

    Args:
        hosts: names under which it answers; none: under any.
        token: that requests must bear; None: none is needed.
    """

    def __init__(self, session: LabelingSession, *, hosts: tuple[str, ...], token: str | None, annotator: str) -> None:
        self._session = session
        self._callers = Callers(hosts, ())
        self._keys = None if token is None else ApiKeys([token])
        self._annotator = annotator
        self._bodies = Bodies(limit=_MOST, total=_TOTAL)
        shared = page_routes()  # whose style the page has
        del shared["/docs"]
        self._pages = shared | page_routes("mixling.labeling", "page")
        self._asked = {"/api/work": self._work, "/api/list": self._list, "/api/export": self._export}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        unread = True
        try:
            self._callers.check(scope)
            path = scope["path"]
            if path in self._pages:
                self._only("GET", scope)
                response = await self._pages[path](scope, b"")
            elif path in self._asked:
                self._only("POST", scope)
                if self._keys is not None and not self._keys.admit(scope["headers"]):
                    raise Problem(401, "the address of the page has a token: open the one that the command printed")
                body = await self._bodies.receive(scope, receive)
                unread = False
                try:
                    response = self._asked[path](_object(body))
                finally:
                    self._bodies.release(body)
            else:
                raise Problem(404, f"there is no {path[:200]!r}")
        except ClientGone:
            return
        except asyncio.CancelledError:  # the rest of the request did not come before the end
            response = Problem(503, "the command ends; start it again").response()
        except Problem as problem:
            response = problem.response()
        except StorageError as error:
            _LOG.error("%s", error)
            response = Problem(_NO_DISK, str(error)).response()
        except UserError as error:
            response = Problem(422, str(error)).response()
        except Exception:
            _LOG.exception("internal error")
            response = Problem(500, "internal error; see the terminal of the command").response()
        if unread and has_body(scope):
            response.headers["Connection"] = "close"
        await response(scope, receive, send)

    def _only(self, method: str, scope: Scope) -> None:
        if scope["method"] not in (method, "HEAD" if method == "GET" else method):
            raise Problem(405, f"{scope['method']} is not allowed here; allowed: {method}", headers={"Allow": method})

    def _work(self, asked: dict[str, Any]) -> Response:
        """Save lines, and return how things stand and the next texts."""
        annotator = self._name(asked)
        saved: list[dict[str, Any]] = []
        problem: Problem | None = None
        for line in _list_of(dict, asked, "lines", _LINES):
            identifier = line.get("id")
            try:
                between = self._session.save({**line, "annotator": annotator})
                saved.append({"id": identifier, "between": between})
            except StorageError as error:  # the page keeps it and those behind it
                _LOG.error("%s", error)
                problem = Problem(_NO_DISK, str(error), saved=saved)
                break
            except DataError as error:
                saved.append({"id": identifier, "refused": str(error)})
        if problem is not None:
            raise problem
        if asked.get("review"):
            self._session.review()
        holding = _list_of(str, asked, "holding", _TEXTS)
        count = asked.get("count", 0)
        if type(count) is not int or not 0 <= count <= _TEXTS:
            raise Problem(422, f"count: got {str(count)[:40]}; allowed: 0 to {_TEXTS}")
        page = str(asked.get("page", ""))[:_NAME]
        decides = bool(asked.get("decide"))
        if decides:
            texts = self._session.undecided(count, [*holding, *_list_of(str, asked, "passed", _PASSED)])
        else:
            texts = self._session.next(page, annotator, count, holding)
        if isinstance(asked.get("text"), str):
            texts.append(self._session.text(asked["text"], None if decides else annotator))
        state = self._session.state(annotator) | {"annotator": annotator}
        return JsonResponse({"saved": saved, "texts": texts, "state": state})

    def _list(self, asked: dict[str, Any]) -> Response:
        kind = asked.get("kind")
        if kind not in LISTS:
            raise Problem(422, f"kind: got {str(kind)[:40]!r}; allowed: {', '.join(LISTS)}")
        return JsonResponse({"texts": self._session.list(kind, self._name(asked))})

    def _export(self, asked: dict[str, Any]) -> Response:
        form = asked.get("format")
        allowed = [name for name, one in EXPORTS.items() if one.suffix]
        if form not in allowed:
            raise Problem(422, f"format: got {str(form)[:40]!r}; allowed: {', '.join(allowed)}")
        content = self._session.export(str(form), agreed=bool(asked.get("agreed")))
        return Response(content, media_type="application/octet-stream")

    def _name(self, asked: dict[str, Any]) -> str:
        name = asked.get("annotator") or self._annotator
        if not isinstance(name, str) or not name.isprintable() or len(name) > _NAME:
            raise Problem(422, f"annotator: allowed: a name of up to {_NAME} characters")
        return name


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise Problem(422, "the body must be a JSON object")
    return value


def _list_of(kind: type, asked: dict[str, Any], key: str, most: int) -> list[Any]:
    value = asked.get(key, [])
    if not isinstance(value, list) or len(value) > most or not all(isinstance(item, kind) for item in value):
        raise Problem(422, f"{key}: allowed: a list of up to {most}")
    return value


class _Server(uvicorn.Server):
    """uvicorn's server, which returns after a signal instead of dying of it, and says where the page is."""

    def __init__(self, config: Config, address: str, *, show: bool) -> None:
        super().__init__(config)
        self._address = address
        self._show = show

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        print(f"labeling on {self._address}  (Ctrl-C ends)", file=sys.stderr, flush=True)
        if self._show:
            webbrowser.open(self._address)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        numbers = (signal.SIGINT, signal.SIGTERM)
        old = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in old.items():
                signal.signal(number, handler)


def serve_page(
    make_session: Callable[[Callable[[Callable[[], None]], object]], LabelingSession],
    address: Address,
    *,
    hosts: tuple[str, ...],
    annotator: str,
    show: bool,
) -> None:
    """Serve the page until SIGINT or SIGTERM.

    Args:
        make_session: makes the session, given what calls a function in the thread of the server.
        hosts: names under which the page is; none: a token is needed, which its address has.
        annotator: whoever does not say their name.
        show: open the page in a browser.

    Raises:
        UserError: the address cannot be used.
    """
    token = None if hosts else secrets.token_urlsafe()
    with address.listen() as listener:
        host, port = listener.getsockname()[:2]
        page = f"http://{f'[{host}]' if ':' in host else host}:{port}/" + ("" if token is None else f"#token={token}")

        async def serve() -> None:
            session = make_session(asyncio.get_running_loop().call_soon_threadsafe)
            try:
                app = LabelingApp(session, hosts=hosts, token=token, annotator=annotator)
                await _Server(_config(app), page, show=show).serve(sockets=[listener])
            finally:
                session.close()

        asyncio.run(serve())


def _config(app: LabelingApp) -> Config:
    limits = {"line": Line(60.0), "waiting": Waiting(_TOTAL)}
    return Config(
        app,
        http=type("_Protocol", (LimitedProtocol,), limits),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        headers=[("X-Content-Type-Options", "nosniff")],
        timeout_graceful_shutdown=2,
    )
