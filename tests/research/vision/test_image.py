"""Image models: the papers' counts and FLOPs, the patches by loops, and a public gMLP with the same weights."""

from __future__ import annotations

import io
import logging
import warnings

import numpy as np
import pytest
import torch
from g_mlp_pytorch import gMLPVision
from torch import Tensor
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from mixling import ConfigError, model_config
from mixling.config import parse
from mixling.mixers import SpatialGatingConfig, TokenMLPConfig
from mixling.models import DeepBlockConfig, count_parameters
from mixling.networks import FeedForwardConfig
from mixling.research.vision import IMAGE_PRESETS, ImageModel, ImageModelConfig, PatchEmbedding, build_image_model

EXACT = {"rtol": 0.0, "atol": 1e-11}  # in float64
GATING = DeepBlockConfig(mixers=(SpatialGatingConfig(ffn_dim=10, weights="dense", mask_padding=False),))
MIXING = DeepBlockConfig(mixers=(TokenMLPConfig(hidden_dim=7),), feed_forward=FeedForwardConfig(ffn_dim=9))
HEADS = [(False, False), (False, True), (True, False), (True, True)]


def config(**values: object) -> ImageModelConfig:
    """Images of 3 x 3 patches of 4 x 4 pixels and 2 channels."""
    given = {"image_size": 12, "patch_size": 4, "channels": 2, "dim": 6, "layers": (GATING,), "num_layers": 2}
    return ImageModelConfig(**{**given, **values})


def built(made: ImageModelConfig) -> ImageModel:
    """With weights of some size everywhere, so that no part is near the identity."""
    model = build_image_model(made, num_outputs=3).double().eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.5)
    return model


def pictures(batch: int, made: ImageModelConfig, seed: int = 0) -> Tensor:
    shape = (batch, made.channels, made.image_size, made.image_size)
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# --- the papers' sizes ---


def on_meta(made: ImageModelConfig) -> ImageModel:
    with torch.device("meta"):
        return build_image_model(made, num_outputs=1000)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("gmlp-ti", 5_895_788),
        ("gmlp-s", 19_500_524),
        ("gmlp-b", 73_350_380),
        ("mixer-b16", 59_880_472),
        ("mixer-l16", 208_196_168),
        ("resmlp-s12", 15_350_872),
        ("resmlp-s24", 30_020_680),
        ("deit-ti", 5_717_416),
        ("deit-s", 22_050_664),
        ("deit-b", 86_567_656),
    ],
)
def test_parameters_of_the_papers(name: str, parameters: int) -> None:
    assert count_parameters(on_meta(IMAGE_PRESETS[name].config)) == parameters


def test_models_for_small_images_have_equal_size() -> None:
    sizes = []
    for name in ("gmlp-images", "mixer-images", "resmlp-images", "vit-images"):
        made = IMAGE_PRESETS[name].config
        assert (made.image_size, made.patch_size, made.channels, made.num_layers) == (28, 4, 1, 4)
        with torch.device("meta"):
            sizes.append(count_parameters(build_image_model(made, num_outputs=10)))
    assert max(sizes) < 500_000
    assert max(sizes) / min(sizes) < 1.04


def test_swapped_expansions_of_the_mixer_have_23_million() -> None:
    """A known error of a public implementation, whose answers have the right shape."""
    made = IMAGE_PRESETS["mixer-b16"].config
    (layer,) = made.layers
    (mixer,) = layer.mixers
    assert isinstance(mixer, TokenMLPConfig)
    assert layer.feed_forward is not None
    assert (mixer.hidden_dim, layer.feed_forward.ffn_dim) == (384, 3072)
    swapped = DeepBlockConfig(mixers=(TokenMLPConfig(hidden_dim=3072),), feed_forward=FeedForwardConfig(ffn_dim=384))
    assert round(count_parameters(on_meta(made.model_copy(update={"layers": (swapped,)}))) / 1e6) == 23


def flops(name: str) -> int:
    model = on_meta(IMAGE_PRESETS[name].config).eval()
    with FlopCounterMode(display=False) as counter:
        model(torch.empty(1, 3, 224, 224, device="meta"))
    return counter.get_total_flops()


@pytest.mark.parametrize(
    ("name", "dim", "billions"), [("gmlp-ti", 128, 2.68), ("gmlp-s", 256, 8.84), ("gmlp-b", 512, 31.62)]
)
def test_flops_of_gmlp(name: str, dim: int, billions: float) -> None:
    """Table 1, and by hand: U of 6 D, W over 197 tokens and 3 D channels, V, 30 times; patches, dense layer, output."""
    counted = flops(name)
    assert round(counted / 1e9, 2) == billions
    block = 197 * (dim * 6 * dim + 197 * 3 * dim + 3 * dim * dim)
    assert counted == 2 * (196 * 768 * dim + 30 * block + dim * dim + dim * 1000)


def test_flops_of_the_mixer() -> None:
    block = 2 * 196 * 384 * 768 + 2 * 196 * 768 * 3072
    assert flops("mixer-b16") == 2 * (196 * 768 * 768 + 12 * block + 768 * 1000)


