"""Models pushed to the hub by transformers are loaded from there by its Auto classes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

transformers = pytest.importorskip("transformers", reason="needs transformers: pip install 'mixling[hf]'")


def test_pushed_models_and_what_encodes_their_texts_are_loaded_by_name(fake_hub: Any) -> None:
    import mixling.research.transformers as mt

    transformers.utils.logging.disable_progress_bar()
    config = mt.MixlingConfig.from_preset("mixling-tiny", changes={"dim": 8}, num_labels=3)
    model = mt.MixlingForSequenceClassification(config).eval()
    features = mt.MixlingFeatureExtractor.train(["play some jazz"], config)
    model.push_to_hub("org/intents")
    features.push_to_hub("org/intents")
    files = fake_hub.commits[fake_hub.repos["org/intents"]["main"]]
    assert {"config.json", "model.safetensors", "preprocessor_config.json"} <= set(files)
    again = transformers.AutoModelForSequenceClassification.from_pretrained("org/intents", trust_remote_code=False)
    batch = transformers.AutoFeatureExtractor.from_pretrained("org/intents")(["some jazz"])
    with torch.inference_mode():
        assert torch.equal(model(**features(["some jazz"])).logits, again.eval()(**batch).logits)
