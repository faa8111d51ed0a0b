"""`mixling serve`: an HTTP server for saved models, with a page to try them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from mixling.cli.options import TooLongOption
from mixling.cli.output import no_collections

KEYS_VARIABLE = "MIXLING_API_KEYS"


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """Options of `mixling serve`."""

    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...", help="Folders of saved models, their model.onnx, or hf:NAME; or NAME=MODEL."
        ),
    ]
    host: Annotated[str, typer.Option("--host", help="Address to listen on; 0.0.0.0 is reachable by others.")] = (
        "127.0.0.1"
    )
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0: any free one.")] = 8000
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes that answer.")] = 1
    keys: Annotated[
        Path | None,
        typer.Option(
            "--keys",
            metavar="FILE",
            help=f"API keys, one per line; requests must have one. By default ${KEYS_VARIABLE}.",
        ),
    ] = None
    cors: Annotated[
        list[str] | None,
        typer.Option("--cors", metavar="ORIGIN", help="Pages of this origin may send requests; repeatable."),
    ] = None
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allowed-host",
            metavar="NAME",
            help="Answer requests to this name as well, such as a proxy's, or * for all; repeatable. "
            "By default a server on 127.0.0.1 answers under local names only, and others under any.",
        ),
    ] = None
    queue: Annotated[int, typer.Option("--queue", min=1, help="Texts that may wait before requests get 503.")] = 1024
    max_wait: Annotated[
        float, typer.Option("--max-wait", min=0.001, help="Seconds behind other requests before a request gets 503.")
    ] = 0.05
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.1, help="Seconds until an unanswered request gets 504.")
    ] = 10.0
    max_body: Annotated[int, typer.Option("--max-body", min=1, help="Bytes of a request's body.")] = 1 << 20
    client_timeout: Annotated[
        float, typer.Option("--client-timeout", min=0.1, help="Seconds for a request to arrive.")
    ] = 10.0
    reload_interval: Annotated[
        float, typer.Option("--reload-interval", min=0, help="Seconds between looks at the model files; 0: never.")
    ] = 1.0
    drain_wait: Annotated[
        float,
        typer.Option("--drain-wait", min=0, help="Seconds after SIGTERM in which new requests are still answered."),
    ] = 0.5
    too_long: TooLongOption = "windows"
    verbose: Annotated[bool, typer.Option("--verbose", help="Log each request.")] = False


def serve_command(options: ServeOptions) -> None:
    """Answer over HTTP, with a page to try the models.

    Open the printed address in a browser, or send texts to /v1/models/NAME/predict; /openapi.json describes all routes.
    Several models are served by name. A model file that is replaced is used within a second; a damaged one is not.
    SIGTERM stops the server when all requests in flight are answered. Needs the extra "serve"; torch is needed only for
    models that generate text.
    """
    with no_collections():
        from mixling.serving.callers import hosts_of, origins
        from mixling.serving.server import Address, serve
        from mixling.serving.settings import ServerSettings, named_models

    keys = options.keys or (Path(os.environ[KEYS_VARIABLE]) if os.environ.get(KEYS_VARIABLE) else None)
    address = Address(host=options.host, port=options.port)
    settings = ServerSettings(
        models=named_models(options.models),
        hosts=hosts_of(address.number, options.allowed_host or ()),
        keys_file=keys,
        cors=origins(options.cors or ()),
        queue=options.queue,
        max_wait=options.max_wait,
        timeout=options.timeout,
        max_body=options.max_body,
        client_timeout=options.client_timeout,
        reload_interval=options.reload_interval,
        drain_wait=options.drain_wait,
        too_long=options.too_long,
    )
    serve(settings, address, workers=options.workers, verbose=options.verbose)
