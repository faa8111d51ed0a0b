"""Training steps of masked language models: ours against transformers' BERT of the same shape, tokens per second.

    OMP_NUM_THREADS=1 python benchmarks/pretraining.py --out benchmarks/results/pretraining.json

Each step is forward, backward and AdamW on the same texts with the same 15% hidden; ours begins with the rows of the
text, so hiding tokens and stacking them is in its time, while transformers' BERT is given tensors that are ready. The
models take turns. One difference is left as it is: we compute answers for hidden tokens only, BertForMaskedLM for all;
`transformers, hidden only` does it as we do, by its own body and head. The limit is the rate of a matrix product of the
feed-forward's shape, over the products of forward and backward (three times the forward's).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from mixling import ModelConfig, TextEncoder, Vocabulary, build_model
from mixling.mixers import AttentionConfig
from mixling.models import count_parameters, tensors_of
from mixling.provenance import provenance
from mixling.research.presets import bert, gmlp
from mixling.research.pretraining import MASK_WORD, MaskedLM, MaskedLMConfig, MaskedText, Tokens, subword_targets
from mixling.storage import write_json
from mixling.text import FIRST
from mixling.training import OptimConfig
from mixling.training.backends.optimizer import build_optimizer

Step = Callable[[int], None]
HEADS = 4


def our_step(
    config: ModelConfig, tokens: int, batch: int, length: int, dtype: torch.dtype
) -> tuple[Step, MaskedText, Any]:
    """A function that makes one step of ours, the data it draws from, and the model."""
    specials = ["[UNK]", "[SEP]", MASK_WORD]
    vocabulary = Vocabulary.parse(
        "vocab.txt", "".join(f"{subword}\n" for subword in [*specials, *map(_name, range(tokens))])
    )
    text = config.text.for_vocabulary(vocabulary)
    encoder = TextEncoder(text, vocabulary)
    encoder.learn([MASK_WORD, *map(_name, range(tokens))])
    rng = np.random.default_rng(0)
    rows = rng.integers(FIRST + 1, FIRST + 1 + tokens, batch * length * 4).astype(np.uint32)
    text_tokens = Tokens(rows, rng.random(len(rows)) < 0.8)
    data = MaskedText(
        objective=MaskedLM(), config=MaskedLMConfig(), encoder=encoder, train=text_tokens, validation=text_tokens,
        length=length, targets=subword_targets(encoder),
    )  # fmt: skip
    model = build_model(
        config.model_copy(update={"text": text}), num_outputs=len(vocabulary), output="subwords", seed=0
    )
    optimizer = build_optimizer(model, OptimConfig(embedding_lr=1.0))

    def step(number: int) -> None:
        indices = np.arange(batch)
        made, targets, _ = data.batch(indices, indices, seed=0, step=number)
        with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
            logits = model(made.features, made.weights, made.index, made.mask, made.starts)
        loss, weight = data.objective.loss(logits.float(), targets, None)
        (loss / weight).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step, data, model


def their_step(
    config: ModelConfig,
    subwords: int,
    data: MaskedText,
    dtype: torch.dtype,
    *,
    gather: bool,
    heads: int = HEADS,
    device: str = "cpu",
    compiled: Callable[[Any], Any] = lambda model: model,
) -> tuple[Step, Any]:
    """A step of transformers' BertForMaskedLM, whole or with answers for hidden tokens only."""
    from transformers import BertConfig, BertForMaskedLM

    blocks = config.blocks
    assert blocks[0].feed_forward is not None
    shape = BertConfig(
        vocab_size=subwords, hidden_size=config.dim, num_hidden_layers=len(blocks), num_attention_heads=heads,
        intermediate_size=blocks[0].feed_forward.ffn_dim, max_position_embeddings=config.text.max_len,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    torch.manual_seed(0)
    model = BertForMaskedLM(shape).to(device).train()
    whole, body, answers = (compiled(part) for part in (model, model.bert, model.cls))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    indices = np.arange(len(data.train.rows) // 4 // data.length)
    made, wanted, _ = data.batch(indices, indices, seed=0, step=0)
    features, index, starts, mask, targets = tensors_of(
        [made.features, made.index, made.starts, made.mask, wanted], torch.device(device)
    )
    ids = features[index - 1, 0].long()
    labels = torch.full(ids.shape, -100, device=device)
    chosen = targets >= 0
    rows = torch.arange(len(ids), device=device)[:, None].expand_as(targets)[chosen]
    labels[rows, starts[chosen]] = targets[chosen]
    attended = mask.long()

    def step(number: int) -> None:
        with torch.autocast(device, dtype, enabled=dtype != torch.float32):
            if gather:
                hidden = body(ids, attention_mask=attended).last_hidden_state
                logits = answers(hidden[labels >= 0])
                loss = F.cross_entropy(logits.float(), labels[labels >= 0])
            else:
                loss = whole(ids, attention_mask=attended, labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step, model


def gemm_rate(rows: int, dim: int, ffn_dim: int, dtype: torch.dtype) -> float:
    """Multiply-adds a second of the feed-forward's product, the best of many."""
    a, b = torch.randn(rows, dim, dtype=dtype), torch.randn(ffn_dim, dim, dtype=dtype)
    times = []
    for _ in range(30):
        begin = time.perf_counter()
        F.linear(a, b)
        times.append(time.perf_counter() - begin)
    return 2 * rows * dim * ffn_dim / min(times[5:])


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--layers", type=int, default=6, help="of BERT; gMLP has 4/3 as many and as many parameters")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--subwords", type=int, default=8192)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    made = provenance(seed=0, packages=("transformers",))
    torch.set_num_threads(1)
    bert_config = bert(
        AttentionConfig(num_heads=HEADS), num_layers=options.layers, dim=options.dim, max_len=options.length,
        positions="learned",
    )  # fmt: skip
    gmlp_config = gmlp(
        num_layers=options.layers * 4 // 3, dim=options.dim, ffn_dim=6 * options.dim, max_len=options.length
    )
    results: dict[str, Any] = {}
    for name, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        plain = options.subwords - 3
        our_bert, data, model = our_step(bert_config, plain, options.batch, options.length, dtype)
        our_gmlp, _, second = our_step(gmlp_config, plain, options.batch, options.length, dtype)
        whole, third = their_step(bert_config, options.subwords, data, dtype, gather=False)
        hidden_only, _ = their_step(bert_config, options.subwords, data, dtype, gather=True)
        steps = {"transformers": whole, "transformers, hidden only": hidden_only, "BERT": our_bert, "gMLP": our_gmlp}
        times: dict[str, list[float]] = {system: [] for system in steps}
        for number in range(options.repeats + 2):
            for system, step in steps.items():
                begin = time.perf_counter()
                step(number)
                times[system].append(time.perf_counter() - begin)
        tokens = options.batch * options.length
        parameters = {"transformers": third, "transformers, hidden only": third, "BERT": model, "gMLP": second}
        products = 3 * options.batch * model.encoder.flops(1, options.length)
        products += 3 * 2 * tokens * 0.15 * options.dim * options.subwords
        rate = gemm_rate(tokens, options.dim, 4 * options.dim, dtype)
        base = statistics.median(times["transformers"][2:])
        results[name] = {"gemm": rate, "limit_tokens_per_second": tokens / (products / rate), "systems": {}}
        for system, found in times.items():
            median = statistics.median(found[2:])
            results[name]["systems"][system] = {
                "tokens_per_second": tokens / median,
                "ratio": base / median,
                "parameters": count_parameters(parameters[system]),
            }
            row = results[name]["systems"][system]
            print(f"{name} {system:<26} {row['tokens_per_second']:>9,.0f} tokens/s {row['ratio']:.2f}x")
        limit = results[name]["limit_tokens_per_second"]
        print(f"{name} limit for BERT {limit:,.0f} tokens/s at {rate / 1e9:.0f} GFLOP/s")
    if options.out is not None:
        settings = {key: value for key, value in vars(options).items() if key != "out"}
        write_json(options.out, {**made, "settings": settings, "results": results})


def _name(number: int) -> str:
    return f"w{number}"


if __name__ == "__main__":
    main()
