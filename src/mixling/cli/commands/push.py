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
    name: Annotated[
        str,
        typer.Argument(
            metavar="ORG/NAME[@BRANCH]", help="Repository on the hub, and its branch [main]; created if missing."
        ),
    ]
    private: Annotated[bool, typer.Option("--private", help="Create the repository as private.")] = False
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
    name, _, branch = repository.name.removeprefix("hf:").partition("@")
    commit = push(
        model,
        name,
        private=repository.private,
        revision=branch or None,
        license=repository.license,
        languages=repository.language or (),
        datasets=repository.dataset or (),
        examples=repository.example or (),
    )
    print(f"{name}: commit {commit}", file=sys.stderr)
    source = f"hf:{name}@{branch}" if branch else f"hf:{name}"
    print(f"next:  {command_line('mixling', 'predict', source, 'a text')}", file=sys.stderr)
