"""Speed of generation: cached steps against recomputation, and greedy search beside transformers' T5, one core.

    python benchmarks/generation.py

First, for each family of models: the logits after each of 256 target subwords by `step`, whose state is kept, against a
decoder that is run anew on all subwords so far at each step (the encoder runs once in both, and only the last subword's
logits are computed). One source of 64 subwords, and eight; the size of the `-2m` presets over 1,000 subwords. Of the
recomputation only every 16th length is run, from 8 to 248, and its time is taken 16 times.

Then greedy search to 64 subwords, which no stop token ends, by `generate` and by transformers' `generate`, with its
default attention kernel and cache, of a T5.1.1 of the same shape with the same weights; the subwords found are
compared.

All in one process with one thread, in an order that is drawn anew each round; times are the thread's CPU time, since a
machine that does other work would add its waiting. A ratio is the median of the rounds' ratios.
Written to benchmarks/results/generation.json.
"""

from __future__ import annotations

import json
import statistics
from typing import Any

import torch
from side_by_side import arguments, in_turn, on_one_core, ratio
from torch import Tensor, nn
from transformers import T5Config, T5ForConditionalGeneration

from mixling.models import count_parameters
from mixling.provenance import provenance
from mixling.research.seq2seq import (
    CPU,
    SEQ2SEQ_PRESETS,
    SMALL,
    EncoderDecoder,
    GenerationConfig,
    Shape,
    build_encoder_decoder,
    generate,
    seq2seq_config,
    t5,
)

SOURCE, TARGET, EVERY = 64, 256, 16
BATCHES = (1, 8)
ANSWER = 64
REACH = {"cached over recomputed at 256": 5.0, "greedy over transformers": 1.0}
FAMILIES = [name for name in SEQ2SEQ_PRESETS if name.endswith("-2m")]
RIVALS: list[tuple[str, Shape, int, int]] = [
    ("2m", CPU, 1000, 1),
    ("2m", CPU, 1000, 16),
    ("t5-1.1-small", SMALL, 32_128, 1),
    ("t5-1.1-small", SMALL, 32_128, 8),
]


def sources(batch: int, subwords: int) -> tuple[Tensor, Tensor]:
    """A batch of sources of one length."""
    return torch.randint(2, subwords, (batch, SOURCE)), torch.ones(batch, SOURCE, dtype=torch.bool)


def stepped(model: EncoderDecoder, source: Tensor, mask: Tensor, target: Tensor) -> None:
    """The logits after each subword, by steps."""
    state = model.start(source, mask)
    for now in range(target.shape[1]):
        _, state = model.step(target[:, now], state)


