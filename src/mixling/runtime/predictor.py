"""Predict with a saved model: by the C core, or by ONNX Runtime where it does not know the model; not by torch."""

from __future__ import annotations

import itertools
import os

from mixling.errors import ConfigError, DataError, shown
from mixling.lazy import TYPE_CHECKING
from mixling.runtime.inference import Inference
from mixling.runtime.inputs import BATCH_SIZE

if TYPE_CHECKING:  # imported when a model is opened in full
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Any, Literal, Protocol, TypeVar, overload

    import numpy as np
    import numpy.typing as npt

    from mixling.answers.labels import LabelSet
    from mixling.answers.predictions import Prediction
    from mixling.arrays import Float32, Int8
    from mixling.data.frames import Names
    from mixling.drift.report import Drift
    from mixling.explain.explanation import Explanation
    from mixling.runtime.onnx.session import Metadata, OpenModel
    from mixling.tasks.base import Task
    from mixling.text.config import TextConfig
    from mixling.text.encoder import Encoded, Text, TextEncoder
    from mixling.text.long_texts import TextWindow

    Rows = Sequence[Mapping[str, Any]]

    class Table(Protocol):
        """A table of pandas, Polars, Arrow or Hugging Face."""

        @property
        def shape(self) -> tuple[int, int]: ...

    _Table = TypeVar("_Table", bound=Table)

_QUESTIONS = 64  # questions at a time; their overlapping windows repeat the contexts
_SHOWN_LABELS = 5  # by `repr`