@pytest.mark.parametrize(("name", "drop_path"), [("gmlp-ti", 0.0), ("gmlp-s", 0.05), ("gmlp-b", 0.2)])
def test_drop_path_is_that_of_table_1(name: str, drop_path: float) -> None:
    blocks = IMAGE_PRESETS[name].config.blocks
    assert len(blocks) == 30
    assert {block.drop_path for block in blocks} == {drop_path}


@pytest.mark.parametrize("name", IMAGE_PRESETS)
def test_a_resolved_configuration_is_the_same(name: str) -> None:
    made = IMAGE_PRESETS[name].config
    assert parse(ImageModelConfig, made.to_dict(), where="x") == made


# --- parts ---


def test_patches_are_read_row_by_row() -> None:
    image_size, patch, channels, dim = 6, 2, 3, 4
    torch.manual_seed(0)
    embed = PatchEmbedding(image_size=image_size, patch_size=patch, channels=channels, dim=dim).double()
    images = torch.randn(2, channels, image_size, image_size, dtype=torch.float64)
    (weight, bias), pixels = (p.tolist() for p in embed.parameters()), images.tolist()
    locations = [(top, left) for top in range(0, image_size, patch) for left in range(0, image_size, patch)]
    inside = [(c, y, x) for c in range(channels) for y in range(patch) for x in range(patch)]
    expected = [
        [
            [
                bias[d] + sum(weight[d][c][y][x] * pixels[b][c][top + y][left + x] for c, y, x in inside)
                for d in range(dim)
            ]
            for top, left in locations
        ]
        for b in range(2)
    ]
    torch.testing.assert_close(embed(images), torch.tensor(expected, dtype=torch.float64), **EXACT)


def layer_norm(x: Tensor, norm: torch.nn.Module) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + 1e-5) * norm.weight + norm.bias


@pytest.mark.parametrize("final_norm", [True, False])
@pytest.mark.parametrize(("class_token", "pre_logits"), HEADS)
def test_the_answer_is_from_the_class_token_or_from_the_mean(
    class_token: bool, pre_logits: bool, final_norm: bool
) -> None:
    made = config(class_token=class_token, pre_logits=pre_logits, final_norm=final_norm)
    model, images = built(made), pictures(2, made)
    expected = []
    for image in images:
        rows = list(model.patches(image[None])[0])
        x = torch.stack([model.class_token, *rows] if class_token else rows)
        assert len(x) == made.num_tokens == 9 + class_token
        for layer in model.encoder.layers:
            x = layer(x[None], torch.ones(1, len(x), dtype=torch.bool))[0]
        x = layer_norm(x, model.encoder.norm) if final_norm else x
        answer = x[0] if class_token else sum(x) / len(x)
        if pre_logits:
            answer = torch.tanh(model.pre_logits.weight @ answer + model.pre_logits.bias)
        expected.append(model.output.weight @ answer + model.output.bias)
    torch.testing.assert_close(model(images), torch.stack(expected), **EXACT)


def test_without_mixing_the_class_token_sees_no_image() -> None:
    alone = {"layers": (), "num_layers": None}
    for class_token in (True, False):
        made = config(class_token=class_token, **alone)
        model = built(made)
        same = torch.equal(model(pictures(1, made)), model(pictures(1, made, seed=1)))
        assert same == class_token


def test_it_is_the_gmlp_of_g_mlp_pytorch() -> None:
    """Which has neither a class token nor a dense layer before the output."""
    torch.manual_seed(0)
    other = gMLPVision(image_size=12, patch_size=4, channels=2, num_classes=3, dim=6, depth=2, ff_mult=4).double()
    for parameter in other.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    layer = DeepBlockConfig(mixers=(SpatialGatingConfig(ffn_dim=24, weights="dense"),))
    made = config(layers=(layer,))
    model = built(made)
    with torch.no_grad():
        model.patches.projection.weight.copy_(other.to_patch_embed[1].weight.view(6, 2, 4, 4))
        model.patches.projection.bias.copy_(other.to_patch_embed[1].bias)
        for ours, theirs in zip(model.encoder.layers, other.layers, strict=True):
            mixer, block = ours.mixers[0], theirs.fn.fn
            ours.mixer_norms[0].load_state_dict(theirs.fn.norm.state_dict())
            mixer.expand.load_state_dict(block.proj_in[0].state_dict())
            mixer.norm.load_state_dict(block.sgu.norm.state_dict())
            mixer.weight.copy_(block.sgu.weight[0])
            mixer.bias.copy_(block.sgu.bias[0])
            mixer.contract.load_state_dict(block.proj_out.state_dict())
        model.encoder.norm.load_state_dict(other.to_logits[0].state_dict())
        model.output.load_state_dict(other.to_logits[2].state_dict())
    images = pictures(3, made)
    torch.testing.assert_close(model(images), other.eval()(images), **EXACT)


# --- the whole ---


