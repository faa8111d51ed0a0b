"""When predictions are computed: at once, in a batch of what has arrived, or on the one worker thread.

HTTP costs more than these models, and a thread for each request four times as much as a prediction in the event loop.
So requests that take about a millisecond are computed in the loop. The native engine computes each of them at once. For
ONNX Runtime, what has arrived when the loop turns is one batch: without a timer, an idle server answers without delay,
and a busy one with less work. Larger requests take turns on one thread, in small parts, so that the loop is never held
up for long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import TypeVar

from mixling.answers.predictions import Prediction
from mixling.runtime.predictor import Predictor
from mixling.serving.problems import Problem, overloaded
from mixling.text.encoder import Text

LOOP_TEXTS = 64
LOOP_CHARS = 16_384
LOOP_QUESTION_CHARS = 1_000
_PART_CHARS = 16_384  # of a large request, computed without a pause

_ALWAYS = 32  # requests that are answered however slow they are: a machine that pauses must not refuse everything
_RECENT = 0.2  # weight of the latest large request in the mean of seconds per text

_T = TypeVar("_T")
_Future = asyncio.Future[list[Prediction]]


class Line:
    """Requests that have arrived, in the order in which the event loop answers them.

    When more requests arrive than can be answered, those that have waited for long are refused, which costs less than
    an answer and keeps the wait of the others short. The wait is measured, not the length of the line, because the cost
    of an answer depends on model, texts and machine.

    Args:
        max_wait: seconds after which requests are refused.
    """

    def __init__(self, max_wait: float) -> None:
        self._max_wait = max_wait
        self._left = 0

    def enter(self) -> tuple[float, int]:
        """Return the ticket of a request that is complete: when it arrived, and how many had been answered by then."""
        return perf_counter(), self._left

    def leave(self, ticket: tuple[float, int] | None) -> None:
        """Take a request whose turn it is out of the line.

        Raises:
            Problem: it has waited for too long, behind too many others (503).
        """
        self._left += 1
        if ticket is None or self._left - ticket[1] <= _ALWAYS:
            return
        waited = perf_counter() - ticket[0]
        if waited > self._max_wait:
            raise overloaded(f"the request has waited for {1e3 * waited:.0f} ms; send it again later")


class Scheduler:
    """Computes predictions within the limits of a server.

    Args:
        queue: texts that may wait, of small requests and of large ones; a single request may have more.
        timeout: seconds that a request may take.
        on_batch: called with the number of texts of each batch that is computed in the loop.
    """

    def __init__(self, *, queue: int, timeout: float, on_batch: Callable[[int], None] = lambda size: None) -> None:
        self._queue = queue
        self._timeout = timeout
        self._on_batch = on_batch
        self._arrived: dict[Predictor, list[tuple[Sequence[Text], _Future]]] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="mixling-predict")
        self._in_batches = self._in_large = 0  # texts that wait; large requests leave room for small ones
        # Of large requests: the seconds that a text of each kind takes, lately, and that those that wait may take.
        self._seconds_per_text: dict[str, float] = {}
        self._expected = 0.0

    @property
    def waiting(self) -> int:
        """Texts that wait for a prediction."""
        return self._in_batches + self._in_large

    async def predict(self, predictor: Predictor, texts: Sequence[Text]) -> list[Prediction]:
        """Return a prediction for each text.

        Raises:
            Problem: too many texts are waiting (503), or the prediction took too long (504).
            UserError: the model cannot predict for the texts.
        """
        if not _is_small(predictor, texts):
            return await self.large(len(texts), [_part(predictor, part) for part in _parts(texts)])
        if predictor.engine.startswith("native"):
            self._on_batch(len(texts))
            return list(predictor.predict_stream(texts)) if len(texts) > 1 else [predictor.predict_one(texts[0])]
        self._check_queue(self._in_batches, len(texts))
        self._in_batches += len(texts)
        loop = asyncio.get_running_loop()
        future: _Future = loop.create_future()
        if not self._arrived:
            loop.call_soon(self._run_batches)
        self._arrived.setdefault(predictor, []).append((texts, future))
        try:
            return await future
        finally:
            self._in_batches -= len(texts)

    async def large(self, size: int, parts: Sequence[Callable[[], list[_T]]], *, kind: str = "prediction") -> list[_T]:
        """Return the results of functions that take longer, called one after the other on the worker thread.

        Args:
            size: number of texts that they are for.
            kind: the kind of work, which the estimate of its time is made by.

        Raises:
            Problem: too many texts are waiting, or for too long (503), or this took too long (504).
        """
        self._check_queue(self._in_large, size)
        if (wait := self._expected) > self._timeout:
            raise overloaded(f"the texts that are waiting take about {wait:.0f} s; send the request again later", wait)
        expected = size * self._seconds_per_text.get(kind, 0.0)
        self._in_large += size
        self._expected += expected
        stopped = False

        def run() -> list[_T]:
            begin = perf_counter()
            out: list[_T] = []
            for part in parts:
                if stopped:
                    break
                out += part()
            else:
                latest = (perf_counter() - begin) / size
                mean = self._seconds_per_text.get(kind, 0.0)
                self._seconds_per_text[kind] = mean + _RECENT * (latest - mean)
            return out

        job = asyncio.get_running_loop().run_in_executor(self._thread, run)
        job.add_done_callback(lambda done: self._leave(done, size, expected))
        try:
            async with asyncio.timeout(self._timeout):
                return await asyncio.shield(job)
        except TimeoutError:
            raise Problem(504, f"there was no answer after {self._timeout:g} s; send fewer or shorter texts") from None
        finally:
            stopped = True

    def close(self) -> None:
        """Stop the worker thread; work not yet begun is dropped."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def ends(self, *, within: float) -> bool:
        """Return whether the worker thread, once stopped, ends within the time in seconds."""
        for thread in self._thread._threads:
            thread.join(within)
        return not any(thread.is_alive() for thread in self._thread._threads)

    def _check_queue(self, waiting: int, size: int) -> None:
        if waiting and waiting + size > self._queue:
            raise overloaded(f"{waiting:,} texts are waiting; send the request again later")

    def _leave(self, done: asyncio.Future[list[_T]], size: int, expected: float) -> None:
        self._in_large -= size
        self._expected = max(self._expected - expected, 0.0) if self._in_large else 0.0
        if not done.cancelled():
            done.exception()  # whoever waited for it may have gone

    def _run_batches(self) -> None:
        arrived = self._arrived
        self._arrived = {}
        for predictor, requests in arrived.items():
            batch: list[tuple[Sequence[Text], _Future]] = []
            size = 0
            for request in requests:
                if size + len(request[0]) > LOOP_TEXTS:
                    self._run(predictor, batch, size)
                    batch = []
                    size = 0
                batch.append(request)
                size += len(request[0])
            self._run(predictor, batch, size)

    def _run(self, predictor: Predictor, batch: list[tuple[Sequence[Text], _Future]], size: int) -> None:
        """Predict for several requests together; an error reaches only the request that causes it."""
        self._on_batch(size)
        try:
            if size == 1:
                found = [predictor.predict_one(batch[0][0][0])]
            else:
                found = list(predictor.predict_stream([text for texts, _ in batch for text in texts]))
        except Exception as error:
            if len(batch) > 1:
                for request in batch:
                    self._run(predictor, [request], len(request[0]))
            elif not batch[0][1].done():
                batch[0][1].set_exception(error)
            return
        first = 0
        for texts, future in batch:
            if not future.done():  # its client is still there
                future.set_result(found[first : first + len(texts)])
            first += len(texts)


def _is_small(predictor: Predictor, texts: Sequence[Text]) -> bool:
    limit = LOOP_QUESTION_CHARS if predictor.task.windows else LOOP_CHARS
    if len(texts) == 1 and isinstance(texts[0], str):
        return len(texts[0]) <= limit
    return len(texts) <= LOOP_TEXTS and sum(map(num_chars, texts)) <= limit


def num_chars(text: Text) -> int:
    """Return about how many characters a text has, and at least 1."""
    return 1 + (len(text) if isinstance(text, str) else sum(map(len, text)))


def _parts(texts: Sequence[Text]) -> list[Sequence[Text]]:
    """Cut the texts of a large request into parts that take about a millisecond."""
    parts: list[Sequence[Text]] = []
    first = size = 0
    for index, text in enumerate(texts):
        chars = num_chars(text)
        if index > first and (size + chars > _PART_CHARS or index - first == LOOP_TEXTS):
            parts.append(texts[first:index])
            first = index
            size = 0
        size += chars
    return [*parts, texts[first:]]


def _part(predictor: Predictor, texts: Sequence[Text]) -> Callable[[], list[Prediction]]:
    return lambda: list(predictor.predict_stream(texts))
