"""T5.1.1 against transformers' with copied weights: logits, greedy and beam search."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

from mixling.research.seq2seq import EncoderDecoder, GenerationConfig, Shape, build_encoder_decoder, generate, t5

from .small_models import drawn, sources, targets

if TYPE_CHECKING:
    from transformers import T5ForConditionalGeneration
    from transformers.models.t5.modeling_t5 import T5LayerNorm

SUBWORDS, START, STOP = 12, 0, 1
# transformers 5 keeps states for as many layers as the encoder has: the decoder may not have more.
SHAPE = Shape(dim=16, ffn_dim=20, num_heads=3, head_dim=5, num_layers=3, num_decoder_layers=2)
LENGTHS = [40, 1, 17, 6, 9, 25, 3, 30]


class ExactNorm(nn.Module):
    """T5's norm; transformers' takes the mean of squares in single precision, whatever it is given."""

    def __init__(self, norm: T5LayerNorm) -> None:
        super().__init__()
        self.weight, self.eps = norm.weight, norm.variance_epsilon

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x / torch.sqrt((x**2).mean(-1, keepdim=True) + self.eps)


def theirs(seed: int = 0, std: float = 0.4) -> T5ForConditionalGeneration:
    from transformers.models.t5 import modeling_t5  # takes seconds

    config = modeling_t5.T5Config(
        vocab_size=SUBWORDS,
        d_model=SHAPE.dim,
        d_kv=SHAPE.head_dim,
        d_ff=SHAPE.ffn_dim,
        num_heads=SHAPE.num_heads,
        num_layers=SHAPE.num_layers,
        num_decoder_layers=SHAPE.num_decoder_layers,
        feed_forward_proj="gated-gelu",
        tie_word_embeddings=False,
        decoder_start_token_id=START,
        eos_token_id=STOP,
        pad_token_id=0,
    )
    assert not config.scale_decoder_outputs
    model: T5ForConditionalGeneration = modeling_t5.T5ForConditionalGeneration(config).double().eval()
    model.lm_head.weight = nn.Parameter(torch.empty_like(model.shared.weight))  # it is tied, whatever is asked for
    drawn(model, seed, std)
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, modeling_t5.T5LayerNorm):
                setattr(module, name, ExactNorm(child))
    return model


def copied(model: T5ForConditionalGeneration) -> EncoderDecoder:
    """Our T5.1.1 with the weights of theirs, whose names are all used."""
    weights = model.state_dict()
    parts = {"SelfAttention": "mixers.0", "EncDecAttention": "cross", "DenseReluDense": "feed_forward"}
    norms = {"mixers.0": "mixer_norms.0", "cross": "cross_norm", "feed_forward": "feed_forward_norm"}
    leaves = {"q": "query", "k": "key", "v": "value", "o": "out", "relative_attention_bias": "relative"}
    leaves |= {"wi_0": "expand", "wi_1": "value", "wo": "contract"}
    found = {"table.weight": weights.pop("shared.weight"), "output.weight": weights.pop("lm_head.weight")}
    for stack in ("encoder", "decoder"):
        assert torch.equal(weights.pop(f"{stack}.embed_tokens.weight"), found["table.weight"])
        found[f"{stack}.norm.weight"] = weights.pop(f"{stack}.final_layer_norm.weight")
    for key in [key for key in weights if not key.endswith("layer_norm.weight")]:
        stack, _, number, _, location, part, leaf, _ = key.split(".")
        ours, prefix = parts[part], f"{stack}.layers.{number}"
        found[f"{prefix}.{ours}.{leaves[leaf]}.weight"] = weights.pop(key)
        norm = weights.pop(f"{stack}.block.{number}.layer.{location}.layer_norm.weight", None)
        if norm is not None:
            found[f"{prefix}.{norms[ours]}.weight"] = norm
    assert not weights
    made = build_encoder_decoder(t5(SHAPE), vocab_size=SUBWORDS).double().eval()
    made.load_state_dict(found)
    return made


def test_logits_are_those_of_transformers() -> None:
    other = theirs()
    model = copied(other)
    source, mask = sources(LENGTHS, subwords=SUBWORDS)
    target = targets(len(LENGTHS), 150)  # past the distance where the last bucket begins
    with torch.no_grad():
        expected = other(input_ids=source, attention_mask=mask.long(), decoder_input_ids=target).logits
        found = model(source, mask, target)
    torch.testing.assert_close(found, expected, rtol=0.0, atol=1e-10)
    assert sum(p.numel() for p in model.parameters()) == sum(p.numel() for p in other.parameters())


@pytest.mark.slow
@pytest.mark.parametrize(
    "values",
    [
        {"num_beams": 1},
        {"num_beams": 3},
        {"num_beams": 4, "length_penalty": 0.6},
        {"num_beams": 4, "length_penalty": 2.0, "early_stopping": False},
        {"num_beams": 2, "length_penalty": 0.0, "early_stopping": False},
        {"num_beams": 3, "length_penalty": -1.0, "early_stopping": False},
    ],
    ids=str,
)
def test_answers_are_those_of_transformers(values: dict) -> None:
    config = GenerationConfig(max_len=12, **values)
    given = {"num_beams": 1}
    if config.num_beams > 1:
        given = {**config.model_dump(exclude={"max_len"}), "output_scores": True}
        given["early_stopping"] = config.early_stopping or "never"
    source, mask = sources(LENGTHS, subwords=SUBWORDS)
    ends = set()
    for seed in range(4):
        other = theirs(seed, std=0.25)
        with torch.no_grad():
            other.lm_head.weight[STOP] *= 3  # so that some answers end
        expected = other.generate(
            input_ids=source,
            attention_mask=mask.long(),
            max_new_tokens=config.max_len,
            do_sample=False,
            return_dict_in_generate=True,
            **given,
        )
        answers = generate(copied(other), source, mask, config, start=START, stop=STOP)
        for row, answer in zip(expected.sequences.tolist(), answers, strict=True):
            subwords = row[1:]
            end = subwords.index(STOP) if STOP in subwords else len(subwords)
            assert answer == (tuple(subwords[:end]), answer.score, STOP in subwords)
            ends.add((end, answer.stopped))
        if config.num_beams > 1:
            scores = [answer.score for answer in answers]
            torch.testing.assert_close(scores, expected.sequences_scores.tolist(), rtol=1e-6, atol=0.0)  # in float32
    assert len(ends) > 1
    assert {stopped for _, stopped in ends} == {False, True}
