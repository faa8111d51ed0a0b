"""Models in MLflow's pyfunc format: one `model.onnx`, which `mlflow.pyfunc.load_model` opens with `Predictor`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mixling.runtime.predictor import Predictor


class PyfuncModel:
    """What MLflow calls: predictions of texts as a table."""

    def __init__(self, predictor: Predictor) -> None:
        self.predictor = predictor

    def predict(self, data: Any, params: dict[str, Any] | None = None) -> Any:
        """Return a pandas table with a row for each text, and the keys of `Prediction.to_dict` as columns.

        Args:
            data: a table whose first column has the texts, and its second one a pair's second text; or a list of texts.
        """
        import pandas

        if isinstance(data, pandas.DataFrame):
            texts = [row[0] if len(row) == 1 else row for row in data.itertuples(index=False, name=None)]
        else:
            texts = list(data)
        return pandas.DataFrame([prediction.to_dict() for prediction in self.predictor.predict_stream(texts)])


def _load_pyfunc(path: str) -> PyfuncModel:
    """Open the model of a folder, or a file; MLflow finds this function by its name."""
    return PyfuncModel(Predictor(Path(path)))


def log_pyfunc(run_id: str, model_file: Path) -> None:
    """Add a `model.onnx` to a run of MLflow, as a model that `mlflow.pyfunc` loads; no pickle is written."""
    import mlflow

    with mlflow.start_run(run_id=run_id):
        mlflow.pyfunc.log_model(
            name="model", loader_module=__name__, data_path=str(model_file), pip_requirements=["mixling"]
        )
