"""A saved model that writes text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from mixling.data.batches import length_batches
from mixling.errors import ConfigError, DataError, near_miss
from mixling.runs.artifact import TEXT_TO_TEXT, Artifact, read_artifact
from mixling.seq2seq.batches import SubwordIds, pad_sources
from mixling.seq2seq.config import PairTaskConfig
from mixling.seq2seq.generation import GenerationConfig, generate
from mixling.seq2seq.model import EncoderDecoder, EncoderDecoderConfig, build_encoder_decoder
from mixling.seq2seq.templates import find_template
from mixling.text.labels import not_finite
from mixling.text.subwords import SubwordTokenizer

HINT = "`mixling train --task text2text` makes a model that writes"  # where there is none, in messages
_WINDOW = 1024  # texts that are sorted by length together


@dataclass(frozen=True, slots=True)
class Generations:
    """What a model wrote for a text.

    score: log-probability / length^alpha (`GenerationConfig.length_penalty`).
    stopped: the model ended it; False: it was cut at the longest answer.
    """

    text: str
    score: float
    stopped: bool


class TextGenerator:
    """Answers texts with texts, by the encoder-decoder of a run folder; needs torch.

    Args:
        folder: of a finished `mixling train --task text2text`, or `mixling pretrain --objective span-corruption`.
        device: where it computes, as torch names it.

    Raises:
        ModelFileError: the folder is not complete, or damaged.
    """

    def __init__(self, folder: str | Path, *, device: str = "cpu") -> None:
        read_artifact(folder, self._read, hint=HINT, kinds=(TEXT_TO_TEXT,))
        self.device = torch.device(device)
        self.model.to(self.device).eval()

    def _read(self, artifact: Artifact) -> None:
        self.saved = saved = artifact.saved
        self.config = artifact.parse(EncoderDecoderConfig, saved["model"])
        self.generation = artifact.parse(GenerationConfig, saved["generation"])
        self.tasks = {str(values["name"]): artifact.parse(PairTaskConfig, values) for values in saved["tasks"]}
        self.coder = read_coder(artifact)
        subwords = len(self.coder)
        self.model: EncoderDecoder = artifact.model(lambda: build_encoder_decoder(self.config, vocab_size=subwords))

    def task(self, name: str | None = None) -> PairTaskConfig:
        """The task of that name, or the only one.

        Raises:
            ConfigError: there is none of that name, or there are several and no name.
        """
        if name is None and len(self.tasks) <= 1:
            return next(iter(self.tasks.values()), PairTaskConfig())
        if name is None:
            raise ConfigError(f"the model knows several tasks; name one with --of: {', '.join(self.tasks)}")
        if name not in self.tasks:
            raise ConfigError(f"--of: the model knows no task {name!r}; {near_miss(name, self.tasks)}")
        return self.tasks[name]

    def source(self, text: str, task: PairTaskConfig) -> str:
        """A text as the sources of a task are: with its prefix, unless that stands there already.

        Raises:
            DataError: it begins as the sources of another task do, or not as those of a task that has a form.
        """
        if task.template is not None:
            template = find_template(task.template)
            if text.startswith(f"{template.name} {next(iter(template.fields))}: "):
                return text
            shown = " ".join([template.name, *(f"{name}: ..." for name in template.fields)])
            raise DataError(
                f"{text[:40]!r} is no source of the task {task.name!r}: {shown}; or give a file of its rows"
            )
        if task.prefix and text.startswith(task.prefix):
            return text
        for other in self.tasks.values():
            if other.prefix and other.prefix != task.prefix and text.startswith(other.prefix):
                raise DataError(
                    f"{text[:40]!r} begins with the prefix of {other.name!r}; ask for it with --of {other.name}, or "
                    "leave out the prefix"
                )
        return task.prefix + text

    def generate(
        self, texts: Sequence[str], *, config: GenerationConfig | None = None, batch_size: int = 128
    ) -> list[Generations]:
        """What the model writes for each text, as it was trained to read it, prefix included: see `source`.

        Raises:
            DataError: a text is empty, or longer than the model reads: see `problem`.
            ConfigError: longer answers are asked for than the model writes.
            ModelFileError: a score is not finite.
        """
        out: list[Generations] = []
        for first in range(0, len(texts), _WINDOW):
            sources = self.encode(texts[first : first + _WINDOW])
            for number, source in enumerate(sources, first + 1):
                if message := self.problem(source):
                    raise DataError(f"text {number}: {message}")
            out += self.answers(sources, config=config, batch_size=batch_size)
        return out

    def encode(self, texts: Sequence[str], *, cut: bool = False) -> list[SubwordIds]:
        """Texts as subwords with their ends.

        Args:
            cut: those beyond the model's length are cut.
        """
        most = self.config.max_source_len - 1 if cut else None
        return [np.array([*subwords[:most], self.coder.eos_id], np.int32) for subwords in self.coder.encode_many(texts)]

    def problem(self, source: SubwordIds) -> str:
        """Why the model cannot read it; nothing if it can."""
        if len(source) < 2:
            return "is empty; give a text"
        longest = self.model.max_source_len
        if longest is not None and len(source) > longest:
            return f"has {len(source)} subwords, the model reads at most {longest}; shorten it"
        return ""

    def answers(
        self, sources: Sequence[SubwordIds], *, config: GenerationConfig | None = None, batch_size: int = 128
    ) -> list[Generations]:
        """As `generate`, for what `encode` gave."""
        config = config or self.generation
        out: dict[int, Generations] = {}
        lengths = np.array([len(source) for source in sources], np.int32)
        for indices in length_batches(lengths, batch_size):
            source, mask = pad_sources([sources[i] for i in indices], pad=self.coder.pad_id)
            found = generate(
                self.model,
                source.to(self.device),
                mask.to(self.device),
                config,
                start=self.coder.pad_id,
                stop=self.coder.eos_id,
            )
            for index, answer in zip(indices, found, strict=True):
                if not math.isfinite(answer.score):
                    raise not_finite()
                out[int(index)] = Generations(self.coder.decode(answer.subwords), answer.score, answer.stopped)
        return [out[number] for number in range(len(sources))]


def read_coder(artifact: Artifact) -> SubwordTokenizer:
    """Return the subwords of a finished run.

    Raises:
        ModelFileError: the file is damaged, or not the one that the model was trained with.
    """
    return SubwordTokenizer.load(str(artifact.vocabulary()))
