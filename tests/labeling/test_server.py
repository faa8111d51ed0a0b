"""The command as a process: who may ask, what is refused, what two pages do, and that no answer is lost by a kill."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import random
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .process import Client, labeling

pytestmark = pytest.mark.slow
TOPICS = {"refund": "money back refund", "parcel": "where is my parcel", "account": "password login account"}


def write_texts(path: Path, count: int = 120) -> dict[str, str]:
    """Write texts whose label their words say; return the labels."""
    draw = random.Random(0)
    labels = {}
    for number in range(count):
        label = draw.choice([*TOPICS])
        words = [*TOPICS[label].split(), draw.choice(["please", "now", "hello"]), f"n{number}"]
        labels[" ".join(draw.sample(words, len(words)))] = label
    path.write_text("\n".join(labels))
    return labels


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.with_name(f"{file.name}.labels.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str], int]]:
    file = tmp_path_factory.mktemp("label") / "texts.txt"
    labels = write_texts(file)
    with labeling(file, "--names", ",".join(TOPICS), "--no-model") as (_, port, _address):
        yield file, labels, port


def test_pages_of_others_may_not_ask(server: tuple[Path, dict[str, str], int]) -> None:
    client = Client(server[2])
    for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        status, answer = client.ask("/api/work", {}, headers)
        assert status in (403, 421), answer
    assert client.ask("/api/work", {}, {"Origin": f"http://127.0.0.1:{server[2]}"})[0] == 200
    with urllib.request.urlopen(f"http://127.0.0.1:{server[2]}/") as response:
        policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert not re.search(r"unsafe|https?:", policy)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/api/work", b"{", 422), ("/api/work", b"[]", 422), ("/api/work", {"count": 11}, 422),
        ("/api/work", {"count": True}, 422), ("/api/work", {"lines": [1]}, 422), ("/api/work", {"text": "none"}, 422),
        ("/api/work", {"annotator": "a\nb"}, 422), ("/api/list", {"kind": "x"}, 422), ("/api/list", {"kind": []}, 422),
        ("/api/export", {"format": "xml"}, 422), ("/api/none", {}, 404), ("/", {}, 405),
        ("/api/work", b"[" * 5000, 422), ("/api/work", b" " * ((1 << 20) + 1), 413),
    ],
)  # fmt: skip
def test_bad_requests(server: tuple[Path, dict[str, str], int], path: str, body: object, status: int) -> None:
    got, answer = Client(server[2]).ask(path, body)
    assert got == status
    assert answer["detail"]


def test_lines_that_are_no_answers_are_refused_and_others_kept(server: tuple[Path, dict[str, str], int]) -> None:
    client = Client(server[2], "careless")
    text = client.work(count=1)["texts"][0]["key"]
    lines = [
        client.line("answer", text=text, label=""),
        client.line("answer", text="0" * 16, label="refund"),
        client.line("answer", text=text, label="refund"),
        client.line("undo", of="nothing"),
        client.line("model", labels=1, right=1, of=1, baseline=0) | {"what": "task"},
    ]
    saved = client.work(lines=lines)["saved"]
    assert ["refused" in item for item in saved] == [True, True, False, True, True]


def test_the_bias_of_guesses_is_measured_on_random_texts(server: tuple[Path, dict[str, str], int]) -> None:
    client = Client(server[2], "guided")
    texts = client.work(count=10)["texts"]
    lines = []
    for number, text in enumerate(texts):
        guess = "refund" if number % 4 < 2 else ["odd"]
        name = "hidden_guess" if number % 2 else "guess"
        lines.append(client.line("answer", text=text["key"], label="refund", **{name: guess}))
    found = client.work(lines=lines)["state"]["bias"]
    for name, count in found.items():
        said = [
            line[name] == "refund" for line, text in zip(lines, texts, strict=True) if name in line and text["test"]
        ]
        assert count == [sum(said), len(said)]
    assert found["guess"][1] + found["hidden_guess"][1] > 0


def test_two_pages_get_different_texts_and_lose_no_answer(server: tuple[Path, dict[str, str], int]) -> None:
    first, second = Client(server[2], "one"), Client(server[2], "one")
    texts = [client.work(page=page, count=5)["texts"] for client, page in ((first, "p"), (second, "q"))]
    keys = [{text["key"] for text in one} for one in texts]
    assert not keys[0] & keys[1]
    key = texts[0][0]["key"]
    second.numbers = iter(range(1000, 2000))  # type: ignore[assignment]
    first.work(page="p", lines=[first.line("answer", text=key, label="refund", seen="")])
    answer = second.work(page="q", lines=[second.line("answer", text=key, label="parcel", seen="")])
    assert answer["saved"][0]["between"]["label"] == "refund"  # the page says so
    said = [line["label"] for line in lines_of(server[0]) if line.get("text") == key]
    assert said == ["refund", "parcel"]


def test_others_than_this_machine_need_the_token(tmp_path: Path) -> None:
    file = tmp_path / "texts.txt"
    write_texts(file, 5)
    with labeling(file, "--no-model", "--host", "0.0.0.0") as (_, port, address):
        token = address.partition("#token=")[2]
        assert len(token) > 30
        client = Client(port)
        assert client.ask("/api/work", {})[0] == 401
        assert client.ask("/api/work", {}, {"Authorization": "Bearer " + "x" * len(token)})[0] == 401
        assert client.ask("/api/work", {}, {"Authorization": f"Bearer {token}"})[0] == 200


def test_a_hundred_answers_undo_rename_export_and_trainings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clicks of test_page.py without a browser; a model learns, is tested on random texts only, and chooses."""
    from mixling.labeling import is_test

    file = tmp_path / "texts.txt"
    labels = write_texts(file)
    (temporary := tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    with labeling(file, "--names", ",".join(TOPICS)) as (process, port, _):
        client = Client(port)
        answered = []
        for _ in range(100):
            text = client.work(count=1)["texts"][0]
            line = client.line("answer", text=text["key"], label=labels[text["text"]])
            client.work(lines=[line])
            answered.append(text["key"])
        client.work(lines=[client.line("undo", of=line["id"])])
        assert client.work(text=text["key"])["texts"][0]["last"] is None
        again = client.line("answer", text=text["key"], label=labels[text["text"]])
        client.work(lines=[again, client.line("rename", label="refund", to="money")])
        _, table = client.ask("/api/export", {"format": "csv"})
        rows = {row["text"]: row["label"] for row in csv.DictReader(table.splitlines())}
        assert len(rows) == 100
        assert rows == {text: labels[text].replace("refund", "money") for text in rows}
        end = time.monotonic() + 200  # the process of trainings lets all others of a busy machine go first
        while not (points := client.work()["state"]["points"]) or points[-1]["labels"] < 60:
            assert time.monotonic() < end, client.work()["state"]
            time.sleep(0.3)
        client.work(review=True)
        while not any(temporary.glob("mixling-*")):
            assert time.monotonic() < end
            time.sleep(0.05)
        with socket.create_connection(("127.0.0.1", port)) as half:
            head = f"POST /api/work HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 9\r\n\r\n{{"
            half.sendall(head.encode())
            process.send_signal(signal.SIGINT)  # in the midst of a training, and of a request
            _, said = process.communicate(timeout=20)
        assert process.returncode == 0, said
        assert "Traceback" not in said
    assert not [*temporary.glob("mixling-*")]
    models = [line for line in lines_of(file) if line["what"] == "model"]
    tests = sum(map(is_test, answered))
    assert 100 / 5 - 1 <= tests <= 100 / 5 + 1
    assert models[-1]["of"] <= tests
    assert models[-1]["labels"] <= 100 - tests  # none of the tests is learned
    assert models[-1]["right"] / models[-1]["of"] > 0.8 > models[-1]["baseline"] / models[-1]["of"]
    out = tmp_path / "labeled.csv"
    done = subprocess.run(
        [sys.executable, "-m", "mixling", "label", file, "--export", out], capture_output=True, text=True, check=True
    )
    assert "100 of 120 texts have labels" in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="signals of process groups")
