"""Image classifiers from patches and the blocks of the text models, with the presets of gMLP and MLP-Mixer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from pydantic import Field, model_validator
from torch import Tensor, nn

from mixling.errors import ConfigError
from mixling.layers.positions import Positions
from mixling.mixers.attention import AttentionConfig
from mixling.mixers.spatial_gating import SpatialGatingConfig
from mixling.mixers.token_linear import TokenLinearConfig
from mixling.models.block import DeepBlockConfig
from mixling.models.encoder import Encoder
from mixling.models.model import seeded
from mixling.networks.blocks import EncoderConfig, FeedForwardConfig, PositionKind
from mixling.networks.mixers import TokenMLPConfig


class ImageModelConfig(EncoderConfig):
    """The configuration of an image classifier for square images."""

    layers: tuple[DeepBlockConfig, ...] = Field(default=(), max_length=1_000)
    image_size: int = Field(default=224, ge=1, description="height and width, in pixels")
    patch_size: int = Field(default=16, ge=1, description="height and width of a patch; must divide image_size")
    channels: int = Field(default=3, ge=1, description="1: gray, 3: RGB")
    final_norm: bool = Field(default=True, description="norm after the last block")
    positions: PositionKind = Field(
        default="none", description="vectors added to the tokens by position, as attention needs"
    )
    class_token: bool = Field(
        default=False, description="classify by an additional token; else by the mean of the patches"
    )
    pre_logits: bool = Field(default=False, description="a dense layer with tanh before the output layer")

    @model_validator(mode="after")
    def _check_patches(self) -> ImageModelConfig:
        if self.image_size % self.patch_size:
            raise ValueError(
                f"patch_size = {self.patch_size} does not divide image_size = {self.image_size}; make it a divisor"
            )
        return self

    @property
    def num_tokens(self) -> int:
        """N, the number of patches, plus the class token."""
        return (self.image_size // self.patch_size) ** 2 + self.class_token


class PatchEmbedding(nn.Module):
    """x_i = W p_i + b, where p_i are the c P^2 numbers of patch i; patches are in row-major order from the top left."""

    def __init__(self, *, image_size: int, patch_size: int, channels: int, dim: int) -> None:
        super().__init__()
        self.shape = (channels, image_size, image_size)
        self.projection = nn.Conv2d(channels, dim, patch_size, stride=patch_size)

    def forward(self, images: Float[Tensor, "B channels height width"]) -> Float[Tensor, "B N D"]:
        # A convolution would ignore pixels at the edges of other sizes, and mixers would raise obscure errors.
        if not torch.compiler.is_compiling() and tuple(images.shape[1:]) != self.shape:
            raise ConfigError(
                f"images: got (channels, height, width) = {tuple(images.shape[1:])}, but the model is built for "
                f"{self.shape}; resize them, or build the model with another image_size"
            )
        patches: Tensor = self.projection(images).flatten(2).mT
        return patches


class ImageModel(nn.Module):
    """logits = W z + b, where z is the class token, or the mean of the patches, after the blocks, or tanh(V z + c).

    Source: gMLP, section 3 (ViT's patches and head, no positions); MLP-Mixer, section 2. The papers' parameter counts
    imply the norm after the last block and, for gMLP, the class token and the dense layer. Beyond the papers: the class
    token comes first and is initialized from N(0, 0.02^2). With positions, blocks of attention make it ViT
    (arXiv:2010.11929).
    """

    def __init__(self, config: ImageModelConfig, *, num_outputs: int) -> None:
        super().__init__()
        dim = config.dim
        self.patches = PatchEmbedding(
            image_size=config.image_size, patch_size=config.patch_size, channels=config.channels, dim=dim
        )
        self.class_token = nn.Parameter(torch.empty(dim)) if config.class_token else None
        if self.class_token is not None:
            nn.init.normal_(self.class_token, std=0.02)
        self.positions: Positions | None = None
        if config.positions != "none":
            self.positions = Positions(config.positions, dim=dim, max_len=config.num_tokens)
        self.encoder = Encoder(config.blocks, dim=dim, max_len=config.num_tokens, final_norm=config.final_norm)
        self.pre_logits = nn.Linear(dim, dim) if config.pre_logits else None
        self.output = nn.Linear(dim, num_outputs)

    def forward(self, images: Float[Tensor, "B channels height width"]) -> Float[Tensor, "B C"]:
        x = self.patches(images)
        if self.class_token is not None:
            x = torch.cat([self.class_token.expand(x.shape[0], 1, -1), x], dim=1)
        if self.positions is not None:
            x = self.positions(x)
        x = self.encoder(x)  # images have no padding
        pooled = x.mean(1) if self.class_token is None else x[:, 0]
        if self.pre_logits is not None:
            pooled = self.pre_logits(pooled).tanh()
        logits: Tensor = self.output(pooled)
        return logits


def build_image_model(config: ImageModelConfig, *, num_outputs: int, seed: int | None = None) -> ImageModel:
    """Build the model.

    Args:
        num_outputs: C, the number of labels.
        seed: makes the initial weights independent of the state of torch's generator; None: use that.
    """
    with seeded(seed):
        return ImageModel(config, num_outputs=num_outputs)


@dataclass(frozen=True)
class ImagePreset:
    """A named model.

    Attributes:
        source: the paper, or mixling.
        use: what it is for; "": a paper's model.
        fitted: it is built for the size of the training images, instead of the configuration's.
    """

    config: ImageModelConfig
    source: str
    use: str = ""
    fitted: bool = False


def gmlp_image(*, dim: int, drop_path: float, num_layers: int = 30, ffn_dim: int | None = None) -> ImageModelConfig:
    """Return a gMLP for images (Table 1): U to 6 times the width, dense W over patches and class token."""
    mixer = SpatialGatingConfig(ffn_dim=ffn_dim or 6 * dim, weights="dense", mask_padding=False)
    layer = DeepBlockConfig(mixers=(mixer,), drop_path=drop_path)
    return ImageModelConfig(dim=dim, layers=(layer,), num_layers=num_layers, class_token=True, pre_logits=True)


def mixer_image(*, dim: int, num_layers: int, hidden_dim: int, ffn_dim: int) -> ImageModelConfig:
    """Return an MLP-Mixer (its Table 1) with `hidden_dim` units in token MLPs and `ffn_dim` in channel MLPs."""
    layer = DeepBlockConfig(
        mixers=(TokenMLPConfig(hidden_dim=hidden_dim),), feed_forward=FeedForwardConfig(ffn_dim=ffn_dim)
    )
    return ImageModelConfig(dim=dim, layers=(layer,), num_layers=num_layers)


def resmlp_image(*, dim: int, num_layers: int, layer_scale: float = 0.1) -> ImageModelConfig:
    """Return a ResMLP: a linear layer over patches, then an MLP of 4 D, affine maps for norms, and layer scale."""
    layer = DeepBlockConfig(
        mixers=(TokenLinearConfig(),),
        feed_forward=FeedForwardConfig(ffn_dim=4 * dim),
        norm_type="affine",
        layer_scale=layer_scale,
    )
    return ImageModelConfig(dim=dim, layers=(layer,), num_layers=num_layers)


def vit_image(*, dim: int, num_layers: int, num_heads: int, ffn_dim: int) -> ImageModelConfig:
    """Return a ViT (DeiT without distillation): attention, learned positions and a class token."""
    layer = DeepBlockConfig(
        mixers=(AttentionConfig(num_heads=num_heads),), feed_forward=FeedForwardConfig(ffn_dim=ffn_dim)
    )
    return ImageModelConfig(dim=dim, layers=(layer,), num_layers=num_layers, class_token=True, positions="learned")


def _small(config: ImageModelConfig) -> ImagePreset:
    """Return the model for small images, which reads out the mean of the patches."""
    changes = {"image_size": 28, "patch_size": 4, "channels": 1, "class_token": False, "pre_logits": False}
    made = config.model_copy(update=changes)
    return ImagePreset(made, "mixling", use="image_classification, small images", fitted=True)


_GMLP = "gMLP, Table 1"
_RESMLP = "ResMLP, Table 1"
_DEIT = "DeiT, Table 1"
IMAGE_PRESETS: dict[str, ImagePreset] = {
    "gmlp-ti": ImagePreset(gmlp_image(dim=128, drop_path=0.0), _GMLP),
    "gmlp-s": ImagePreset(gmlp_image(dim=256, drop_path=0.05), _GMLP),
    "gmlp-b": ImagePreset(gmlp_image(dim=512, drop_path=0.2), _GMLP),
    "mixer-b16": ImagePreset(mixer_image(dim=768, num_layers=12, hidden_dim=384, ffn_dim=3072), "MLP-Mixer, Table 1"),
    "mixer-l16": ImagePreset(mixer_image(dim=1024, num_layers=24, hidden_dim=512, ffn_dim=4096), "MLP-Mixer, Table 1"),
    "resmlp-s12": ImagePreset(resmlp_image(dim=384, num_layers=12), _RESMLP),
    "resmlp-s24": ImagePreset(resmlp_image(dim=384, num_layers=24, layer_scale=1e-5), _RESMLP),
    "deit-ti": ImagePreset(vit_image(dim=192, num_layers=12, num_heads=3, ffn_dim=768), _DEIT),
    "deit-s": ImagePreset(vit_image(dim=384, num_layers=12, num_heads=6, ffn_dim=1536), _DEIT),
    "deit-b": ImagePreset(vit_image(dim=768, num_layers=12, num_heads=12, ffn_dim=3072), _DEIT),
    # Of equal size, for small images.
    "gmlp-images": _small(gmlp_image(dim=128, ffn_dim=512, num_layers=4, drop_path=0.0)),
    "mixer-images": _small(mixer_image(dim=128, num_layers=4, hidden_dim=64, ffn_dim=368)),
    "resmlp-images": _small(resmlp_image(dim=112, num_layers=4)),
    "vit-images": _small(vit_image(dim=104, num_layers=4, num_heads=4, ffn_dim=264)),
}
