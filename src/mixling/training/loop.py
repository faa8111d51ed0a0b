"""The training loop.

All randomness (order of an epoch, token dropout, dropout) is a function of (seed, step). Therefore the state of a run
is its tensors and a step number, a resumed run repeats the uninterrupted one bit by bit, and two runs with the same
seed, machine and number of threads end with the same bytes.
"""

from __future__ import annotations

import json
import math
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mixling.config import dotted
from mixling.data.batches import Indices, shard
from mixling.errors import Interrupted, TrainingError, command_line
from mixling.storage import append, write_atomic
from mixling.training.backends.base import StepPart, StepSums
from mixling.training.backends.choose import choose_backend
from mixling.training.backends.context import DistributedContext
from mixling.training.callbacks import Callback, CallbackList, Detail, Log, Step
from mixling.training.checkpoint import load_checkpoint, save_checkpoint
from mixling.training.config import TrainConfig
from mixling.training.dataset_adapter import Targeted, TrainingData
from mixling.training.files import CHECKPOINT, HISTORY
from mixling.training.interrupts import Interrupts
from mixling.training.memory import Heap
from mixling.training.optim import learning_rate
from mixling.training.plan import Pace, affordable, default_evaluations
from mixling.training.prefetch import Prefetcher
from mixling.training.state import NamedArrays, TrainingState
from mixling.training.tracking import remove_tracking, tracking