def recomputed(model: EncoderDecoder, source: Tensor, mask: Tensor, target: Tensor) -> None:
    """The logits after subwords 8, 24, 40 ..., each from the decoder's whole input."""
    encoded = model.encode(source, mask)
    for length in range(EVERY // 2, target.shape[1] + 1, EVERY):
        x = model.decoder(
            model.table(target[:, :length]), torch.ones(len(target), length, dtype=torch.bool), encoded, mask
        )
        model.output(x[:, -1])


def caching(name: str, batch: int, rounds: int) -> dict[str, Any]:
    """Cached steps against recomputation of one family."""
    config = seq2seq_config(name, max_target_len=TARGET)
    model = build_encoder_decoder(config, vocab_size=1000, seed=0).eval()
    given = (model, *sources(batch, 1000), torch.randint(2, 1000, (batch, TARGET)))
    spent = in_turn({"stepped": lambda: stepped(*given), "recomputed": lambda: recomputed(*given)}, rounds)
    whole = [EVERY * seconds for seconds in spent["recomputed"]]
    return {
        "model": name,
        "batch": batch,
        "rounds": rounds,
        "parameters": count_parameters(model),
        "stepped_s": round(statistics.median(spent["stepped"]), 3),
        "recomputed_s": round(statistics.median(whole), 3),
        "faster": ratio(whole, spent["stepped"]),
    }


def theirs(shape: Shape, subwords: int) -> T5ForConditionalGeneration:
    """A T5.1.1 of transformers."""
    config = T5Config(
        vocab_size=subwords,
        d_model=shape.dim,
        d_kv=shape.head_dim,
        d_ff=shape.ffn_dim,
        num_heads=shape.num_heads,
        num_layers=shape.num_layers,
        num_decoder_layers=shape.num_decoder_layers,
        feed_forward_proj="gated-gelu",
        tie_word_embeddings=False,
        decoder_start_token_id=0,
        eos_token_id=None,
        pad_token_id=0,
    )
    model = T5ForConditionalGeneration(config).eval()
    model.lm_head.weight = nn.Parameter(torch.randn_like(model.shared.weight) * shape.dim**-0.5)
    return model


def with_the_weights_of(other: T5ForConditionalGeneration, shape: Shape, subwords: int) -> EncoderDecoder:
    """Our T5.1.1 with the weights of theirs; both list a block's parts in the order in which they run."""
    model = build_encoder_decoder(t5(shape), vocab_size=subwords).eval()
    pairs: list[tuple[nn.Module, nn.Module]] = [(model.table, other.shared), (model.output, other.lm_head)]
    for ours, stack in ((model.encoder, other.encoder), (model.decoder, other.decoder)):
        pairs.append((ours.norm, stack.final_layer_norm))
        pairs.append((ours.layers[0].mixers[0].relative, stack.block[0].layer[0].SelfAttention.relative_attention_bias))
        for block, layers in zip(ours.layers, (block.layer for block in stack.block), strict=True):
            attentions = [(block.mixers[0], layers[0].SelfAttention), (block.mixer_norms[0], layers[0].layer_norm)]
            if block.cross is not None:
                attentions += [(block.cross, layers[1].EncDecAttention), (block.cross_norm, layers[1].layer_norm)]
            for mixer, attention in attentions[::2]:
                names = zip(("query", "key", "value", "out"), "qkvo", strict=True)
                pairs += [(getattr(mixer, a), getattr(attention, b)) for a, b in names]
            ffn, dense = block.feed_forward, layers[-1].DenseReluDense
            pairs += [*attentions[1::2], (block.feed_forward_norm, layers[-1].layer_norm)]
            pairs += [(ffn.expand, dense.wi_0), (ffn.value, dense.wi_1), (ffn.contract, dense.wo)]
    for ours, copied in pairs:
        ours.weight.data.copy_(copied.weight.data)
    return model


def beside_transformers(name: str, shape: Shape, subwords: int, batch: int, rounds: int) -> dict[str, Any]:
    """Greedy search by both."""
    other = theirs(shape, subwords)
    model = with_the_weights_of(other, shape, subwords)
    source, mask = sources(batch, subwords)
    config = GenerationConfig(max_len=ANSWER)

    def ours() -> list[list[int]]:
        return [list(answer.subwords) for answer in generate(model, source, mask, config, start=0, stop=-1)]

    def transformers() -> list[list[int]]:
        given = {"max_new_tokens": ANSWER, "do_sample": False, "num_beams": 1}
        return other.generate(input_ids=source, attention_mask=mask.long(), **given)[:, 1:].tolist()

    agreed = sum(a == b for x, y in zip(ours(), transformers(), strict=True) for a, b in zip(x, y, strict=True))
    spent = in_turn({"mixling": ours, "transformers": transformers}, rounds)
    return {
        "model": name,
        "batch": batch,
        "rounds": rounds,
        "parameters": count_parameters(model),
        "units_per_s": {key: round(batch * ANSWER / statistics.median(each), 1) for key, each in spent.items()},
        "faster": ratio(spent["transformers"], spent["mixling"]),
        "units_that_agree": round(agreed / (batch * ANSWER), 4),
    }


def main() -> None:
    """Measure and write."""
    parser = arguments(__doc__, "generation")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--families", nargs="*", default=FAMILIES)
    parser.add_argument("--rivals", type=int, nargs="*", default=range(len(RIVALS)), help="numbers of the shapes")
    options = parser.parse_args()
    on_one_core()
    begun = provenance(seed=0, packages=("transformers",))
    report: dict[str, Any] = {
        "source": SOURCE,
        "target": TARGET,
        "answer": ANSWER,
        "reach": REACH,
        "caching": [],
        "greedy": [],
    }
    with torch.inference_mode():
        for name in options.families:
            for batch in BATCHES:
                report["caching"].append(caching(name, batch, options.rounds))
                print(json.dumps(report["caching"][-1]), flush=True)
        for number in options.rivals:
            report["greedy"].append(beside_transformers(*RIVALS[number], options.rounds))
            print(json.dumps(report["greedy"][-1]), flush=True)
    report["provenance"] = begun
    options.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
