"""A hub on the loopback: what huggingface_hub asks of huggingface.co to create, upload, list and download models."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

TOKEN = "hf_of_the_tests"


@dataclass
class FakeHub:
    """Its repositories, and how it misbehaves.

    Attributes:
        repos: commits by repository and branch; a commit has files by name.
        private: repositories that need TOKEN.
        status: answers every request for a file with this status.
        cut: how many more downloads end after half of the bytes.
        damage: turns one bit of every file that is downloaded.
        asked: methods and paths, without the query.
    """

    url: str = ""
    repos: dict[str, dict[str, str]] = field(default_factory=dict)
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    private: set[str] = field(default_factory=set)
    status: int = 0
    cut: int = 0
    damage: bool = False
    asked: list[str] = field(default_factory=list)

    def commit(self, repo: str, branch: str, files: dict[str, bytes]) -> str:
        branches = self.repos.setdefault(repo, {})
        whole = {**self.commits.get(branches.get(branch, ""), {}), **files}
        digest = hashlib.sha1(repr(sorted(whole.items())).encode()).hexdigest()
        self.commits[digest], branches[branch] = whole, digest
        return digest

    def at(self, repo: str, revision: str) -> str | None:
        """Return the commit of a branch, or of itself."""
        branches = self.repos[repo]
        return branches.get(revision) or (revision if revision in branches.values() else None)

    def downloads(self) -> list[str]:
        return [line.rpartition("/")[2] for line in self.asked if line.startswith("GET") and "/resolve/" in line]


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub
    protocol_version = "HTTP/1.1"

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _json(self, value: Any) -> None:
        self._answer(200, json.dumps(value).encode(), Content_Type="application/json")

    def _allowed(self, repo: str, *, write: bool = False) -> bool:
        if not write and repo not in self.hub.private:
            return True
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def do_POST(self) -> None:
        path = self.path.split("?")[0]
        self.hub.asked.append(f"POST {path}")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not self._allowed("", write=True):
            self._answer(401, b'{"error": "Invalid username or password."}')
            return
        if path == "/api/repos/create":
            asked = json.loads(body)
            repo = "/".join(filter(None, [asked.get("organization"), asked["name"]]))
            if repo in self.hub.repos:
                self._answer(409, json.dumps({"url": f"{self.hub.url}/{repo}"}).encode())
                return
            self.hub.commit(repo, "main", {".gitattributes": b""})
            if asked.get("private") or asked.get("visibility") == "private":
                self.hub.private.add(repo)
            self._json({"url": f"{self.hub.url}/{repo}", "id": repo})
            return
        if path == "/api/validate-yaml":
            self._json({"errors": [], "warnings": []})
            return
        _, _, _, organization, name, verb, *rest = path.split("/")
        repo = f"{organization}/{name}"
        if verb == "preupload":
            files = json.loads(body)["files"]
            self._json(
                {"files": [{"path": item["path"], "uploadMode": "regular", "shouldIgnore": False} for item in files]}
            )
        elif verb == "branch":
            self.hub.repos[repo].setdefault(rest[0], self.hub.repos[repo]["main"])
            self._json({})
        else:
            assert verb == "commit", path
            lines = [json.loads(line) for line in body.splitlines()]
            files = {
                line["value"]["path"]: base64.b64decode(line["value"]["content"])
                for line in lines
                if line["key"] == "file"
            }
            commit = self.hub.commit(repo, rest[0], files)
            self._json({"success": True, "commitUrl": f"{self.hub.url}/{repo}/commit/{commit}", "commitOid": commit})

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        self.hub.asked.append(f"{self.command} {path}")
        if path.startswith("/api/") and not path.startswith("/api/models/"):
            self._answer(404)  # what else the library asks, such as which agents there are
            return
        if path.startswith("/api/models/"):
            _, _, _, organization, name, *rest = path.split("/")
            repo, verb, revision = f"{organization}/{name}", rest[0] if rest else "", rest[1] if rest[1:] else "main"
        else:
            _, organization, name, verb, revision, *rest = path.split("/")
            repo = f"{organization}/{name}"
        if self.hub.status:
            self._answer(self.hub.status)
        elif repo not in self.hub.repos or not self._allowed(repo):
            self._answer(401, X_Error_Code="RepoNotFound")  # as the hub does, in both cases
        elif (commit := self.hub.at(repo, revision)) is None:
            self._answer(404, X_Error_Code="RevisionNotFound")
        elif verb == "resolve":
            self._file(self.hub.commits[commit].get("/".join(rest)), commit)
        elif verb == "tree":
            files = self.hub.commits[commit].items()
            self._json([{"type": "file", "path": path, "size": len(data), "oid": _oid(data)} for path, data in files])
        else:
            siblings = [{"rfilename": name} for name in self.hub.commits[commit]]
            self._json({"id": repo, "sha": commit, "siblings": siblings, "tags": [], "private": False})

    def _file(self, content: bytes | None, commit: str) -> None:
        if content is None:
            self._answer(404, X_Error_Code="EntryNotFound", X_Repo_Commit=commit)
            return
        headers = {"X_Repo_Commit": commit, "ETag": f'"{_oid(content)}"', "Accept_Ranges": "bytes"}
        if self.command == "HEAD":
            self._answer(200, Content_Length=str(len(content)), **headers)
            return
        if self.hub.damage:
            content = content[:100] + bytes([content[100] ^ 1]) + content[101:]
        status, start = 200, int((self.headers.get("Range") or "bytes=0-").split("=")[1].split("-")[0])
        if start:
            status = 206
            headers["Content_Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        rest = content[start:]
        if self.hub.cut:
            self.hub.cut -= 1
            self._answer(status, rest[: len(rest) // 2], Content_Length=str(len(rest)), **headers)
            self.close_connection = True
            return
        self._answer(status, rest, **headers)

    def log_message(self, *args: Any) -> None:
        """Write nothing."""


def _oid(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@pytest.fixture
def fake_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeHub]:
    """A hub that huggingface_hub asks instead of the real one, with an empty cache and a token that may write."""
    library = pytest.importorskip("huggingface_hub", reason="the hub needs huggingface_hub: pip install 'mixling[hub]'")
    from huggingface_hub import constants, file_download

    hub = FakeHub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        hub.url = f"http://127.0.0.1:{server.server_address[1]}"
        monkeypatch.setattr(constants, "ENDPOINT", hub.url)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.url + "/{repo_id}/resolve/{revision}/{filename}"
        )
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_PROGRESS_BARS", True)
        monkeypatch.setattr(file_download.time, "sleep", lambda seconds: None)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        library.utils.disable_progress_bars()
        yield hub
        server.shutdown()
