"""Check the texts that a model is given, and divide a stream of them into parts that fit into memory."""

from __future__ import annotations

import itertools

from mixling.errors import DataError, near_miss, shown
from mixling.lazy import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from mixling.text.encoder import Text

# Larger batches are not faster on one core, because their activations exceed its cache.
BATCH_SIZE = 16
# Texts that are sorted together, to form batches of similar length.
PART_TEXTS = 4096
CHECKED = 256  # texts that are checked together


class TextInputs:
    """The texts that a model accepts.

    Args:
        names: of the texts that belong together, or of the only one; None: the file does not state their number.
        questions: it answers questions: an item is a pair (question, context).
        part_chars: the characters from which a part is complete.
        columns: the names of the columns beside each text.
    """

    def __init__(
        self, *, names: tuple[str, ...] | None, questions: bool, part_chars: int, columns: tuple[str, ...] = ()
    ) -> None:
        self.columns = columns
        self.questions = questions
        self.names = ("question", "context") if questions else names
        self._part_chars = part_chars

    @property
    def by_name(self) -> bool:
        """Whether an item may be an object of its texts, and of columns beside them, by name."""
        return bool(self.columns) or (self.names is not None and len(self.names) > 1 and not self.questions)

    def parts(self, texts: Iterable[Text]) -> Iterator[list[Text]]:
        """Yield texts in lists of up to `PART_TEXTS`, checked; they may be endless.

        Raises:
            DataError: `texts` is a single text, or an item is no text that the model accepts.
        """
        if type(texts) is not list:
            from mixling.text.clean import check_many

            check_many(texts, "texts")
        part: list[Text] = []
        num_chars = number = 0
        left = iter(texts)
        while chunk := list(itertools.islice(left, min(CHECKED, PART_TEXTS - len(part)))):
            if self.by_name:
                chunk = [self.row(item, index) for index, item in enumerate(chunk, number)]
            num_chars += self.check(chunk, number)
            number += len(chunk)
            part += chunk
            if len(part) >= PART_TEXTS or num_chars >= self._part_chars:
                yield part
                part = []
                num_chars = 0
        if part:
            yield part

    def row(self, item: Any, number: int = 0) -> Text:
        """Return a text with the columns beside it.

        Args:
            item: such a text, or an object of a text and its columns by name.

        Raises:
            DataError: it lacks a column, or the text.
        """
        if not self.by_name:
            text: Text = item
            return text
        from mixling.features.cells import cells_in, cells_of, with_cells

        names = self.names or ("text",)
        allowed = (*names, *self.columns)
        if not hasattr(item, "keys"):
            if not self.columns or cells_of(item) is not None:
                carried: Text = item
                return carried
            example = ", ".join(f"{name!r}: ..." for name in allowed)
            raise DataError(
                f"item {number} has no columns; this model reads {', '.join(self.columns)} beside the text: pass an "
                f"object {{{example}}}, or on the command line a file with these columns, or --column NAME=VALUE"
            )
        try:
            for name in item:
                if name not in allowed:
                    raise DataError(f"the model has no column {name!r}; {near_miss(str(name), allowed)}")
            for name in names:
                if name not in item:
                    raise DataError(f"no column {name!r}; {near_miss(name, map(str, item))}")
                if not isinstance(item[name], str):
                    raise DataError(f"{name!r} is not a text: {shown(item[name])}")
            texts: Any = tuple(item[name] for name in names) if len(names) > 1 else item[names[0]]
            return with_cells(texts, cells_in(item, self.columns)) if self.columns else texts
        except DataError as error:
            raise DataError(f"item {number}: {error}") from None

    def check(self, texts: Sequence[Text], first: int = 0) -> int:
        """Return the number of characters of texts; the first text has this number.

        Raises:
            DataError: an item is not a text, or not of the kind that the model was trained on.
        """
        number = 1 if self.names is None else len(self.names)
        if number == 1 and set(map(type, texts)) == {str}:
            return sum(map(len, texts))
        if number > 1 and set(map(type, texts)) == {tuple} and set(map(len, texts)) == {number}:
            parts = list(itertools.chain.from_iterable(texts))
            if set(map(type, parts)) == {str}:
                return sum(map(len, parts))
        return sum(self._check(text, number) for number, text in enumerate(texts, first))

    def _check(self, text: object, number: int) -> int:
        from mixling.text.clean import count_chars

        size = count_chars(text, number)
        got = len(text) if isinstance(text, tuple) else 1
        wanted = min(got, 2) if self.names is None else len(self.names)
        if got == wanted:
            return size
        if self.questions:
            raise DataError(
                f"item {number} is one text; this model answers questions: pass (question, context), or on the "
                "command line --question and --context, or a file with both"
            )
        what = "one text" if got == 1 else f"{got} texts" if wanted > 2 or got > 2 else "a pair of texts"
        if wanted == 1:
            raise DataError(f"item {number} is {what}; this model was trained on single texts: pass one text")
        trained, names = ("pairs", "first, second") if wanted == 2 else (f"{wanted} texts", ", ".join(self.names or ()))
        raise DataError(
            f"item {number} is {what}; this model was trained on {trained}: pass ({names}), "
            "or on the command line a file and its columns, each with --text"
        )
