"""Arguments of commands that read files of texts with a model."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mixling.cli.options import InputColumns, refuse_stdin

if TYPE_CHECKING:
    from mixling.runtime.predictor import Predictor
    from mixling.text.encoder import Text


@dataclass(frozen=True, kw_only=True)
class InputFiles(InputColumns):
    """Files of texts that a model reads."""

    files: Annotated[
        list[str], typer.Argument(metavar="FILES...", help="Texts, in any format of `predict`; labels are ignored.")
    ]

    def read(self, command: str, model: str, out: Path | None) -> tuple[Predictor, Iterator[Text]]:
        """Return the model and the texts, which are read while they are taken.

        Args:
            command: that reads them.
            out: the file to write, which is none of those read.

        Raises:
            ConfigError: a file is standard input, or the output; or the training of the model was interrupted.
            UserError: see `Predictor` and `mixling.data.inputs.file_items`.
        """
        from mixling.cli.folders import refuse_unfinished
        from mixling.cli.inputs import keep_inputs
        from mixling.data.inputs import file_items
        from mixling.runs.evaluation import columns_of
        from mixling.runtime.predictor import Predictor

        refuse_stdin(command, self.files, "the texts to a file, such as texts.txt")
        if out is not None:
            keep_inputs(self.files, out)
        refuse_unfinished(model)
        predictor = Predictor(model)
        columns = columns_of(model, self.columns(), predictor.features)
        items = file_items(self.files, reader=predictor.task.reader, columns=columns, skip=False)
        return predictor, (item.text for item in itertools.chain.from_iterable(items) if item.text is not None)
