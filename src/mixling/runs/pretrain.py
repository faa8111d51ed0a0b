"""Pretraining: from text to a folder that `mixling train --from` starts with."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mixling.config import Config
from mixling.data.documents import WordReader
from mixling.data.prepared import (
    CorpusConfig,
    Prepared,
    check_length,
    sample_documents,
)
from mixling.errors import ConfigError
from mixling.export.card import pretraining_card
from mixling.models.model import Model, ModelConfig, build_model, count_parameters
from mixling.models.presets import PRESETS
from mixling.runs.artifact import (
    CONFIG_FILE,
    PRETRAINING,
    Artifact,
    read_config,
)
from mixling.runs.record import run_corpus
from mixling.runs.run import Parts, Run, Stage, execute
from mixling.storage import write_atomic
from mixling.tasks.base import UNSMOOTHED
from mixling.tasks.masked_lm import MaskedLM, MaskedLMConfig
from mixling.text.encoder import TextEncoder, train_vocabulary
from mixling.text.table import FIRST
from mixling.text.vocabulary import FILES as VOCABULARY_FILES
from mixling.text.vocabulary import Vocabulary
from mixling.training.callbacks import Callback
from mixling.training.config import TokenTraining, TrainConfig
from mixling.training.corpus import MASK_WORD, MaskedText, document_encoder, subword_targets, word_targets
from mixling.training.distributed import DistributedContext
from mixling.training.optim import OptimConfig

SPECIALS = ("[SEP]", MASK_WORD)
DEFAULT_MODEL = "gmlp-tiny"
# AdamW's eps and weight decay and the linear decay follow BERT's kind of defaults; the rate is for the small models.
DEFAULTS = TrainConfig(
    optim=OptimConfig(lr=1e-3, embedding_lr=1.0, eps=1e-6, weight_decay=0.01, schedule="linear"),
    token_dropout=0.0,
    loss=UNSMOOTHED,
    checkpoint_seconds=60.0,
)


class PretrainConfig(Config):
    """All that decides what a pretraining gives; it stands in the run folder as run.json."""

    corpus: CorpusConfig = CorpusConfig()
    model: ModelConfig = PRESETS[DEFAULT_MODEL].config
    objective: MaskedLMConfig = MaskedLMConfig()
    train: TokenTraining = DEFAULTS


def pretrain(
    config: PretrainConfig,
    *,
    folder: Path,
    resume: bool = False,
    distributed: DistributedContext | None = None,
    callback: Callback | None = None,
    log: Callable[[str], None] = lambda message: None,
) -> Run[dict[str, float]] | None:
    """Train a masked language model and write its folder.

    Text and vocabulary are read once, into the folder, and removed from there at the end: a resumed run needs no file.
    A model in the folder stays until the new one is finished.

    Args:
        config: resolved (`mixling.runs.spec`); of a resumed run that of its record.

    Returns:
        the run, with the metrics of the held-out text at the best evaluation; None in processes other than the main
        one.

    Raises:
        UserError: of the kind that fits; see `prepare` and `Trainer.fit`.
    """
    return execute(
        PRETRAINING, config, lambda stage: _MaskedLM(config, stage),
        elsewhere=frozenset({"corpus"}), folder=folder, resume=resume,
        distributed=distributed, callback=callback, log=log,
    )  # fmt: skip


class _MaskedLM(Parts[dict[str, float]]):
    """A model that predicts hidden tokens, and the text that they are hidden in."""

    model: Model
    data: MaskedText

    def __init__(self, config: PretrainConfig, stage: Stage) -> None:
        self.config, self.training = config, config.train

        def read() -> tuple[TextEncoder, Prepared]:
            encoder = _encoder(config, stage.first)
            return encoder, run_corpus(config.corpus, WordReader(encoder), stage.first, stage.log)

        self.encoder, self.prepared = stage.in_turn(read)
        text = config.model.text.for_vocabulary(self.encoder.vocabulary)
        check_length(config.corpus, self.prepared, text.max_len)
        on_subwords = text.projection.trained_rows
        self.data = MaskedText(
            objective=MaskedLM(config.train.loss),
            config=config.objective,
            encoder=self.encoder,
            train=self.prepared.train,
            validation=self.prepared.validation,
            length=text.max_len,
            targets=subword_targets(self.encoder)
            if on_subwords
            else word_targets(self.encoder, self.prepared.train, config.objective.num_words),
        )
        num_outputs = text.projection.num_features if on_subwords else int(self.data.targets.max()) + 1
        assert num_outputs is not None
        self.model_config = config.model.model_copy(update={"text": text})
        self.model = build_model(self.model_config, num_outputs=num_outputs, output="subwords", seed=config.train.seed)
        if self.model.embedding.embeddings is not None:
            self.model.embedding.load_embeddings(config.model.embedding.embeddings)
        subwords, head = len(self.encoder.vocabulary), count_parameters(self.model.head)
        stage.log(f"{subwords:,} subwords, {self.parameters:,} parameters, {head:,} for the time being")

    @property
    def parameters(self) -> int:
        return count_parameters(self.model.embedding) + count_parameters(self.model.encoder)

    def content(self) -> Iterator[bytes]:
        yield json.dumps([*self.encoder.vocabulary.serialize(), self.prepared.digest]).encode()

    def save(self, folder: Path) -> dict[str, Any]:
        saved: dict[str, Any] = {
            "model": self.model_config.to_dict(),
            "vocabulary": self.encoder.vocabulary.serialize()[0],
            "num_outputs": len(self.model.head.bias),  # type: ignore[arg-type]
            "objective": self.config.objective.to_dict(),
        }
        if not self.model_config.text.projection.trained_rows:
            words = self.encoder.table_words()
            order = sorted((int(target), row) for row, target in enumerate(self.data.targets) if target >= 0)
            saved["words"] = [words[row - FIRST] for _, row in order]
        return saved

    def evaluate(
        self, folder: Path, best: dict[str, Any], log: Callable[[str], None]
    ) -> tuple[dict[str, float], dict[str, Any]]:
        metrics = {key: best[f"dev_{key}"] for key in ("perplexity", "accuracy", "loss")}
        return metrics, {"validation": metrics}

    def card(self, report: dict[str, Any]) -> str:
        return pretraining_card({**self.config.to_dict(), "model": self.model_config.to_dict()}, report)


def _encoder(config: PretrainConfig, folder: Path) -> TextEncoder:
    """The vocabulary, given or trained and kept in the folder, and an encoder of whole documents."""
    text = config.model.text
    source = folder if config.corpus.prepared is None else Path(config.corpus.prepared)
    kept = next((source / name for name in VOCABULARY_FILES if (source / name).is_file()), None)
    if config.corpus.prepared is not None and (source / CONFIG_FILE).is_file():
        kept = Artifact(source, read_config(source)).vocabulary()
    if kept is not None:
        vocabulary = Vocabulary.load(str(kept))
    elif config.corpus.prepared is not None:
        raise ConfigError(f"{source}: holds no vocabulary; name the folder of a run with corpus.keep = true")
    else:
        if text.vocabulary is not None:
            vocabulary = Vocabulary.load(text.vocabulary)
        else:
            vocabulary = train_vocabulary(sample_documents(config.corpus), text, specials=SPECIALS)
    name, content = vocabulary.serialize()
    write_atomic(folder / name, content)
    if text.projection.trained_rows:
        for subword in SPECIALS:
            if subword not in vocabulary:
                raise ConfigError(
                    f"the vocabulary has no unit {subword}, which masked language modelling needs; add it to the "
                    f"file, or "
                    "leave out --vocabulary to train one on the text"
                )
    return document_encoder(text.for_vocabulary(vocabulary), vocabulary)
