"""`mixling distill`: a large model's answers to a small model that gives them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from mixling.cli.command import DATA, MODEL
from mixling.cli.options import LabeledTraining
from mixling.cli.output import announce
from mixling.errors import ConfigError

if TYPE_CHECKING:
    from mixling.runs import RunConfig


@dataclass(frozen=True, kw_only=True)
class TeacherOptions:
    """The teacher."""

    panel: ClassVar[str] = MODEL
    teacher: Annotated[
        str | None,
        typer.Option(
            "--teacher",
            metavar="MODEL|FILE",
            help="A run folder, a transformers folder, hf:NAME[@REVISION], a file of texts and probabilities, or self.",
        ),
    ] = None
    fine_tune: Annotated[
        bool, typer.Option("--fine-tune", help="Train the transformers teacher on the labeled rows first.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class TeacherData:
    """What the teacher labels."""

    panel: ClassVar[str] = DATA
    unlabeled: Annotated[
        list[str] | None,
        typer.Option("--unlabeled", metavar="FILE", help="Text for the teacher to label; may be repeated."),
    ] = None
    test: Annotated[
        list[str] | None,
        typer.Option("--test", metavar="FILE", help="Rows whose texts the student must not see; may be repeated."),
    ] = None
    subwords: Annotated[
        str | None,
        typer.Option("--split", metavar="auto|sentences|documents", help="What of the unlabeled text is one text."),
    ] = None
    limit: Annotated[int | None, typer.Option("--limit", help="Unlabeled texts, drawn at random [40000].")] = None


@dataclass(frozen=True, kw_only=True)
class DistillOptions(TeacherOptions, TeacherData, LabeledTraining):
    """All that `mixling distill` takes."""

    def values(self) -> dict[str, Any]:
        distill = {
            "teacher": self.teacher,
            "unlabeled": self.unlabeled if self.teacher is not None or self.config is not None else None,
            "fine_tune": self.fine_tune or None,
            "test": self.test,
            "tokenizer": self.subwords,
            "limit": self.limit,
        }
        # The student begins with the text that is labeled, see `mixling.runs.start`.
        return {**super().values(), "distill": distill}


def distill(options: DistillOptions) -> None:
    """Train a small model on what a larger one says.

    It learns from the labeled rows and from the teacher's probabilities for them and for unlabeled text.
    The teacher and its answers are kept in DIR/teacher: another student with --overwrite, or --resume after
    an interruption, asks only for what is not there.
    """
    started = announce("distill")
    from mixling.cli.training import train_labels

    train_labels(options, started, check=_check_teacher)


def _check_teacher(config: RunConfig) -> None:
    if config.distill is None:
        raise ConfigError(
            "no teacher; --teacher names one: a run folder, a folder of the transformers library, hf:NAME, a "
            "file of texts and probabilities, or self"
        )
