"""A predictor in other processes: forked while it answers, pickled, copied, sent to `spawn` and to joblib."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mixling import DataError, Prediction, Predictor, TextConfig, TextEncoder

GOLDEN = Path(__file__).parents[1] / "golden" / "model-v1.onnx"
TEXT = "what a film"


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    return Predictor(GOLDEN, num_threads=2)


def pickled(predictor: Predictor) -> Predictor:
    return pickle.loads(pickle.dumps(predictor))


def answer(predictor: Predictor) -> Prediction:
    return predictor.predict_one(TEXT)


@pytest.mark.parametrize("copied", [pickled, copy.copy, copy.deepcopy])
def test_a_copy_gives_the_same_answers(predictor: Predictor, copied: Callable[[Predictor], Predictor]) -> None:
    expected = answer(predictor)
    twin = copied(predictor)
    assert answer(twin) == expected
    assert twin.metadata == predictor.metadata
    assert twin.labels == predictor.labels
    assert (twin.encoder is predictor.encoder) == (copied is copy.copy)


def test_a_pickle_keeps_threads_and_shared_encoders() -> None:
    first = Predictor(GOLDEN, num_threads=2)
    short = TextEncoder(first.text_config.model_copy(update={"max_len": 2}), first.encoder.vocabulary)
    second, third = Predictor(GOLDEN, encoder=short), Predictor(GOLDEN, encoder=short)
    encoded = second.tokenize([TEXT])
    assert len(encoded[0].words) == 2 < len(first.tokenize([TEXT])[0].words)
    one, two, three = pickle.loads(pickle.dumps((first, second, third)))
    assert two.encoder is three.encoder is not one.encoder
    assert [answer(item) for item in (one, two, three)] == [answer(item) for item in (first, second, third)]
    assert [item._inference.network.model.engine.num_threads for item in (one, two)] == [2, 1]
    with pytest.raises(DataError, match="encode them again"):  # rows of another table
        two.logits(encoded)


def test_a_pickle_holds_the_file_and_not_the_words_met() -> None:
    predictor = Predictor(GOLDEN)
    before = len(pickle.dumps(predictor))
    predictor.predict(" ".join(f"w{i}" for i in range(16)))
    assert len(pickle.dumps(predictor)) == before < GOLDEN.stat().st_size + 4096


def test_a_table_that_is_kept_is_pickled_whole() -> None:
    predictor = Predictor(GOLDEN)
    encoder = TextEncoder(TextConfig(), predictor.encoder.vocabulary, keep=True)
    encoder.encode([TEXT])
    assert pickle.loads(pickle.dumps(encoder)).table_words() == encoder.table_words() == TEXT.split()


@pytest.mark.slow
def test_a_pool_of_new_processes_answers(predictor: Predictor) -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(answer, [predictor]) == [answer(predictor)]


def test_joblib_answers(predictor: Predictor) -> None:
    joblib = pytest.importorskip("joblib")
    assert (
        joblib.Parallel(n_jobs=2)(joblib.delayed(answer)(item) for item in [predictor] * 2) == [answer(predictor)] * 2
    )


FORKS = """
import os, signal, sys, threading, time
from mixling.errors import DataError
from mixling import Predictor

predictor = Predictor(sys.argv[1], num_threads=int(sys.argv[2]))
expected = predictor.predict_one("what a film")
ended = threading.Event()

def ask(number):
    i = 0
    while not ended.is_set():  # new words all the time: the table and the rows grow
        predictor.predict([f"word{number}x{i} film", "what a film"])
        i += 1

threads = [threading.Thread(target=ask, args=(n,)) for n in range(4)]
for thread in threads:
    thread.start()
answers = 0
for _ in range(int(sys.argv[3])):
    child = os.fork()
    if not child:
        signal.alarm(20)  # ends a process that waits for ever
        found = predictor.predict_one("what a film")
        sound = abs(found.probabilities["good"] - expected.probabilities["good"]) < 1e-5
        ok = sound and predictor.predict("quite other words").label
        if sys.argv[2] == "2":
            sys.exit(0 if ok else 1)  # the usual end, at which sessions end
        os._exit(0 if ok else 1)
    answers += os.waitpid(child, 0)[1] == 0
ended.set()
for thread in threads:
    thread.join()
print(answers)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.parametrize("num_threads", [1, 2])
def test_a_process_forked_while_threads_predict_answers(num_threads: int) -> None:
    command = [sys.executable, "-c", FORKS, str(GOLDEN), str(num_threads), "4"]
    out = subprocess.run(command, capture_output=True, text=True, timeout=150)
    assert (out.returncode, out.stdout, out.stderr) == (0, "4\n", "")


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted by Linux' own files")
def test_nothing_but_the_caller_runs_after_the_import() -> None:
    """ONNX Runtime's thread that sends usage data would keep a forked process from ending."""
    code = (
        "import os, sys, mixling; mixling.Predictor(sys.argv[1]); assert 'onnxruntime' in sys.modules; "
        "print(len(os.listdir('/proc/self/task')), os.environ['ORT_DISABLE_TELEMETRY'])"
    )
    command = [sys.executable, "-c", code, str(GOLDEN)]  # of a version that the native engine leaves to ONNX Runtime
    environment = {key: value for key, value in os.environ.items() if key != "ORT_DISABLE_TELEMETRY"}
    environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    out = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert out.stdout == "1 1\n", out.stderr
    chosen = {**environment, "ORT_DISABLE_TELEMETRY": "0"}
    out = subprocess.run(command, capture_output=True, text=True, env=chosen, timeout=60)
    assert out.stdout.endswith(" 0\n"), "the user's choice stays"


WATCHED = """
import os, sys
found = []
sent = ("socket.connect", "socket.bind", "socket.sendto", "subprocess.", "os.exec", "os.fork", "os.posix_spawn")
def watch(event, arguments):
    if event.startswith(sent):
        found.append(event)
    elif event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        found.append(f"{event} {arguments[0]}")
sys.addaudithook(watch)
from mixling import Predictor
for path in sys.argv[1:]:
    Predictor(path).predict(["what a great film", "<b>", ""])
    Predictor(path).explain("a film")
print(found)
"""


def test_nothing_is_written_or_sent() -> None:
    """Of the import, opening, answers and explanations, with either engine."""
    models = [GOLDEN, Path(__file__).parents[1] / "serving" / "models" / "intents.onnx"]
    command = [sys.executable, "-B", "-c", WATCHED, *map(str, models)]
    out = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert out.stdout == "[]\n", out.stderr
