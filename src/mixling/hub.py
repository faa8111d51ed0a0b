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
    """Return a name and its revision, if it has one; a local folder, whatever its name, has none.

    Raises:
        ConfigError: nothing stands before or after the @.
    """
    base, sign, revision = name.partition("@")
    if not sign or Path(name).exists():
        return name, None
    if not base or not revision:
        raise ConfigError(f"{name}: got no NAME@REVISION; a branch, tag or commit is allowed after the @")
    return base, revision


@functools.cache
def pinned(name: str, kind: RepositoryKind) -> str:
    """Return the name with the commit that it means now, as NAME@COMMIT: of one process always the same.

    A local folder, and a name whose commit is not known without a network, are returned as they are.

    Raises:
        ConfigError: as `split_revision`.
    """
    base, revision = split_revision(name)
    if Path(base).exists() or _COMMIT.fullmatch(revision or ""):
        return name
    try:
        import huggingface_hub
    except ImportError:  # what reads the name reports that
        return name
    try:
        commit = huggingface_hub.HfApi().repo_info(base, revision=revision, repo_type=kind).sha
    except Exception:  # no network, no such repository, or no access have no common type: reading reports them
        try:
            found = huggingface_hub.snapshot_download(base, revision=revision, repo_type=kind, local_files_only=True)
        except Exception:  # nothing is cached either
            return name
        commit = Path(found).name
    return f"{base}@{commit}" if commit else name
