"""Names on the Hugging Face hub (NAME, or NAME@REVISION with a branch, tag or commit), and files of their repositories.

Files are downloaded once into the cache of huggingface_hub; afterwards no network is needed. Access tokens come from
`hf auth login` or HF_TOKEN.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from mixling.errors import ConfigError, MissingPackage, ModelFileError
from mixling.installation import install_command

RepositoryKind = Literal["model", "dataset"]

HUB = "hf:"  # before a name, where a file or folder could be named as well

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


def on_hub(path: object) -> bool:
    """Return whether a path is `hf:NAME[@REVISION]`."""
    return isinstance(path, str | os.PathLike) and str(path).startswith(HUB)


def fetch_file(
    name: str, file: str, *, revision: str | None = None, token: str | None = None, local_files_only: bool = False
) -> Path:
    """Return the local copy of a file of a model on the hub, downloaded if it is new or has changed.

    Args:
        name: NAME[@REVISION], with or without `hf:`.
        revision: a branch, tag or commit, unless the name has one.
        token: an access token, instead of the stored one.
        local_files_only: use the cache, and no network.

    Raises:
        ConfigError: the name is malformed, or has another revision.
        MissingPackage: huggingface_hub is not installed.
        ModelFileError: there is no such model, revision or file, no access, or no network and no copy.
    """
    hub, base, chosen = _library(), *_resolved(name, revision)
    with _explained(name):
        found = hub.hf_hub_download(
            base, file, revision=chosen, token=token, local_files_only=local_files_only, library_name="mixling"
        )
    return Path(found)


def fetch_folder(name: str, files: Sequence[str]) -> Path:
    """Return a folder with local copies of the named files, as far as a model on the hub has them.

    Raises:
        UserError: see `fetch_file`.
    """
    hub, base, chosen = _library(), *_resolved(name, None)
    with _explained(name):
        found = hub.snapshot_download(base, revision=chosen, allow_patterns=list(files), library_name="mixling")
    return Path(found)


def discard(path: Path) -> None:
    """Remove a damaged copy from the cache, so that it is downloaded again."""
    for copy in (path.resolve(), path):
        copy.unlink(missing_ok=True)


def _library() -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise MissingPackage(f"models on the hub need huggingface_hub; run {install_command('hub')}") from None
    return huggingface_hub


def _resolved(name: str, revision: str | None) -> tuple[str, str | None]:
    base, sign, named = name.removeprefix(HUB).partition("@")
    if (sign and not named) or not base:
        raise ConfigError(f"{name}: is not NAME@REVISION; allowed: a branch, tag or commit after the @")
    if sign and revision is not None and revision != named:
        raise ConfigError(f"{name}: names a revision, and revision={revision!r} another; leave out one of them")
    return base, named or revision


@contextlib.contextmanager
def _explained(name: str) -> Iterator[None]:
    """Translate the errors of a block that downloads from the hub, or uploads to it."""
    from huggingface_hub import errors

    try:
        yield
    except errors.HFValidationError as error:
        raise ConfigError(f"{name}: is not a name on the hub: {_line(error)}") from None
    except errors.GatedRepoError:
        raise ModelFileError(
            f"{name}: access is granted on request; ask for it on the model's page, {_LOGIN}"
        ) from None
    except errors.RevisionNotFoundError:
        raise ModelFileError(f"{name}: has no such revision; allowed: a branch, tag or commit of it") from None
    except errors.RemoteEntryNotFoundError as error:
        raise ModelFileError(f"{name}: has no such file: {_line(error)}") from None
    except errors.LocalEntryNotFoundError as error:
        if error.__cause__ is None:
            raise ModelFileError(
                f"{name}: was not downloaded before; leave out local_files_only, so that the hub is asked"
            ) from None
        raise ModelFileError(
            f"{name}: the hub cannot be reached ({_line(error.__cause__)}), and the model was not downloaded before; "
            "check the network"
        ) from None
    except errors.RepositoryNotFoundError:  # also where the token is missing or wrong: the hub does not reveal which
        raise ModelFileError(f"{name}: does not exist on the hub, or is private; check the name, {_LOGIN}") from None
    except errors.HfHubHTTPError as error:
        status = getattr(error.response, "status_code", None)
        if status in (401, 403):
            raise ModelFileError(f"{name}: the hub refuses access ({status}); {_LOGIN}") from None
        raise ModelFileError(f"{name}: the hub answers {status}: {_line(error)}; try again later") from None
    except OSError as error:  # of the connection, or a transfer that was cut
        raise ModelFileError(f"{name}: the transfer failed: {_line(error)}; try again") from None
    except Exception as error:
        if not type(error).__module__.startswith("httpx"):
            raise
        raise ModelFileError(f"{name}: the transfer failed: {_line(error)}; try again") from None


_LOGIN = "and log in with `hf auth login`, or set HF_TOKEN"


def _line(error: BaseException | None) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def upload(
    name: str, files: Mapping[str, bytes], *, private: bool, revision: str | None, token: str | None, message: str
) -> str:
    """Upload files to a model on the hub in one commit; create repository and branch if they are missing.

    Args:
        name: the name, with or without `hf:`.
        private: whether a new repository is private.

    Returns:
        The commit.

    Raises:
        UserError: see `fetch_file`.
    """
    hub, base, branch = _library(), *_resolved(name, revision)
    api = hub.HfApi(token=token, library_name="mixling")
    with _explained(name):
        api.create_repo(base, private=private or None, exist_ok=True)
        if branch is not None:
            api.create_branch(base, branch=branch, exist_ok=True)
        operations = [hub.CommitOperationAdd(path, content) for path, content in files.items()]
        return str(api.create_commit(base, operations, commit_message=message, revision=branch).oid)
