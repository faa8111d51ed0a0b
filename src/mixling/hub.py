"""Names on the Hugging Face hub: NAME, or NAME@REVISION with a branch, tag or commit."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Literal

from mixling.errors import ConfigError

RepositoryKind = Literal["model", "dataset"]

_COMMIT = re.compile(r"[0-9a-f]{40}")


def split_revision(name: str) -> tuple[str, str | None]:
    """Return a name and its revision or None; a local folder has no revision, whatever its name.

    Raises:
        ConfigError: there is nothing before or after the @.
    """
    base, sign, revision = name.partition("@")
    if not sign or Path(name).exists():
        return name, None
    if not base or not revision:
        raise ConfigError(f"{name}: is not NAME@REVISION; allowed: a branch, tag or commit after the @")
    return base, revision


@functools.cache
def pinned(name: str, kind: RepositoryKind) -> str:
    """Return NAME@COMMIT with the current commit of a name, which is fixed for the process.

    Local folders, and names whose commit is unknown without a network, are returned unchanged.

    Raises:
        ConfigError: as for `split_revision`.
    """
    base, revision = split_revision(name)
    if Path(base).exists() or _COMMIT.fullmatch(revision or ""):
        return name
    try:
        import huggingface_hub
    except ImportError:  # reported when the name is read
        return name
    try:
        commit = huggingface_hub.HfApi().repo_info(base, revision=revision, repo_type=kind).sha
    except Exception:  # no network, repository or access: no common base class, and reported when the name is read
        try:
            folder = huggingface_hub.snapshot_download(base, revision=revision, repo_type=kind, local_files_only=True)
        except Exception:  # it is not cached, either
            return name
        commit = Path(folder).name
    return f"{base}@{commit}" if commit else name
