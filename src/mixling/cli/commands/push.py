"""`mixling push`: upload a saved model to the Hugging Face hub."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from mixling.cli.command import OUTPUT
from mixling.cli.options import ModelArgument
from mixling.errors import command_line


@dataclass(frozen=True, kw_only=True)
class Repository:
    """The repository of the model, and the metadata of its card."""

    panel: ClassVar[str] = OUTPUT
    name: Annotated[str, typer.Argument(metavar="ORG/NAME", help="Repository on the hub, created if it is missing.")]
    private: Annotated[bool, typer.Option("--private", help="Create the repository as private.")] = False
    revision: Annotated[
        str | None, typer.Option("--revision", metavar="BRANCH", help="Branch, created if it is missing [main].")
    ] = None
    message: Annotated[str, typer.Option("--message", metavar="TEXT", help="Message of the commit.")] = (
        "Upload a model of mixling"
    )
    license: Annotated[
        str | None, typer.Option("--license", metavar="NAME", help="License on the card, such as apache-2.0.")
    ] = None
    language: Annotated[
        list[str] | None, typer.Option("--language", metavar="CODE", help="Language of the texts; repeatable.")
    ] = None
    dataset: Annotated[
        list[str] | None,
        typer.Option("--dataset", metavar="ORG/NAME", help="Data set on the hub that the model learned; repeatable."),
    ] = None
    example: Annotated[
        list[str] | None,
        typer.Option("--example", metavar="TEXT", help="Text to try on the model's page; repeatable."),
    ] = None


def push_command(model: ModelArgument, repository: Repository) -> None:
    """Upload a model to the Hugging Face hub.

    All files of the run are uploaded in one commit, with metadata on the model card. run.json has the names of the data
    files. Log in with `hf auth login` first, or set HF_TOKEN.
    """
    from mixling.artifacts.push import push
    from mixling.cli.folders import refuse_unfinished

    refuse_unfinished(model)
    commit = push(
        model,
        repository.name,
        private=repository.private,
        revision=repository.revision,
        message=repository.message,
        license=repository.license,
        languages=repository.language or (),
        datasets=repository.dataset or (),
        examples=repository.example or (),
    )
    name = repository.name.removeprefix("hf:")
    at = "" if repository.revision is None else f"@{repository.revision}"
    print(f"{name}: commit {commit}", file=sys.stderr)
    print(f"next:  {command_line('mixling', 'predict', f'hf:{name}{at}', 'a text')}", file=sys.stderr)
