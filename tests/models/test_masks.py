"""Blocks, encoders, heads and models take masks as mixers do: absent, boolean, or of numbers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mixling import ConfigError, build_model, model_config
from mixling.data import Batch
from mixling.mixers import AttentionConfig, HyperMixingConfig, TokenMLPConfig
from mixling.models import Block, Encoder, PoolingHead, TokenHead, tensors_of
from mixling.networks import BlockConfig, FeedForwardConfig, HeadConfig
from mixling.research.seq2seq import EncoderDecoderConfig, build_encoder_decoder

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorials" / "mixer.md"
DIM = 8
MASK = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
KINDS = (torch.int64, torch.uint8, torch.float32, torch.bfloat16)
LAYER = BlockConfig(
    mixers=(HyperMixingConfig(hidden_dim=6), TokenMLPConfig(hidden_dim=5)), feed_forward=FeedForwardConfig(ffn_dim=7)
)
MODULES = {
    "block": lambda: Block(LAYER, dim=DIM, max_len=5),
    "encoder": lambda: Encoder([LAYER, LAYER], dim=DIM, max_len=5, final_norm=True),
    "pooling": lambda: PoolingHead(HeadConfig(pooling="all"), dim=DIM, num_outputs=3),
    "tokens": lambda: TokenHead(HeadConfig(), dim=DIM, num_outputs=3),
}


@pytest.mark.parametrize("name", MODULES)
def test_parts_take_any_mask(name: str) -> None:
    torch.manual_seed(0)
    module, x = MODULES[name](), torch.randn(2, 5, DIM)
    expected = module(x, MASK)
    for kind in KINDS:
        torch.testing.assert_close(module(x, MASK.to(kind)), expected, rtol=0.0, atol=0.0)
    everything = module(x, torch.ones_like(MASK))
    torch.testing.assert_close(module(x), everything, rtol=0.0, atol=0.0)
    torch.testing.assert_close(nn.Sequential(nn.Identity(), module)(x), everything, rtol=0.0, atol=0.0)


@pytest.mark.parametrize("name", ["block", "encoder", "pooling"])
@pytest.mark.usefixtures("unchecked_shapes")
def test_parts_refuse_a_mask_of_another_shape(name: str) -> None:
    with pytest.raises(ConfigError, match=r"^mask: got the shape \(2, 4\); allowed: None .* or \(2, 5\), 1 or True"):
        MODULES[name]()(torch.randn(2, 5, DIM), MASK[:, 1:])


@pytest.mark.usefixtures("unchecked_shapes")
def test_an_encoder_without_layers_refuses_tokens_of_another_width() -> None:
    encoder = Encoder([], dim=DIM, max_len=5)
    with pytest.raises(
        ConfigError, match=r"^x: got \(2, 5, 7\) of torch.float32; allowed: \(batch, tokens, 8\) of flo"
    ):
        encoder(torch.randn(2, 5, 7))


def test_a_model_takes_any_mask_and_reads_padding_from_the_index() -> None:
    model = build_model(model_config("pnlp-mixer-x-small", {"dim": DIM}), num_outputs=3, seed=0).eval()
    positions = torch.randint(0, 64, (4, 6), generator=torch.Generator().manual_seed(0), dtype=torch.int32)
    index = torch.tensor([[1, 2, 3, 4, 1], [2, 2, 4, 0, 0]])
    batch = Batch(positions, None, index, MASK)
    expected = model(*tensors_of(batch.arguments))
    for mask in (None, *(MASK.to(kind) for kind in KINDS)):
        torch.testing.assert_close(model(positions, None, index, mask), expected, rtol=0.0, atol=0.0)


def test_an_encoder_decoder_takes_any_mask_of_the_source() -> None:
    stack = {"layers": [{"mixers": [{"type": "attention"}]}]}
    reading = {"layers": [{"mixers": [{"type": "attention"}], "cross": {"type": "attention"}}]}
    config = EncoderDecoderConfig.model_validate(
        {"dim": DIM, "encoder": stack, "decoder": reading, "max_source_len": 5, "max_target_len": 4}
    )
    model = build_encoder_decoder(config, vocab_size=9, seed=0).eval()
    source, target = torch.randint(0, 9, (2, 5), generator=torch.Generator().manual_seed(0)), torch.tensor([[0, 3]] * 2)

    def stepped(mask: Tensor | None) -> Tensor:
        return model.step(target[:, 0], model.start(source, mask))[0]

    for kind in KINDS:
        found = model(source, MASK.to(kind), target)
        torch.testing.assert_close(found, model(source, MASK, target), rtol=0.0, atol=0.0)
        torch.testing.assert_close(stepped(MASK.to(kind)), stepped(MASK), rtol=0.0, atol=0.0)
    everything = torch.ones_like(MASK)
    torch.testing.assert_close(model(source, None, target), model(source, everything, target), rtol=0.0, atol=0.0)
    torch.testing.assert_close(stepped(None), stepped(everything), rtol=0.0, atol=0.0)


def test_the_example_of_the_tutorial_works_with_the_masks_of_other_libraries() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (example,) = (block for block in blocks if "class Classifier(nn.Module)" in block)
    found: dict[str, Any] = {}
    exec(example, found)
    torch.manual_seed(0)
    model = found["Classifier"]()
    ids = torch.randint(0, 30_522, (2, 5))
    padded = model(ids, attention_mask=MASK.long())
    torch.testing.assert_close(padded[0], model(ids[:1])[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(padded[1], model(ids[1:, :3])[0], rtol=1e-4, atol=1e-5)


def test_a_named_model_is_built_without_more_words() -> None:
    model = build_model(model_config("hypermixer"), num_outputs=2)
    assert model.embedding.weight.shape[0] == 30_522  # BERT's subwords, where no vocabulary says how many
    assert not model.of_tokens
    assert build_model(model_config("mixling-small"), 2).head.output.out_features == 2
    assert AttentionConfig().build(8, 4)(torch.zeros(1, 4, 8)).shape == (1, 4, 8)
