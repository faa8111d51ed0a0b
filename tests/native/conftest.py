"""Models of each kind that the native engine runs, and texts that are hard to read."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any

import pytest

from mixling import PRESETS, ModelConfig, Vocabulary, build_model
from mixling.answers import LabelSet
from mixling.config import merge, parse
from mixling.export import export_onnx
from mixling.models import Model, TorchNetwork
from mixling.tasks import task_type
from mixling.text import ReadingConfig

WORDS = (
    "what a film un be lievable ça alors the quick brown fox jumps over lazy dogs play song is not ça été 你 好 οδος"
)
LABELS = {
    "classification": LabelSet(("bad", "good", "über"), "single"),
    "multi_label": LabelSet(("a", "b", "c", "d"), "multi"),
    "regression": LabelSet(("value",), "number", {"mean": 2.0, "deviation": 1.5}),
    "tagging": LabelSet(("O", "B-a", "B-über", "I-a", "I-über", "I-of no begin"), "iob"),
    "question_answering": LabelSet(("start", "end"), "span"),
}
_LETTERS = [*"abnNtT'’sSdmlvreLVE ,.!-_\n\t\x00\ufeff", *"éΣσİ\u0301\u0323你🫨\ud83d\u00ad각각\u0344\u0958"]


@functools.cache
def _vocabulary() -> Vocabulary:
    return Vocabulary.train(WORDS.split() * 3, size=150)


def _trained_looking(model: Model, seed: int) -> Model:
    """A new model's norms are ones and its biases and transitions zeros: one could be taken for another."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1 or not parameter.any():
                parameter += 0.2 * torch.randn(parameter.shape, generator=generator)
    return model


@functools.cache
def _export(preset: str, task: str, precision: str, pairs: bool, classes: int | None, changes: str) -> bytes:
    values: dict[str, Any] = {"text": {"segments": pairs, "overlap": pairs}}
    changed = eval(changes)
    reading = ReadingConfig(**changed.pop("reading", {})) if task == "question_answering" else None
    config = parse(ModelConfig, merge(merge(PRESETS[preset].config.to_dict(), values), changed), where=preset)
    if config.text.projection.num_features is None:
        config = config.model_copy(update={"text": config.text.for_vocabulary(_vocabulary())})
    labels = LABELS[task] if classes is None else LabelSet(tuple(f"label {i}" for i in range(classes)), "single")
    model = _trained_looking(build_model(config, num_outputs=len(labels), output=task_type(task).output, seed=3), 5)
    return export_onnx(
        TorchNetwork(model), text=config.text, task=task, labels=labels, vocabulary=_vocabulary(), precision=precision,
        pairs=None if reading else pairs, reading=reading,
    )  # fmt: skip


@pytest.fixture(scope="session")
def export() -> Callable[..., bytes]:
    """`export(preset, task=..., precision=..., pairs=..., classes=..., **changes)`: the bytes of a model, made once."""

    def make(
        preset: str,
        *,
        task: str = "classification",
        precision: str = "float32",
        pairs: bool = False,
        classes: int | None = None,
        **changes: Any,
    ) -> bytes:
        return _export(preset, task, precision, pairs, classes, repr(changes))

    return make


@pytest.fixture(scope="session")
def texts() -> list[str]:
    """Texts of hard characters, long ones, and random ones."""
    rng = random.Random(0)
    out = [
        "", "   ", "what a film", "Un-believable!", "x" * 1_000_000, "word " * 300, "Σ" * 3000 + "\u0301" * 2000,
        "it isn't, don't! I'd've we'll they’re n't N'T n'tx can't 's 'sx 'll 'llx RE've o'n't x'n't'",
        "\x00NUL\ufeffmark\x00", "\ud800lone \udfff", "a\u0301bc ΑΣ ΟΔΟΣ σΣ. İstanbul ſ ẞ", "🫨🙂 great🫨 film",
        "हिन्दी में शब्द", "ไทย ภาษา", "가각힣 각 각", "\u0958\u0344\u1e69 \u0323\u0301a\u0301\u0323", "你好世界 ça 好a",
        "\x1c\x85\xa0\u2028a\u3000b\u200bc\u00add", "I'm" * 200, "n't" * 200, "’" * 200,
    ]  # fmt: skip
    out += ["".join(rng.choices(_LETTERS, k=rng.randint(0, 60))) for _ in range(600)]
    kinds = (0x110000, 0x3000, 0x300)
    out += [
        "".join(chr(rng.randrange(rng.choice(kinds))) for _ in range(rng.randint(1, 40))) for _ in range(300)
    ]  # fmt: skip
    return out
