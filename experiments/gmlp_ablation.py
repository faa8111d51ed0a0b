"""gMLP, Table 3 in small: what the spatial unit's form is worth in perplexity, beside attention and MLP-Mixer.

Paper (C4, 128 tokens, 92 to 112 million parameters): BERT base 4.37, and 4.26 with relative positions, 5.64 without
content; MLP-Mixer 5.34; gMLP linear 5.14, additive 4.97, multiplicative 4.53, multiplicative and split 4.35.
Here, so that two cores can do it: IMDB reviews, 8,192 subwords trained on them, 128 tokens, width 128, and bodies of
the size of three layers of BERT (590 thousand parameters; without content it has fewer, as in the paper).

    python experiments/gmlp_ablation.py --data ../shared/data --runs runs/gmlp        # 1 hour of one core

Every model has the same steps and the rate that the Transformer, the first of them, had the better perplexity with; it,
the two closest models and the two closest forms of the unit have three seeds. The text is encoded once, into RUNS/text.
Each training is a run folder; what is finished is not repeated. Perplexities are of one set of hidden tokens, and
compare within this table only.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
from pathlib import Path
from typing import Any

import torch

from mixling import ModelConfig, PretrainConfig, pretrain
from mixling.artifacts import RUN_FILE, is_finished
from mixling.layers import RelativePositions
from mixling.mixers import AttentionConfig, MixerConfig, SynthesizerConfig, TokenMLPConfig
from mixling.models import count
from mixling.networks import BlockConfig, FeedForwardConfig
from mixling.provenance import provenance
from mixling.research.presets import bert, gmlp
from mixling.research.pretraining import PRETRAINING_DEFAULTS
from mixling.storage import read_json, write_json

DIM, LENGTH, SUBWORDS = 128, 128, 8192
RATES = (2e-3, 6e-3)


# From zero the biases do not reach the neighbors within so few steps: that one is in the table, too.
NEAR, ZERO = RelativePositions(init="alibi"), RelativePositions()
BERT = bert(AttentionConfig(num_heads=4, positions=NEAR), num_layers=3, dim=DIM, max_len=LENGTH)


def family(name: str, layers: int, mixer: MixerConfig | None = None) -> ModelConfig:
    """gMLP, aMLP or a Transformer; four layers of gMLP are as large as three of the others.

    The Transformer is BERT with relative positions and gMLP's place of the norms, before the sublayers, which bears
    higher rates.
    """
    if name == "transformer":
        mixers = BERT.layers[0].mixers if mixer is None else (mixer,)
        layer = BERT.layers[0].model_copy(update={"norm": "pre", "mixers": mixers})
        return BERT.model_copy(update={"layers": (layer,), "num_layers": layers, "final_norm": True})
    tiny = {"tiny_attention_dim": 64} if name == "amlp" else {}
    return gmlp(num_layers=layers, dim=DIM, ffn_dim=6 * DIM, max_len=LENGTH, **tiny)


def learned_positions() -> ModelConfig:
    """The Transformer with a table of positions in place of biases by distance."""
    model = family("transformer", 3, AttentionConfig(num_heads=4))
    return model.model_copy(update={"embedding": model.embedding.model_copy(update={"positions": "learned"})})


def mlp_mixer() -> ModelConfig:
    """The text MLP-Mixer: gMLP's embedding layer and head, four layers of the same size."""
    layer = BlockConfig(mixers=(TokenMLPConfig(hidden_dim=DIM),), feed_forward=FeedForwardConfig(ffn_dim=448))
    return family("gmlp", 4).model_copy(update={"layers": (layer,)})


MODELS = {
    "Transformer, relative positions": family("transformer", 3),
    "Transformer, biases from zero": family("transformer", 3, AttentionConfig(num_heads=4, positions=ZERO)),
    "Transformer, learned positions": learned_positions(),
    "Transformer, without content": family("transformer", 3, SynthesizerConfig(num_heads=4, positions=NEAR)),
    "MLP-Mixer": mlp_mixer(),
    **{
        f"gMLP, {variant}": gmlp(num_layers=4, dim=DIM, ffn_dim=576, max_len=LENGTH, variant=variant)
        for variant in ("linear", "additive", "multiplicative")
    },
    "gMLP, multiplicative, split": family("gmlp", 4),
    "aMLP": family("amlp", 3),
}
PAPER = {
    "Transformer, learned positions": 4.37,
    "Transformer, relative positions": 4.26,
    "Transformer, without content": 5.64,
    "MLP-Mixer": 5.34,
    "gMLP, linear": 5.14,
    "gMLP, additive": 4.97,
    "gMLP, multiplicative": 4.53,
    "gMLP, multiplicative, split": 4.35,
}


