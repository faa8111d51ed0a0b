"""Explain an answer by leaving words out of the text, with any engine that computes logits of texts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from mixling.arrays import Float64
from mixling.errors import ConfigError, DataError, near_miss, shown
from mixling.explain.explanation import Explanation, WordEffect
from mixling.explain.shapley import EXACT_PLAYERS, exact_shapley, leave_one_out, sampled_shapley
from mixling.tasks.base import Task, sigmoid
from mixling.text.clean import clean
from mixling.text.config import TextConfig
from mixling.text.encoder import Encoded, Text, fit_pair
from mixling.text.words import word_spans

METHODS = ("auto", "leave_one_out", "shapley")
# Of longer texts, leave-one-out finds nearly the same words in a quarter of the time (experiments/explanations.py).
_MANY = 64

Logits = Callable[[list[Text]], Sequence[npt.NDArray]]
_Word = tuple[str, int, int, int]  # as in `WordEffect`


def explain(
    text: Text,
    *,
    task: Task,
    config: TextConfig,
    encode: Callable[[Text], Encoded],
    logits: Logits,
    target: str | None,
    word: int | None,
    method: str,
    evaluations: int,
    seed: int,
) -> Explanation:
    """Explain an answer; see `Predictor.explain`.

    Args:
        encode: encodes one text, with offsets.
        logits: computes those of texts, (C,) each, or (W, C) where answers are for words.
    """
    _check(task, method, target)
    if task.per_word and isinstance(text, tuple):
        raise DataError("the model labels the words of one text; got a pair of texts")
    words, truncated = _read_words(text, config, encode)
    texts = _Shortened(text, [item[0] for item in words], [item[3] for item in words], as_list=task.per_word)
    if task.per_word:
        word = _explained_word(task, texts, logits, word)
    elif word is not None:
        raise ConfigError(f"word: got {word}; the model gives {task.gives}: word is for models that tag words")
    label = None if target is None else _label_id(task, target)

    def outputs(coalitions: npt.NDArray[np.bool_]) -> npt.NDArray:
        if word is None:
            return np.asarray(logits(texts.make(coalitions)))
        at = coalitions[:, :word].sum(1)
        return np.stack([row[i] for row, i in zip(logits(texts.make(coalitions)), at, strict=True)])

    players = np.array([index for index in range(len(words)) if index != word], np.int64)

    def game(coalitions: npt.NDArray[np.bool_]) -> Float64:
        nonlocal label
        kept = coalitions
        if word is not None:
            kept = np.ones((len(coalitions), len(words)), bool)
            kept[:, players] = coalitions
        found = outputs(kept)
        if label is None:  # that of the text itself, which every method evaluates
            label = int(found[coalitions.all(1).argmax()].argmax())
        return task.target_scores(found, label)

    name, values = _method(method, len(players), evaluations, seed)
    effects, score, base = values(game, len(players))
    all_effects = np.zeros(len(words))
    all_effects[players] = effects
    assert label is not None
    return Explanation(
        text=text,
        target=task.labels.names[label] if task.has_labels else None,
        word=word,
        method=name,
        score=score,
        base=base,
        probability=sigmoid(score) if task.has_labels else None,
        words=tuple(
            WordEffect(spelled, start, end, effect, part)
            for (spelled, start, end, part), effect in zip(words, all_effects.tolist(), strict=True)
        ),
        truncated=truncated,
    )


def _check(task: Task, method: str, target: str | None) -> None:
    if method not in METHODS:
        raise ConfigError(f"method: got {shown(method)}; {near_miss(str(method), METHODS)}")
    if task.windows:
        raise ConfigError(f"the model gives {task.gives}, which cannot be explained; labels, tags and numbers can")
    if target is not None and not task.has_labels:
        raise ConfigError(f"target: got {shown(target)}; the model gives {task.gives}, so there is no label to choose")


def _label_id(task: Task, target: str) -> int:
    if target not in task.labels.names:
        raise ConfigError(f"target: the model has no label {shown(target)}; {near_miss(target, task.labels.names)}")
    return task.labels.id(target)


def _explained_word(task: Task, texts: _Shortened, logits: Logits, word: int | None) -> int:
    """Return the index of the word to explain: by default the first that begins a span, else the first word."""
    count = len(texts.words)
    if not count:
        raise ConfigError("the text has no words, so there is no tag to explain")
    if word is not None:
        if not 0 <= word < count:
            raise ConfigError(f"word: got {word}; the model read {count} words: 0 to {count - 1} are allowed")
        return word
    tags = np.asarray(logits(texts.make(np.ones((1, count), bool)))[0])[:count].argmax(-1)
    return int((tags != 0).argmax())  # O, the tag of words outside all spans, is the first label


def _method(
    method: str, players: int, evaluations: int, seed: int
) -> tuple[str, Callable[..., tuple[Float64, float, float]]]:
    if method == "leave_one_out" or (method == "auto" and players > _MANY):
        return "leave_one_out", leave_one_out
    if players <= EXACT_PLAYERS:
        return "shapley", exact_shapley
    return "sampled_shapley", partial(sampled_shapley, evaluations=evaluations, seed=seed)


class _Shortened:
    """The text without some of its words, whose characters separate or join no words."""

    def __init__(self, text: Text, words: list[str], parts: list[int], *, as_list: bool) -> None:
        self.words, self.first = words, parts.count(0)
        self.kind: type = list if as_list else type(text)

    def make(self, coalitions: npt.NDArray[np.bool_]) -> list[Text]:
        """Return the text with the words (N,) of each coalition (M, N) only."""
        if self.kind is str:  # a word is read as one between spaces, too
            return [" ".join(itertools.compress(self.words, row)) for row in coalitions.tolist()]
        if self.kind is list:
            return [list(itertools.compress(self.words, row)) for row in coalitions.tolist()]
        first, second = self.words[: self.first], self.words[self.first :]
        return [
            (" ".join(itertools.compress(first, row)), " ".join(itertools.compress(second, row[self.first :])))
            for row in coalitions.tolist()
        ]


def _read_words(text: Text, config: TextConfig, encode: Callable[[Text], Encoded]) -> tuple[list[_Word], bool]:
    """Return the words of a text that a model reads, and whether there were more."""
    if isinstance(text, tuple):
        cleaned = [clean(part, config.max_chars) for part in text]
        spans = [word_spans(part, config.max_len + 1, contractions=config.contractions) for part, _ in cleaned]
        first, second, shortened = fit_pair(spans[0], spans[1], config.max_len)
        words = [
            (part[start:end], start, end, number)
            for number, ((part, _), kept) in enumerate(zip(cleaned, (first, second), strict=True))
            for start, end in kept
        ]
        return words, shortened or cleaned[0][1] or cleaned[1][1]
    if isinstance(text, str) and config.tokens == "words":
        clean_text, cut = clean(text, config.max_chars)
        found = word_spans(clean_text, config.max_len + 1, contractions=config.contractions)
        return [(clean_text[a:b], a, b, 0) for a, b in found[: config.max_len]], cut or len(found) > config.max_len
    encoded = encode(text)
    assert encoded.offsets is not None
    spelled = text if isinstance(text, list) else [clean(text, config.max_chars)[0][a:b] for a, b in encoded.offsets]
    return [(word, *span, 0) for word, span in zip(spelled, encoded.offsets, strict=False)], encoded.truncated