def test_ctrl_c_while_the_process_of_trainings_begins(tmp_path: Path) -> None:
    """It reaches this process, too, which is importing its modules then."""
    file = tmp_path / "texts.txt"
    write_texts(file, 60)
    with labeling(file, start_new_session=True) as (process, _, _address):
        time.sleep(0.2)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=20)
    assert process.returncode == 0, said
    assert "Traceback" not in said


def test_annotators_share_what_overlaps(tmp_path: Path) -> None:
    file = tmp_path / "texts.txt"
    labels = write_texts(file, 60)
    with labeling(file, "--no-model", "--overlap", 50) as (_, port, _address):
        seen: dict[str, set[str]] = {}
        for name in ("ann", "bob"):
            client = Client(port, name)
            seen[name] = set()
            while texts := client.work(count=10)["texts"]:
                seen[name] |= {text["key"] for text in texts}
                client.work(lines=[
                    client.line("answer", text=text["key"], label=labels[text["text"]] if name == "ann" else "refund")
                    for text in texts
                ])  # fmt: skip
        both = seen["ann"] & seen["bob"]
        assert len(seen["ann"]) == 60
        assert seen["bob"] == both
        assert 15 <= len(both) <= 45
        state = client.work()["state"]
        assert state["agreement"]["texts"] == len(both)
        _, found = client.ask("/api/list", {"kind": "disagreements"})
        wrong = {text["key"] for text in found["texts"]}
        assert len(wrong) == sum(labels[text["text"]] != "refund" for text in found["texts"]) > 0