def with_training(model: ModelConfig, corpus: dict[str, Any], **training: Any) -> PretrainConfig:
    """A pretraining by our defaults, of the model over `SUBWORDS` subwords."""
    rate = training.pop("lr", PRETRAINING_DEFAULTS.optim.lr)
    optim = PRETRAINING_DEFAULTS.optim.model_copy(update={"lr": rate})
    values = {
        "corpus": corpus,
        "model": {**model.to_dict(), "text": {**model.text.to_dict(), "vocabulary_size": SUBWORDS}},
        "train": {**PRETRAINING_DEFAULTS.to_dict(), "evaluations": 5, **training, "optim": optim.to_dict()},
    }
    return PretrainConfig.model_validate(values)


def encode_text(source: Path, folder: Path, model: ModelConfig | None = None) -> None:
    """Encode the text once, by a run of one step that keeps it, as `model` reads it."""
    if not (folder / RUN_FILE).exists() or not is_finished(folder):
        corpus = {"files": [str(source)], "keep": True, "validation_tokens": 65_536}
        config = with_training(model or family("gmlp", 1), corpus, steps=1, evaluations=1, batch_size=8)
        pretrain(config, folder=folder, log=print)


def train(model: ModelConfig, text: Path, folder: Path, **training: Any) -> dict[str, Any]:
    """Pretrain into a folder, unless that is done; held-out measures and the parameters of the body."""
    if not (folder / RUN_FILE).exists() or not is_finished(folder):
        pretrain(with_training(model, {"prepared": str(text)}, **training), folder=folder)
    validation = json.loads((folder / "metrics.json").read_text())["validation"]
    print(folder, {key: round(value, 4) for key, value in validation.items()}, flush=True)
    return validation


def main() -> None:
    """Train what is missing and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=MODELS, help="train these with one seed and all rates, add them")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "gmlp_ablation.json")
    options = parser.parse_args()
    made = provenance(seed=0)
    torch.set_num_threads(1)
    text = options.runs / "text"
    encode_text(options.data / "imdb_unsup_lm" / "train.txt.gz", text)

    def at(name: str, rate: float, seed: int) -> dict[str, Any]:
        folder = options.runs / "ablation" / name / f"{rate:g}" / str(seed)
        return train(MODELS[name], text, folder, steps=options.steps, seed=seed, lr=rate)

    rows: dict[str, dict[str, Any]] = {}
    tried = RATES
    for name in options.only or MODELS:
        rates = {rate: at(name, rate, 0)["perplexity"] for rate in tried}
        best = min(rates, key=rates.__getitem__)
        tried = tried if options.only else (best,)
        body = count(MODELS[name], vocabulary=SUBWORDS).body
        rows[name] = {"body": body, "rates": {f"{rate:g}": value for rate, value in rates.items()}, "rate": best}
        rows[name]["perplexity"] = [rates[best]]
    if options.only:
        results = read_json(options.out)
        for name, row in rows.items():
            results["models"][name] = {
                **row,
                "mean": row["perplexity"][0],
                "paper": PAPER.get(name),
                "provenance": made,
            }
        write_json(options.out, results)
        return
    ranked = sorted(rows, key=lambda name: rows[name]["perplexity"][0])
    gap, closest = min(
        (rows[b]["perplexity"][0] / rows[a]["perplexity"][0], (a, b)) for a, b in itertools.pairwise(ranked)
    )
    print(f"closest: {closest}, ratio {gap:.4f}")
    always = ("Transformer, relative positions", "gMLP, multiplicative, split", "gMLP, multiplicative")
    for name in dict.fromkeys((*closest, *always)):
        rows[name]["perplexity"] += [
            at(name, rows[name]["rate"], seed)["perplexity"] for seed in range(1, options.seeds)
        ]
    for name, row in rows.items():
        row["mean"] = statistics.mean(row["perplexity"])
        row["paper"] = PAPER.get(name)
    settings = {
        "steps": options.steps,
        "batch_size": PRETRAINING_DEFAULTS.batch_size,
        "length": LENGTH,
        "subwords": SUBWORDS,
    }
    write_json(options.out, {**made, "settings": settings, "models": rows})
    for name in sorted(rows, key=lambda name: -rows[name]["mean"]):
        row = rows[name]
        shown = ", ".join(f"{value:.2f}" for value in row["perplexity"])
        print(f"| {name} | {row['body']:,} | {row['rate']:g} | {shown} | {row['paper'] or ''} |")


if __name__ == "__main__":
    main()
