"""Generating text with a saved model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from mixling.answers.labels import not_finite
from mixling.artifacts.artifact import Artifact, read_artifact
from mixling.artifacts.kinds import TEXT_TO_TEXT
from mixling.data.batches import length_batches
from mixling.errors import ConfigError, DataError, near_miss
from mixling.research.saved import read_model
from mixling.research.seq2seq.batches import SubwordIds, pad_sources
from mixling.research.seq2seq.config import PairTaskConfig
from mixling.research.seq2seq.generation import GenerationConfig, generate
from mixling.research.seq2seq.model import EncoderDecoderConfig, build_encoder_decoder
from mixling.research.seq2seq.templates import find_template
from mixling.text.subwords import SubwordTokenizer

HINT = "`mixling train --task text2text` makes one that generates text"
_WINDOW = 1024  # texts to sort by length together


@dataclass(frozen=True, slots=True)
class Generation:
    """A generated text.

    Attributes:
        score: log-probability / length^alpha (`GenerationConfig.length_penalty`).
        stopped: whether the text is complete; False: it was truncated at the maximum length.
    """

    text: str
    score: float
    stopped: bool


class TextGenerator:
    """The encoder-decoder of a run folder, which generates text; needs torch.

    Args:
        folder: a finished run of `mixling train --task text2text` or `mixling pretrain --objective span-corruption`.
        device: a name of torch.

    Raises:
        ConfigError: it is not the folder of such a run.
        ModelFileError: the folder is incomplete or damaged.
    """

    def __init__(self, folder: str | Path, *, device: str = "cpu") -> None:
        read_artifact(folder, self._read, hint=HINT, kinds=(TEXT_TO_TEXT,))
        self.device = torch.device(device)
        self.model.to(self.device).eval()

    def _read(self, artifact: Artifact) -> None:
        self.saved = artifact.saved
        self.digest = artifact.digest
        saved = self.saved
        self.config = artifact.parse(EncoderDecoderConfig, saved["model"])
        self.generation = artifact.parse(GenerationConfig, saved["generation"])
        self.tasks = {str(values["name"]): artifact.parse(PairTaskConfig, values) for values in saved["tasks"]}
        self.coder = read_coder(artifact)
        subwords = len(self.coder)
        self.model = read_model(artifact, lambda: build_encoder_decoder(self.config, vocab_size=subwords))

    def task(self, name: str | None = None) -> PairTaskConfig:
        """Return the task of that name, or the only one.

        Raises:
            ConfigError: the name is unknown, or missing though there are several tasks.
        """
        if name is None and len(self.tasks) <= 1:
            return next(iter(self.tasks.values()), PairTaskConfig())
        if name is None:
            raise ConfigError(f"the model has several tasks; name one with --task-name: {', '.join(self.tasks)}")
        if name not in self.tasks:
            raise ConfigError(f"--task-name: the model has no task {name!r}; {near_miss(name, self.tasks)}")
        return self.tasks[name]

    def source(self, text: str, task: PairTaskConfig) -> str:
        """Return a text as source of a task: with its prefix, unless it begins with that already.

        Raises:
            DataError: the text begins with the prefix of another task, or does not fit the task's template.
        """
        if task.template is not None:
            template = find_template(task.template)
            if text.startswith(f"{template.name} {next(iter(template.fields))}: "):
                return text
            shown = " ".join([template.name, *(f"{name}: ..." for name in template.fields)])
            raise DataError(
                f"{text[:40]!r} does not fit the task {task.name!r}; write {shown}, or give a file of its rows"
            )
        if task.prefix and text.startswith(task.prefix):
            return text
        for other in self.tasks.values():
            if other.prefix and other.prefix != task.prefix and text.startswith(other.prefix):
                raise DataError(
                    f"{text[:40]!r} begins with the prefix of {other.name!r}; select that task with --task-name "
                    f"{other.name}, or leave out the prefix"
                )
        return task.prefix + text

    def generate(
        self, texts: Sequence[str], *, config: GenerationConfig | None = None, batch_size: int = 128
    ) -> list[Generation]:
        """Generate a text for each source, which includes the task's prefix; see `source`.

        Args:
            config: by default the run's.
            batch_size: texts in a batch.

        Raises:
            DataError: a text is empty or too long; see `problem`.
            ConfigError: `config.max_len` exceeds the model's maximum.
            ModelFileError: a score is not finite.
        """
        out: list[Generation] = []
        for first in range(0, len(texts), _WINDOW):
            sources = self.encode(texts[first : first + _WINDOW])
            for number, source in enumerate(sources, first + 1):
                if message := self.problem(source):
                    raise DataError(f"text {number}: {message}")
            out += self.generate_encoded(sources, config=config, batch_size=batch_size)
        return out

    def encode(self, texts: Sequence[str], *, cut: bool = False) -> list[SubwordIds]:
        """Return texts as subwords with an end token.

        Args:
            cut: truncate texts beyond the model's maximum length.
        """
        most = self.config.max_source_len - 1 if cut else None
        return [np.array([*subwords[:most], self.coder.eos_id], np.int32) for subwords in self.coder.encode_many(texts)]

    def problem(self, source: SubwordIds) -> str:
        """Return why the model cannot read a source; empty if it can."""
        if len(source) < 2:
            return "is empty; give a text"
        longest = self.model.max_source_len
        if longest is not None and len(source) > longest:
            return f"has {len(source)} subwords, but the model reads at most {longest}; shorten it"
        return ""

    def generate_encoded(
        self, sources: Sequence[SubwordIds], *, config: GenerationConfig | None = None, batch_size: int = 128
    ) -> list[Generation]:
        """Generate a text for each source that `encode` returned; see `generate`."""
        config = config or self.generation
        out: dict[int, Generation] = {}
        lengths = np.array(list(map(len, sources)), np.int32)
        for indices in length_batches(lengths, batch_size):
            source, mask = pad_sources([sources[i] for i in indices], pad=self.coder.pad_id)
            hypotheses = generate(
                self.model,
                source.to(self.device),
                mask.to(self.device),
                config,
                start=self.coder.pad_id,
                stop=self.coder.eos_id,
            )
            for index, best in zip(indices, hypotheses, strict=True):
                if not math.isfinite(best.score):
                    raise not_finite()
                out[int(index)] = Generation(self.coder.decode(best.subwords), best.score, best.stopped)
        return [out[number] for number in range(len(sources))]


def read_coder(artifact: Artifact) -> SubwordTokenizer:
    """Return the tokenizer of a finished run.

    Raises:
        ModelFileError: the file is damaged, or is not the one that the model was trained with.
    """
    return SubwordTokenizer.load(str(artifact.vocabulary()))
