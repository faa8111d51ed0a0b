"""`mixling distill`: training a small model on the probabilities of a larger one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from mixling.cli.command import DATA, MODEL
from mixling.cli.folders import refuse_file
from mixling.cli.guessing import holding_out
from mixling.cli.output import announce
from mixling.cli.training_options import LabeledTraining
from mixling.errors import ConfigError

if TYPE_CHECKING:
    from mixling.runs.resolve.config import RunConfig


@dataclass(frozen=True, kw_only=True)
class TeacherOptions:
    """The teacher."""

    panel: ClassVar[str] = MODEL
    teacher: Annotated[
        str | None,
        typer.Option(
            "--teacher",
            metavar="MODEL|FILE",
            help="A run folder, a transformers folder, hf:NAME[@REVISION], encoder:DIR (a sentence encoder), a file of "
            "texts and probabilities, or self.",
        ),
    ] = None
    fine_tune: Annotated[
        bool, typer.Option("--fine-tune", help="Fine-tune a transformers teacher on the labeled data first.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class TeacherData:
    """The texts that the teacher labels."""

    panel: ClassVar[str] = DATA
    unlabeled: Annotated[
        list[str] | None,
        typer.Option("--unlabeled", metavar="FILE", help="Text for the teacher to label; may be repeated."),
    ] = None
    test: Annotated[
        list[str] | None,
        typer.Option("--test", metavar="FILE", help="Exclude these texts from the unlabeled text; may be repeated."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class DistillOptions(TeacherOptions, TeacherData, LabeledTraining):
    """Options of `mixling distill`."""

    def values(self) -> dict[str, Any]:
        distill = {
            "teacher": self.teacher,
            "unlabeled": self.unlabeled if self.teacher is not None or self.config is not None else None,
            "fine_tune": self.fine_tune or None,
            "test": self.test,
        }
        # `RunConfig.initialization` initializes the student from the unlabeled text.
        return {**super().values(), "distill": distill}


def distill_command(options: DistillOptions) -> None:
    """Distill a larger model into a small one.

    The small model is trained on the labels and on the teacher's probabilities for labeled and unlabeled texts. Teacher
    and probabilities are stored in DIR/teacher and reused by --resume, and by another student with --overwrite. As in
    `mixling train`, some rows are held out to test on, unless --test or --validation names files.
    """
    if options.out is not None:
        refuse_file(options.out)
    if not options.resume:
        options = holding_out(options, config=options.config, test=options.test)
    started = announce("distill")
    from mixling.cli.training import train_labels
    from mixling.workers import usable_cores, use_workers

    with use_workers(usable_cores()):
        train_labels(options, started, check=_check_teacher, baseline=None)


def _check_teacher(config: RunConfig) -> None:
    if config.distill is None:
        raise ConfigError(
            "no teacher; --teacher names one: a run folder, a folder of the transformers library, hf:NAME, "
            "encoder:DIR, a file of texts and probabilities, or self"
        )
