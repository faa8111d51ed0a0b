"""Train the systems of a benchmark, and tune them on validation examples."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mixling.comparison import fast_text, majority, word_tags
from mixling.comparison.baselines import Baseline, BaselineKind, Tried, choose, tfidf
from mixling.comparison.candidates import MATCHED, OWN, Candidate, candidates
from mixling.comparison.failures import Failure, Failures
from mixling.comparison.speed import Answerer
from mixling.comparison.with_columns import WITH_COLUMNS, column_baselines
from mixling.data.dataset import Dataset
from mixling.data.examples import Target
from mixling.errors import ConfigError, TrainingError, near_miss
from mixling.features.kinds import parse_features
from mixling.metrics.base import LESS_IS_BETTER
from mixling.runs.evaluation import aimed_task
from mixling.runs.resolve.config import RunConfig
from mixling.runs.resolve.spec import Resolved
from mixling.runs.run import Run
from mixling.runs.shared import Shared
from mixling.runs.training import fit
from mixling.runtime.predictor import Predictor
from mixling.runtime.quick import ONNX_FILE
from mixling.storage import LOCK_FILE, OWNER_FILE
from mixling.tasks import task_type
from mixling.tasks.base import Task
from mixling.text.encoder import Text
from mixling.training.callbacks import Callback, Log

MAJORITY = "majority"
# By their names in `Task.baselines`, and the one that fits every task.
BASELINES: dict[str, BaselineKind] = {
    "tf-idf": tfidf,
    "words": word_tags.words,
    "fasttext": fast_text.fasttext,
    MAJORITY: majority.majority,
}


def chosen_systems(task: type[Task], names: Sequence[str], *, columns: bool = False) -> tuple[str, ...]:
    """Return the names of what our model is compared with: by default the task's baselines and the majority.

    Args:
        columns: whether there are columns beside the texts, which some systems are for.

    Raises:
        ConfigError: a name is unknown, or of a system that does not fit the task.
    """
    usual = (*(WITH_COLUMNS if columns else ()), *task.baselines, MAJORITY)
    for name in names:
        if name in WITH_COLUMNS and not columns:
            raise ConfigError(f"--systems: {name} reads columns beside the text; name them with --features")
        if name not in (known := (*usual, MATCHED)):
            raise ConfigError(f"--systems: for {task.name} there is no {name!r}; {near_miss(name, known)}")
    return tuple(dict.fromkeys(names)) or usual


@dataclass(frozen=True)
class LabeledRows:
    """Texts and their targets, in memory."""

    texts: list[Text]
    targets: list[Target]

    @classmethod
    def of(cls, store: Dataset) -> LabeledRows:
        """Return all examples of a dataset."""
        return cls(list(store.texts), list(store.targets))


@dataclass(frozen=True, kw_only=True)
class TrainedSystem:
    """A trained model or baseline, after all choices on validation.

    Attributes:
        about: its description in the legend of the table.
        options: the values chosen on validation.
        tried: all values tried.
        file_bytes: of the saved model of the first seed, including the vocabulary.
        validation: the task's metric on validation by seed, by which options were chosen, of models that were not
            fitted on the validation rows.
        seconds: training time per seed; the first includes all values tried.
        answerers: one per seed; a baseline has one. Where `RunConfig.fits_validation`, they were fitted on the
            validation rows, too.
        reads_columns: whether it reads the columns beside the texts.
    """

    name: str
    about: str
    options: dict[str, Any]
    tried: tuple[Tried, ...]
    validation: tuple[float, ...]
    parameters: int
    file_bytes: int
    seconds: tuple[float, ...]
    answerers: tuple[Answerer, ...]
    reads_columns: bool = False


class ExportedSystem:
    """The exported model of a run, as a user gets it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._predictor = Predictor(folder / ONNX_FILE, num_threads=1)

    def predict(self, texts: Sequence[Text]) -> list[Target]:
        return list(map(self._predictor.task.answer, self._predictor.predict_stream(texts), texts))

    def predict_one(self, text: Text) -> Target:
        return self._predictor.task.answer(self._predictor.predict_one(text), text)

    def fresh(self) -> ExportedSystem:
        return ExportedSystem(self._folder)


class _Fitted:
    def __init__(self, baseline: Baseline) -> None:
        self.predict = baseline.predict

    def predict_one(self, text: Text) -> Target:
        return self.predict([text])[0]

    def fresh(self) -> _Fitted:
        return self


