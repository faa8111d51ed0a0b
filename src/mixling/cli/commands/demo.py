"""`mixling demo`: train on the sample data, look at the result, and write a page with the model."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mixling.cli.findings import STRENGTH, has_color, suspicious_lines
from mixling.cli.output import announce, has_display, put
from mixling.cli.results import SystemAnswers, majority_answers, score_lines
from mixling.errors import command_line, printable

if TYPE_CHECKING:
    from mixling.data.dataset import Dataset
    from mixling.data.examples import Example
    from mixling.runtime.predictor import Predictor

TEXTS = (
    "my parcel says delivered but I never got it",
    "The lamp is too big for our shelf, how do I send it back?",
    "you have charged my card twice for one order!!",
    "Nach zwei Jahren geht der Wasserkocher nicht mehr. Gibt es Ersatzteile?",
    "hello, are you there?",
)
_ACCURACY = 0.9  # of answers on validation; else the model abstains
_COPIES = 4  # of each text without a topic, under as many topics


def demo_command(
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Folder of data, model and page.")] = Path(
        "mixling-demo"
    ),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Train again where an earlier demo has.")] = False,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open the page in a browser.")] = False,
) -> None:
    """Train on sample data, and try the model.

    The data are 2,700 messages to the support of an invented shop (`mixling sample`); the training takes seconds of one
    core. Then the demo prints how good the model is on 300 other messages, what it answers and why, and labels that
    look wrong, and writes a page that answers in a browser.
    """
    page = out / "page.html"
    if not overwrite and is_trained(out / "model"):
        write_messages(out, overwrite=False)
        put(f"{out / 'model'}: an earlier demo's model; --overwrite trains again\n")
    else:
        train_demo(out, overwrite=overwrite)
    from mixling.browser.site import write_page
    from mixling.runtime.latency import time_for_a_text
    from mixling.runtime.predictor import Predictor

    file = out / "model" / "model.onnx"
    predictor = Predictor(file)
    rows, test = (_rows(out / name) for name in ("messages.csv", "messages_test.csv"))
    put("\n".join(["", *_accuracies(predictor, rows, test), ""]) + "\n")
    color = has_color()
    put("\n".join([*_answers(predictor, color=color), ""]) + "\n", styled=color)
    put("\n".join([*suspicious_lines(rows), ""]) + "\n")
    content = file.read_bytes()
    write_page(content, page, name="demo")
    took = time_for_a_text(predictor)
    engine = took["engine"].partition(" (")[0]
    put(
        f"model  {file}, {len(content) / 1e6:.2f} MB, {took['milliseconds']:.3f} ms for an answer "
        f"({engine} engine)\npage   {page}: open it in a browser, it works offline\n"
        f"next   {command_line('mixling', 'predict', file.parent, 'where is my parcel?')}\n"
    )
    if not no_open and has_display():
        import webbrowser

        webbrowser.open(page.resolve().as_uri())


def is_trained(folder: Path) -> bool:
    """Return whether a folder has the finished model of a demo."""
    from mixling.artifacts.files import RUN_FILE, is_finished

    return (folder / RUN_FILE).exists() and is_finished(folder)


def write_messages(out: Path, *, overwrite: bool) -> None:
    """Write the sample data to a folder.

    Raises:
        ConfigError: the folder has other files of these names.
    """
    from mixling.cli.folders import refuse_file
    from mixling.samples.sets import write_sample

    refuse_file(out)
    for name in ("messages", "no-topic"):
        write_sample(name, out, overwrite=overwrite)


def train_demo(out: Path, *, epochs: int = 10, overwrite: bool = False) -> None:
    """Write the sample data to a folder, and train the model in the folder `model` of it.

    Raises:
        ConfigError: the folder has another run, or other files of these names.
    """
    from mixling.cli.folders import interruptible, refuse_file, refuse_old_run

    model = out / "model"
    refuse_file(out)
    if not overwrite:
        refuse_old_run(model)
    write_messages(out, overwrite=overwrite)
    started = announce("demo")
    from mixling.runs.data import read_data
    from mixling.runs.resolve.spec import LABELS, resolve
    from mixling.runs.training import fit
    from mixling.threads import limited_threads
    from mixling.training.progress import TrainingProgress

    values = {
        "task": "classification",
        "data": {"train": [str(out / "messages.csv")], "columns": {"text": "message", "label": "topic"}},
        "decisions": {"abstain_at": _ACCURACY, "out_of_scope": [str(out / "no_topic.csv")]},
        "train": {"epochs": epochs},
    }
    terminal = TrainingProgress()
    # Such small steps gain little from a second thread, and lose much if cores are shared.
    with interruptible(model), limited_threads(1):
        resolved = resolve(values, spec=LABELS, where="demo")
        train, validation = read_data(resolved.config, spool_dir=None, log=lambda message: None)
        terminal.log(f"{out / 'messages.csv'}: {len(train):,} messages to train on, {len(validation):,} to choose by")
        config = resolved.for_examples(train).config
        train = with_no_topic(train, out / "no_topic_train.csv")
        fit(config, train, validation, folder=model, callback=terminal, log=lambda message: None)
    terminal.log(f"trained in {started.elapsed()}")


def with_no_topic(train: Dataset, file: Path) -> Dataset:
    """Return the training messages with messages of no topic, each under several topics, so that none is probable."""
    from mixling.data.dataset import Dataset
    from mixling.data.examples import Example

    with file.open(encoding="utf-8", newline="") as opened:
        texts = [row["message"] for row in csv.DictReader(opened)]
    topics = sorted(train.label_counts())
    step = len(topics) // _COPIES
    copies = (
        Example(text=text, target=topics[(number + copy * step) % len(topics)], path=str(file), line=number)
        for number, text in enumerate(texts, 2)
        for copy in range(_COPIES)
    )
    return Dataset.from_examples(itertools.chain(train, copies))


def _rows(path: Path) -> list[Example]:
    from mixling.data.config import ColumnsConfig
    from mixling.data.examples import read_examples
    from mixling.data.readers.rows import OnBadRow
    from mixling.tasks.classification import Classification

    columns = ColumnsConfig(text="message", label="topic")
    return list(read_examples([path], reader=Classification.reader, columns=columns, on_bad_row=OnBadRow("error")))


def _accuracies(predictor: Predictor, rows: Sequence[Example], test: Sequence[Example]) -> Iterator[str]:
    """Yield lines with the accuracies on the test rows, of TF-IDF too."""
    from mixling.comparison.baselines import LinearBaseline
    from mixling.comparison.tfidf_features import TfidfFeatures
    from mixling.tasks.classification import Classification

    topics = [row.target for row in rows]
    texts = [row.text for row in test]
    found = list(predictor.predict_stream(texts))
    systems = [SystemAnswers("mixling", [one.label for one in found], "this model")]
    encode = TfidfFeatures("word+char")
    features = encode.fit_transform([row.text for row in rows])
    linear = LinearBaseline(Classification, encode, features, topics, {"C": STRENGTH})
    about = f"words and characters, logistic regression, {linear.size() / 1e6:.1f} MB"
    systems.append(SystemAnswers("tf-idf", linear.predict(texts), about))
    systems.append(majority_answers(predictor.task, topics, texts))
    yield f"accuracy on {len(test)} test messages, with its 95% interval"
    yield from score_lines(predictor.task, [row.target for row in test], systems)[0][predictor.task.headline]
    answered = [one.label == row.target for one, row in zip(found, test, strict=True) if not one.abstained]
    if answered:
        yield f"it is sure of {len(answered) / len(test):.0%}, of these {sum(answered) / len(answered):.0%} are right"


def _answers(predictor: Predictor, *, color: bool) -> Iterator[str]:
    """Yield the answers to new texts, with the words that matter."""
    from mixling.explain.explanation import explanation_lines

    yield f"five more messages, and the words that speak for the topic{' (red) or against it (blue)' if color else ''}"
    for text in TEXTS:
        answer = predictor.predict_one(text)
        explanation = predictor.explain(text)
        words = ", ".join(printable(word.word) for word in explanation.top(3) if word.effect > 0)
        sure = "not sure; perhaps " if answer.abstained else ""
        yield f"  {sure}{answer.label} ({explanation.probability:.0%})" + ("" if color else f": {words}")
        yield f"    {explanation_lines(explanation, color=color)[1]}"