class Trainer:
    """Trains a model, which ends with the weights of the best or the last evaluation (`config.load_best_at_end`).

    Args:
        model: a `TextNetwork`, or a model of PyTorch.
        folder: where checkpoints and metrics.jsonl are written; None: nowhere.
        command: the command line that resumes the training, for messages; by default `mixling train --resume`.
        fingerprint: identifies data and configuration; checkpoints with another fingerprint are not resumed.
        distributed: this process among all; by default the only one.
        callback: called at steps and evaluations.
        last_step: end after this step, with its weights and without evaluations; the learning rate is as in a
            training that continues.
        seconds: with `last_step`, the time for the steps: they are fewer if they become slow.
        later: the number of texts that are predicted after the training, within its time budget.
        log: receives messages about trackers that fail, and about a training that ends early.
    """

    def __init__(
        self,
        model: Any,
        data: TrainingData,
        config: TrainConfig,
        *,
        folder: Path | None = None,
        command: str | None = None,
        fingerprint: str = "",
        distributed: DistributedContext | None = None,
        callback: Callback | None = None,
        last_step: int | None = None,
        seconds: float | None = None,
        later: int = 0,
        log: Log = lambda message: None,
    ) -> None:
        self.last_step = last_step
        self.seconds = config.time_budget if seconds is None else seconds
        self.later = later
        self.total_steps = 0
        self.data = data
        self.config = config
        self.folder = folder
        self.command = command or command_line("mixling", "train", "--resume", "-o", folder or "DIR")
        self.fingerprint = fingerprint
        self.distributed = distributed or DistributedContext()
        self._log = log
        self.callback = callback or Callback()
        self._callbacks = CallbackList(self.callback)
        if config.track and folder is not None and self.distributed.is_main:
            trackers = tracking(config.track, folder, config=dotted(config.to_dict()), log=log)
            self._callbacks = CallbackList(self.callback, trackers)
        self.model = model
        self.backend = choose_backend(model, data, config, self.distributed, log)
        self._best: NamedArrays = {}
        self._batches: list[Indices] = []
        self._epoch = -1
        self._saved_at = time.monotonic()
        self._heap = Heap()
        self._pace: Pace | None = None
        self._unread: list[tuple[int, Indices, float]] = []  # steps, their batches and rates, whose sums are not known
        self._signals = 0.0
        self._prefetcher: Prefetcher[Targeted] = Prefetcher()

    @property
    def steps_per_epoch(self) -> int:
        """The number of batches in one pass over the training data."""
        return max(1, math.ceil(len(self.data) / self.config.batch_size))

    def fit(self, *, resume: bool = False) -> list[dict[str, Any]]:
        """Train to the end.

        Args:
            resume: continue from the folder's checkpoint.

        Returns:
            The records of all evaluations.

        Raises:
            TrainingError: the loss or the gradient is not finite, or the checkpoint belongs to another run.
            Interrupted: SIGINT or SIGTERM was received; the state was saved first.
            StorageError: a file cannot be written.
            ModelFileError: the checkpoint cannot be read.
        """
        begun = time.monotonic()
        state = self._restore() if resume else self._plan()
        if self.seconds is not None and self.distributed.world == 1:
            self._pace = Pace(self.seconds - (time.monotonic() - begun), state.step)
        self.total_steps = state.total_steps
        self.last_step = None if self.last_step is None else min(self.last_step, state.total_steps)
        self._write_history(state)
        if self.folder is not None and not resume:
            self._save(state)
            if self.distributed.is_main:
                remove_tracking(self.folder)
        try:
            self._callbacks.started(state.step, self.last_step or state.total_steps)
            with Interrupts(enabled=self.folder is not None) as interrupts:
                self._run(state, interrupts)
        finally:
            self._callbacks.finished()
            self._prefetcher.close()
            self._heap.release()
        self.backend.finish(self._best)
        if state.stopped and state.step < state.total_steps and self.distributed.is_main:
            self._log(
                f"training ended early: {self.config.patience} evaluations in a row were no better and had no lower "
                "loss; to wait for more: --set train.patience=N"
            )
        return state.history

    def _run(self, state: TrainingState, interrupts: Interrupts) -> None:
        while state.step < (self.last_step or state.total_steps) and not state.stopped:
            signum = self._step(state, interrupts)
            if self._pace is not None and self.last_step is not None:
                whole = self.last_step == state.total_steps  # so that its learning rate decreases to the end
                self.last_step = self._pace.total(state.step, self.last_step)
                self.total_steps = state.total_steps = self.last_step if whole else state.total_steps
            elif self._pace is not None:
                self.total_steps = state.total_steps = self._pace.total(state.step, state.total_steps)
            at_evaluation = state.step % state.eval_interval == 0 or state.step == state.total_steps
            save = signum or time.monotonic() - self._saved_at > self.config.checkpoint_seconds
            if at_evaluation or save:
                self._account(state, self.backend.last_sums())
            if at_evaluation and self.last_step is None:
                self._evaluate(state)
            self._heap.limit()
            if save:
                self._save(state)
            if signum:
                raise self._interrupted(state, signum)
        self._account(state, self.backend.last_sums())
        if self.last_step is not None:
            self._best = self.backend.weights()
        self._save(state)
        if interrupts.received:  # since the last step
            raise self._interrupted(state, interrupts.received)

    def _step(self, state: TrainingState, interrupts: Interrupts) -> int:
        """Make one optimizer step on one global batch; return the signal that was received, or 0."""
        config = self.config
        indices = self._batch(state.step)
        rate = learning_rate(config.optim, state.step, state.total_steps)
        seed = self._seed_of(state.step)
        self._unread.append((state.step, indices, rate))
        sums = self.backend.step(self._parts(indices, state.step), rate=rate, seed=seed, signum=interrupts.received)
        self._prefetcher.wait()
        state.step += 1
        self._account(state, sums)
        # All processes must stop at the same step, hence the sum; a signal to another process is torchrun's SIGTERM.
        return (interrupts.received or signal.SIGTERM) if self._signals > 0 else 0

    def _account(self, state: TrainingState, sums: StepSums | None) -> None:
        """Take the sums of the first step whose sums are not known yet; a GPU may not have finished the step."""
        if sums is None:
            return
        number, indices, rate = self._unread.pop(0)
        if not math.isfinite(sums.mean) or not math.isfinite(sums.norm):
            raise TrainingError(self._not_finite(number, indices, sums.mean, sums.norm))
        state.loss_sum += sums.loss
        state.loss_weight += sums.weight
        self._signals = sums.signum
        self._callbacks.stepped(Step(number=number + 1, loss=sums.mean, learning_rate=rate, tokens=sums.tokens))

    def _seed_of(self, step: int) -> int:
        return (self.config.seed * 1_000_003 + step * 1_009 + self.distributed.rank) % 2**63

    def _parts(self, indices: Indices, step: int) -> Iterator[StepPart]:
        """Yield the parts of a step that this process computes; the next batch begins to be made with the last one."""
        config = self.config
        ranks = self.distributed
        mine = shard(np.arange(len(indices)), ranks.rank, ranks.world)
        parts = np.array_split(mine, config.gradient_accumulation_steps)
        for number, part in enumerate(parts, 1):
            idle = len(part) == 0  # fewer examples than processes: use one with weight zero
            chosen = np.array([0]) if idle else part
            make = partial(self._targeted, indices, chosen, step)
            batch, targets, weights = self._prefetcher.take(step, make) if len(parts) == 1 else make()
            if len(parts) == 1:
                self._start_batch(step + 1)
            if idle:
                weights = np.zeros(1, np.float32)
            tokens = 0 if idle else batch.num_tokens
            yield StepPart(batch, targets, weights, tokens, last=number == len(parts))

    def _targeted(self, indices: Indices, chosen: Indices, step: int) -> Targeted:
        return self.backend.prepare(self.data.batch(indices, chosen, seed=self.config.seed, step=step))

    def _start_batch(self, step: int) -> None:
        """Begin to make the batch of the next step, if the same epoch has one."""
        if step >= (self.last_step or self.total_steps) or step % self.steps_per_epoch == 0:
            return
        indices = self._batch(step)
        mine = shard(np.arange(len(indices)), self.distributed.rank, self.distributed.world)
        if len(mine):
            make = partial(self._targeted, indices, mine, step)
            self._prefetcher.start(step, make)

    def _batch(self, step: int) -> Indices:
        epoch, number = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._batches = self.data.epoch(epoch, self.config.batch_size, seed=self.config.seed)
            self._epoch = epoch
        return self._batches[number]

    def _evaluate(self, state: TrainingState) -> None:
        config = self.config
        objective = self.data.objective
        values, val_loss = self._metrics(state.step)
        values.setdefault(objective.metric, 0.0)  # as `Metrics.value`
        metric = values[objective.metric] * (-1 if objective.less_is_better else 1)
        record = {
            "epoch": round(state.step / self.steps_per_epoch, 3),
            "step": state.step,
            "train_loss": round(state.loss_sum / max(state.loss_weight, 1e-12), 6),
            "val_loss": round(val_loss, 6),
            **{f"val_{key}": round(value, 6) for key, value in values.items()},
            "learning_rate": learning_rate(config.optim, state.step - 1, state.total_steps),
        }
        lower = all(record["val_loss"] < earlier["val_loss"] for earlier in state.history)
        state.history.append(record)
        state.loss_sum = state.loss_weight = 0.0
        better = (metric, -val_loss) > (state.best_metric, -state.best_loss)
        if better or not self._best or not config.load_best_at_end:
            state.best_metric = metric
            state.best_loss = val_loss
            state.best_step = state.step
            state.stale = 0
            self._best = self.backend.weights()
        else:
            state.stale = 0 if lower else state.stale + 1
        state.stopped = config.patience is not None and state.stale >= config.patience
        last = state.step == state.total_steps
        record["best"] = state.best_step == state.step and (config.load_best_at_end or last)
        if self.folder is not None and self.distributed.is_main:
            append(self.folder / HISTORY, json.dumps(record) + "\n")
        self._callbacks.evaluated(record)

    def _metrics(self, step: int) -> tuple[dict[str, float], float]:
        """Return the metrics and the loss on the validation data."""
        self._heap.make_room()
        try:
            values, loss = self.backend.evaluate(self.data)
        except TrainingError as error:
            raise TrainingError(f"step {step}: {error}; {self._advice()}") from None
        # Use the main process's numbers: processes that differ in the last bit must agree on the best evaluation.
        *agreed, loss = self.distributed.broadcast([*values.values(), loss])
        return dict(zip(values, agreed, strict=True)), loss

    def _plan(self) -> TrainingState:
        """Return the initial state with the number of steps: the planned epochs, or what the time budget allows."""
        config = self.config
        per_epoch = self.steps_per_epoch
        total = config.steps or per_epoch * config.planned_epochs(len(self.data))
        evaluations = config.evaluations or default_evaluations(total * config.batch_size, self.data.num_evaluated)
        if config.time_budget is not None:
            self._log(Detail("measuring how many steps the time budget allows"))
            steps, fewest = self.distributed.broadcast(self._affordable(config.time_budget, evaluations))
            total = min(total, int(steps))
            evaluations = int(fewest)
        interval = per_epoch if total >= evaluations * per_epoch else math.ceil(total / evaluations)
        return TrainingState(total_steps=total, eval_interval=interval)

    def _affordable(self, seconds: float, evaluations: int) -> tuple[int, int]:
        def evaluate() -> None:
            self._metrics(0)

        def step(number: int) -> None:
            self.backend.differentiate(self._parts(self._batch(number), number), seed=self._seed_of(number))

        return affordable(
            seconds,
            step,
            evaluate,
            steps_per_epoch=self.steps_per_epoch,
            evaluations=evaluations,
            later=self.later / max(self.data.num_evaluated, 1),
        )

    def _save(self, state: TrainingState) -> None:
        if self.folder is None:
            return
        if self.distributed.is_main:
            tensors = self.backend.state(self._best)
            values = {**state.to_values(), "fingerprint": self.fingerprint, "callbacks": self._callbacks.state_dict()}
            save_checkpoint(self.folder / CHECKPOINT, tensors, values)
        self._saved_at = time.monotonic()

    def _restore(self) -> TrainingState:
        assert self.folder is not None, "resuming needs a folder"
        tensors, values = load_checkpoint(self.folder / CHECKPOINT)
        if values.pop("fingerprint") != self.fingerprint:
            raise TrainingError(
                f"{self.folder / CHECKPOINT}: belongs to other data or another configuration; "
                "give the files and options of the interrupted run, or start over without --resume"
            )
        self._callbacks.load_state_dict(values.pop("callbacks"))
        self._best = self.backend.load(tensors)
        return TrainingState.from_values(values)

    def _write_history(self, state: TrainingState) -> None:
        """Write metrics.jsonl from the state; a killed run may have written lines after its last checkpoint."""
        if self.folder is not None and self.distributed.is_main:
            write_atomic(self.folder / HISTORY, "".join(json.dumps(record) + "\n" for record in state.history))

    def _not_finite(self, step: int, indices: Indices, loss: float, norm: float) -> str:
        epoch, number = divmod(step, self.steps_per_epoch)
        problem = f"the loss is {loss}" if not math.isfinite(loss) else f"the gradient norm is {norm} (loss {loss:.4g})"
        rows = ""
        locations = sorted(location for i in indices if (location := self.data.where(int(i))) is not None)
        if locations:
            rows = f", rows {', '.join(f'{path}:{line}' for path, line in locations[:5])}"
            rows += f" and {len(locations) - 5} more" if len(locations) > 5 else ""
        batch = f"batch {number + 1} of {self.steps_per_epoch}"
        return f"step {step} (epoch {epoch + 1}, {batch}{rows}): {problem}; {self._advice()}"

    def _advice(self) -> str:
        kept = f"; the last checkpoint in {self.folder} is intact" if self.folder is not None else ""
        return f"a lower learning rate (--set train.optim.lr=...) or train.optim.clip_norm may help{kept}"

    def _interrupted(self, state: TrainingState, signum: int) -> Interrupted:
        hint = "" if self.folder is None else f"; resume with: {self.command}"
        return Interrupted(f"interrupted at step {state.step} of {state.total_steps}{hint}", signum=signum)