def train_all(
    resolved: Resolved[RunConfig],
    train: Dataset,
    validation: Dataset,
    *,
    models: Sequence[str],
    systems: Sequence[str] = (),
    seeds: Sequence[int],
    folder: Path,
    log: Log,
    callback: Callable[[], Callback],
    failures: Failures,
    encoder: BaselineKind | None = None,
    split_off: bool = False,
) -> list[TrainedSystem]:
    """Train the models and the baselines, in the order of the table, without those that fail.

    Where what `mixling train` exports is fitted on the validation rows in the end, so are the baselines.

    Args:
        systems: as of `chosen_systems`.
        failures: gets the baselines that fail or whose package is missing, and the models whose training fails, but for
            the default model.
        encoder: a baseline in addition to the task's.
        split_off: whether the validation rows were split off, although the configuration names others.

    Raises:
        UserError: of the kind that fits; see `candidates` and `mixling.runs.training`.
    """
    begin = time.perf_counter()
    config = resolved.config
    chosen = resolved.for_examples(train).config
    kinds = parse_features(config.data.columns.features)
    names = chosen_systems(task_type(config.task), systems, columns=bool(kinds))
    if split_off:
        config, chosen = (
            one.model_copy(update={"data": one.data.model_copy(update={"validation": ()})}) for one in (config, chosen)
        )
    choosing = time.perf_counter() - begin
    field = candidates(
        config, chosen, models, matched=MATCHED in names
    )  # report mistakes in them before hours of training
    task = aimed_task(config, train)
    rivals = _baselines(
        [name for name in names if name != MATCHED],
        task,
        LabeledRows.of(train),
        LabeledRows.of(validation),
        encoder,
        known=BASELINES | column_baselines(kinds),
        seed=seeds[0],
        refit=config.fits_validation,
        log=log,
        failures=failures,
    )
    ours = []
    shared = Shared()
    for index, candidate in enumerate(field):
        spent = choosing if index == 0 else 0.0
        recorded = failures.of(candidate.name, candidate.about, kinds=TrainingError)
        with contextlib.nullcontext() if candidate.name == OWN else recorded:
            ours.append(
                _train(candidate, train, validation, seeds, folder, shared, spent=spent, log=log, callback=callback)
            )
    return [*ours, *rivals]


def _baselines(
    names: Sequence[str],
    task: Task,
    train: LabeledRows,
    validation: LabeledRows,
    encoder: BaselineKind | None,
    *,
    known: Mapping[str, BaselineKind],
    seed: int,
    refit: bool,
    log: Log,
    failures: Failures,
) -> list[TrainedSystem]:
    kinds = []
    for name in names:
        if name not in known:
            raise ConfigError(f"{task.name}: got the baseline {name!r}; {near_miss(name, known)}")
        kinds.append(known[name])
    if encoder is not None:
        kinds.append(encoder)
    out = []
    for kind in kinds:
        if why := kind.missing():
            failures.found[kind.title(task)] = Failure(kind.title(task), kind.about(task), why)
            continue
        with failures.of(kind.title(task), kind.about(task)):
            out.append(_tuned(kind, task, train, validation, seed=seed, refit=refit, log=log))
    return out


def _tuned(
    kind: BaselineKind,
    task: Task,
    train: LabeledRows,
    validation: LabeledRows,
    *,
    seed: int,
    refit: bool,
    log: Log,
    only: Sequence[Mapping[str, Any]] = (),
) -> TrainedSystem:
    log(f"== {kind.title(task)}")
    fitted = kind.fit(type(task), train.texts, train.targets, seed=seed, only=only)
    metric = task.metric
    begin = time.perf_counter()

    def evaluate(baseline: Baseline) -> float:
        value = task.score(validation.targets, baseline.predict(validation.texts)).numbers[metric]
        options = ", ".join(f"{key} {value}" for key, value in baseline.options.items())
        log(f"{options}: validation {metric.replace('_', ' ')} {value:.4f}")
        return value

    chosen, tried = choose(fitted, evaluate, less_is_better=task.less_is_better)
    best = chosen
    if refit:
        texts = train.texts + validation.texts
        targets = train.targets + validation.targets
        best = next(kind.fit(type(task), texts, targets, seed=seed, only=(chosen.options,)))
    return TrainedSystem(
        name=kind.title(task),
        about=kind.about(task),
        options=best.options,
        tried=tried,
        validation=(next(one.validation for one in tried if one.options == chosen.options),),
        parameters=best.parameters,
        file_bytes=best.size(),
        seconds=(time.perf_counter() - begin,),
        answerers=(_Fitted(best),),
        reads_columns=kind.reads_columns,
    )


