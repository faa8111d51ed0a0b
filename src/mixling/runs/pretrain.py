"""Pretraining by masked language modeling; `mixling train --from` fine-tunes the result."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Unpack

from mixling.artifacts.artifact import PRETRAINING, Artifact
from mixling.artifacts.files import CONFIG_FILE, read_config
from mixling.config import Config
from mixling.data.documents import WordReader
from mixling.data.prepared import CorpusConfig, Prepared, check_length, sample_documents
from mixling.errors import ConfigError
from mixling.export.card import pretraining_card
from mixling.models.model import Model, ModelConfig, build_model, count_parameters
from mixling.models.presets import PRESETS
from mixling.runs.parts import Parts, RunArguments, Stage
from mixling.runs.record import run_corpus
from mixling.runs.run import Run, execute
from mixling.storage import write_atomic
from mixling.tasks.masked_lm import MaskedLM, MaskedLMConfig
from mixling.tasks.objective import UNSMOOTHED
from mixling.text.encoder import TextEncoder, train_vocabulary
from mixling.text.table import FIRST
from mixling.text.vocabulary import FILES as VOCABULARY_FILES
from mixling.text.vocabulary import Vocabulary
from mixling.training.config import TokenTraining, TrainConfig
from mixling.training.corpus import MASK_WORD, MaskedText, document_encoder, subword_targets, word_targets
from mixling.training.optim import OptimConfig

SPECIALS = ("[SEP]", MASK_WORD)
PRETRAINED_MODEL = "gmlp-tiny"
# AdamW's eps, the weight decay and the linear schedule follow BERT; the learning rate is for small models.
PRETRAINING_DEFAULTS = TrainConfig(
    optim=OptimConfig(lr=1e-3, embedding_lr=1.0, eps=1e-6, weight_decay=0.01, schedule="linear"),
    token_dropout=0.0,
    loss=UNSMOOTHED,
    checkpoint_seconds=60.0,
)


class PretrainConfig(Config):
    """The complete configuration of a pretraining run, recorded in its run.json."""

    corpus: CorpusConfig = CorpusConfig()
    model: ModelConfig = PRESETS[PRETRAINED_MODEL].config
    objective: MaskedLMConfig = MaskedLMConfig()
    train: TokenTraining = PRETRAINING_DEFAULTS


def pretrain(config: PretrainConfig, **arguments: Unpack[RunArguments]) -> Run[dict[str, float]] | None:
    """Train a masked language model and write its folder.

    Text and vocabulary are read once and stored in the folder until the run is finished, so that resuming it needs no
    other file.

    Args:
        config: resolved (`mixling.runs.resolve.spec`); to resume a run, the configuration of its record.
        folder, resume, distributed, callback, log: as for `fit`.

    Returns:
        The run, with the validation metrics of the best evaluation; None in processes other than the main one.

    Raises:
        UserError: see `prepare` and `Trainer.fit`.
    """
    return execute(PRETRAINING, config, lambda stage: _MaskedLM(config, stage), **arguments)


class _MaskedLM(Parts[dict[str, float]]):
    """A masked language model and its text."""

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
        stage.log(f"{subwords:,} subwords, {self.parameters:,} parameters, {head:,} in the temporary head")

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
        metrics = {key: best[f"val_{key}"] for key in ("perplexity", "accuracy", "loss")}
        return metrics, {"validation": metrics}

    def card(self, report: dict[str, Any]) -> str:
        return pretraining_card({**self.config.to_dict(), "model": self.model_config.to_dict()}, report)


def _encoder(config: PretrainConfig, folder: Path) -> TextEncoder:
    """Load or train the vocabulary, store it in the folder, and return an encoder of whole documents."""
    text = config.model.text
    source = folder if config.corpus.prepared is None else Path(config.corpus.prepared)
    stored = next((source / name for name in VOCABULARY_FILES if (source / name).is_file()), None)
    if config.corpus.prepared is not None and (source / CONFIG_FILE).is_file():
        stored = Artifact(source, read_config(source)).vocabulary()
    if stored is not None:
        vocabulary = Vocabulary.load(str(stored))
    elif config.corpus.prepared is not None:
        raise ConfigError(f"{source}: holds no vocabulary; name the folder of a run with corpus.keep = true")
    elif text.vocabulary is not None:
        vocabulary = Vocabulary.load(text.vocabulary)
    else:
        vocabulary = train_vocabulary(sample_documents(config.corpus), text, specials=SPECIALS)
    name, content = vocabulary.serialize()
    write_atomic(folder / name, content)
    if text.projection.trained_rows:
        for subword in SPECIALS:
            if subword not in vocabulary:
                raise ConfigError(
                    f"the vocabulary has no subword {subword}, which masked language modeling needs; add it to the "
                    "file, or leave out --vocabulary to train one on the text"
                )
    return document_encoder(text.for_vocabulary(vocabulary), vocabulary)
