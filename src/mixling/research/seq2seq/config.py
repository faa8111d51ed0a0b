"""The configuration of text-to-text runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from mixling.artifacts.artifact import read_artifact
from mixling.artifacts.kinds import TEXT_TO_TEXT
from mixling.config import Config, merge
from mixling.errors import ConfigError
from mixling.research.pretraining.prepared import CorpusConfig
from mixling.research.seq2seq.generation import GenerationConfig
from mixling.research.seq2seq.mixture import MixingConfig
from mixling.research.seq2seq.model import EncoderDecoderConfig
from mixling.research.seq2seq.pairs import PairColumns
from mixling.research.seq2seq.presets import seq2seq_config, seq2seq_with_changes, with_dropout
from mixling.research.seq2seq.span_corruption import SpanConfig
from mixling.runs.resolve.spec import Spec
from mixling.tasks.objective import UNSMOOTHED
from mixling.training.config import TokenTraining, TrainConfig
from mixling.training.optim import OptimConfig

SEQ2SEQ_MODEL = "t5-2m"
SPANS = "spans"  # the name of span corruption among tasks

SEQ2SEQ_DEFAULTS = TrainConfig(
    optim=OptimConfig(lr=2e-3, weight_decay=0.01, warmup=0.05, schedule="linear"),
    token_dropout=0.0,
    loss=UNSMOOTHED,
    checkpoint_seconds=60.0,
)


class PairTaskConfig(Config):
    """A task: its data, and how rows become pairs of source and target."""

    name: str = Field(default="text", min_length=1, description="name of the task, also in metrics")
    train: tuple[str, ...] = Field(default=(), description="files of pairs")
    validation: tuple[str, ...] = Field(default=(), description="empty: a fraction of the training pairs is split off")
    validation_fraction: float = Field(
        default=0.1, gt=0, lt=1, description="fraction of the training rows that is set aside"
    )
    template: str | None = Field(
        default=None, description="a task of GLUE or SuperGLUE; none: columns source and target"
    )
    prefix: str = Field(default="", description="prepended to each source; templates have their own")
    columns: PairColumns = PairColumns()
    on_bad_row: Literal["error", "skip"] = Field(
        default="error", description="stop at a malformed row, or skip and count it"
    )
    file_format: str | None = Field(default=None, description="format of the files; by default from their names")
    recombination: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="fraction of aligned words that are replaced by others in training (lexicon-based augmentation)",
    )
    cut: bool = Field(
        default=False, description="truncate sources beyond the model's length; else their rows are bad rows"
    )


class TokenizerConfig(Config):
    """The vocabulary of a model that generates text."""

    vocabulary: str | None = Field(
        default=None, description="a .model, a tokenizer.json or a name on the hub; none: trained"
    )
    size: int | None = Field(
        default=None, ge=100, description="size of a trained vocabulary without sentinels; by default from the texts"
    )
    join_symbols: bool = Field(
        default=False,
        description="a trained vocabulary may have subwords across symbols, such as `( x _ 1 ,` and `] ]`",
    )
    whole_words: int | None = Field(
        default=None, ge=1, description="words with at least this frequency are subwords of a trained vocabulary"
    )
    sentinels: int = Field(default=100, ge=0, description="maximum number of corrupted spans in a text")


class PairRunConfig(Config):
    """The complete configuration of a run, recorded in its run.json."""

    task: Literal["text2text"] = Field(default="text2text", description="always text2text")
    tasks: tuple[PairTaskConfig, ...] = ()
    corpus: CorpusConfig | None = Field(default=None, description="unlabeled text, for span corruption")
    spans: SpanConfig = SpanConfig()
    mixing: MixingConfig = Field(default=MixingConfig(), description="how often examples of each task are drawn")
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: EncoderDecoderConfig = seq2seq_config(SEQ2SEQ_MODEL)
    generation: GenerationConfig = Field(
        default=GenerationConfig(), description="search; by default as long as targets"
    )
    pretrained: str | None = Field(default=None, description="run folder with the pretrained model and its vocabulary")
    train: TokenTraining = SEQ2SEQ_DEFAULTS

    @model_validator(mode="before")
    @classmethod
    def _generations_are_as_long_as_targets(cls, values: Any) -> Any:
        model = values.get("model", cls.model_fields["model"].default)
        generation = values.get("generation", {})
        if isinstance(model, EncoderDecoderConfig):
            model = model.to_dict()
        if not isinstance(generation, Mapping) or not isinstance(model, Mapping):
            return values
        longest = model.get("max_target_len", EncoderDecoderConfig.model_fields["max_target_len"].default)
        if not isinstance(longest, int) or longest < 1:
            return values  # reported as an error of the model
        return {**values, "generation": {"max_len": longest, **generation}}

    @model_validator(mode="after")
    def _options_are_compatible(self) -> PairRunConfig:
        names = [task.name for task in self.tasks]
        for name in names:
            if names.count(name) > 1 or (name == SPANS and self.corpus is not None):
                raise ValueError(f"tasks: the name {name!r} is not unique; give each task its own")
        given = {
            "tokenizer.vocabulary": self.tokenizer.vocabulary,
            "pretrained": self.pretrained,
            "corpus.prepared": self.corpus and self.corpus.prepared,
        }
        owner = next((f"{name} = {value!r}" for name, value in given.items() if value is not None), None)
        trained = {"size": None, "join_symbols": False, "whole_words": None}
        changed = next((name for name, default in trained.items() if getattr(self.tokenizer, name) != default), None)
        if owner is not None and changed is not None:
            raise ValueError(
                f"tokenizer.{changed} applies to trained vocabularies, but {owner} names one; leave out one of them"
            )
        if self.generation.max_len > self.model.max_target_len:
            raise ValueError(
                f"generation.max_len = {self.generation.max_len}, but model.max_target_len = "
                f"{self.model.max_target_len}; lower the former or raise the latter"
            )
        return self


class _PairSpec(Spec[PairRunConfig]):
    schema = PairRunConfig
    preset = SEQ2SEQ_MODEL
    whole = frozenset({"preset", "encoder"})

    def options(self, options: Mapping[str, Any], file: Mapping[str, Any], toml: str) -> Mapping[str, Any]:
        own = options.get("tasks")
        return {**options, "tasks": [merge(_only_task(file, toml, own[0]), own[0])]} if own else options

    def pretrained(self, values: Mapping[str, Any]) -> str | None:
        pretrained = values.get("pretrained")
        return pretrained if isinstance(pretrained, str) else None

    def saved_model(self, folder: str, given: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
        hint = "--from takes a folder written by `mixling train --task text2text`"
        saved = read_artifact(folder, lambda artifact: artifact.saved["model"], hint=hint, kinds=(TEXT_TO_TEXT,))
        changes = merge(given, changes)
        if "dropout" in changes:  # as with presets, it applies to every layer
            saved = with_dropout(saved, changes.pop("dropout"))
        return merge(saved, changes)

    def model(self, given: str | Mapping[str, Any], changes: Mapping[str, Any]) -> EncoderDecoderConfig:
        return seq2seq_with_changes(given, changes)

    def defaults(
        self, model: str | Mapping[str, Any], values: Mapping[str, Any], folder: str | None
    ) -> Mapping[str, Any]:
        return {"train": SEQ2SEQ_DEFAULTS.to_dict()}


PAIRS = _PairSpec()


def _only_task(file: Mapping[str, Any], toml: str, own: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the task of a TOML file that options override.

    Raises:
        ConfigError: there are several tasks.
    """
    tasks = file.get("tasks", [])
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        return {}  # reported as an error in the file
    if len(tasks) > 1:
        given = ", ".join(sorted(own))
        raise ConfigError(
            f"{toml} has {len(tasks)} tasks, and it is unclear which one these options are for: {given}; set them in "
            "the file, or use --set tasks.0.KEY=VALUE"
        )
    return tasks[0] if tasks else {}
