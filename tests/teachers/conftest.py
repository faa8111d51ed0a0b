"""Small models of the `transformers` library, made here: nothing is fetched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

transformers = pytest.importorskip("transformers")

WORDS = ["the", "film", "is", "good", "bad", "very", "not", "flight", "to", "rome", "oslo", "from", "play", "##ing"]
MakeModel = Callable[..., Path]


@pytest.fixture(scope="session")
def make_model(tmp_path_factory: pytest.TempPathFactory) -> MakeModel:
    """Writes a BERT of one layer with random weights; `head` is the library's class, `names` its labels."""

    def make(head: str, names: tuple[str, ...] = (), *, spread: float = 0.5) -> Path:
        folder = tmp_path_factory.mktemp("bert")
        (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]) + "\n")
        transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
        options = {"id2label": dict(enumerate(names)), "label2id": {n: i for i, n in enumerate(names)}} if names else {}
        config = transformers.BertConfig(
            vocab_size=len(WORDS) + 5, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
            intermediate_size=32, max_position_embeddings=24, initializer_range=spread, **options,
        )  # fmt: skip
        torch.manual_seed(0)
        getattr(transformers, head)(config).save_pretrained(folder)
        return folder

    return make
