"""The sets of sample data, which are files beside this one; README.md there describes them."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from mixling.errors import ConfigError, near_miss
from mixling.storage import write_atomic


class SampleSet(NamedTuple):
    """The files of a set, its content, and the arguments of `mixling train` for it."""

    files: tuple[str, ...]
    about: str
    train: str


SAMPLES = {
    "messages": SampleSet(
        ("messages.csv", "messages_test.csv", "messages_wrong_labels.csv"),
        "messages to the support of a shop, in 12 topics",
        "messages.csv --text message --label topic",
    ),
    "no-topic": SampleSet(
        ("no_topic.csv", "no_topic_test.csv", "no_topic_train.csv"),
        "messages of no topic, which a model should not answer",
        "messages.csv --text message --label topic --out-of-scope no_topic.csv",
    ),
    "tags": SampleSet(
        ("tags.jsonl", "tags_test.jsonl"),
        "messages with products, order numbers, dates and places",
        "tags.jsonl --task tagging",
    ),
    "questions": SampleSet(
        ("questions.jsonl", "questions_test.jsonl"),
        "questions, with their answers in a text",
        "questions.jsonl",
    ),
    "pairs": SampleSet(
        ("pairs.csv", "pairs_test.csv"),
        "two messages: the same request, or another",
        "pairs.csv --text first --text-pair second --label request",
    ),
    "stars": SampleSet(
        ("stars.csv", "stars_test.csv"),
        "reviews with 1 to 5 stars, a number to predict",
        "stars.csv --text review --label stars --task regression",
    ),
}


DEMO_COLUMNS = {"text": "message", "label": "topic"}  # that the packaged model was trained on


def demo_model() -> Path:
    """Return the path of the packaged model, which `tools/demo_model.py` trains on the messages."""
    return Path(str(files(__package__) / "demo.onnx"))


def saved_model(path: str) -> Path:
    """Return a path, or the packaged model's for `demo` where no file or folder has that name."""
    return demo_model() if path == "demo" and not Path(path).exists() else Path(path)


def shown_model(path: str) -> str:
    """Return how a command names a model: `demo` in place of the packaged model's path."""
    return "demo" if path == str(demo_model()) else path


def read_sample(file: str) -> bytes:
    """Return the content of a file of `SAMPLES`."""
    return (files(__package__) / file).read_bytes()


def write_sample(name: str, folder: str | Path = ".", *, overwrite: bool = False) -> list[Path]:
    """Write the files of a set into a folder, and return their paths; equal files are left as they are.

    Args:
        overwrite: replace files that differ.

    Raises:
        ConfigError: there is no such set, or a file of one of the names exists and differs; nothing is written.
        StorageError: a file cannot be written.
    """
    if name not in SAMPLES:
        raise ConfigError(f"sample: got {name!r}; {near_miss(name, SAMPLES)}")
    contents = {Path(folder) / file: read_sample(file) for file in SAMPLES[name].files}
    changed = [path for path, content in contents.items() if not (path.is_file() and path.read_bytes() == content)]
    if not overwrite and (other := next((path for path in changed if path.exists()), None)):
        raise ConfigError(f"{other}: exists and differs from the sample; replace it with --overwrite, or move it")
    for path in changed:
        write_atomic(path, contents[path])
    return list(contents)
