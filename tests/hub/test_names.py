"""Names on the hub, asked of a server on the loopback; nothing is fetched from elsewhere."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mixling import ConfigError, DataError, RunConfig
from mixling.data import OnBadRow, read_rows
from mixling.data.readers.hub import pinned_rows
from mixling.hub import pinned, split_revision
from mixling.runs.distillation import DistillConfig
from mixling.runs.resolve.hub_names import with_commits

huggingface_hub = pytest.importorskip("huggingface_hub")

COMMITS = {"main": "a" * 40, "v2": "b" * 40}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """The paths that a hub with every repository was asked for; it knows their commits and nothing else."""
    paths: list[str] = []

    class Hub(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            parts = self.path.split("?")[0].split("/")  # /api/models/owner/name[/revision/v2]
            commit = COMMITS.get(parts[6] if "revision" in parts else "main")
            body = json.dumps({"id": "owner/name", "sha": commit, "siblings": [], "tags": []}).encode()
            self.send_response(200 if commit else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            """Write nothing."""

    with HTTPServer(("127.0.0.1", 0), Hub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.server_address[1]}"
        api = huggingface_hub.HfApi
        monkeypatch.setattr(huggingface_hub, "HfApi", lambda: api(endpoint=endpoint, token=False))

        def nothing_cached(*args: Any, **options: Any) -> str:
            raise FileNotFoundError

        monkeypatch.setattr(huggingface_hub, "snapshot_download", nothing_cached)
        pinned.cache_clear()
        yield paths
        server.shutdown()
    pinned.cache_clear()


def test_revisions_follow_an_at_sign_and_folders_have_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert split_revision("owner/name") == ("owner/name", None)
    assert split_revision("owner/name@v2") == ("owner/name", "v2")
    (tmp_path / "a@b").mkdir()
    monkeypatch.chdir(tmp_path)
    assert split_revision("a@b") == ("a@b", None)
    for name in ("owner/name@", "@v2"):
        with pytest.raises(ConfigError, match="a branch, tag or commit"):
            split_revision(name)


def test_a_name_is_pinned_to_the_commit_that_it_means(asked: list[str], tmp_path: Path) -> None:
    assert pinned("owner/name", "model") == f"owner/name@{'a' * 40}"
    assert pinned("owner/name@v2", "model") == f"owner/name@{'b' * 40}"
    assert pinned("owner/name@gone", "model") == "owner/name@gone"
    assert [path.split("?")[0] for path in asked] == [
        "/api/models/owner/name",
        "/api/models/owner/name/revision/v2",
        "/api/models/owner/name/revision/gone",
    ]
    asked.clear()
    assert pinned("owner/name", "model") == f"owner/name@{'a' * 40}"  # of one process always the same
    assert pinned(f"owner/name@{'c' * 40}", "model") == f"owner/name@{'c' * 40}"
    assert pinned(str(tmp_path), "model") == str(tmp_path)
    assert asked == []
    assert pinned_rows("hf:owner/data@v2:train[:9]") == f"hf:owner/data@{'b' * 40}:train[:9]"
    assert asked[0].startswith("/api/datasets/owner/data/revision/v2")


def test_what_is_cached_has_its_commit_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def offline() -> Any:
        raise ConnectionError

    monkeypatch.setattr(huggingface_hub, "HfApi", offline)
    snapshots = f"/cache/models--owner--name/snapshots/{'d' * 40}"
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *args, **options: snapshots)
    pinned.cache_clear()
    assert pinned("owner/name", "model") == f"owner/name@{'d' * 40}"
    pinned.cache_clear()


def test_a_run_records_the_commits_of_all_that_it_takes_from_the_hub(asked: list[str], tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[UNK]\n")
    values = RunConfig(distill=DistillConfig(teacher="hf:owner/teacher@v2", unlabeled=("hf:owner/more",))).to_dict()
    values["data"]["train"] = ["hf:owner/data:train", str(tmp_path / "a.csv")]
    values["model"]["text"]["vocabulary"] = "owner/words"
    found = with_commits(RunConfig.model_validate(values))
    assert found.data.train == (f"hf:owner/data@{'a' * 40}:train", str(tmp_path / "a.csv"))
    assert found.distill is not None
    assert found.distill.teacher == f"hf:owner/teacher@{'b' * 40}"
    assert found.distill.unlabeled == (f"hf:owner/more@{'a' * 40}",)
    assert found.model.text.vocabulary == f"owner/words@{'a' * 40}"
    asked.clear()
    assert with_commits(found) == found
    assert asked == []
    values["model"]["text"]["vocabulary"] = str(tmp_path / "vocab.txt")
    kept = with_commits(RunConfig.model_validate(values))
    assert kept.model.text.vocabulary == str(tmp_path / "vocab.txt")


def test_a_data_set_is_read_at_its_commit_and_runs_no_code(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, dict[str, Any]]] = []

    def load_dataset(name: str, **options: Any) -> Any:
        calls.append((name, options))
        return type("Rows", (list,), {"features": None})([{"text": "a"}])

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    assert [row.values for row in read_rows("hf:owner/data@v2:test", on_bad_row=OnBadRow())] == [{"text": "a"}]
    expected = {"split": "test", "revision": "b" * 40, "streaming": True, "trust_remote_code": False}
    assert calls == [("owner/data", expected)]
    with pytest.raises((ConfigError, DataError), match="branch, tag or commit"):
        list(read_rows("hf:owner/data@:test", on_bad_row=OnBadRow()))
