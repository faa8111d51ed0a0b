"""Atomic writing: what fails leaves the old file, no leftovers, and an error that names the path."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mixling import ModelFileError, storage
from mixling.artifacts.seen_rows import read_seen
from mixling.errors import StorageError
from mixling.folders import move, remove, remove_folder, sync_folder
from mixling.opening import read_limited, read_regular
from mixling.storage import (
    append,
    check_sha256,
    link,
    locked,
    parse_json,
    read_json,
    remove_leftovers,
    sha256_of,
    write_atomic,
    write_json,
    write_sealed,
)
from mixling.training.checkpoint import load_checkpoint

DISK_FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def failing(*args: Any, **kwargs: Any) -> Any:
    raise DISK_FULL


def no_space_for_content(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any, **kwargs: Any) -> Any:
        with open(*args, **kwargs):
            return open("/dev/full", "wb", buffering=0)

    monkeypatch.setattr(storage, "open", full, raising=False)


def no_space_at(name: str) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda monkeypatch: monkeypatch.setattr(storage.os, name, failing)


@pytest.mark.parametrize(
    "spoil", [no_space_for_content, no_space_at("fsync"), no_space_at("replace")], ids=["write", "fsync", "rename"]
)
def test_a_full_disk_is_reported_and_the_old_file_still_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[pytest.MonkeyPatch], None]
) -> None:
    path = tmp_path / "model.bin"
    write_atomic(path, b"old")
    spoil(monkeypatch)
    with pytest.raises(StorageError, match="No space left on device; the file of that name is unchanged") as caught:
        write_atomic(path, b"new" * 1000)
    assert str(caught.value).startswith(f"{path}: ")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["model.bin"]


def test_a_folder_that_cannot_be_flushed_has_the_new_file_and_the_error_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, fsync = tmp_path / "model.bin", os.fsync
    write_atomic(path, b"old")

    def fails_of_folders(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise DISK_FULL
        fsync(descriptor)

    monkeypatch.setattr(storage.os, "fsync", fails_of_folders)
    with pytest.raises(StorageError, match="No space left on device; its new content is in place") as caught:
        write_atomic(path, b"new")
    assert "unchanged" not in str(caught.value)
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["model.bin"]


def test_the_file_is_on_the_disk_before_it_takes_the_name_and_the_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = []
    fsync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else os.fstat(descriptor).st_size)
        fsync(descriptor)

    def replaced(source: str, target: str, **folders: int) -> None:
        done.append("rename")
        replace(source, target, **folders)

    monkeypatch.setattr(storage.os, "fsync", synced)
    monkeypatch.setattr(storage.os, "replace", replaced)
    write_atomic(tmp_path / "a", b"12345")
    assert done == [5, "rename", "folder"]


def test_bytes_and_text_are_written_and_folders_made(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a" / "b" / "c.txt", "héllo\n")
    assert (tmp_path / "a" / "b" / "c.txt").read_bytes() == "héllo\n".encode()
    write_atomic(tmp_path / "a" / "b" / "c.txt", b"\x00\xff")
    assert (tmp_path / "a" / "b" / "c.txt").read_bytes() == b"\x00\xff"


def test_text_that_is_not_unicode_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(UnicodeEncodeError):
        write_atomic(tmp_path / "a", "\ud800")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_the_permissions_are_those_of_any_new_file(tmp_path: Path, mask: int) -> None:
    old = os.umask(mask)
    try:
        write_atomic(tmp_path / "a", b"")
        assert os.umask(mask) == mask, "the process's mask was not restored"
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o666 & ~mask


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="needs a user whom permissions bind")
def test_a_folder_without_permission_is_reported(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(StorageError, match="Permission denied"):
            write_atomic(tmp_path / "a", b"")
    finally:
        tmp_path.chmod(0o700)


def test_a_file_where_a_folder_should_be_is_reported(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(StorageError, match="run/a: could not be written"):
        write_atomic(tmp_path / "run" / "a", b"")


def test_json_is_indented_utf8_and_has_numbers_only(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"é": [1, None]})
    assert (tmp_path / "a.json").read_text("utf-8") == '{\n  "é": [\n    1,\n    null\n  ]\n}\n'
    with pytest.raises(ValueError, match="Out of range float"):
        write_json(tmp_path / "a.json", {"x": float("nan")})
    assert "é" in (tmp_path / "a.json").read_text("utf-8")


def test_leftovers_of_a_killed_process_are_removed_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {"model.bin", ".env.template", ".gitignore", ".hidden.abcdefgh"}
    for name in kept:
        (tmp_path / name).write_text("")
    monkeypatch.setattr(storage.os, "replace", failing)
    monkeypatch.setattr(storage.os, "unlink", failing)  # as if the process were gone
    with pytest.raises(StorageError):
        write_atomic(tmp_path / "model.bin", b"new")
    monkeypatch.undo()
    assert len(os.listdir(tmp_path)) == len(kept) + 1
    remove_leftovers(tmp_path)
    assert set(os.listdir(tmp_path)) == kept


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_written_into_and_stays(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", str(tmp_path / "pipe")], stdout=subprocess.PIPE)
    write_atomic(tmp_path / "pipe", b"content")
    assert reader.communicate(timeout=10)[0] == b"content"
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert os.listdir(tmp_path) == ["pipe"]


# Devices are named where no file can be made, so that a bug could not replace one.
@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs terminals")
def test_a_device_is_written_into() -> None:
    reader, writer = os.openpty()
    try:
        write_atomic(os.ttyname(writer), b"content")
        assert os.read(reader, 100) == b"content"
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.skipif(not os.path.exists("/dev/full") or not os.path.exists("/proc/self/fd"), reason="needs /dev/full")
def test_a_device_that_takes_nothing_is_reported() -> None:
    with open("/dev/full", "wb") as full:
        path = f"/proc/self/fd/{full.fileno()}"
        with pytest.raises(StorageError, match=f"{path}: could not be written: No space left on device$"):
            write_atomic(path, b"content")


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs /proc/self/fd")
def test_standard_output_by_name_adds_to_the_file_that_a_shell_opened(tmp_path: Path) -> None:
    code = "from mixling.storage import write_atomic; write_atomic('/proc/self/fd/1', 'new')"  # as /dev/stdout is
    (tmp_path / "out").write_text("old\n")
    inode = (tmp_path / "out").stat().st_ino
    with (tmp_path / "out").open("ab") as file:
        subprocess.run([sys.executable, "-c", code], stdout=file, check=True)
    assert (tmp_path / "out").read_text() == "old\nnew"
    assert (tmp_path / "out").stat().st_ino == inode


@pytest.mark.parametrize("there", [True, False], ids=["a file", "nothing yet"])
def test_a_symbolic_link_is_replaced_and_its_target_is_unchanged(tmp_path: Path, there: bool) -> None:
    (tmp_path / "data").mkdir()
    if there:
        (tmp_path / "data" / "real").write_text("old")
    (tmp_path / "link").symlink_to(Path("data") / "real")
    write_atomic(tmp_path / "link", "new")
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "link").read_text() == "new"
    assert os.listdir(tmp_path / "data") == (["real"] if there else [])
    assert not there or (tmp_path / "data" / "real").read_text() == "old"


def test_nothing_of_a_locked_folder_is_written_through_a_link(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("old")
    folder = tmp_path / "run"
    folder.mkdir()
    for name in (".lock.json", "metrics.jsonl"):
        (folder / name).symlink_to(elsewhere / "precious")
    (folder / "refit").symlink_to(elsewhere)
    with locked(folder):
        assert not (folder / ".lock.json").is_symlink()
        with pytest.raises(StorageError, match="symbolic link"):
            append(folder / "metrics.jsonl", "x")
        with pytest.raises(StorageError, match=r"metrics.jsonl: could not be written|symbolic link"):
            append(folder / "refit" / "precious", "x")
        with pytest.raises(StorageError, match="refit: is a symbolic link"):
            write_atomic(folder / "refit" / "precious", "x")
        with pytest.raises(StorageError, match="refit: is a symbolic link"), locked(folder / "refit"):
            pass
    assert os.listdir(elsewhere) == ["precious"]
    assert (elsewhere / "precious").read_text() == "old"
    write_atomic(folder / "refit" / "precious", "new")  # of a folder that is not locked, the way is the user's


WRITES: dict[str, Callable[[Path], object]] = {
    "a file": lambda inner: write_atomic(inner / "a", "new"),
    "a file in a new folder": lambda inner: write_atomic(inner / "new" / "a", "new"),
    "a line": lambda inner: append(inner / "precious", "new"),
    "removed": lambda inner: remove(inner / "precious"),
    "a folder removed": lambda inner: remove_folder(inner / "tree"),
    "moved away": lambda inner: move(inner / "precious", inner.parent / "a"),
    "moved here": lambda inner: move(inner.parent / "mine", inner / "precious"),
    "linked here": lambda inner: link(inner.parent / "mine", inner / "a"),
}


@pytest.mark.skipif(os.name == "nt", reason="there are no descriptors of folders")
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("when", ["before the folder is opened", "before the file is"])
def test_a_folder_that_is_swapped_for_a_link_while_a_file_is_written_leads_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], object], when: str
) -> None:
    elsewhere, run = tmp_path / "elsewhere", tmp_path / "run"
    for folder in (elsewhere, run / "inner"):
        (folder / "tree").mkdir(parents=True)
        for name in ("precious", "tree/precious"):
            (folder / name).write_text("precious")
    (run / "mine").write_text("mine")
    opened = os.open

    def swap() -> None:
        if not (run / "inner").is_symlink():
            (run / "inner").rename(run / "away")
            (run / "inner").symlink_to(elsewhere)

    def swapping(path: Any, *arguments: Any, **options: Any) -> int:
        if path == "inner" and when == "before the folder is opened":
            swap()
        descriptor = opened(path, *arguments, **options)
        if path == "inner":
            swap()
        return descriptor

    with locked(run):
        monkeypatch.setattr(os, "open", swapping)
        with contextlib.suppress(StorageError):
            write(run / "inner")
        monkeypatch.undo()
        assert (run / "inner").is_symlink()  # it was swapped
    assert sorted(path.name for path in elsewhere.rglob("*")) == ["precious", "precious", "tree"]
    assert {path.read_text() for path in elsewhere.rglob("precious")} == {"precious"}


def test_text_is_added_and_files_are_removed_with_problems_reported(tmp_path: Path) -> None:
    append(tmp_path / "a", "é\n")
    append(tmp_path / "a", "b\n")
    assert (tmp_path / "a").read_bytes() == "é\nb\n".encode()
    with pytest.raises(StorageError, match="gone/a: could not be written: No such file or directory"):
        append(tmp_path / "gone" / "a", "b\n")
    remove(tmp_path / "a")
    remove(tmp_path / "a")
    assert os.listdir(tmp_path) == []
    with pytest.raises(StorageError, match="could not be removed"):
        remove(tmp_path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"[" * 500_000, "nested too deeply"),
        (b"[]", "not a JSON object"),
        (b"null", "not a JSON object"),
        (b'{"a": ' + b"9" * 5000 + b"}", "is damaged"),
        (b'{"a": "\xff"}', "is damaged"),
        (b'{"a": 1', "is damaged"),
    ],
)
def test_a_damaged_json_file_is_one_error_that_names_it(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=reason) as error:
        read_json(path)
    assert str(error.value).startswith(f"{path}: ")


def test_json_is_read_from_regular_files_of_a_bounded_size_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "missing.json")
    with pytest.raises(ModelFileError, match="regular"):
        read_json(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="regular"):
        read_json(tmp_path / "pipe")
    write_sealed(tmp_path / "large.json", {"a": "b" * 100})
    monkeypatch.setattr(storage, "MAX_JSON", 100)
    with pytest.raises(ModelFileError, match="allowed: up to 100"):
        read_json(tmp_path / "large.json")


@pytest.mark.slow
def test_a_sealed_file_reads_as_what_was_written_and_refuses_every_flip(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    value = {"accuracy": 1e-05, "labels": ["é", "\x1f", "a\\"], "sha256": "a" * 64, "empty": {}}
    write_sealed(path, {key: value[key] for key in value if key != "sha256"})
    assert read_json(path) == {"format_version": 2, **{key: value[key] for key in value if key != "sha256"}}
    sealed = path.read_bytes()
    rest, _, seal = sealed.rpartition(b',\n  "sha256": "')
    assert seal == hashlib.sha256(rest).hexdigest().encode() + b'"\n}\n'
    for location in range(8 * len(sealed)):
        path.write_bytes(
            sealed[: location // 8] + bytes([sealed[location // 8] ^ 1 << location % 8]) + sealed[location // 8 + 1 :]
        )
        with pytest.raises(ModelFileError, match=r"run\.json: (is damaged|does not match|has format)"):
            read_json(path)


def test_an_edited_file_is_refused_and_one_of_format_1_has_no_checksum(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write_sealed(path, {"finished": False})
    path.write_text(path.read_text().replace("false", "true"))
    with pytest.raises(ModelFileError, match="is damaged or was edited"):
        read_json(path)
    for old in ({"format_version": 1, "a": 2}, {"a": 2}):
        write_json(path, old)
        assert read_json(path) == old
    write_json(path, {"format_version": 3})
    with pytest.raises(ModelFileError, match="format '3'; this version of mixling reads 2"):
        read_json(path)


def test_a_file_is_what_was_recorded_of_it(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"abc")
    check_sha256(path, hashlib.sha256(b"abc").hexdigest())
    check_sha256(path, None)
    with pytest.raises(ModelFileError, match="does not match its checksum"):
        check_sha256(path, hashlib.sha256(b"abd").hexdigest())
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="not a regular file"):
        check_sha256(tmp_path / "pipe", None)
    with pytest.raises(ModelFileError, match="No such file"):
        check_sha256(tmp_path / "missing", None)


@pytest.mark.parametrize(
    ("size", "fits"), [(0, True), (99, True), (100, True), (101, False), (102, False), (5000, False)]
)
def test_a_file_is_read_up_to_its_limit_and_refused_above(tmp_path: Path, size: int, fits: bool) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x" * size)
    if fits:
        assert read_limited(path, 100) == b"x" * size
    else:
        with pytest.raises(OSError, match="has more than 100 bytes"):
            read_limited(path, 100)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
@pytest.mark.parametrize(
    "read",
    [read_json, sha256_of, load_checkpoint, lambda path: read_seen(path.parent), lambda path: append(path, "a line")],
)
def test_nobody_waits_for_the_other_end_of_a_pipe_in_the_place_of_a_file(read: Any, tmp_path: Path) -> None:
    path = tmp_path / "seen_rows.bin"
    os.mkfifo(path)
    found: list[str] = []

    def attempt() -> None:
        with pytest.raises((ModelFileError, StorageError, OSError), match=r"not a regular file|No such device"):
            read(path)
        found.append("refused")

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(10)
    assert found == ["refused"]


@pytest.mark.parametrize("content", ["[" + "[]," * 2_000_001 + "[]]", '{"a":' + "[{}" + ",{}" * 2_000_000 + "]}"])
def test_json_of_very_many_values_is_refused_before_it_is_parsed(content: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(ModelFileError, match=r"is damaged: has some 4,000,0\d\d values; allowed: up to 4,000,000"):
        read_json(tmp_path / "run.json")
    assert parse_json('{"a": [1, "[[[,,,"]}') == {"a": [1, "[[[,,,"]}
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json("[" * 100_000)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_pipes_and_links_that_were_planted_in_a_folder_are_replaced(tmp_path: Path) -> None:
    folder, precious = tmp_path / "run", tmp_path / "precious"
    for path in (folder, precious):
        path.mkdir()
    (precious / "a").write_text("precious")
    (folder / "linked").symlink_to(precious)
    for name in (".lock.json", "a"):
        os.mkfifo(folder / name)

    def attempt() -> None:
        with locked(folder):
            assert parse_json((folder / ".lock.json").read_bytes())["pid"] == os.getpid()
            write_atomic(folder / "a", "written")
            with pytest.raises(StorageError, match="is a symbolic link"):
                remove(folder / "linked" / "a")

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    assert (folder / "a").read_text() == "written"
    assert (precious / "a").read_text() == "precious"


def test_no_more_memory_is_taken_than_a_file_has(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"content")
    tracemalloc.start()
    assert read_regular(tmp_path / "small", 1 << 30) == b"content"
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    with pytest.raises(OSError, match="allowed: up to 6"):
        read_regular(tmp_path / "small", 6)


@pytest.mark.skipif(os.name == "nt", reason="folders cannot be flushed there")
def test_the_names_in_a_folder_are_flushed_to_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[bool] = []
    monkeypatch.setattr(os, "fsync", lambda file: flushed.append(os.path.samestat(os.fstat(file), tmp_path.stat())))
    sync_folder(tmp_path)
    assert flushed == [True]


@pytest.mark.skipif(os.name == "nt", reason="has other permissions")
def test_a_file_that_is_added_to_has_the_permissions_of_others(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        append(tmp_path / "file", "a")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o666


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="descriptors cannot be counted there")
def test_no_descriptor_of_a_folder_stays_open(tmp_path: Path) -> None:
    with locked(tmp_path / "run"):
        counts = []
        for number in range(3):
            write_atomic(tmp_path / "run" / "a" / "b" / str(number), "content")
            remove(tmp_path / "run" / "a" / "b" / str(number))
            counts.append(len(os.listdir("/proc/self/fd")))
    assert len(set(counts)) == 1