class Predictor:
    """Predicts for texts with a saved model.

    A text is a string, several strings in a tuple, or a list of the words of a sentence. Methods that accept several
    texts treat a list as a list of texts, so pass a sentence of words to `predict_one`, or as `predict([words])`. A
    model for question answering takes pairs (question, context); contexts may be long.

    Predictors are thread-safe and can be used in forked processes. Pickling and copying preserve the content of the
    model file, `num_threads` and `encoder` (also that it is shared), but not the cache of rows. Load pickles, like any
    pickle, only from trusted sources; the model file itself may come from anywhere.

    The summed rows of words are cached, up to 64 MiB (with an encoder passed by the caller: of all words in its table),
    so a repeated word costs no hashing and no projection. The native engine caches up to 128 MiB for each thread that
    predicts at a time.
    """

    def __init__(
        self,
        path: str | Path | bytes,
        *,
        num_threads: int = 1,
        encoder: TextEncoder | None = None,
        threshold: float | Mapping[str, float] | None = None,
        too_long: str = "windows",
    ) -> None:
        """Open a saved model.

        Args:
            path: the folder of a saved model, its `model.onnx`, the bytes of that file, or `hf:NAME[@REVISION]`.
            num_threads: threads of one prediction; small models are fastest with one.
            encoder: the `encoder` of another predictor, to encode each text once for both (see `logits`).
            threshold: with one label for each text, the top probability below which predictions abstain; with any
                number of labels, the probability from which a label is predicted, or some labels' by name. None:
                the model's own, or 0.5.
            too_long: how texts are read that are longer than the model's maximum: "windows", to the end, in parts;
                "truncate", the beginning only; "error", not at all. Contexts of questions are always read to the end.

        Raises:
            ModelFileError: there is no valid model at `path`.
            ConfigError: the task has no threshold, or it is no probability; `too_long` has another value; or `encoder`
                computes other features than those that this model was trained on.
        """
        if too_long != "windows":
            from mixling.runtime.windows import check_too_long

            check_too_long(too_long)
        if threshold is not None:
            _check_threshold(threshold)
        self._threshold = threshold
        self._inference = Inference(
            path, num_threads=num_threads, encoder=encoder, threshold=threshold, too_long=too_long
        )

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path,
        *,
        revision: str | None = None,
        token: str | None = None,
        local_files_only: bool = False,
        num_threads: int = 1,
        threshold: float | Mapping[str, float] | None = None,
        too_long: str = "windows",
    ) -> Predictor:
        """Return a predictor for a model on the Hugging Face hub, or of a local folder.

        One file is downloaded, once; afterwards no network is needed. Needs huggingface_hub.

        Args:
            name: NAME[@REVISION] on the hub, such as "org/name"; a local folder or file has precedence.
            revision: a branch, tag or commit.
            token: an access token, instead of HF_TOKEN and the one of `hf auth login`.
            local_files_only: use what was downloaded before, and no network.
            num_threads, threshold, too_long: as for `Predictor`.

        Raises:
            ModelFileError: there is no such model, no access to it, or no network and no copy; or it is damaged.
            ConfigError: the name is malformed; or threshold or too_long is, see `Predictor`.
            MissingPackage: huggingface_hub is not installed.
        """
        path = name
        if not os.path.exists(name):
            from mixling.runtime.hub_model import fetch_model

            path = fetch_model(str(name), revision=revision, token=token, local_files_only=local_files_only)
        return cls(path, num_threads=num_threads, threshold=threshold, too_long=too_long)

    def __reduce__(self) -> tuple[Callable[..., Predictor], tuple[Any, ...]]:
        engine = self._model.engine
        options = {
            "num_threads": engine.num_threads,
            "threshold": self._threshold,
            "too_long": self._inference.too_long,
        }
        return _open_again, (type(self), engine.data, self.encoder, options)

    def __repr__(self) -> str:
        metadata = self.metadata
        names = self.labels.names
        shown = ", ".join(map(repr, names[:_SHOWN_LABELS])) + (", ..." if len(names) > _SHOWN_LABELS else "")
        labels = f"{len(names)} labels ({shown}), " if self.task.has_labels else ""
        return (
            f"<{type(self).__name__} of {self._model.name}: {metadata.task}, {labels}"
            f"{metadata.parameters:,} parameters, {metadata.precision}>"
        )

    @property
    def _model(self) -> OpenModel:
        return self._inference.network.model

    @property
    def encoder(self) -> TextEncoder:
        """Encodes texts for `logits`; it may be another predictor's."""
        return self._inference.network.encoder

    @property
    def engine(self) -> str:
        """What computes: "native", or "onnx" and why."""
        if (native := self._inference.native) is not None:
            return f"native ({native.instructions})"
        reason = self._model.no_native or "the encoder given reads fewer words than the model"
        return f"onnx ({reason})"

    @property
    def metadata(self) -> Metadata:
        """The metadata of the model file: task, precision, number of parameters, ..."""
        return self._model.metadata

    @property
    def content(self) -> bytes:
        """The content of the model file."""
        return self._model.engine.data

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the columns beside each text; most models have none."""
        return self._inference.inputs.columns

    @property
    def features(self) -> tuple[str, ...]:
        """The columns beside each text with their kinds, such as "price:number"."""
        if not self.feature_names or (columns := self._model.columns) is None:
            return ()
        return columns.with_kinds

    @property
    def task(self) -> Task:
        """The task with its labels; `task.name` is its name."""
        return self._model.task

    @property
    def labels(self) -> LabelSet:
        return self._model.task.labels

    @property
    def text_config(self) -> TextConfig:
        return self._model.metadata.text

    @property
    def pairs(self) -> bool | None:
        """Whether it reads several texts that belong together; None: the file does not state it."""
        return None if (names := self.text_names) is None else len(names) > 1

    @property
    def text_names(self) -> tuple[str, ...] | None:
        """The names of the texts that belong together, or of the only one; None: the file does not state them."""
        return self._inference.inputs.names

    if TYPE_CHECKING:

        @overload
        def predict(self, texts: str | tuple[str, ...], *, top_k: int | None = None) -> Prediction: ...  # type: ignore[overload-overlap]
        @overload
        def predict(
            self, texts: Sequence[Text] | Rows, *, top_k: int | None = None, text: Names | None = None
        ) -> list[Prediction]: ...
        @overload
        def predict(self, texts: _Table, *, text: Names | None = None) -> _Table: ...
        @overload
        def predict(self, texts: Iterable[Text], *, top_k: int | None = None) -> list[Prediction]: ...

    def predict(self, texts: Any, *, top_k: int | None = None, text: Names | None = None) -> Any:
        """Return the prediction for one text, a list of predictions for several texts, or a table for a table.

        A table (pandas, Polars, Arrow, Hugging Face, a dictionary of columns) gives one of the same library, with the
        same index, whose columns are label, confidence and the probability of each label; see `columns`.

        Args:
            texts: a text, texts, or a table.
            top_k: keep the probabilities of this number of labels, the most probable first.
            text: the table's column of the text, or several columns in their order; by default, the names that
                several texts had in training, the only column, or "text".

        Raises:
            DataError: an item is not a text, or the table has no such column.
            ConfigError: `top_k` is less than 1, or the task has no probabilities of labels.
        """
        if top_k is None and text is None and (decided := self._inference.decide(texts)) is not None:
            return decided
        names = (self.text_names or ("text",)) if isinstance(texts, dict) and self._inference.inputs.by_name else ()
        is_row = any(isinstance(texts.get(name), str) for name in names)
        if (isinstance(texts, str | tuple) and text is None) or is_row:
            return self.predict_one(texts, top_k=top_k)
        from mixling.data.frames import Frame

        frame = Frame.of(texts)
        if frame is None or frame.library == "rows":
            return list(self.predict_stream(texts, top_k=top_k, text=text))
        if top_k is not None:
            raise ConfigError("top_k: a table has a column for each label; leave top_k out, or give texts")
        return frame.like(self.columns(texts, text=text))

    __call__ = predict

    def columns(self, texts: Any, *, text: Names | None = None) -> dict[str, Any]:
        """Return predictions as columns by name, see `predict`.

        With one label for each text they are `label`, as it was given in training, or None where the model abstains;
        `confidence`; `abstained` and `label_set` of models that have them; and the probability of each label. With
        several labels `labels`, a list, and these probabilities; of other tasks what a CSV of them has.
        """
        from mixling.runtime.columns import prediction_columns

        return prediction_columns(self.task, list(self.predict_stream(texts, text=text)))

    def predict_one(self, text: Text | Mapping[str, Any], *, top_k: int | None = None) -> Prediction:
        """Return the prediction for one text; a list is the words of a sentence. For `top_k`, see `predict`.

        Of several texts it may be a row of them by name; with columns beside the text it is one, of "text" and these.
        """
        if top_k is not None:
            self._check_top_k(top_k)
            return self.predict_one(text).top(top_k)
        decided: Prediction | None = None if isinstance(text, list) else self._inference.decide(text)
        if decided is not None:
            return decided
        text = self._inference.inputs.row(text)
        self._inference.inputs.check((text,))
        if self._inference.inputs.questions:
            return self._answers([text], BATCH_SIZE)[0]
        (read,), (logits,) = self._inference.read([text], 0)
        return self._inference.decoder.decode(logits, read, text)

    def predict_stream(
        self,
        texts: Iterable[Text] | Rows,
        *,
        batch_size: int = BATCH_SIZE,
        top_k: int | None = None,
        text: Names | None = None,
    ) -> Iterator[Prediction]:
        """Return predictions in the order of `texts`, which may be endless; a few thousand are in memory at a time.

        For `top_k`, `text` and errors, see `predict`.
        """
        predictions = itertools.chain.from_iterable(self._batches(self._texts(texts, text), batch_size))
        if top_k is None:
            return predictions
        self._check_top_k(top_k)
        return (prediction.top(top_k) for prediction in predictions)

    def _texts(self, texts: Any, names: Names | None = None, *, alone: bool = False) -> Any:
        """Return the texts of a table or of columns of other libraries, others as they are; `alone`: without cells."""
        if type(texts) is list and names is None and not (texts and isinstance(texts[0], dict)):
            return texts
        from mixling.data.frames import texts_of

        return texts_of(texts, names, known=self.text_names, beside=() if alone else self.feature_names)

    def _check_top_k(self, top_k: int) -> None:
        if not isinstance(top_k, int) or isinstance(top_k, bool) or top_k < 1:
            raise ConfigError(f"top_k: got {shown(top_k)}; allowed: a number of labels, from 1")
        if not self._inference.decoder.has_probabilities:
            raise ConfigError(f"top_k: the model predicts {self.task.gives}, without probabilities of labels")

    def _batches(self, texts: Iterable[Text], batch_size: int) -> Iterator[list[Prediction]]:
        """Yield the predictions of `predict_stream`, some at a time."""
        number = 0
        for part in self._inference.inputs.parts(texts):
            if self._inference.inputs.questions:
                for first in range(0, len(part), _QUESTIONS):
                    yield self._answers(part[first : first + _QUESTIONS], batch_size)
                continue
            yield self._predict_batch(part, number, batch_size)
            number += len(part)

    def _predict_batch(self, texts: list[Text], number: int, batch_size: int) -> list[Prediction]:
        """Return predictions for texts, numbered from the given number on."""
        decided: list[Prediction] | None = self._inference.decide(texts)
        if decided is not None:
            return decided
        read, logits = self._inference.read(texts, number, batch_size=batch_size)
        return self._inference.decoder.decode_many(logits, read, texts)

    def predict_proba(self, texts: Iterable[Text] | Rows) -> npt.NDArray[np.float64]:
        """Return probabilities (number of texts, C) in the order of `labels.names`.

        Raises:
            DataError: an item is not a text, `texts` is a single text, or the task has no probabilities for texts.
        """
        if not self._inference.decoder.has_probabilities:
            raise DataError(f"the model predicts {self.task.gives}, without probabilities for texts; use predict")
        import numpy as np

        out: list[npt.NDArray[np.float64]] = []
        for part in self._inference.inputs.parts(self._texts(texts)):
            _, logits = self._inference.read(part, sum(map(len, out)))
            out.append(self._inference.decoder.probabilities(np.asarray(logits)))
        return np.concatenate(out) if out else np.zeros((0, len(self.labels)))

    def json_lines(self, texts: Sequence[str]) -> list[str]:
        """Return predictions for texts as JSON lines, as `mixling predict` writes them, faster than by way of objects.

        Raises:
            DataError: an item is not a text, or the task has no such lines (`task.json_of_texts`).
        """
        if not self._inference.decoder.json_of_texts:
            raise DataError(f"the model predicts {self.task.gives}, whose lines of JSON are made of predictions")
        out: list[str] = []
        for part in self._inference.inputs.parts(texts):
            if (native := self._inference.alone(part)) is not None:
                out += native.json_lines(part, to_end=self._inference.to_end)
                continue
            read, logits = self._inference.read(part, len(out))
            import numpy as np

            out += self._inference.decoder.json_lines(np.asarray(logits), read)
        return out

    def explain(
        self,
        text: Text | Mapping[str, Any],
        target: str | None = None,
        method: str = "auto",
        *,
        word: int | None = None,
        evaluations: int = 2048,
        seed: int = 0,
    ) -> Explanation:
        """Explain an answer by the effect of each word, found by leaving words out of the text.

        A text that is longer than the model's maximum is explained as `too_long` has it read: its windows stay the same
        while a word is left out of those that contain it.

        Args:
            text: as of `predict_one`.
            target: the label to explain; by default the most probable one. None in regression.
            method: "leave_one_out" (how much the score falls without the word), "shapley" (the mean of that over all
                orders of the words: exact up to 10 words, sampled beyond), or "auto" (Shapley values up to 64 words,
                leave-one-out beyond).
            word: tagging: the index of the word whose tag is explained; by default the first that is in a span.
            evaluations: about the number of shortened texts to predict for sampled Shapley values.
            seed: of the sample.

        Raises:
            ConfigError: the model has no such label or word, there is no such method, or it answers questions.
            DataError: `text` is not a text, is too long, or has more than 10,000 words.
        """
        from mixling.explain.words import explain
        from mixling.runtime.windows import refuse_long
        from mixling.text.long_texts import text_windows

        def encode(text: Text) -> Encoded:
            return self._inference.network.encode([text], offsets=True)[0]

        def divide(text: Text) -> list[TextWindow]:
            if self._inference.too_long == "error":
                refuse_long(encode(text), 0, self.text_config.max_len)
            return text_windows(text, self.encoder.config, self.encoder.vocabulary, per_word=self.task.per_word)[0]

        inference = self._inference
        text = inference.inputs.row(text)
        inference.inputs.check((text,))
        return explain(
            text, task=self.task, config=self.encoder.config, encode=encode, logits=inference.logits_of_shortened,
            logits_of_kept=inference.logits_of_kept, columns=inference.inputs.columns,
            divide=None if inference.too_long == "truncate" else divide,
            target=target, word=word, method=method, evaluations=evaluations, seed=seed,
        )  # fmt: skip

    def drift(self, texts: Sequence[Text]) -> Drift:
        """Compare new texts, and what the model answers to them, with those that it was measured on.

        Raises:
            ConfigError: the model file has no profile of its data.
            DataError: there is no text, or an item is not one.
        """
        from mixling.drift.report import find_drift

        if self.metadata.profile is None:
            raise ConfigError(
                f"{self._model.name}: keeps no profile of its data; train it again to compare texts with it"
            )
        return find_drift(self.metadata.profile, texts, self.predict_stream(texts))

    def text_logits(self, texts: Iterable[Text]) -> list[Float32]:
        """Return the logits that predictions for texts are made of: (C,) each, or (W, C) of a tagger.

        Raises:
            DataError: an item is not a text.
        """
        return self._inference.logits(texts)

    def predict_with_logits(self, texts: Iterable[Text]) -> tuple[list[Float32], list[Prediction]]:
        """Return what `text_logits` returns, and the predictions that are made of it; texts are read once.

        Raises:
            DataError: an item is not a text, or the model answers questions.
        """
        if self._inference.inputs.questions:
            raise DataError(f"the model predicts {self.task.gives}, without logits of texts; use predict")
        logits: list[Float32] = []
        predictions: list[Prediction] = []
        for part in self._inference.inputs.parts(texts):
            read, values = self._inference.read(part, len(logits))
            logits.extend(values)
            predictions += self._inference.decoder.decode_many(values, read, part)
        return logits, predictions

    if TYPE_CHECKING:

        @overload
        def encode(self, texts: Iterable[Text], *, layer: str = "words") -> Float32: ...
        @overload
        def encode(self, texts: Iterable[Text], *, layer: str = "words", dtype: Literal["float32"]) -> Float32: ...
        @overload
        def encode(self, texts: Iterable[Text], *, layer: str = "words", dtype: Literal["int8"]) -> Int8: ...

    def encode(self, texts: Iterable[Text], *, layer: str = "words", dtype: str = "float32") -> Any:
        """Return a vector (B, R) for each text.

        Vectors know what the model learned, not the language: texts that a person finds alike may be far apart. Of
        texts above the model's maximum the beginning is read.

        Args:
            texts: texts or pairs, or a table of them.
            layer: "words": the mean of the words' rows, the input of the network, which any model has: texts with the
                same words are near. "text": the pooled tokens from which the network makes its logits: texts with the
                same answers are near, whatever their words.
            dtype: "float32"; or "int8": of length 127 and rounded, so that the product of two is 16,129 times their
                cosine.

        Raises:
            ConfigError: there is no such layer or type; or `layer` is "text" and the model has no vectors of texts.
            DataError: an item is not a text.
        """
        from mixling.runtime.vectors import encode_texts

        return encode_texts(self._inference, self._texts(texts, alone=True), layer=layer, dtype=dtype)

    def tokenize(self, texts: Sequence[Text]) -> list[Encoded]:
        """Encode texts for `logits` of this predictor and of others that share its encoder; long ones are truncated."""
        self._inference.inputs.check(texts)
        return self._inference.network.encode(texts)

    def logits(self, encoded: Sequence[Encoded]) -> list[Float32]:
        """Return the logits of each encoded text: (C,), or (N, C) of a tagger.

        Raises:
            DataError: the encoder's word table was emptied after the texts were encoded, because it was full.
        """
        return self._inference.network.logits(encoded)

    def _answers(self, pairs: Sequence[Text], batch_size: int) -> list[Prediction]:
        """Return the answers to questions; a long context is read in several windows."""
        from mixling.answers.predictions import Prediction

        found = self._inference.find_answers(pairs, batch_size)
        assert self.metadata.reading is not None
        threshold = self.metadata.reading.threshold
        return [
            Prediction(answer=best.answer(pair[1], threshold), truncated=truncated)
            for pair, (best, truncated) in zip(pairs, found, strict=True)
        ]


def _check_threshold(threshold: object) -> None:
    from collections.abc import Mapping

    for value in threshold.values() if isinstance(threshold, Mapping) else (threshold,):
        if value is not None and not (isinstance(value, int | float) and 0 <= value <= 1):
            raise ConfigError(f"threshold: got {shown(value)}; allowed: a probability, from 0 to 1")


def _open_again(kind: type[Predictor], content: bytes, encoder: TextEncoder, options: dict[str, Any]) -> Predictor:
    """Restore a pickled predictor."""
    return kind(content, encoder=encoder, **options)
