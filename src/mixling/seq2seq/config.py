"""What decides a run from text to text: its tasks, unlabeled text beside them, subwords, model and training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from mixling.config import Config, merge
from mixling.data.prepared import CorpusConfig
from mixling.errors import ConfigError
from mixling.runs.artifact import TEXT_TO_TEXT, read_artifact
from mixling.runs.spec import Spec
from mixling.seq2seq.generation import GenerationConfig
from mixling.seq2seq.mixture import MixingConfig
from mixling.seq2seq.model import EncoderDecoderConfig
from mixling.seq2seq.pairs import PairColumns
from mixling.seq2seq.presets import seq2seq_config, seq2seq_with_changes, with_dropout
from mixling.seq2seq.span_corruption import SpanConfig
from mixling.tasks.base import UNSMOOTHED
from mixling.training.config import TokenTraining, TrainConfig
from mixling.training.optim import OptimConfig

DEFAULT_MODEL = "t5-2m"
SPANS = "spans"  # the name of span corruption among tasks

DEFAULTS = TrainConfig(
    optim=OptimConfig(lr=2e-3, weight_decay=0.01, warmup=0.05, schedule="linear"),
    token_dropout=0.0,
    loss=UNSMOOTHED,
    checkpoint_seconds=60.0,
)


class PairTaskConfig(Config):
    """A task: where its rows are, and how they become pairs of a source and a target."""

    name: str = Field("text", min_length=1, description="of the task among others, and of its measures")
    train: tuple[str, ...] = ()
    validation: tuple[str, ...] = Field((), description="empty: a share of the training rows is set aside")
    validation_fraction: float = Field(0.1, gt=0, lt=1)
    template: str | None = Field(None, description="of the rows: a task of GLUE or SuperGLUE; None: source and target")
    prefix: str = Field("", description="is laid before each source; rows of a form have their own")
    columns: PairColumns = PairColumns()
    on_bad_row: Literal["error", "skip"] = "error"
    file_format: str | None = None
    recombination: float = Field(
        0.0,
        ge=0,
        le=1,
        description="share of the words with a part of the answer of their own that others replace in training",
    )
    cut: bool = Field(False, description="sources beyond the model's length are cut; else such a row is a bad one")


class TokenizerConfig(Config):
    """The vocabulary of a model that writes text."""

    vocabulary: str | None = Field(None, description="a .model, a tokenizer.json or a name on the hub; None: trained")
    size: int | None = Field(None, ge=100, description="of one that is trained, without sentinels; None: by the texts")
    join_symbols: bool = Field(
        False, description="of one that is trained: `( x _ 1 ,` and `] ]` may be single subwords"
    )
    whole_words: int | None = Field(None, ge=1, description="of one that is trained: words so frequent are subwords")
    sentinels: int = Field(100, ge=0, description="how many spans of a text can be taken out, where any are")


class PairRunConfig(Config):
    """All that decides what a run gives; it stands in the run folder as run.json."""

    task: Literal["text2text"] = "text2text"
    tasks: tuple[PairTaskConfig, ...] = ()
    corpus: CorpusConfig | None = Field(None, description="unlabeled text, for span corruption")
    spans: SpanConfig = SpanConfig()
    mixing: MixingConfig = Field(MixingConfig(), description="how often each task is drawn")
    subwords: TokenizerConfig = TokenizerConfig()
    model: EncoderDecoderConfig = seq2seq_config(DEFAULT_MODEL)
    generation: GenerationConfig = Field(GenerationConfig(), description="how answers are sought; as long as targets")
    start: str | None = Field(None, description="folder of a run of this kind, whose model and subwords it begins with")
    train: TokenTraining = DEFAULTS

    @model_validator(mode="before")
    @classmethod
    def _answers_are_as_long_as_targets(cls, values: Any) -> Any:
        model = values.get("model", cls.model_fields["model"].default)
        generation = values.get("generation", {})
        if isinstance(model, EncoderDecoderConfig):
            model = model.to_dict()
        if not isinstance(generation, Mapping) or not isinstance(model, Mapping):
            return values
        longest = model.get("max_target_len", EncoderDecoderConfig.model_fields["max_target_len"].default)
        if not isinstance(longest, int) or longest < 1:
            return values  # which is told of the model
        return {**values, "generation": {"max_len": longest, **generation}}

    @model_validator(mode="after")
    def _has_something_to_do(self) -> PairRunConfig:
        names = [task.name for task in self.tasks]
        for name in names:
            if names.count(name) > 1 or (name == SPANS and self.corpus is not None):
                raise ValueError(f"tasks: the name {name!r} stands twice; give each task its own")
        given = {
            "tokenizer.vocabulary": self.subwords.vocabulary,
            "start": self.start,
            "corpus.prepared": self.corpus and self.corpus.prepared,
        }
        owner = next((f"{name} = {value!r}" for name, value in given.items() if value is not None), None)
        trained = {"size": None, "join_symbols": False, "whole_words": None}
        changed = next((name for name, default in trained.items() if getattr(self.subwords, name) != default), None)
        if owner is not None and changed is not None:
            raise ValueError(
                f"subwords.{changed} is of subwords that are trained, those of {owner} are given; leave out one"
            )
        if self.generation.max_len > self.model.max_target_len:
            raise ValueError(
                f"generation.max_len = {self.generation.max_len}, but model.max_target_len = "
                f"{self.model.max_target_len}; lower the one or raise the other"
            )
        return self


class _PairSpec(Spec[PairRunConfig]):
    schema = PairRunConfig
    preset = DEFAULT_MODEL
    whole = frozenset({"preset", "encoder"})
    vocabulary = ("tokenizer", "vocabulary")

    def options(self, options: Mapping[str, Any], file: Mapping[str, Any], toml: str) -> Mapping[str, Any]:
        own = options.get("tasks")
        return {**options, "tasks": [merge(_only_task(file, toml, own[0]), own[0])]} if own else options

    def pretrained(self, values: Mapping[str, Any]) -> str | None:
        start = values.get("start")
        return start if isinstance(start, str) else None

    def saved_model(self, folder: str, given: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
        hint = "--from takes what `mixling train --task text2text` wrote"
        saved = read_artifact(folder, lambda artifact: artifact.saved["model"], hint=hint, kinds=(TEXT_TO_TEXT,))
        changes = merge(given, changes)
        if "dropout" in changes:  # of a preset it reaches every layer
            saved = with_dropout(saved, changes.pop("dropout"))
        return merge(saved, changes)

    def model(self, given: str | Mapping[str, Any], changes: Mapping[str, Any]) -> EncoderDecoderConfig:
        return seq2seq_with_changes(given, changes)

    def defaults(
        self, model: str | Mapping[str, Any], values: Mapping[str, Any], folder: str | None
    ) -> Mapping[str, Any]:
        return {"train": DEFAULTS.to_dict()}


PAIRS = _PairSpec()


def _only_task(file: Mapping[str, Any], toml: str, own: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the task of a TOML file, over which options are laid; of several it is not known which they mean."""
    tasks = file.get("tasks", [])
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        return {}  # which is an error in the file
    if len(tasks) > 1:
        given = ", ".join(sorted(own))
        raise ConfigError(
            f"{toml} has {len(tasks)} tasks, and of which are: {given}? Write them there, or --set tasks.0.KEY=VALUE"
        )
    return tasks[0] if tasks else {}
