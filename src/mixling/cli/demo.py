"""`mixling demo`: from data to a model to answers without a download: which of 60 languages is a text in?"""

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
    from mixling.runs import RunConfig
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


def demo(
    text: Annotated[
        list[str] | None,
        typer.Option("--text", metavar="TEXT", help="Identify the language of this text; may be repeated."),
    ] = None,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="The folder of the model.")] = Path(
        "language-model"
    ),
    epochs: Annotated[int, typer.Option("--epochs", min=1, help="Passes over the training texts.")] = 5,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the split and of the training.")] = 0,
) -> None:
    """Train a language identifier and try it.

    It learns from sentences in 60 languages, the messages that installed packages are translated with; that takes about
    a minute of one core. A model that an earlier demo left in DIR answers at once.
    """
    from mixling.runtime.predictor import Predictor

    if not _is_trained(out):
        _train(out, epochs=epochs, seed=seed)
    else:
        print(
            f"{out}: answers come from this model of an earlier demo; delete the folder to train anew", file=sys.stderr
        )
    predictor = Predictor(out)
    if text:
        _answer(predictor, text)
    elif sys.stdin.isatty() and sys.stdout.isatty():
        _ask(predictor)
    else:
        _answer(predictor, SENTENCES)


def demo_config(*, epochs: int, seed: int) -> RunConfig:
    """fastText's model in 0.8 MB: the mean of the words' vectors, each the mean of those of its character n-grams.

    Chosen, as the rows were, on validation, on every fifth question of XQuAD in 12 languages (238 each, one seed, the
    exported model) and on 161 everyday sentences of our own: accuracy .991 on those questions, .982 without function
    words and with more names, .965 by MinHash over 8,000 subwords and .958 by their embeddings (dim 64) on nearly the
    same rows, where naive Bayes on character 1-4-grams without a limit of size has .992. Attention pooling, fewer
    n-grams a word and more word dropout lost one to two points. The other questions:
    benchmarks/language_identification.py.
    """
    from mixling.config import parse
    from mixling.runs import RunConfig

    # The n-grams need no vocabulary, so it is as small as it can be.
    text = {"projection": {"type": "char_ngrams", "num_features": 16384}, "vocabulary_size": 100}
    model = {"text": text, "dim": 48, "head": {"pooling": "mean"}}
    train = {
        "epochs": epochs,
        "evaluations": 4,
        "seed": seed,
        "batch_size": 128,
        "token_dropout": 0.2,
        "loss": {"class_weights": "balanced", "label_smoothing": 0.0},
        "optim": {"lr": 0.015, "weight_decay": 0.0},
    }
    return parse(RunConfig, {"model": model, "train": train}, where="demo")


def language_examples(seed: int) -> dict[str, list[Example]]:
    """Read the sample data under "train", "validation" and "test", labeled with names of languages.

    Raises:
        MissingPackage, DataError: as `language_identification`.
    """
    from mixling.data.examples import Example
    from mixling.data.samples import LANGUAGES, language_identification

    return {
        part: [Example(text, LANGUAGES[code], "<packages>", number) for number, (text, code) in enumerate(rows, 1)]
        for part, rows in language_identification(seed).items()
    }


def _is_trained(folder: Path) -> bool:
    """Whether the folder holds the model of a demo.

    Raises:
        ConfigError: it holds another run.
    """
    from mixling.data.samples import LANGUAGES
    from mixling.runtime.session import open_model

    if not (folder / "model.onnx").exists():
        if (folder / "run.json").exists():
            print(f"{folder}: the unfinished run there begins anew", file=sys.stderr)
        return False
    if set(open_model(folder).task.labels.names) != set(LANGUAGES.values()):
        raise ConfigError(
            f"{folder}: holds a model of something else than these languages; give another folder with -o"
        )
    return True


def _train(folder: Path, *, epochs: int, seed: int) -> None:
    from mixling.data.catalogues import PACKAGES, check_packages

    check_packages()  # before seconds of imports
    started = announce("demo")
    import torch

    from mixling import runs
    from mixling.cli.folders import interruptible
    from mixling.data.dataset import Dataset
    from mixling.data.readers.rows import OnBadRow
    from mixling.data.samples import LANGUAGES
    from mixling.runs.evaluation import evaluate_files
    from mixling.runtime.predictor import Predictor
    from mixling.training.progress import TrainingProgress

    torch.set_num_threads(1)  # steps this small gain little from a second one, and lose much where cores are shared
    terminal = TrainingProgress()
    packages = ", ".join(sorted(PACKAGES.values(), key=str.lower))
    terminal.log(f"reading the messages and names in {len(LANGUAGES)} languages of the installed packages {packages}")
    examples = language_examples(seed)
    sizes = ", ".join(f"{len(rows):,} {part}" for part, rows in examples.items())
    terminal.log(
        f"examples: {sizes}; for instance {examples['validation'][0].text!r} is {examples['validation'][0].target}"
    )
    stores = {part: Dataset.from_examples(examples[part]) for part in ("train", "validation")}
    try:
        with interruptible(folder):
            runs.fit(
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
    print(report(evaluate_files(Predictor(folder), examples["test"], on_bad_row=OnBadRow())))
    size = (folder / "model.onnx").stat().st_size
    terminal.log(f"{folder}: the model, {size / 1e6:.2f} MB; try: {command_line('mixling', 'show', folder)}")
    terminal.log(started.total_time())


def report(metrics: Metrics) -> str:
    """Return the summary and the languages with the lowest F1."""
    lowest = sorted(metrics.per_class, key=lambda score: (score.f1, score.label))[:_LOWEST]
    lines = [f"texts held out for the test: {metrics.summary()}", f"the {len(lowest)} languages with the lowest F1:"]
    return "\n".join([*lines, *(f"  {score.f1:.3f}  {score.label}" for score in lowest)])


def _answer(predictor: Predictor, texts: Sequence[str]) -> None:
    from mixling.errors import printable

    for text, answer in zip(texts, predictor.predict_stream(texts), strict=True):
        print(f"{_language(answer)}  {printable(text)}")


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


def _language(answer: Any) -> str:
    return f"{answer.label} ({answer.probabilities[answer.label]:.0%})"
