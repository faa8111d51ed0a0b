"""`mixling demo`: from data to answers without a download: which of 60 languages is a text in?"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mixling.errors import ConfigError, Interrupted, command_line

if TYPE_CHECKING:
    from mixling.data.examples import Example
    from mixling.runs import RunConfig
    from mixling.runtime.predictor import Predictor
    from mixling.tasks.metrics import Metrics

SENTENCES = (
    "Where can I buy a ticket for the train to London?",
    "Morgen fahren wir mit dem Zug nach Berlin.",
    "Mañana vamos a la playa con los niños.",
    "Yarın sabah erkenden yola çıkıyoruz.",
    "Завтра утром мы поедем на поезде в Москву.",
)
_WORST = 10


def demo(
    text: Annotated[
        list[str] | None,
        typer.Option("--text", metavar="TEXT", help="Tell the language of this text; may be repeated."),
    ] = None,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="The folder of the model.")] = Path(
        "language-model"
    ),
    epochs: Annotated[int, typer.Option("--epochs", min=1, help="Passes over the training texts.")] = 1,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the split and of the training.")] = 0,
) -> None:
    """Train a language identifier and try it.

    It learns from names and phrases in 60 languages that the Babel package ships; that takes about a minute. A model
    that an earlier demo left in DIR answers at once.
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
    """X-SMALL on a bag of the units of each word.

    Chosen on dev names and on every fifth question of XQuAD in 12 languages (about 240 each), so neither is held out:
    one epoch, one seed, the exported model. 5,000 units without label smoothing told .83 of the names and .85 of the
    questions (English .56, German .67, the others .77 to 1.0); with smoothing 5,500 units .83, 4,500 .79, 8,000 .78,
    and 16,000 .72. MinHash with 16 hashes and one block told .73, naive Bayes on character 1-3-grams .92. Balanced
    classes were not measured apart.
    """
    from mixling.config import parse
    from mixling.models.presets import model_config
    from mixling.runs import RunConfig

    projection = {"type": "binary", "num_features": 4096, "num_hashes": 4}
    text = {"projection": projection, "vocabulary_size": 5000}
    model = model_config("pnlp-mixer-x-small", {"text": text}).to_dict()
    train = {
        "epochs": epochs,
        "seed": seed,
        "batch_size": 128,
        "word_dropout": 0.3,
        "loss": {"class_weights": "balanced", "label_smoothing": 0.0},
    }
    return parse(RunConfig, {"model": model, "train": train}, where="demo")


def language_examples(seed: int) -> dict[str, list[Example]]:
    """The sample data under "train", "dev" and "test", labelled with names of languages.

    Raises:
        UserError: the Babel package is not installed.
    """
    from mixling.data.examples import Example
    from mixling.data.samples import LANGUAGES, language_identification

    return {
        part: [Example(text, LANGUAGES[code], "<babel>", number) for number, (text, code) in enumerate(rows, 1)]
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
    if set(open_model(folder).labels.names) != set(LANGUAGES.values()):
        raise ConfigError(
            f"{folder}: holds a model that tells other things than languages; give another folder with -o"
        )
    return True


def _train(folder: Path, *, epochs: int, seed: int) -> None:
    import torch

    from mixling import runs
    from mixling.cli.folders import interruptible
    from mixling.data.store import ExampleStore
    from mixling.runtime.predictor import Predictor
    from mixling.training.progress import TrainingProgress

    torch.set_num_threads(1)  # steps this small gain little from a second one, and lose much where cores are shared
    terminal = TrainingProgress()
    terminal.say("reading names of places, languages, currencies and more, and phrases, in 60 languages from Babel")
    examples = language_examples(seed)
    sizes = ", ".join(f"{len(rows):,} {part}" for part, rows in examples.items())
    terminal.say(f"examples: {sizes}; for instance {examples['dev'][0].text!r} is {examples['dev'][0].target}")
    stores = {part: ExampleStore.from_examples(examples[part]) for part in ("train", "dev")}
    try:
        with interruptible(folder):
            runs.fit(
                demo_config(epochs=epochs, seed=seed),
                stores["train"],
                stores["dev"],
                folder=folder,
                observer=terminal,
                say=terminal.say,
            )
    except Interrupted as error:
        command = command_line("mixling", "demo", "-o", folder)
        raise Interrupted(f"interrupted; start again with: {command}", signum=error.exit_code - 128) from None
    metrics = measure_on(Predictor(folder), iter(examples["test"]))
    print(report(metrics))
    size = (folder / "model.onnx").stat().st_size
    terminal.say(f"{folder}: the model, {size / 1e6:.2f} MB; try: {command_line('mixling', 'show', folder)}")


def measure_on(predictor: Predictor, examples: Iterator[Example]) -> Metrics:
    """The metrics on texts that were held out of training and of the choice of the epoch."""
    from mixling.cli.evaluate import measure
    from mixling.data.rows import OnBadRow

    return measure(predictor, examples, on_bad_row=OnBadRow())


def report(metrics: Metrics) -> str:
    """The summary and the languages that are told worst."""
    worst = sorted(metrics.per_class, key=lambda score: (score.f1, score.label))[:_WORST]
    lines = [f"texts held out for the test: {metrics.summary()}", f"the {_WORST} languages told worst (F1):"]
    return "\n".join([*lines, *(f"  {score.f1:.3f}  {score.label}" for score in worst)])


def _answer(predictor: Predictor, texts: Sequence[str]) -> None:
    from mixling.errors import printable

    for text, answer in zip(texts, predictor.predict_stream(texts), strict=True):
        print(f"{_language(answer)}  {printable(text)}")


def _ask(predictor: Predictor) -> None:
    print("Type a sentence in any of the 60 languages; an empty line ends.")
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
