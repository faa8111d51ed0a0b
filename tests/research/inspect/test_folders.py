"""Models of run folders as they are looked into: each kind by its own loader, and texts as the model reads them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from mixling import ConfigError, DataConfig, ModelFileError, RunConfig, TextEncoder, fit, pretrain, read_data
from mixling.data import collate
from mixling.models import Model, tensors_of
from mixling.research import load_model
from mixling.research.inspect import layer_maps, learned_filters, load_inspected
from mixling.research.pretraining import MASKED_LM, load_pretraining
from mixling.runs.resolve import resolve

WORDS = ["amber", "brook", "cedar", "delta", "ember", "fjord", "grove", "heath"]
LAYER = {"mixers": [{"type": "attention", "num_heads": 2}, {"type": "spatial_gating", "ffn_dim": 8}]}
MODEL = {"dim": 8, "num_layers": 2, "layers": [LAYER], "text": {"max_len": 10}}
TEXTS = ["amber brook", "cedar delta ember fjord grove", *(" ".join(WORDS[: i % 8 + 1]) for i in range(12))]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    lines = [{"text": " ".join(np.roll(WORDS, i)[: 2 + i % 6]), "label": "ab"[i % 2]} for i in range(40)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    data = DataConfig(train=(str(folder / "rows.jsonl"),))
    config = RunConfig.model_validate({"data": data, "model": MODEL, "train": {"epochs": 1}})
    fit(config, *read_data(config, spool_dir=None, log=lambda line: None), folder=folder / "run")
    return folder / "run"


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pretrained")
    (folder / "text.txt").write_text("".join(" ".join([*np.roll(WORDS, i), f"n{i}"]) + "\n" for i in range(200)))
    values = {
        "corpus": {"files": [str(folder / "text.txt")]},
        "model": {"preset": "gmlp-tiny", **MODEL, "text": {"max_len": 10, "vocabulary_size": 120}},
        "train": {"steps": 2, "batch_size": 8},
    }
    pretrain(resolve(values, spec=MASKED_LM).config, folder=folder / "run")
    return folder / "run"


def expected(model: Model, encoder: TextEncoder) -> np.ndarray:
    """The mean attention of the first layer, text by text."""
    total, count = np.zeros((10, 10)), np.zeros((10, 10))
    block = model.encoder.layers[0]
    for text in TEXTS:
        batch = collate([encoder.encode([text])[0].words], encoder)
        with torch.no_grad():
            features, factors, index, mask, _ = tensors_of(batch.arguments)
            rows = model.embedding.word_rows(features, factors)
            x = block.mixer_norms[0](model.embedding(rows, index, mask))
            weights = block.mixers[0].weights(x, mask)["attention"][0].mean(0).double().numpy()
        total[: len(weights), : len(weights)] += weights
        count[: len(weights), : len(weights)] += 1
    size = int((count[0] > 0).sum())
    return (total / np.maximum(count, 1))[:size, :size]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["trained", "pretrained"])
def test_maps_are_of_the_texts_as_the_model_reads_them(kind: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(kind)
    model, encoder = load_model(folder)[:2] if kind == "trained" else load_pretraining(folder)
    maps = layer_maps(load_inspected(folder, TEXTS))
    assert [(item.layer, item.name) for item in maps] == [
        (layer, name) for layer in (1, 2) for name in ("attention", "spatial weights")
    ]
    np.testing.assert_allclose(maps[0].values, expected(model, encoder), atol=1e-6)
    filters = learned_filters(load_inspected(folder))
    assert [item.values.shape for item in filters] == [(10, 10)] * 2
    weight = model.encoder.layers[1].mixers[1].weight.detach().numpy()
    np.testing.assert_array_equal(filters[1].values[0], weight[9:])
    np.testing.assert_array_equal(filters[1].values[:, 0], weight[9::-1])


def test_a_folder_that_is_none_or_damaged_or_of_another_kind_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not the folder of a finished run"):
        load_inspected(tmp_path)
    for content, reported in (
        ("{", "is damaged"),
        ("[]", "is damaged"),
        ('{"format_version": 1, "kind": "x"}', "got kind 'x'; this version"),
    ):
        (tmp_path / "config.json").write_text(content)
        with pytest.raises(ModelFileError, match=reported):
            load_inspected(tmp_path)
    (tmp_path / "config.json").write_text('{"format_version": 1}')
    with pytest.raises(ModelFileError, match="is not a complete run folder"):
        load_inspected(tmp_path)
