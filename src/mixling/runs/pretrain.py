"""Pretraining: from text to a folder that `mixling train --from` starts with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
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
from mixling.errors import ConfigError, command_line
from mixling.export.card import pretraining_card
from mixling.export.plots import training_curves
from mixling.models.model import Model, ModelConfig, build_model, count_parameters
from mixling.models.presets import PRESETS
from mixling.runs.artifact import (
    CARD_FILE,
    CONFIG_FILE,
    CURVES_FILE,
    METRICS_FILE,
    PRETRAINING,
    read_config,
    vocabulary_file,
)
from mixling.runs.hub_names import with_commits
from mixling.runs.pictures import Curves, if_possible
from mixling.runs.record import begin_run, beginning, finish_run, open_run, run_corpus
from mixling.runs.weights import write_model
from mixling.storage import write_atomic, write_sealed
from mixling.tasks.base import UNSMOOTHED
from mixling.tasks.masked_lm import MaskedLM, MaskedLMConfig
from mixling.text.config import TextConfig
from mixling.text.encoder import TextEncoder, train_vocabulary
from mixling.text.table import FIRST
from mixling.text.vocabulary import FILES as VOCABULARY_FILES
from mixling.text.vocabulary import Vocabulary
from mixling.training.callbacks import Callback, CallbackList
from mixling.training.corpus import MASK_WORD, MaskedText, document_encoder, unit_targets, word_targets
from mixling.training.distributed import DistributedContext
from mixling.training.files import CHECKPOINT
from mixling.training.loop import Trainer
from mixling.training.optim import OptimConfig
from mixling.training.recipe import TrainConfig, UnitTraining

SPECIALS = ("[SEP]", MASK_WORD)
DEFAULT_MODEL = "gmlp-tiny"
# AdamW's eps and weight decay and the linear decay follow BERT's kind of recipe; the rate is for the small models.
RECIPE = TrainConfig(
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
    train: UnitTraining = RECIPE


@dataclass(frozen=True, kw_only=True)
class Pretrained:
    """What a finished pretraining gives; `metrics` are those of the held-out text at the best evaluation."""

    folder: Path
    metrics: dict[str, float]
    history: list[dict[str, Any]]
    parameters: int


def pretrain(
    config: PretrainConfig,
    *,
    folder: Path,
    resume: bool = False,
    distributed: DistributedContext | None = None,
    callback: Callback | None = None,
    say: Callable[[str], None] = lambda message: None,
) -> Pretrained | None:
    """Train a masked language model and write its folder.

    Text and vocabulary are read once, into the folder, and removed from there at the end: a resumed run needs no file.
    A model in the folder stays until the new one is finished.

    Returns:
        the run; None in processes other than the main one.

    Raises:
        UserError: of the kind that fits; see `prepare` and `Trainer.fit`.
    """
    distributed = distributed or DistributedContext()
    config = config if resume else with_commits(config)
    command = command_line("mixling", "pretrain", "--resume", "-o", folder)
    with open_run(folder, resume=resume, distributed=distributed, command=command) as place:
        done = _pretrain(config, place, resume, command, distributed, callback, say)
    return None if done is None else replace(done, folder=folder)


def _pretrain(
    config: PretrainConfig,
    folder: Path,
    resume: bool,
    command: str,
    distributed: DistributedContext,
    callback: Callback | None,
    say: Callable[[str], None],
) -> Pretrained | None:
    with beginning(folder, resume=resume, is_main=distributed.is_main) as place:
        if distributed.is_main:
            text, encoder = _encoder(config, place)
            prepared = run_corpus(config.corpus, WordReader(encoder), place, say)
            distributed.barrier()
        else:
            distributed.barrier()
            text, encoder = _encoder(config, place)
            prepared = run_corpus(config.corpus, WordReader(encoder), place, say)
        check_length(config.corpus, prepared, text.max_len)
        on_units = text.projection.trained_rows
        targets = (
            unit_targets(encoder) if on_units else word_targets(encoder, prepared.train, config.objective.num_words)
        )
        data = MaskedText(
            objective=MaskedLM(config.train.loss),
            config=config.objective,
            encoder=encoder,
            train=prepared.train,
            dev=prepared.dev,
            length=text.max_len,
            targets=targets,
        )
        given, config = config, config.model_copy(update={"model": config.model.model_copy(update={"text": text})})
        num_outputs = text.projection.num_features if on_units else int(targets.max()) + 1
        assert num_outputs is not None
        model = build_model(config.model, num_outputs=num_outputs, output="units", seed=config.train.seed)
        if model.frontend.embeddings is not None:
            model.frontend.load_embeddings(config.model.frontend.embeddings)
        distributed.barrier()  # the others have read what is moved now
    if distributed.is_main and not resume:
        begin_run(folder, given, kind=PRETRAINING, place=place)
    kept = count_parameters(model.frontend) + count_parameters(model.encoder)
    say(f"{len(encoder.vocabulary):,} units, {kept:,} parameters, {count_parameters(model.head):,} for the time being")
    trainer = Trainer(
        model, data, config.train,
        folder=folder,
        command=command,
        fingerprint=_fingerprint(config, prepared, encoder.vocabulary),
        distributed=distributed,
        callback=CallbackList(callback or Callback(), Curves(folder, say)) if distributed.is_main else callback,
    )  # fmt: skip
    history = trainer.fit(resume=resume and (folder / CHECKPOINT).exists())
    if not distributed.is_main:
        return None
    model.cpu()
    done = _write_folder(config, model, data, history, folder, say)
    finish_run(folder, config, kind=PRETRAINING, corpus=config.corpus)
    return done


def _write_folder(
    config: PretrainConfig,
    model: Model,
    data: MaskedText,
    history: list[dict[str, Any]],
    folder: Path,
    say: Callable[[str], None],
) -> Pretrained:
    """All files of the folder but the record of the run."""
    best = next(record for record in reversed(history) if record["best"])
    metrics = {key: best[f"dev_{key}"] for key in ("perplexity", "accuracy", "loss")}
    parameters = count_parameters(model.frontend) + count_parameters(model.encoder)
    saved: dict[str, Any] = {
        "parameters": parameters,
        "kind": PRETRAINING,
        "model": config.model.to_dict(),
        "vocabulary": data.encoder.vocabulary.serialise()[0],
        "num_outputs": len(model.head.bias),  # type: ignore[arg-type]
        "objective": config.objective.to_dict(),
    }
    if not config.model.text.projection.trained_rows:
        words = data.encoder.table_words()
        order = sorted((int(target), row) for row, target in enumerate(data.targets) if target >= 0)
        saved["words"] = [words[row - FIRST] for _, row in order]
    write_model(folder, model, saved)
    at = {key: best[key] for key in ("epoch", "step", "train_loss")}
    report = {"dev": metrics, "best": at, "parameters": parameters}
    write_sealed(folder / METRICS_FILE, report)
    if_possible(lambda: training_curves(history, folder / CURVES_FILE), say)
    write_atomic(folder / CARD_FILE, pretraining_card(config.to_dict(), report))
    return Pretrained(folder=folder, metrics=metrics, history=history, parameters=parameters)


def _encoder(config: PretrainConfig, folder: Path) -> tuple[TextConfig, TextEncoder]:
    """The vocabulary, given or trained and kept in the folder, and an encoder of whole documents."""
    text = config.model.text
    source = folder if config.corpus.prepared is None else Path(config.corpus.prepared)
    kept = next((source / name for name in VOCABULARY_FILES if (source / name).is_file()), None)
    if config.corpus.prepared is not None and (source / CONFIG_FILE).is_file():
        kept = vocabulary_file(source, read_config(source))
    if kept is not None:
        vocabulary = Vocabulary.load(str(kept))
    elif config.corpus.prepared is not None:
        raise ConfigError(f"{source}: holds no vocabulary; name the folder of a run with corpus.keep = true")
    else:
        if text.vocabulary is not None:
            vocabulary = Vocabulary.load(text.vocabulary)
        else:
            vocabulary = train_vocabulary(sample_documents(config.corpus), text, specials=SPECIALS)
    name, content = vocabulary.serialise()
    write_atomic(folder / name, content)
    if text.projection.trained_rows:
        for unit in SPECIALS:
            if unit not in vocabulary:
                raise ConfigError(
                    f"the vocabulary has no unit {unit}, which masked language modelling needs; add it to the file, or "
                    "leave out --vocabulary to train one on the text"
                )
    text = text.for_vocabulary(vocabulary)
    return text, document_encoder(text, vocabulary)


def _fingerprint(config: PretrainConfig, prepared: Prepared, vocabulary: Vocabulary) -> str:
    """Identifies what a checkpoint belongs to: configuration and content of the text, not where the files lie."""
    values = config.model_dump(mode="json", exclude={"corpus": True, "train": {"checkpoint_seconds", "track"}})
    content = json.dumps([values, *vocabulary.serialise(), prepared.digest], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()
