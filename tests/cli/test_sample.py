"""`mixling sample`: the files are written, never over others, and each set can be trained on as it says."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from mixling.samples import SAMPLES, read_sample, sets

from .conftest import Call


def test_all_sets_are_listed(call: Call) -> None:
    done = call("sample")
    assert [line.split()[0] for line in done.out.splitlines()] == list(SAMPLES)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_set_is_written_to_the_current_folder(
    call: Call, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = call("sample", name)
    assert done.code == 0, done.err
    assert done.out.split() == sorted(path.name for path in tmp_path.iterdir())
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        file: read_sample(file) for file in SAMPLES[name].files
    }
    assert call("sample", name).code == 0, "equal files are no obstacle"


def test_other_files_are_kept_unless_asked(call: Call, tmp_path: Path) -> None:
    (tmp_path / "pairs_test.csv").write_text("mine\n")
    done = call("sample", "pairs", "-o", tmp_path)
    assert done.code == 2
    assert "pairs_test.csv: exists and differs" in done.err
    assert "--overwrite" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["pairs_test.csv"], "all or nothing"
    assert call("sample", "pairs", "-o", tmp_path, "--overwrite").code == 0
    assert (tmp_path / "pairs_test.csv").read_bytes() == read_sample("pairs_test.csv")


def test_a_folder_under_the_name_of_a_file_is_kept(call: Call, tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").mkdir()
    for more in ([], ["--overwrite"]):
        done = call("sample", "pairs", "-o", tmp_path, *more)
        assert done.code == 2
        assert "pairs.csv" in done.err


def test_an_unknown_set_is_named_with_the_nearest(call: Call, tmp_path: Path) -> None:
    done = call("sample", "mesages", "-o", tmp_path)
    assert done.code == 2
    assert "got 'mesages'; did you mean 'messages'?" in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLES)
def test_the_command_that_is_named_trains(
    call: Call, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    content = {file: read_sample(file) for sample in SAMPLES.values() for file in sample.files}
    for file in ("messages.csv", "no_topic.csv"):  # the first rows of the largest sets, as the way is the same
        content[file] = b"\n".join(content[file].split(b"\n")[:401]) + b"\n"
    monkeypatch.setattr(sets, "read_sample", content.__getitem__)
    assert call("sample", "messages").code == 0
    (line,) = call("sample", name).err.splitlines()
    command, *args = shlex.split(line.removeprefix("next: "))
    assert command == "mixling"
    done = call(*args, "--model", "mixling-tiny", "--epochs", "1", "--set", "ngrams.use=never")
    assert done.code == 0, done.err
    test = args[1].replace(".", "_test.")
    done = call("evaluate", f"{args[1].partition('.')[0]}-model", test)
    assert done.code == 0, done.err
    assert "0 skipped" in done.err
