"""The columns of tables that an estimator is fitted on, predicts for and is scored on."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mixling.data.config import ColumnsConfig
from mixling.data.frames import Frame, Names, is_stream, new_table, texts_of
from mixling.errors import DataError
from mixling.features.kinds import parse_features
from mixling.runtime.predictor import Predictor

_REMEDY = "give targets, y, or a table with label='stars'"


class TableColumns:
    """What an estimator knows about columns.

    Attributes:
        text_: the column of the text that `fit` read, or several; None: `fit` got no names.
        label_: the column of the targets, or a list of columns of 0 and 1; None: `fit` got `y`.
        features_: the columns beside the text, each with its kind where `fit` got it, such as "price:number".
    """

    text_: tuple[Any, ...] | None
    features_: tuple[str, ...]
    label_: Any
    _default_text: ClassVar[str] = "text"
    _default_label: ClassVar[str] = "label"

    if TYPE_CHECKING:

        @property
        def predictor_(self) -> Predictor: ...

    def _read(
        self, X: Any, y: Any, where: str, *, text: Names | None, label: Any, features: str | Sequence[str] = ()
    ) -> tuple[Any, Any]:
        """Return the texts and targets that `fit` gets, and remember their columns.

        Raises:
            DataError: there are no such columns, or they are named although there is no table.
        """
        X = list(X) if is_stream(X) else X
        frame = Frame.of(X)
        self.text_ = None
        self.label_ = None
        self.features_ = (features,) if isinstance(features, str) else tuple(features)
        beside = self._beside
        if frame is None:
            if label is not None or beside:
                option = "features" if label is None else "label"
                raise DataError(f"{option}: names a column, but got one {type(X).__name__}; give a table", path=where)
            return texts_of(X, text, where), _targets(y, where)
        if y is not None and label is not None:
            raise DataError("got both y and label=; give only one of the two", path=where)
        if y is None:
            self.label_ = self._default_label if label is None else label
            if label is None and self._default_label not in frame.names:
                listed = ", ".join(map(str, frame.names))
                raise DataError(f"which column has the targets? {_REMEDY}; the table has {listed}", path=where)
        taken = _label_columns(frame, self.label_)
        known = None if y is not None or {"text", "text_pair"} <= {*frame.names} else ("text",)
        if text is None and self._default_text != "text" and self._default_text in frame.names:
            text = self._default_text
        self.text_ = frame.text_columns(text, where, taken=(*taken, *beside), known=known)
        roles = [*dict.fromkeys(self.text_), *taken, *beside]
        if both := [name for name in roles if roles.count(name) > 1]:
            raise DataError(f"column {both[0]!r} is named as two of text, label and features", path=where)
        texts = frame.texts(self.text_, where, beside=beside)
        return texts, self._targets_of(frame, where) if y is None else _targets(y, where)

    @property
    def _beside(self) -> tuple[str, ...]:
        """The names of the columns beside the text."""
        return tuple(parse_features(self.features_))

    def _read_again(self, X: Any, y: Any, where: str) -> tuple[Any, Any]:
        """Return texts and targets as `fit` got them.

        Raises:
            DataError: there are no such columns, or no targets.
        """
        X = list(X) if is_stream(X) else X  # once, for the targets, too
        texts = self._texts(X, where)
        if y is not None:
            return texts, _targets(y, where)
        if (frame := Frame.of(X)) is None:
            raise DataError(f"there are no targets; {_REMEDY}", path=where)
        if self.label_ is None and self._default_label not in frame.names:
            raise DataError("there are no targets; give y, as in fit", path=where)
        return texts, self._targets_of(frame, where)

    def _read_validation(self, validation: Any, where: str) -> tuple[Any, Any]:
        """Return the texts and targets of `validation`: a pair of both, or a table."""
        if isinstance(validation, tuple) and len(validation) == 2:
            return self._read_again(*validation, where)
        return self._read_again(validation, None, where)

    def _texts(self, X: Any, where: str = "<predict>") -> Any:
        """Return the texts to predict for: of a table the columns that `fit` read."""
        X = list(X) if is_stream(X) else X
        if (frame := Frame.of(X)) is not None:
            known = None if self.text_ else self.predictor_.text_names
            return frame.texts(self.text_, where, known=known, beside=self._beside)
        return texts_of(X, None, where)

    def _targets_of(self, frame: Frame, where: str) -> Any:
        columns = _label_columns(frame, self.label_ or self._default_label)
        found = [frame.column(name, where) for name in columns]
        if len(columns) == 1 and not isinstance(self.label_, list):
            return found[0]
        marks = np.empty((len(frame), len(columns)), object)
        for place, values in enumerate(found):
            marks[:, place] = values
        return marks

    def _labels_of_columns(self) -> tuple[Any, ...] | None:
        """Return the labels if each has a column of 0 and 1."""
        return tuple(self.label_) if isinstance(self.label_, list) else None

    def _named_columns(self) -> dict[str, Any]:
        """Return the columns as values of `ColumnsConfig`, in which they are saved with the model."""
        text = self.text_ or ()
        labels = self._labels_of_columns()
        found = {"label": self.label_} if labels is None else {"labels": labels}
        if all(isinstance(name, str) for name in text):
            found |= dict(zip(("text", "text_pair"), (*text[:1], text[1:]), strict=False))
        found |= {"features": self.features_}
        return {key: value for key, value in found.items() if isinstance(value, str | tuple)}

    def _remember(self, columns: ColumnsConfig) -> None:
        """Take the columns of a saved run, where they are not the default ones, which rows without names have, too."""
        if columns.text != "text":
            self.text_ = columns.texts
        if columns.label != "label" or columns.labels is not None:
            self.label_ = columns.label if columns.labels is None else [*columns.labels]

    def _output(self) -> str | None:
        """Return the library that `set_output` chose for this estimator; None: NumPy."""
        chosen = getattr(self, "_sklearn_output_config", {}).get("transform")
        return None if chosen in (None, "default") else str(chosen)

    def _as_table(self, library: str, columns: dict[str, Any], X: Any) -> Any:
        """Return columns as a table of the library that `set_output` chose, with the index of X."""
        if library not in sys.modules:
            __import__(library)
        frame = Frame.of(X)
        like = X if hasattr(X, "index") and not callable(X.index) else None if frame is None else frame.table
        return new_table(library, columns, like=like)


def _label_columns(frame: Frame, label: Any) -> tuple[Any, ...]:
    if label is None:
        return ()
    return tuple(label) if isinstance(label, list) else (label,)


def _targets(y: Any, where: str) -> Any:
    if y is None:
        raise DataError(f"there are no targets; {_REMEDY}", path=where)
    return list(y) if is_stream(y) else y