def test_no_answer_is_lost_by_kills(tmp_path: Path) -> None:
    """The client sends each answer until it is confirmed; the process is killed at random moments."""
    file = tmp_path / "texts.txt"
    write_texts(file, 400)
    draw = random.Random(0)
    sent: dict[str, str] = {}
    waiting: list[dict[str, Any]] = []
    client = Client(0)
    for _ in range(4):
        with labeling(file, "--no-model") as (process, port, _address):
            client.port = port
            killer = threading.Timer(draw.uniform(0.05, 0.4), process.kill)
            killer.start()
            try:
                while True:
                    answer = client.work(lines=waiting, count=3)
                    done = {item["id"] for item in answer["saved"]}
                    waiting = [line for line in waiting if line["id"] not in done]
                    for text in answer["texts"]:
                        line = client.line("answer", text=text["key"], label=draw.choice("abc"))
                        waiting.append(line)
                        sent[line["id"]] = text["key"]
            except OSError:
                pass
            killer.join()
    with labeling(file, "--no-model") as (_, port, _address):
        client.port = port
        client.work(lines=waiting)
    kept = [line["id"] for line in lines_of(file) if line["what"] == "answer"]
    assert sorted(kept) == sorted(sent)
    assert len(kept) > 30


@pytest.mark.skipif(os.name == "nt", reason="sends the signals of POSIX")
@pytest.mark.parametrize(
    ("numbers", "codes"),
    [
        ([signal.SIGTERM], {0}),
        ([signal.SIGINT], {0}),
        ([signal.SIGINT, signal.SIGINT], {0, 130, -signal.SIGINT}),
        ([signal.SIGTERM, signal.SIGTERM], {0, -signal.SIGTERM}),
        ([signal.SIGHUP], {-signal.SIGHUP}),
    ],
    ids=["TERM", "INT", "INT twice", "TERM twice", "HUP"],
)
def test_a_signal_while_it_answers_and_trains_ends_it_in_silence_and_loses_nothing(
    tmp_path: Path, numbers: list[int], codes: set[int]
) -> None:
    """Signals of a terminal reach the process of trainings, too."""
    file = tmp_path / "texts.txt"
    labels = write_texts(file, 120)
    confirmed: set[str] = set()
    with labeling(file, start_new_session=True) as (process, port, _address):
        client = Client(port)

        def end() -> None:
            with contextlib.suppress(ProcessLookupError):
                for number in numbers:
                    os.killpg(process.pid, number)
                    time.sleep(0.1)

        threading.Timer(1.5, end).start()
        waiting: list[dict[str, Any]] = []
        with contextlib.suppress(OSError):
            while True:
                status, answer = client.ask("/api/work", {"annotator": "ann", "lines": waiting, "count": 3})
                if status != 200:
                    break
                confirmed |= {item["id"] for item in answer["saved"]}
                texts = answer["texts"]
                waiting = [client.line("answer", text=one["key"], label=labels[one["text"]]) for one in texts]
                time.sleep(0 if texts else 0.02)
        _, said = process.communicate(timeout=30)
    assert process.returncode in codes, said
    assert "Traceback" not in said
    kept = [line["id"] for line in lines_of(file) if line["what"] == "answer"]
    assert len(kept) == len(set(kept))
    assert confirmed <= set(kept)
    assert confirmed


