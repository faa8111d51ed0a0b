"""A small file whose content is large: read in bounded memory, or refused in one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

READ = """
import resource, sys
from mixling import DataError
from mixling.data import read_rows
from mixling.data import OnBadRow
list(read_rows(sys.argv[2], on_bad_row=OnBadRow("error")))  # imports what it needs
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
try:
    print(sum(1 for _ in read_rows(sys.argv[1], on_bad_row=OnBadRow("error"))))
except DataError as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space")
@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (["a" * 1_000_000] * 3000, "3000"),  # 3 GB in a file of 2 kB
        ([None, "b", "a" * ((16 << 20) + 1)], "has a text of 16,777,217 bytes; allowed: up to 16,777,216"),
        (["a" * (16 << 20), ""], "2"),
    ],
    ids=["equal texts", "a large text", "the largest text"],
)
def test_parquet_is_read_in_bounded_memory(tmp_path: Path, texts: list[str | None], says: str) -> None:
    pq.write_table(pa.table({"text": texts[:2]}), tmp_path / "small.parquet")
    pq.write_table(pa.table({"text": texts}), tmp_path / "file.parquet")
    command = [sys.executable, "-c", READ, str(tmp_path / "file.parquet"), str(tmp_path / "small.parquet")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert says in done.stdout, done.stderr
