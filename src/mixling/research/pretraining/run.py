"""Pretraining by masked language modeling; `mixling train --from` fine-tunes the result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

from mixling.artifacts.artifact import Artifact
from mixling.artifacts.files import CONFIG_FILE, read_config
from mixling.artifacts.kinds import PRETRAINING
from mixling.config import Config
from mixling.errors import ConfigError
from mixling.models.model import Model, build_model, count_parameters
from mixling.models.tensors import tensor_of, weights_of
from mixling.networks.config import ModelConfig
from mixling.networks.presets import PRESETS, with_changes
from mixling.research.pretraining.card import pretraining_card
from mixling.research.pretraining.corpus import MASK_WORD, MaskedText, document_encoder, subword_targets, word_targets
from mixling.research.pretraining.documents import WordReader
from mixling.research.pretraining.masked_lm import MaskedLM, MaskedLMConfig
from mixling.research.pretraining.prepared import CorpusConfig, Prepared, check_length, run_corpus, sample_documents
from mixling.runs.resolve.spec import Spec
from mixling.runs.run import Run, RunArguments, RunFolder
from mixling.storage import write_atomic
from mixling.tasks.objective import UNSMOOTHED
from mixling.text.config import TextConfig
from mixling.text.encoder import TextEncoder, train_vocabulary
from mixling.text.table import FIRST
from mixling.text.vocabulary import FILES as VOCABULARY_FILES
from mixling.text.vocabulary import Vocabulary
from mixling.training.config import TokenTraining, TrainConfig
from mixling.training.initialization import read_embeddings
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


class _Pretraining(Spec[PretrainConfig]):
    schema = PretrainConfig
    preset = PRETRAINED_MODEL
    whole = frozenset({"preset", "layers"})

    def model(self, given: str | Mapping[str, Any], changes: Mapping[str, Any]) -> ModelConfig:
        return with_changes(given, changes)

    def defaults(
        self, model: str | Mapping[str, Any], values: Mapping[str, Any], folder: str | None
    ) -> Mapping[str, Any]:
        return {"train": PRETRAINING_DEFAULTS.to_dict()}


MASKED_LM = _Pretraining()


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
    with RunFolder.open(PRETRAINING, config, **arguments) as run:
        with run.preparing():
            encoder, prepared = run.in_turn(lambda: _read(config, run))
            text = config.model.text.for_vocabulary(encoder.vocabulary)
            check_length(config.corpus, prepared, text.max_len)
            data = _masked_text(config, encoder, prepared, text)
            model_config = config.model.model_copy(update={"text": text})
            model = _build(config, model_config, data)
            parameters = count_parameters(model.embedding) + count_parameters(model.encoder)
            head = f"{count_parameters(model.head):,} in the temporary head"
            run.log(f"{len(encoder.vocabulary):,} subwords, {parameters:,} parameters, {head}")
        content = json.dumps([*encoder.vocabulary.serialize(), prepared.digest]).encode()
        run.train(model, data, config.train, content=[content])
        if not run.is_main:
            return None
        run.save(weights_of(model), _saved(config, model_config, encoder, data), parameters=parameters)
        metrics = {key: run.best[f"val_{key}"] for key in ("perplexity", "accuracy", "loss")}
        values = {**config.to_dict(), "model": model_config.to_dict()}
        return run.finish(
            metrics,
            {"validation": metrics},
            parameters=parameters,
            card=lambda report: pretraining_card(values, report),
        )


def _read(config: PretrainConfig, run: RunFolder) -> tuple[TextEncoder, Prepared]:
    encoder = _encoder(config, run.first)
    return encoder, run_corpus(config.corpus, WordReader(encoder), run.first, run.log)


def _masked_text(config: PretrainConfig, encoder: TextEncoder, prepared: Prepared, text: TextConfig) -> MaskedText:
    """Return the text to train on; masked are subwords, or words where the embeddings are of hashed words."""
    if text.projection.trained_rows:
        targets = subword_targets(encoder)
    else:
        targets = word_targets(encoder, prepared.train, config.objective.num_words)
    return MaskedText(
        objective=MaskedLM(config.train.loss),
        config=config.objective,
        encoder=encoder,
        train=prepared.train,
        validation=prepared.validation,
        length=text.max_len,
        targets=targets,
    )


def _build(config: PretrainConfig, model_config: ModelConfig, data: MaskedText) -> Model:
    """Return the model with its initial weights and its temporary head."""
    num_outputs = _num_outputs(model_config, data)
    model = build_model(model_config, num_outputs=num_outputs, output="subwords", seed=config.train.seed)
    if model.embedding.embeddings is not None:
        table = model.embedding.embeddings
        table.copy_(tensor_of(read_embeddings(config.model.embedding.embeddings, tuple(table.shape))))
    return model


def _num_outputs(model_config: ModelConfig, data: MaskedText) -> int:
    projection = model_config.text.projection
    if not projection.trained_rows:
        return int(data.targets.max()) + 1
    assert projection.num_features is not None
    return projection.num_features


def _saved(config: PretrainConfig, model_config: ModelConfig, encoder: TextEncoder, data: MaskedText) -> dict[str, Any]:
    """Return the content of config.json."""
    values: dict[str, Any] = {
        "model": model_config.to_dict(),
        "vocabulary": encoder.vocabulary.serialize()[0],
        "num_outputs": _num_outputs(model_config, data),
        "objective": config.objective.to_dict(),
    }
    if not model_config.text.projection.trained_rows:
        words = encoder.table_words()
        order = sorted((int(target), row) for row, target in enumerate(data.targets) if target >= 0)
        values["words"] = [words[row - FIRST] for _, row in order]
    return values


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
                    "file, or leave out model.text.vocabulary to train one on the text"
                )
    return document_encoder(text.for_vocabulary(vocabulary), vocabulary)