@pytest.mark.parametrize(
    ("layer", "final_norm"), [(GATING, True), (MIXING, True), (MIXING, False)], ids=["gating", "mixing", "no-norm"]
)
@pytest.mark.parametrize(("class_token", "pre_logits"), HEADS)
def test_shapes_and_a_gradient_for_every_parameter(
    layer: DeepBlockConfig, final_norm: bool, class_token: bool, pre_logits: bool
) -> None:
    """But for the token MLP's last biases: one number for all channels of a token, which every norm takes out again."""
    made = config(layers=(layer,), final_norm=final_norm, class_token=class_token, pre_logits=pre_logits)
    model = built(made)
    logits = model(pictures(4, made))
    assert logits.shape == (4, 3)
    F.cross_entropy(logits, torch.tensor([0, 1, 2, 0])).backward()
    reached = {
        name: parameter.grad is not None and float(parameter.grad.abs().max()) > 1e-12
        for name, parameter in model.named_parameters()
    }
    dead = {f"encoder.layers.{i}.mixers.0.contract.bias" for i in range(2)} if layer is MIXING and final_norm else set()
    assert {name for name, found in reached.items() if not found} == dead


def test_images_of_a_batch_are_apart() -> None:
    made = config(class_token=True, pre_logits=True)
    model, images = built(made), pictures(3, made)
    torch.testing.assert_close(torch.cat([model(image[None]) for image in images]), model(images), **EXACT)


def test_stochastic_depth_is_per_image_and_in_training_only() -> None:
    made = config(layers=(GATING.model_copy(update={"drop_path": 0.5}),), num_layers=1)
    model, whole = built(made), built(config(num_layers=1))
    images = pictures(1, made).expand(64, -1, -1, -1)
    torch.testing.assert_close(model(images), whole(images), **EXACT)
    model.train()
    torch.manual_seed(0)
    answers = model(images)
    # One layer that is there or not: two answers, of which one is that of no layers at all.
    none = whole.output(layer_norm(whole.patches(images[:1]), whole.encoder.norm).mean(1))
    dropped = (answers - none).abs().amax(1) < 1e-11
    assert 16 < int(dropped.sum()) < 48
    kept = answers[~dropped]
    torch.testing.assert_close(kept, kept[:1].expand_as(kept), **EXACT)
    assert not torch.allclose(kept[0], whole(images[:1])[0])  # scaled by 1 / (1 - drop_path)


def test_seeded_weights_do_not_depend_on_what_was_drawn_before() -> None:
    made = config(class_token=True, pre_logits=True)
    first = build_image_model(made, num_outputs=3, seed=5).state_dict()
    torch.rand(3)
    state = torch.get_rng_state()
    again = build_image_model(made, num_outputs=3, seed=5).state_dict()
    assert torch.equal(torch.get_rng_state(), state)
    other = build_image_model(made, num_outputs=3, seed=6).state_dict()
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not torch.equal(first["class_token"], other["class_token"])


# --- what does not fit ---


@pytest.mark.parametrize("shape", [(2, 12, 13), (2, 16, 12), (2, 8, 8), (3, 12, 12)])
def test_images_of_another_size_are_refused(shape: tuple[int, int, int]) -> None:
    with pytest.raises(ConfigError) as caught:
        built(config())(torch.zeros(1, *shape, dtype=torch.float64))
    assert str(caught.value).startswith(f"images: got (channels, height, width) = {shape}")
    assert "built for (2, 12, 12)" in str(caught.value)
    assert "image_size" in str(caught.value)


@pytest.mark.parametrize(
    ("values", "reported"),
    [
        ({"image_size": 30, "patch_size": 16}, "patch_size = 16 does not divide image_size = 30"),
        ({"image_size": 8, "patch_size": 16}, "patch_size = 16 does not divide image_size = 8"),
        ({"layers": [{}, {}], "num_layers": 2}, "num_layers repeats one layer; got 2"),
        ({"num_layers": 2}, "got none in `layers`"),
        ({"class_tokn": True}, "did you mean 'class_token'?"),
        ({"channels": 0}, "channels: got 0"),
    ],
)
def test_what_does_not_fit_is_reported(values: dict, reported: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(ImageModelConfig, values, where="image model")
    assert str(caught.value).startswith("image model: ")
    assert reported in str(caught.value)


# --- export ---


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked_shapes")
def test_onnx_with_any_batch() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    made = config(layers=(GATING, MIXING), num_layers=None, class_token=True, pre_logits=True)
    model = built(made).float()
    file = io.BytesIO()
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own
        program = torch.onnx.export(
            model,
            (pictures(2, made).float(),),
            dynamo=True,
            verbose=False,
            input_names=["images"],
            output_names=["logits"],
            dynamic_shapes={"images": {0: "batch"}},
        )
    assert program is not None
    program.save(file)
    session = onnxruntime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])
    for batch in (1, 2, 5):
        images = pictures(batch, made, seed=batch).float()
        (found,) = session.run(None, {"images": images.numpy()})
        np.testing.assert_allclose(found, model(images).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_the_names_are_refused_where_texts_are_read() -> None:
    for name in IMAGE_PRESETS:
        with pytest.raises(ConfigError, match=rf"{name!r} is a model of images; `mixling train --task image_class"):
            model_config(name)