def fit_reference(config: RunConfig, train: Dataset, validation: Dataset, *, log: Log) -> TrainedSystem | Failure:
    """Fit the task's reference baseline, such as TF-IDF with logistic regression; return why it fails if it does.

    Its options are chosen among few on the validation examples, as the epoch of a model is; it is fitted on them as
    well where the exported model is. It reads the columns beside the texts, if there are any.
    """
    task = aimed_task(config, train)
    failures = Failures(log)
    rows = LabeledRows.of(train), LabeledRows.of(validation)
    kinds = parse_features(config.data.columns.features)
    baseline = column_baselines(kinds)[WITH_COLUMNS[0]] if kinds else BASELINES[task.baselines[0]]
    with failures.of(baseline.title(task), baseline.about(task)):
        how: dict[str, Any] = {"seed": config.train.seed, "refit": config.fits_validation, "log": log}
        return _tuned(baseline, task, *rows, **how, only=baseline.likely)
    (failed,) = failures.found.values()
    return failed


def _train(
    candidate: Candidate,
    train: Dataset,
    validation: Dataset,
    seeds: Sequence[int],
    folder: Path,
    shared: Shared,
    *,
    spent: float,
    log: Log,
    callback: Callable[[], Callback],
) -> TrainedSystem:
    """Train one of our models with every seed; among several rates, validation chooses with the first seed."""
    metric = candidate.config.metric_key
    better = min if metric in LESS_IS_BETTER else max
    best_rate = candidate.rates[0]
    tried = []
    finished: list[Run[Any]] = []
    seconds = []
    for seed in seeds:
        rates = (best_rate,) if finished else candidate.rates
        begin = time.perf_counter()
        saved = shared.saved
        made: dict[float, Run[Any]] = {}
        for rate in rates:
            config = _with_rate(candidate.config, seed, rate)
            lr = config.train.optim.lr
            run_folder = folder / candidate.folder / (f"seed-{seed}" if rate == 1.0 else f"seed-{seed}-lr-{lr:g}")
            log(f"== {candidate.name}, seed {seed}" + (f", rate {lr:g}" if len(candidate.rates) > 1 else ""))
            run_begin = time.perf_counter()
            run_saved = shared.saved
            run = fit(config, train, validation, folder=run_folder, callback=callback(), shared=shared, log=log)
            assert run is not None, "one process"
            made[rate] = run
            if len(rates) > 1:
                value = run.metrics.value(metric)
                spent_here = time.perf_counter() - run_begin + shared.saved - run_saved
                tried.append(Tried({"lr": lr}, value, spent_here))
        best_rate = better(made, key=lambda rate: made[rate].metrics.value(metric))
        finished.append(made[best_rate])
        seconds.append(time.perf_counter() - begin + shared.saved - saved)  # as if each were trained alone
    seconds[0] += spent
    options = {
        "lr": candidate.config.train.optim.lr * best_rate,
        "best_epochs": [run.best["epoch"] for run in finished],
        "precision": [run.report["precision"] for run in finished],
    }
    return TrainedSystem(
        name=candidate.name,
        about=candidate.about,
        options=options,
        tried=tuple(tried),
        validation=tuple(run.metrics.value(metric) for run in finished),
        parameters=finished[0].parameters,
        file_bytes=(finished[0].folder / ONNX_FILE).stat().st_size,
        seconds=tuple(seconds),
        answerers=tuple(ExportedSystem(run.folder) for run in finished),
    )


def _with_rate(config: RunConfig, seed: int, rate: float) -> RunConfig:
    optim = config.train.optim.model_copy(update={"lr": config.train.optim.lr * rate})
    return config.model_copy(update={"train": config.train.model_copy(update={"seed": seed, "optim": optim})})


def check_folder(folder: Path) -> None:
    """Check that trained models can be saved in a folder.

    Raises:
        ConfigError: it is a file, or not empty.
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"--keep {folder}: is a file; a folder is needed")
    if folder.is_dir() and any(path.name not in (LOCK_FILE, OWNER_FILE) for path in folder.iterdir()):
        raise ConfigError(f"--keep {folder}: is not empty; give a new folder, or delete its content")
