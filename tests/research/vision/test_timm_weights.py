"""timm's weights: loaded by name, and with the same answers and gradients as in timm, where it is installed."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from mixling import ConfigError
from mixling.research.vision import IMAGE_PRESETS, ImageModelConfig, from_timm

SIZE = {"image_size": 32, "patch_size": 8, "dim": 8, "num_layers": 2}


def config(name: str) -> ImageModelConfig:
    """The preset in small, with timm's widths: three times (gMLP), or half and four times (others) the tokens'."""
    values = IMAGE_PRESETS[name].config.to_dict() | SIZE
    (layer,) = values["layers"]
    if name in ("resmlp-s12", "deit-ti"):
        layer["feed_forward"]["ffn_dim"] = 32
        layer["mixers"][0] |= {"num_heads": 2} if name == "deit-ti" else {}
        return ImageModelConfig.model_validate(values)
    if name == "gmlp-s":
        layer["mixers"][0]["ffn_dim"] = 48
    else:
        layer["mixers"][0]["hidden_dim"], layer["feed_forward"]["ffn_dim"] = 4, 32
    return ImageModelConfig.model_validate(values)


def timm_shapes(*, gated: bool) -> dict[str, tuple[int, ...]]:
    """Names and shapes as timm 1.0 has them."""
    linear: dict[str, tuple[int, int]] = {"head": (5, 8)}
    norms = {"norm": 8}
    for i in range(2):
        block = f"blocks.{i}."
        if gated:
            linear |= {f"{block}mlp_channels.fc1": (48, 8), f"{block}mlp_channels.fc2": (8, 24)}
            linear |= {f"{block}mlp_channels.gate.proj": (16, 16)}
            norms |= {f"{block}norm": 8, f"{block}mlp_channels.gate.norm": 24}
        else:
            linear |= {f"{block}mlp_tokens.fc1": (4, 16), f"{block}mlp_tokens.fc2": (16, 4)}
            linear |= {f"{block}mlp_channels.fc1": (32, 8), f"{block}mlp_channels.fc2": (8, 32)}
            norms |= {f"{block}norm1": 8, f"{block}norm2": 8}
    shapes: dict[str, tuple[int, ...]] = {"stem.proj.weight": (8, 3, 8, 8), "stem.proj.bias": (8,)}
    for name, shape in linear.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    for name, width in norms.items():
        shapes |= {f"{name}.weight": (width,), f"{name}.bias": (width,)}
    return shapes


def by_hand(weights: dict[str, Tensor], images: Tensor, *, gated: bool) -> Tensor:
    """timm's models written out."""

    def linear(name: str, x: Tensor) -> Tensor:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(name: str, x: Tensor, eps: float = 1e-6) -> Tensor:
        mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, correction=0)
        return (x - mean) / (variance + eps).sqrt() * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    x = nn.functional.conv2d(images, weights["stem.proj.weight"], weights["stem.proj.bias"], stride=8).flatten(2).mT
    for i in range(2):
        block = f"blocks.{i}."
        if gated:
            z, gate = nn.functional.gelu(linear(f"{block}mlp_channels.fc1", norm(f"{block}norm", x))).chunk(2, -1)
            gate = linear(f"{block}mlp_channels.gate.proj", norm(f"{block}mlp_channels.gate.norm", gate, 1e-5).mT).mT
            x = x + linear(f"{block}mlp_channels.fc2", z * gate)
            continue
        hidden = nn.functional.gelu(linear(f"{block}mlp_tokens.fc1", norm(f"{block}norm1", x).mT))
        x = x + linear(f"{block}mlp_tokens.fc2", hidden).mT
        hidden = nn.functional.gelu(linear(f"{block}mlp_channels.fc1", norm(f"{block}norm2", x)))
        x = x + linear(f"{block}mlp_channels.fc2", hidden)
    return linear("head", norm("norm", x).mean(1))


@pytest.mark.parametrize("name", ["gmlp-s", "mixer-b16"])
def test_answers_are_those_of_timms_model_by_hand(name: str) -> None:
    gated = name == "gmlp-s"
    made = torch.Generator().manual_seed(0)
    weights = {key: torch.randn(shape, generator=made) for key, shape in timm_shapes(gated=gated).items()}
    images = torch.randn(2, 3, 32, 32, generator=made)
    model = from_timm(config(name), weights).eval()  # stochastic depth off
    expected = by_hand({key: value.double() for key, value in weights.items()}, images.double(), gated=gated)
    torch.testing.assert_close(model.double()(images.double()), expected, rtol=1e-10, atol=1e-10)


THEIRS = {
    "gmlp-s": "gmlp_s16_224",
    "mixer-b16": "mixer_b16_224",
    "resmlp-s12": "resmlp_12_224",
    "deit-ti": "deit_tiny_patch16_224",
}


@pytest.mark.parametrize(("name", "theirs"), THEIRS.items())
def test_answers_and_gradients_are_those_of_timm(name: str, theirs: str) -> None:
    timm = pytest.importorskip("timm", exc_type=Exception)
    torch.manual_seed(0)
    published = timm.create_model(theirs, num_classes=5)
    for parameter in published.parameters():  # some start at zero or one
        nn.init.normal_(parameter, std=0.02)
    model = from_timm(IMAGE_PRESETS[name].config, published.state_dict())
    images = [part.requires_grad_() for part in torch.randn(1, 3, 224, 224).repeat(2, 1, 1, 1).chunk(2)]
    answers = [published.eval()(images[0]), model.eval()(images[1])]
    torch.testing.assert_close(*answers, rtol=0, atol=1e-5)
    for answer in answers:
        answer.sum().backward()
    torch.testing.assert_close(images[0].grad, images[1].grad, rtol=1e-3, atol=1e-5)


