"""Training on labelled examples, and the folder that comes of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mixling.data.batches import TextSet
from mixling.data.dataset import Dataset
from mixling.errors import command_line
from mixling.models.model import build_model, count_parameters
from mixling.runs.artifact import TEACHER_FOLDER
from mixling.runs.config import TASKS, RunConfig
from mixling.runs.data import label_set, say_truncated
from mixling.runs.dev import Dev, LabelledDev, QuestionDev
from mixling.runs.distill import Lessons, make_lessons
from mixling.runs.folder import Run, write_folder
from mixling.runs.hub_names import with_commits
from mixling.runs.pictures import Curves
from mixling.runs.pretrained import load_pretrained
from mixling.runs.record import begin_run, finish_run, open_run
from mixling.runs.replacement import share_folder
from mixling.runs.start import make_vectors, start_of
from mixling.runs.teacher import SELF, check_distill
from mixling.runs.unfinished import write_setup
from mixling.tasks.question_answering import QuestionAnswering
from mixling.teachers.base import Teacher
from mixling.text.encoder import Text, TextEncoder, train_vocabulary
from mixling.text.labels import LabelSet, Targets
from mixling.text.vectors import WordVectors
from mixling.text.vocabulary import Vocabulary
from mixling.training.callbacks import Callback, CallbackList
from mixling.training.dataset_adapter import LabelledData
from mixling.training.distributed import DistributedContext
from mixling.training.files import CHECKPOINT
from mixling.training.loop import Trainer
from mixling.training.questions import QuestionData, question_data
from mixling.training.start import start_bottleneck

_VOCABULARY_BYTES = 32 << 20  # text that a vocabulary is trained on


def fit(
    config: RunConfig,
    train: Dataset,
    dev: Dataset,
    *,
    folder: Path,
    weights: npt.NDArray[np.float32] | None = None,
    teacher: Teacher | None = None,
    unlabelled: Iterable[Text] = (),
    vectors: WordVectors | None = None,
    resume: bool = False,
    distributed: DistributedContext | None = None,
    callback: Callback | None = None,
    say: Callable[[str], None] = lambda message: None,
) -> Run | None:
    """Train, choose the best epoch on dev, export, measure what was exported, and write the run folder.

    A model in the folder stays until the new one is finished.

    Args:
        weights: one for each training example.
        teacher, unlabelled: of a run with `config.distill`, see `make_lessons`; by default those that it names.
        vectors: to begin with, instead of those that `config.start` speaks of.
        resume: continue from the folder's checkpoint.

    Returns:
        the run; None in processes other than the main one.

    Raises:
        UserError: of the kind that fits; see `open_run` and `Trainer.fit`.
    """
    distributed = distributed or DistributedContext()
    command = command_line("mixling", "train", "--resume", "-o", folder)
    with open_run(folder, resume=resume, distributed=distributed, command=command) as place:
        if config.distill is not None and distributed.is_main and place != folder:
            share_folder(folder / TEACHER_FOLDER, place / TEACHER_FOLDER)
        run = _fit(
            config, train, dev,
            folder=place, weights=weights, teacher=teacher, unlabelled=unlabelled, vectors=vectors,
            resume=resume and (place / CHECKPOINT).exists(),  # killed before the first: the run begins anew
            command=command, distributed=distributed, callback=callback, say=say,
        )  # fmt: skip
    return None if run is None else replace(run, folder=folder)


def _fit(
    config: RunConfig,
    train: Dataset,
    dev: Dataset,
    *,
    folder: Path,
    weights: npt.NDArray[np.float32] | None,
    teacher: Teacher | None,
    unlabelled: Iterable[Text],
    vectors: WordVectors | None,
    resume: bool,
    command: str,
    distributed: DistributedContext,
    callback: Callback | None,
    say: Callable[[str], None],
) -> Run | None:
    config = config.model_copy(update={"start": start_of(config)})
    config = config if resume else with_commits(config)
    task_type, kind = TASKS[config.task]
    labels = label_set(train, kind)
    counts = train.label_counts()
    task = task_type(labels, config.train.loss, np.array([counts.get(name, 0) for name in labels.names]))
    asked = isinstance(task, QuestionAnswering)
    texts, targets = train, [] if asked else labels.targets(train.targets)
    if config.distill is not None:
        if teacher is None:
            check_distill(config.distill, task=config.task, data=config.data, world=distributed.world)
        if distributed.is_main and not resume:
            begin_run(folder, config)  # what takes long begins: an interruption finds a run to go on with
    if vectors is None and (not resume or (config.distill is not None and config.distill.teacher == SELF)):
        vectors = make_vectors(config, train, say)
    if config.distill is not None:
        lessons = _lessons(config, train, dev, labels, folder, teacher, unlabelled, vectors, distributed, say)
        texts, targets = lessons.texts, lessons.targets
        if weights is not None:
            weights = np.where(lessons.rows < 0, 1, weights[lessons.rows]).astype(np.float32)
    text = config.model.text
    vocabulary = (
        Vocabulary.load(text.vocabulary)
        if text.vocabulary is not None
        else train_vocabulary(texts.sample_texts(_VOCABULARY_BYTES, config.train.seed), text)
    )
    text = text.for_vocabulary(vocabulary)
    training = config.train.settled(
        len(texts),
        rows_per_label=len(train) / len(labels) if kind == "single" else None,
        start=config.start.kind,
        taught=config.distill is not None,
    )
    model_config = config.model.model_copy(update={"text": text})
    given = config
    config = config.model_copy(update={"model": model_config, "train": training})
    encoder = TextEncoder(text, vocabulary)
    data: LabelledData | QuestionData
    dev_set: Dev
    if isinstance(task, QuestionAnswering):
        assert weights is None, "questions have no weights"
        data = question_data(task, train, dev, encoder, config.reading, token_dropout=training.token_dropout, say=say)
        dev_set = QuestionDev(data)
    else:
        data = LabelledData(
            objective=task,
            train=TextSet(texts, encoder, keep=not texts.spooled),
            train_targets=targets,
            dev=TextSet(dev, encoder, keep=not dev.spooled),
            dev_targets=labels.targets(dev.targets),
            token_dropout=training.token_dropout,
            weights=weights,
        )
        dev_set = LabelledDev(data, dev)
        say_truncated(data.train, text.max_len, say)
    model = build_model(config.model, num_outputs=len(labels), output=task.output, seed=config.train.seed)
    if model.frontend.embeddings is not None:
        model.frontend.load_embeddings(config.model.frontend.embeddings)
    if config.start.pretrained is not None:
        load_pretrained(model, config.model, config.start.pretrained, resize=config.start.resize)
    counted = "" if asked else f"{len(labels)} labels, "
    say(f"{counted}{len(vocabulary):,} subword units, {count_parameters(model):,} parameters")
    if vectors is not None:
        started = start_bottleneck(model.frontend, encoder, vectors)
        say(
            f"initialisation: the embeddings of {started.words:,} words reproduce {started.explained:.0%} of the "
            "variance of their vectors"
        )
    pairs = train.schema.pairs
    if distributed.is_main:
        callback = CallbackList(callback or Callback(), Curves(folder, say))
        if not resume and config.distill is None:
            begin_run(folder, given)
        write_setup(folder, config, labels, vocabulary, pairs=pairs)
    smoothing = config.train.loss.label_smoothing
    if smoothing and config.distill is None:
        say(f"losses while training include label smoothing of {smoothing:g}; the log-loss at the end does not")
    trainer = Trainer(
        model, data, config.train,
        folder=folder,
        command=command,
        fingerprint=_fingerprint(config, texts, targets, dev, vocabulary, weights),
        distributed=distributed,
        callback=callback,
    )  # fmt: skip
    history = trainer.fit(resume=resume)
    if not distributed.is_main:
        return None
    model.cpu()
    run = write_folder(config, model, encoder, labels, dev_set, history, folder, say, pairs=pairs)
    if dev_set.reading is not None:
        config = config.model_copy(update={"reading": dev_set.reading})
    finish_run(folder, config)
    return run


def _lessons(
    config: RunConfig,
    train: Dataset,
    dev: Dataset,
    labels: LabelSet,
    folder: Path,
    teacher: Teacher | None,
    unlabelled: Iterable[Text],
    vectors: WordVectors | None,
    distributed: DistributedContext,
    say: Callable[[str], None],
) -> Lessons:
    """What the student learns from; of several processes the first asks the teacher, the others read its answers."""
    assert config.distill is not None
    if not distributed.is_main:
        distributed.barrier()
    lessons = make_lessons(
        config.distill,
        train,
        dev,
        labels,
        task=config.task,
        data=config.data,
        smoothing=config.train.loss.label_smoothing,
        seed=config.train.seed,
        folder=folder / TEACHER_FOLDER,
        teacher=teacher,
        unlabelled=unlabelled,
        train_member=_Member(config, train, dev, vectors, say),
        say=say if distributed.is_main else lambda message: None,
    )
    if distributed.is_main:
        distributed.barrier()
    return lessons


class _Member:
    """Trains a model like the student on the labelled rows alone."""

    def __init__(
        self,
        config: RunConfig,
        train: Dataset,
        dev: Dataset,
        vectors: WordVectors | None,
        say: Callable[[str], None],
    ) -> None:
        # The student's epochs and budget are of other rows.
        own = config.train.model_copy(update={"epochs": None, "time_budget": None})
        self._config = config.model_copy(update={"distill": None, "train": own})
        self._train, self._dev, self._vectors, self._say = train, dev, vectors, say
        # Of files what is in them, not where they lie.
        model = config.model
        content = [] if vectors is None else [vectors.vectors.tobytes(), "\n".join(vectors.words).encode()]
        if model.text.vocabulary is not None:
            content.append(json.dumps(Vocabulary.load(model.text.vocabulary).serialise()).encode())
        if model.frontend.embeddings is not None:
            content.append(Path(model.frontend.embeddings).read_bytes())
        kept = self._config.model_dump(mode="json", exclude={"data", "start"})
        self.record = [kept, config.start.kind, *(hashlib.sha256(item).hexdigest() for item in content)]

    def __call__(self, seed: int, folder: Path) -> None:
        """As `TrainMember`."""
        config = self._config.model_copy(update={"train": self._config.train.model_copy(update={"seed": seed})})
        run = fit(config, self._train, self._dev, folder=folder, vectors=self._vectors)
        assert run is not None, "one process"
        self._say(f"teacher: its dev {run.metrics.summary()}")


def _fingerprint(
    config: RunConfig,
    train: Dataset,
    targets: Targets,
    dev: Dataset,
    vocabulary: Vocabulary,
    weights: npt.NDArray[np.float32] | None,
) -> str:
    """Identifies what a checkpoint belongs to: configuration and content of the data, not where the files lie."""
    values = config.model_dump(mode="json", exclude={"data": True, "train": {"checkpoint_seconds", "track"}})
    out = hashlib.sha256(json.dumps([values, *vocabulary.serialise()], sort_keys=True).encode())
    for store in (train, dev):
        out.update(store.text_hashes().tobytes())
        out.update(json.dumps(store.label_counts(), sort_keys=True).encode())
        ids = store.class_ids()
        out.update(b"" if ids is None else np.ascontiguousarray(ids).tobytes())
        if store.schema.targets == "answers":
            for answers in store.answers:
                out.update(repr(answers).encode("utf-8", "surrogatepass"))
    out.update(b"" if weights is None else weights.tobytes())
    if config.distill is not None:
        for target in targets:
            out.update(target.tobytes())
    return out.hexdigest()
