"""Limits that the system sets to a process: what they lack is told in one line, and before C code that would abort."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import re
import sys

from mixling.errors import UserError

OF_NUMPY = 96 << 20  # bytes of addresses that its import takes with one thread; without them OpenBLAS ends the process
# Of PyTorch for CPUs, SciPy and a small training; libraries end the process without them, or wait.
_OF_TORCH = 1000 << 20

_MEMORY = re.compile(
    "allocate memory|bad_alloc|not enough memory|failed to map segment|Unable to allocate|PyObject pointer is null"
)
_THREADS = re.compile("can't start new thread|ThreadPoolBuildError|pthread_create")


def require_memory(size: int) -> None:
    """Refuse to go on where the address space is limited, and too little of it is left.

    Raises:
        UserError: it is.
    """
    with contextlib.suppress(ImportError):  # there are no limits on Windows
        import resource

        if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
            return
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # each takes 40 MB
        try:
            mmap.mmap(-1, size).close()
        except OSError as error:
            raise UserError(_too_little("memory")) from error


def require_memory_of_torch() -> None:
    """Refuse to import PyTorch where too little of a limited address space is left; raises as `require_memory`."""
    if "torch" not in sys.modules:
        require_memory(_OF_TORCH)


def explained(error: BaseException) -> str:
    """Return a line about an error whose reason is the system; "" if it has another."""
    if lacking := _lacking(error):
        return _too_little(lacking)
    if isinstance(error, OSError) and error.strerror and not isinstance(error, ConnectionError):
        where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        return f"{where}{error.strerror}"
    return ""


def _too_little(what: str) -> str:
    return f"the system allows too little: {what}; see `ulimit -a`"


def _lacking(error: BaseException | None) -> str:
    """Return what the system allows too little of, if that is the reason of an error; else ""."""
    while error is not None:
        number = getattr(error, "errno", None)
        if isinstance(error, MemoryError) or number == errno.ENOMEM or _MEMORY.search(str(error)):
            return "memory"
        if number in (errno.EMFILE, errno.ENFILE):
            return "open files"
        if _THREADS.search(str(error)):
            return "threads"
        error = error.__cause__ or error.__context__
    return ""