def resmlp_shapes() -> dict[str, tuple[int, ...]]:
    """Names and shapes of timm's ResMLP."""
    shapes: dict[str, tuple[int, ...]] = {"stem.proj.weight": (8, 3, 8, 8), "stem.proj.bias": (8,)}
    linear = {"head": (5, 8)}
    for i in range(2):
        block = f"blocks.{i}."
        linear |= {f"{block}linear_tokens": (16, 16)}
        linear |= {f"{block}mlp_channels.fc1": (32, 8), f"{block}mlp_channels.fc2": (8, 32)}
        shapes |= {f"{block}ls1": (8,), f"{block}ls2": (8,)}
    for name in ("norm", *(f"blocks.{i}.norm{k}" for i in range(2) for k in (1, 2))):
        shapes |= {f"{name}.alpha": (1, 1, 8), f"{name}.beta": (1, 1, 8)}
    for name, shape in linear.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    return shapes


def test_answers_are_those_of_timms_resmlp_by_hand() -> None:
    made = torch.Generator().manual_seed(0)
    weights = {key: torch.randn(shape, generator=made) for key, shape in resmlp_shapes().items()}
    images = torch.randn(2, 3, 32, 32, generator=made).double()
    model = from_timm(config("resmlp-s12"), weights).eval().double()
    w = {key: value.double() for key, value in weights.items()}

    def linear(name: str, x: Tensor) -> Tensor:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def affine(name: str, x: Tensor) -> Tensor:
        return x * w[f"{name}.alpha"] + w[f"{name}.beta"]

    x = nn.functional.conv2d(images, w["stem.proj.weight"], w["stem.proj.bias"], stride=8).flatten(2).mT
    for block in ("blocks.0.", "blocks.1."):
        x = x + w[f"{block}ls1"] * linear(f"{block}linear_tokens", affine(f"{block}norm1", x).mT).mT
        hidden = nn.functional.gelu(linear(f"{block}mlp_channels.fc1", affine(f"{block}norm2", x)))
        x = x + w[f"{block}ls2"] * linear(f"{block}mlp_channels.fc2", hidden)
    expected = linear("head", affine("norm", x).mean(1))
    torch.testing.assert_close(model(images), expected, rtol=1e-10, atol=1e-10)


def test_answers_are_those_of_timms_vit_by_hand() -> None:
    made = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(shape, generator=made)

    weights = {"cls_token": drawn(1, 1, 8), "pos_embed": drawn(1, 17, 8), "patch_embed.proj.weight": drawn(8, 3, 8, 8)}
    weights |= {"patch_embed.proj.bias": drawn(8), "head.weight": drawn(5, 8), "head.bias": drawn(5)}
    for name in ("norm", *(f"blocks.{i}.norm{k}" for i in range(2) for k in (1, 2))):
        weights |= {f"{name}.weight": drawn(8), f"{name}.bias": drawn(8)}
    for i in range(2):
        for name, shape in {"attn.qkv": (24, 8), "attn.proj": (8, 8), "mlp.fc1": (32, 8), "mlp.fc2": (8, 32)}.items():
            weights |= {f"blocks.{i}.{name}.weight": drawn(*shape), f"blocks.{i}.{name}.bias": drawn(shape[0])}
    images = drawn(2, 3, 32, 32).double()
    model = from_timm(config("deit-ti"), weights).eval().double()
    w = {key: value.double() for key, value in weights.items()}

    def linear(name: str, x: Tensor) -> Tensor:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(name: str, x: Tensor) -> Tensor:
        mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, correction=0)
        return (x - mean) / (variance + 1e-6).sqrt() * w[f"{name}.weight"] + w[f"{name}.bias"]

    x = nn.functional.conv2d(images, w["patch_embed.proj.weight"], w["patch_embed.proj.bias"], stride=8).flatten(2).mT
    x = torch.cat([w["cls_token"].expand(2, 1, 8), x], 1) + w["pos_embed"]
    for block in ("blocks.0.", "blocks.1."):
        q, k, v = (
            part.view(2, 17, 2, 4).movedim(2, 1)
            for part in linear(f"{block}attn.qkv", norm(f"{block}norm1", x)).chunk(3, -1)
        )
        mixed = ((q @ k.mT / 2).softmax(-1) @ v).movedim(1, 2).flatten(2)
        x = x + linear(f"{block}attn.proj", mixed)
        x = x + linear(f"{block}mlp.fc2", nn.functional.gelu(linear(f"{block}mlp.fc1", norm(f"{block}norm2", x))))
    torch.testing.assert_close(model(images), linear("head", norm("norm", x)[:, 0]), rtol=1e-10, atol=1e-10)


def test_weights_of_another_model_are_refused() -> None:
    weights = {name: torch.zeros(shape) for name, shape in timm_shapes(gated=False).items()}
    with pytest.raises(ConfigError, match=r"timm: the weights and the model differ in blocks\.0\.mlp_tokens"):
        from_timm(config("gmlp-s"), weights)
    with pytest.raises(ConfigError, match=r"timm: output\.weight has \(5, 9\), but the model \(5, 8\)"):
        from_timm(config("mixer-b16"), weights | {"head.weight": torch.zeros(5, 9)})
    with pytest.raises(ConfigError, match=r"timm: the weights without head\.bias"):
        from_timm(config("mixer-b16"), {})
