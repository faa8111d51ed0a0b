"""Calls timed beside one another on one core, in an order that is drawn anew each round: what benchmarks share."""

from __future__ import annotations

import argparse
import os
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

Calls = dict[str, Callable[[], Any]]


def arguments(doc: str, name: str) -> argparse.ArgumentParser:
    """A parser that has `--out`, by default the file of this name in results."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / f"{name}.json")
    return parser


def on_one_core(seed: int = 0) -> None:
    """Keep this process to one core and thread, and make what it draws repeatable."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    random.seed(seed)


def in_turn(calls: Calls, rounds: int, clock: Callable[[], float] = time.thread_time) -> dict[str, list[float]]:
    """Seconds of every call in every round, after one that is not counted.

    Args:
        clock: by default the thread's processor time, since a machine that does other work would add its waiting;
            `time.process_time` for calls that work in threads of their own, as backward passes do.
    """
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in random.sample(list(calls.items()), len(calls)):
            begin = clock()
            call()
            spent[name].append(clock() - begin)
    return spent


def ratio(above: list[float], below: list[float]) -> float:
    """The median of the rounds' ratios."""
    return round(statistics.median(a / b for a, b in zip(above, below, strict=True)), 2)
