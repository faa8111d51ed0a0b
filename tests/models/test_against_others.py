"""Whole stacks against independent implementations with copied weights: torch.nn's Transformer, transformers' BERT."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from mixling import build_model, model_config
from mixling.mixers import Attention, AttentionConfig
from mixling.models import Block
from mixling.networks import BlockConfig, FeedForwardConfig

DIM, HEADS, FFN, VOCABULARY = 12, 3, 20, 30
LENGTHS = [7, 3, 5]
CLOSE = {"rtol": 0.0, "atol": 1e-10}


def drawn(module: nn.Module) -> None:
    torch.manual_seed(0)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.4)


def masks() -> Tensor:
    return torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]


def copy_linear(ours: nn.Linear, weight: Tensor, bias: Tensor) -> None:
    ours.weight.copy_(weight)
    ours.bias.copy_(bias)


@pytest.mark.parametrize("norm", ["pre", "post"])
@torch.no_grad()
def test_a_block_is_the_encoder_layer_of_torch(norm: str) -> None:
    theirs = nn.TransformerEncoderLayer(
        DIM, HEADS, FFN, dropout=0.0, activation="gelu", batch_first=True, norm_first=norm == "pre", dtype=torch.float64
    )
    drawn(theirs)
    config = BlockConfig(
        mixers=(AttentionConfig(num_heads=HEADS),), feed_forward=FeedForwardConfig(ffn_dim=FFN), norm=norm
    )
    ours = Block(config, dim=DIM, max_len=16).double()
    mixer = ours.mixers[0]
    assert isinstance(mixer, Attention)
    attention = theirs.self_attn
    parts = zip(attention.in_proj_weight.chunk(3), attention.in_proj_bias.chunk(3), strict=True)
    for linear, (weight, bias) in zip((mixer.query, mixer.key, mixer.value), parts, strict=True):
        copy_linear(linear, weight, bias)
    copy_linear(mixer.out, attention.out_proj.weight, attention.out_proj.bias)
    ours.mixer_norms[0].load_state_dict(theirs.norm1.state_dict())
    ours.feed_forward.expand.load_state_dict(theirs.linear1.state_dict())
    ours.feed_forward.contract.load_state_dict(theirs.linear2.state_dict())
    ours.feed_forward_norm.load_state_dict(theirs.norm2.state_dict())
    x, mask = torch.randn(3, max(LENGTHS), DIM, dtype=torch.float64), masks()
    torch.testing.assert_close(ours(x, mask)[mask], theirs(x, src_key_padding_mask=~mask)[mask], **CLOSE)


@torch.no_grad()
def test_the_preset_bert_is_that_of_transformers() -> None:
    from transformers import BertConfig, BertModel

    layers = 2
    changes = {"dim": DIM, "num_layers": layers, "text": {"max_len": 16, "projection": {"num_features": VOCABULARY}}}
    changes["layers"] = {"0": {"mixers": {"0": {"num_heads": HEADS}}, "feed_forward": {"ffn_dim": FFN}}}
    ours = build_model(model_config("bert-base", changes), num_outputs=2, output="tokens").double().eval()
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=DIM,
        num_hidden_layers=layers,
        num_attention_heads=HEADS,
        intermediate_size=FFN,
        max_position_embeddings=16,
        layer_norm_eps=1e-5,  # theirs is 1e-12, which in float32 is none
    )
    theirs = BertModel(config, add_pooling_layer=False).double().eval()
    drawn(theirs)
    table = theirs.embeddings
    ours.embedding.weight.copy_(torch.cat([table.word_embeddings.weight, table.token_type_embeddings.weight]))
    ours.embedding.positions.weight.copy_(table.position_embeddings.weight)
    ours.embedding.norm.load_state_dict(table.LayerNorm.state_dict())
    for block, layer in zip(ours.encoder.layers, theirs.encoder.layer, strict=True):
        attention, mixer = layer.attention, block.mixers[0]
        for name in ("query", "key", "value"):
            getattr(mixer, name).load_state_dict(getattr(attention.self, name).state_dict())
        mixer.out.load_state_dict(attention.output.dense.state_dict())
        block.mixer_norms[0].load_state_dict(attention.output.LayerNorm.state_dict())
        block.feed_forward.expand.load_state_dict(layer.intermediate.dense.state_dict())
        block.feed_forward.contract.load_state_dict(layer.output.dense.state_dict())
        block.feed_forward_norm.load_state_dict(layer.output.LayerNorm.state_dict())
    mask = masks()
    subwords, segments = torch.randint(0, VOCABULARY, mask.shape), torch.randint(0, 2, mask.shape)
    expected = theirs(subwords, attention_mask=mask.long(), token_type_ids=segments).last_hidden_state
    # Each token is a word of its own: a bag of its subword's row and its segment's, one of the last two.
    bags = torch.stack([subwords.flatten(), VOCABULARY + segments.flatten()], dim=1)
    index = torch.arange(1, mask.numel() + 1).view(mask.shape) * mask
    rows = ours.embedding.word_rows(bags, None)
    found = ours.encoder(ours.embedding(rows, index, mask), mask)
    torch.testing.assert_close(found[mask], expected[mask], **CLOSE)
    assert sum(p.numel() for p in theirs.parameters()) == sum(
        p.numel() for part in (ours.embedding, ours.encoder) for p in part.parameters()
    )
