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
    workers: Annotated[int, typer.Option("--workers", min=1, max=256, help="Processes that answer.")] = 1
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
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="LIMIT=NUMBER", help="Set a limit, such as timeout=20; docs/serving.md lists them."
        ),
    ] = None
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
        from mixling.serving.settings import ServerSettings, named_models, with_limits

    keys = options.keys or (Path(os.environ[KEYS_VARIABLE]) if os.environ.get(KEYS_VARIABLE) else None)
    address = Address(host=options.host, port=options.port)
    settings = ServerSettings(
        models=named_models(options.models),
        hosts=hosts_of(address.number, options.allowed_host or ()),
        keys_file=keys,
        cors=origins(options.cors or ()),
        too_long=options.too_long,
    )
    settings = with_limits(settings, options.overrides or ())
    serve(settings, address, workers=options.workers, verbose=options.verbose)
