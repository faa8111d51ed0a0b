"""Beginning with a model that was trained before: its configuration, vocabulary and weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from torch import Tensor

from mixling.config import parse
from mixling.data.batches import Inputs
from mixling.data.corpora import read_texts
from mixling.data.documents import WordReader
from mixling.data.prepared import encode_documents
from mixling.errors import ConfigError, ModelFileError
from mixling.models.model import Model, ModelConfig, build_model
from mixling.runs.artifact import CONFIG_FILE, read_config, read_folder, vocabulary_file
from mixling.runs.weights import check_shapes, read_model, read_weights, weight_shapes
from mixling.tasks.masked_lm import MaskedLM, MaskedLMConfig
from mixling.text.encoder import TextEncoder
from mixling.text.vocabulary import Vocabulary
from mixling.training.corpus import MASK_WORD, MaskedText, document_encoder, measure_masked, named_targets, unit_targets

# Of a run that begins with a pretrained model. The rate is the better of 5e-4 and 2e-3 on SST-2, RTE and ConjNLI for
# gMLP of width 128 (experiments/pretraining.py); wide models want a lower one.
FINE_TUNING: dict[str, Any] = {
    "optim": {"lr": 2e-3, "embedding_lr": 1.0, "weight_decay": 0.01, "warmup": 0.1, "schedule": "linear"},
    "token_dropout": 0.1,
}
_PARTS = ("frontend.", "encoder.")


def pretrained_config(folder: str) -> dict[str, Any]:
    """The configuration of the model in a run folder, with the units that it was trained with.

    Raises:
        ConfigError: there is no run folder.
        ModelFileError: it is not complete, or damaged.
    """

    def read(place: Path) -> tuple[ModelConfig, str]:
        saved = _read(place)
        config = _parsed(place, saved)
        shapes = weight_shapes(place)
        check_shapes(place, lambda: build_model(config, num_outputs=2, output="text"), shapes, parts=_PARTS)
        return config, vocabulary_file(place, saved).name

    config, vocabulary = read_folder(folder, read)
    text = config.text.model_copy(update={"vocabulary": str(Path(folder) / vocabulary)})
    return config.model_copy(update={"text": text}).to_dict()


def load_pretrained(model: Model, config: ModelConfig, folder: str, *, resize: bool) -> None:
    """Give a model the front end and body of the one in a run folder.

    Args:
        resize: the model may read longer texts; weights for the places beyond are those that `resize` of the mixers
            makes, or of learned positions those that the model began with.

    Raises:
        ConfigError: the model differs from the pretrained one, or reads longer texts; it says in what.
        ModelFileError: the folder is not complete, or damaged.
    """
    saved, weights = read_folder(folder, _read_weights)
    for name in ("dim", "blocks", "final_norm"):
        if getattr(saved, name) != getattr(config, name):
            raise ConfigError(f"{folder}: {name} of the pretrained model differs; leave out what changes model.{name}")
    longest, wanted = saved.text.max_len, config.text.max_len
    if wanted > longest and not resize:
        raise ConfigError(
            f"model.text.max_len = {wanted}, but {folder} read {longest} tokens at a time; take that, or allow longer "
            "texts with --set start.resize=true"
        )
    if wanted > longest:
        weights = _for_longer_texts(saved, model, weights, wanted)
    own = {name: value for name, value in model.state_dict().items() if name.startswith(_PARTS)}
    faults = sorted(own.keys() ^ weights.keys()) or [name for name in own if own[name].shape != weights[name].shape]
    if faults:
        name = faults[0]
        shapes = [tuple(part[name].shape) if name in part else None for part in (own, weights)]
        why = (
            "" if wanted == longest else f"; it was made for {longest} tokens: leave out model.text.max_len = {wanted}"
        )
        raise ConfigError(f"{folder}: {name} has the shape {shapes[1]}, the model needs {shapes[0]}{why}")
    model.load_state_dict({**model.state_dict(), **weights})


def _read_weights(folder: Path) -> tuple[ModelConfig, dict[str, Tensor]]:
    record = _read(folder)
    weights = read_weights(folder, record)
    return _parsed(folder, record), {name: weights[name] for name in weights if name.startswith(_PARTS)}


def load_pretraining(folder: str | Path) -> tuple[Model, TextEncoder]:
    """The float model of a folder of `mixling pretrain`, and what encodes texts for it.

    Raises:
        ConfigError: there is no run folder.
        ModelFileError: it is not complete, or damaged.
    """
    _, model, config, vocabulary = read_folder(folder, _load)
    return model, TextEncoder(config.text, vocabulary)


def evaluate_text(folder: str | Path, sources: Sequence[str], *, text: str = "text") -> dict[str, float]:
    """Perplexity and accuracy of a pretrained model on other text, a part of which is hidden as in its own held-out.

    Raises:
        DataError: a file that cannot be used.
        ModelFileError: the folder is not complete, or damaged.
    """
    saved, model, config, vocabulary = read_folder(folder, _load)
    try:
        objective = parse(MaskedLMConfig, saved["objective"], where=str(Path(folder) / CONFIG_FILE))
    except (KeyError, TypeError) as error:
        raise ModelFileError(f"{folder}: is not complete: {error}") from None
    encoder = document_encoder(config.text, vocabulary)
    words = saved.get("words")
    if words is not None:
        encoder.learn([MASK_WORD, *words])
    tokens = encode_documents(read_texts(sources, text=text), WordReader(encoder))
    data = MaskedText(
        objective=MaskedLM(),
        config=objective,
        encoder=encoder,
        train=tokens,
        dev=tokens,
        length=config.text.max_len,
        targets=unit_targets(encoder) if words is None else named_targets(encoder, words),
    )

    def forward(batch: Inputs) -> Tensor:
        return model(*batch.arguments)

    measures, loss = measure_masked(data.masked_dev(), forward)
    return {**measures, "loss": loss, "tokens": float(len(tokens.rows))}


def _for_longer_texts(saved: ModelConfig, model: Model, weights: dict[str, Tensor], wanted: int) -> dict[str, Tensor]:
    """The weights for texts of the model's length, where mixers can give them; what reads shorter ones stays."""
    source = build_model(saved, num_outputs=2, output="text")
    source.load_state_dict({**source.state_dict(), **weights})
    for module in source.encoder.modules():
        if hasattr(module, "resize"):
            cast(Any, module).resize(wanted)
    out = {name: value for name, value in source.state_dict().items() if name.startswith(_PARTS)}
    positions = model.frontend.positions
    if positions is not None and positions.weight is not None:
        table, name = positions.weight.detach().clone(), "frontend.positions.weight"
        table[: saved.text.max_len] = out[name]
        out[name] = table
    return out


