"""`mixling demo`: training and trying a language identifier without a download."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mixling.cli.output import announce
from mixling.errors import ConfigError, Interrupted, command_line

if TYPE_CHECKING:
    from mixling.data.examples import Example
    from mixling.metrics.base import Metrics
    from mixling.runs.config import RunConfig
    from mixling.runtime.predictor import Predictor

SENTENCES = (
    "Where can I buy a ticket for the train to London?",
    "hello my friend",
    "I don't know where my keys are.",
    "Morgen fahren wir mit dem Zug nach Berlin.",
    "Je ne sais pas où sont mes clés.",
    "Mañana vamos a la playa con los niños.",
    "Yarın sabah erkenden yola çıkıyoruz.",
    "Завтра утром мы поедем на поезде в Москву.",
    "मेरी बहन एक छोटे घर में रहती है।",
    "明日、電車で東京に行きます。",
)
_LOWEST = 10


def demo_command(
    text: Annotated[
        list[str] | None,
        typer.Option("--text", metavar="TEXT", help="Identify the language of this text; may be repeated."),
    ] = None,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Folder of the model.")] = Path(
        "language-model"
    ),
    epochs: Annotated[int, typer.Option("--epochs", min=1, help="Passes over the training texts.")] = 5,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of split and training.")] = 0,
) -> None:
    """Train a language identifier and try it.

    It is trained on sentences in 60 languages, which are translated messages of installed packages. This takes about a
    minute on one core. If DIR holds the model of an earlier demo, that is used.
    """
    from mixling.runtime.predictor import Predictor

    if not _is_trained(out):
        _train(out, epochs=epochs, seed=seed)
    else:
        print(f"{out}: using the model of an earlier demo; delete the folder to train again", file=sys.stderr)
    predictor = Predictor(out)
    if text or not (sys.stdin.isatty() and sys.stdout.isatty()):
        _predict(predictor, text or SENTENCES)
    else:
        _ask(predictor)


def demo_config(*, epochs: int, seed: int) -> RunConfig:
    """Return the configuration of fastText's model in 0.8 MB: the mean of word vectors, from character n-grams.

    Model and data were chosen on validation data, on every fifth question of XQuAD in 12 languages (238 each, one seed,
    the exported model), and on 161 everyday sentences. Accuracy on those questions is .991 (.982 without function words
    and with more names). On nearly the same data MinHash over 8,000 subwords has .965, subword embeddings (dim 64)
    .958, and naive Bayes on character 1-4-grams without a size limit .992. Attention pooling, fewer n-grams per word
    and more token dropout are one to two points worse. For the other questions see
    benchmarks/language_identification.py.
    """
    from mixling.config import parse
    from mixling.runs.config import RunConfig
    from mixling.training.augmentation import MILD_AUGMENTATION

    # Character n-grams need no vocabulary, so it has the minimum size.
    text = {"projection": {"type": "char_ngrams", "num_features": 16384}, "vocabulary_size": 100}
    model = {"text": text, "dim": 48, "head": {"pooling": "mean"}}
    train = {
        "epochs": epochs,
        "evaluations": 4,
        "seed": seed,
        "batch_size": 128,
        "token_dropout": 0.2,
        "augmentation": MILD_AUGMENTATION.to_dict(),
        "loss": {"class_weights": "balanced", "label_smoothing": 0.0},
        "optim": {"lr": 0.015, "weight_decay": 0.0},
    }
    return parse(RunConfig, {"model": model, "train": train}, where="demo")


def language_examples(seed: int) -> dict[str, list[Example]]:
    """Return the sample data, labeled with names of languages, by split: "train", "validation" and "test".

    Raises:
        MissingPackage, DataError: see `language_identification`.
    """
    from mixling.data.examples import Example
    from mixling.data.samples import LANGUAGES, language_identification

    return {
        part: [Example(text, LANGUAGES[code], "<packages>", number) for number, (text, code) in enumerate(rows, 1)]
        for part, rows in language_identification(seed).items()
    }


def _is_trained(folder: Path) -> bool:
    """Return whether the folder holds the model of a demo.

    Raises:
        ConfigError: it holds another model.
    """
    from mixling.data.samples import LANGUAGES
    from mixling.runtime.session import open_model

    if not (folder / "model.onnx").exists():
        if (folder / "run.json").exists():
            print(f"{folder}: starting over after an unfinished run", file=sys.stderr)
        return False
    if set(open_model(folder).task.labels.names) != set(LANGUAGES.values()):
        raise ConfigError(f"{folder}: holds a model with labels other than the demo's languages; give another -o")
    return True


def _train(folder: Path, *, epochs: int, seed: int) -> None:
    from mixling.data.catalogues import PACKAGES, check_packages

    check_packages()  # before seconds of imports
    started = announce("demo")
    import torch

    from mixling.cli.folders import interruptible
    from mixling.data.dataset import Dataset
    from mixling.data.samples import LANGUAGES
    from mixling.runs.evaluation import evaluate
    from mixling.runs.training import fit
    from mixling.runtime.predictor import Predictor
    from mixling.training.progress import TrainingProgress

    torch.set_num_threads(1)  # such small steps gain little from a second thread, and lose much if cores are shared
    terminal = TrainingProgress()
    packages = ", ".join(sorted(PACKAGES.values(), key=str.lower))
    terminal.log(f"reading messages and names in {len(LANGUAGES)} languages from the packages {packages}")
    examples = language_examples(seed)
    sizes = ", ".join(f"{len(rows):,} {part}" for part, rows in examples.items())
    terminal.log(
        f"examples: {sizes}; for instance {examples['validation'][0].text!r} is {examples['validation'][0].target}"
    )
    stores = {part: Dataset.from_examples(examples[part]) for part in ("train", "validation")}
    try:
        with interruptible(folder):
            fit(
                demo_config(epochs=epochs, seed=seed),
                stores["train"],
                stores["validation"],
                folder=folder,
                callback=terminal,
                log=terminal.log,
            )
    except Interrupted as error:
        command = command_line("mixling", "demo", "-o", folder)
        raise Interrupted(f"interrupted; start again with: {command}", signum=error.exit_code - 128) from None
    print(report(evaluate(Predictor(folder), examples["test"]).metrics))
    size = (folder / "model.onnx").stat().st_size
    terminal.log(f"{folder}: the model, {size / 1e6:.2f} MB; try: {command_line('mixling', 'show', folder)}")
    terminal.log(started.total_time())


def report(metrics: Metrics) -> str:
    """Return the summary of the metrics and the languages with the lowest F1."""
    lowest = sorted(metrics.per_class, key=lambda score: (score.f1, score.label))[:_LOWEST]
    lines = [f"test: {metrics.summary()}", f"the {len(lowest)} languages with the lowest F1:"]
    return "\n".join([*lines, *(f"  {score.f1:.3f}  {score.label}" for score in lowest)])


def _predict(predictor: Predictor, texts: Sequence[str]) -> None:
    from mixling.errors import printable

    for text, prediction in zip(texts, predictor.predict_stream(texts), strict=True):
        print(f"{_language(prediction)}  {printable(text)}")


def _ask(predictor: Predictor) -> None:
    from mixling.data.samples import LANGUAGES

    print(f"Type a sentence in any of the {len(LANGUAGES)} languages; an empty line ends.")
    while True:
        try:
            text = input("> ").strip()
        except EOFError:
            print()
            return
        if not text:
            return
        print(_language(predictor.predict_one(text)))


def _language(prediction: Any) -> str:
    return f"{prediction.label} ({prediction.probabilities[prediction.label]:.0%})"
