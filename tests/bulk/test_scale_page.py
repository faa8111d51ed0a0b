"""The examples of docs/scale.md, and Ray, where their packages are installed."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mixling import Predictor
from mixling.bulk import plan as cutting
from mixling.bulk import predict_files
from mixling.data import ColumnsConfig

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "tests" / "golden" / "model-v1.onnx"
TEXTS = ["what a great film", "what a dull film", "naïve"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with rows in in/a.parquet."""
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"text": TEXTS}), tmp_path / "in" / "a.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_example_is_python() -> None:
    examples = _examples()
    assert {name for name in ("duckdb", "polars", "pyspark") for code in examples if f"import {name}" in code or
            f"from {name}" in code} == {"duckdb", "polars", "pyspark"}  # fmt: skip
    for code in examples:
        compile(code, "docs/scale.md", "exec")


@pytest.mark.parametrize("package", ["duckdb", "polars"])
def test_an_example_predicts(package: str, folder: Path) -> None:
    pytest.importorskip(package)
    code = next(code for code in _examples() if f"import {package}" in code)
    exec(code.replace('"MODEL"', repr(str(MODEL))), {})
    assert_predicted(folder / "out.parquet")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
def test_the_example_of_spark_predicts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("pyspark", "pandas"):
        pytest.importorskip(package)
    (folder / "MODEL").mkdir()
    shutil.copy(MODEL, folder / "MODEL" / "model.onnx")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    names: dict[str, Any] = {}
    try:
        exec(next(code for code in _examples() if "from pyspark" in code), names)
    finally:
        names["spark"].stop()
    assert_predicted(folder / "out")


def assert_predicted(path: Path) -> None:
    table, wanted = pq.read_table(path), Predictor(MODEL).predict(TEXTS)
    assert isinstance(wanted, list)
    assert table.column("text").to_pylist() == TEXTS
    assert table.column("predicted").to_pylist() == [prediction.label for prediction in wanted]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_objects_of_s3_have_the_bytes_of_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("s3fs", reason="pip install s3fs")
    moto = pytest.importorskip("moto.server", reason='a loopback S3 needs moto: pip install "moto[server,s3]"')
    server = moto.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    values = {"ENDPOINT_URL": f"http://{host}:{port}", "DEFAULT_REGION": "us-east-1"}
    for name, value in {**values, "ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    try:
        store = fsspec.filesystem("s3")
        store.mkdir("bucket")
        store.put_file("in/a.parquet", "bucket/in/a.parquet")
        predict_files(MODEL, ["in/*.parquet"], "out", columns=ColumnsConfig(), workers=1)
        for more in ({}, {"resume": True}):
            predict_files(MODEL, ["s3://bucket/in/*.parquet"], "s3://bucket/out", columns=ColumnsConfig(), **more)
        store.invalidate_cache()
        found = {name.rpartition("/")[2]: store.cat_file(name) for name in store.find("bucket/out")}
    finally:
        server.stop()
    assert found.keys() == {"_manifest.json", "a-000000000000.parquet"}
    assert found["a-000000000000.parquet"] == (folder / "out" / "a-000000000000.parquet").read_bytes()


@pytest.mark.slow
def test_tasks_of_ray_write_what_a_process_writes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray", reason="Ray, of the extra [scale], is not installed")
    (folder / "cluster").mkdir()
    with monkeypatch.context() as patch:
        patch.chdir(folder / "cluster")  # as a cluster that was started elsewhere
        ray.init(log_to_driver=False, logging_level="ERROR")
    try:
        for engine in ("processes", "ray"):
            predict_files(MODEL, ["in/*.parquet"], engine, columns=ColumnsConfig(), engine=engine, workers=1)
    finally:
        ray.shutdown()
    names = sorted(path.name for path in (folder / "processes").iterdir())
    assert sorted(path.name for path in (folder / "ray").iterdir()) == names
    for name in names:
        assert (folder / "ray" / name).read_bytes() == (folder / "processes" / name).read_bytes()


@pytest.mark.slow
def test_a_worker_of_ray_that_is_killed_loses_no_row(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="Ray, of the extra [scale], is not installed")
    psutil = pytest.importorskip("psutil")
    monkeypatch.setattr(cutting, "MAX_ROWS", 50)
    rows = {"text": [f"{TEXTS[number % 3]} {number}" for number in range(2000)], "id": list(range(2000))}
    pq.write_table(pa.table(rows), folder / "in" / "a.parquet", row_group_size=50)
    killed: list[int] = []

    def kill(done: int, parts: int, rows: int) -> None:
        if done % 8 == 2:
            workers = [
                item
                for item in psutil.Process().children(recursive=True)
                if " ".join(item.cmdline()).startswith("ray::perform_in")
            ]
            for worker in workers:
                worker.kill()
            killed.append(len(workers))

    options = {"columns": ColumnsConfig(), "workers": 2}
    predict_files(MODEL, ["in/*.parquet"], "one", **options)
    predict_files(MODEL, ["in/*.parquet"], "ray", engine="ray", progress=kill, **options)
    assert sum(killed) > 1  # a worker may be between two tasks
    contents = [{path.name: path.read_bytes() for path in (folder / name).iterdir()} for name in ("one", "ray")]
    assert len(contents[0]) > 40
    assert contents[0] == contents[1]


def _examples() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "scale.md").read_text("utf-8"), re.DOTALL)