def _load(folder: Path) -> tuple[dict[str, Any], Model, ModelConfig, Vocabulary]:
    """What the folder's configuration says, and the model as it was trained, with its head."""
    saved = _read(folder)
    try:
        config = _parsed(folder, saved)
        num_outputs = int(saved["num_outputs"])
        model = read_model(folder, saved, lambda: build_model(config, num_outputs=num_outputs, output="units"))
        vocabulary = Vocabulary.load(str(vocabulary_file(folder, saved)))
    except (OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ModelFileError(f"{folder}: is not complete: {str(error).splitlines()[0]}") from None
    return saved, model.eval(), config, vocabulary


def _parsed(folder: Path, saved: dict[str, Any]) -> ModelConfig:
    """The configuration of the model.

    Raises:
        ModelFileError: it is none.
    """
    try:
        return parse(ModelConfig, saved["model"], where=str(folder / CONFIG_FILE))
    except ConfigError as error:
        raise ModelFileError(f"{str(error).splitlines()[0]}: the file is damaged") from None


def _read(folder: Path) -> dict[str, Any]:
    try:
        saved = read_config(folder)
        saved["model"], saved["vocabulary"]
        return saved
    except FileNotFoundError:
        raise ConfigError(
            f"{folder}: is no folder of a finished run; --from takes what `mixling pretrain` or `mixling train` wrote"
        ) from None
    except KeyError as error:
        raise ModelFileError(f"{folder / CONFIG_FILE}: is damaged: {error} is missing") from None