@pytest.mark.skipif(os.name == "nt", reason="limits of processes")
def test_a_full_disk_says_so_and_the_answer_can_be_sent_again(tmp_path: Path) -> None:
    file = tmp_path / "texts.txt"
    write_texts(file, 20)
    with labeling(file, "--no-model") as (process, port, _address):
        client = Client(port)
        texts = client.work(count=6)["texts"]
        lines = [client.line("answer", text=text["key"], label="a") for text in texts]
        client.work(lines=lines[:2])
        size = file.with_name("texts.txt.labels.jsonl").stat().st_size
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size + 250, resource.RLIM_INFINITY))
        status, answer = client.ask("/api/work", {"lines": lines[2:], "annotator": "ann"})
        assert status == 507
        assert "could not be written" in answer["detail"]
        saved = {item["id"] for item in answer["saved"]}
        assert saved == {line["id"] for line in lines_of(file)[3:]} != {line["id"] for line in lines[2:]}
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        client.work(lines=lines[2:])
    assert [line["id"] for line in lines_of(file) if line["what"] == "answer"] == [line["id"] for line in lines]


def test_a_third_person_decides_where_annotators_differ(tmp_path: Path) -> None:
    file = tmp_path / "texts.txt"
    labels = write_texts(file, 12)
    with labeling(file, "--no-model", "--overlap", 100) as (process, port, _address):
        for name in ("ann", "bob"):
            client = Client(port, name)
            while texts := client.work(count=10)["texts"]:
                client.work(lines=[
                    client.line("answer", text=text["key"], label=labels[text["text"]] if name == "ann" else "refund")
                    for text in texts
                ])  # fmt: skip
        wrong = {text for text, label in labels.items() if label != "refund"}
        judge = Client(port, "judge")
        texts = judge.work(count=10, decide=True)["texts"]
        assert {text["text"] for text in texts} <= wrong
        assert all(text["answers"] == {"ann": labels[text["text"]], "bob": "refund"} for text in texts)
        before = judge.work()["state"]["agreement"]
        assert before["differing"] == before["undecided"] == len(wrong)
        passed = [text["key"] for text in texts]
        others = judge.work(count=10, decide=True, passed=passed)["texts"]
        assert {text["text"] for text in others} == wrong - {text["text"] for text in texts}
        lines = [judge.line("decide", text=text["key"], label="parcel") for text in texts[:2]]
        state = judge.work(lines=lines)["state"]
        assert state["agreement"] == {**before, "undecided": len(wrong) - 2}  # a decision is no annotator's answer
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    decided = {text["text"] for text in texts[:2]}
    command = [sys.executable, "-m", "mixling", "label", file, "--export"]
    for options in ((), ("--agreed",)):
        out = tmp_path / f"out{len(options)}.jsonl"
        done = subprocess.run([*command, out, *options], capture_output=True, text=True, check=True)
        assert "Krippendorff's alpha" in done.stderr
        assert f"on {len(wrong) - 2} of them annotators differ, and nobody decided" in done.stderr
        rows = {row["text"]: row["label"] for row in map(json.loads, out.read_text().splitlines())}
        expected = labels if not options else dict.fromkeys(labels.keys() - wrong, "refund")
        assert rows == {**expected, **dict.fromkeys(decided, "parcel")}


def test_a_line_that_was_cut_off_is_named(tmp_path: Path) -> None:
    file = tmp_path / "texts.txt"
    write_texts(file, 5)
    with labeling(file, "--no-model") as (_, port, _address):
        client = Client(port)
        client.work(lines=[client.line("answer", text=client.work(count=1)["texts"][0]["key"], label="a")])
    record = file.with_name("texts.txt.labels.jsonl")
    record.write_bytes(record.read_bytes() + b'{"what": "answer", "te')
    command = [sys.executable, "-m", "mixling", "label", file, "--export", tmp_path / "out.csv"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert 'its last line was cut off, and is dropped: \'{"what": "answer", "te\'' in done.stderr
    assert "cut off" not in subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert [line["what"] for line in lines_of(file)] == ["task", "answer"]
