"""The rows of pNLP-Mixer's tables: models, data, printed figures; and trainings to choose from."""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mixling import ModelConfig, TextConfig, Vocabulary, model_config
from mixling.text import train_vocabulary


class Row(NamedTuple):
    """A line of a table.

    Args:
        label: its name.
        model: the configuration, without vocabulary; None: TF-IDF and logistic regression, as in `mixling compare`.
        data: what it is trained on, see `load`.
        paper: the printed figure in percent; None: the row is ours.
        training: changes of the training.
        vocabulary: a file; None: as the training has it.
        taught: whether it is a student of the teacher that the command names.
    """

    label: str
    model: ModelConfig | None
    data: str
    paper: float | None = None
    training: Mapping[str, Any] = {}
    vocabulary: str | None = None
    taught: bool = False


SIZES = ("x-large", "large", "base", "small", "x-small")
FOLDS = 5
# The articles of Hyperpartisan in the split that Longformer's authors publish, by number. Of its 65 test articles, 51
# are in train, too, and 7 in validation (an author confirms it: https://github.com/allenai/longformer/issues/181).
PUBLISHED_SPLIT = Path(__file__).parent / "hyperpartisan_split.json"
SPLITS = ("published split", "published split without shared articles")
LAST_EPOCH = " (last epoch)"  # of a row whose epoch is not chosen on validation, which is only 64 articles
LANGUAGES = ("en", "es", "fr", "de", "hi", "th")
OURS: dict[str, Any] = {}  # mixling's defaults for taggers; less regularization is worse (results/mtop_choices.json)
# Of the fine-tuned encoder, which is small: a higher rate than BERT's.
TEACHER = {"epochs": 10, "lr": 3e-4, "max_len": 64}
# Beside OURS, one thing changed each: what sentence accuracy on validation is made of.
CHOICES: dict[str, dict[str, Any]] = {
    "ours": {},
    "less regularization": {"token_dropout": 0.1, "augmentation": {"pseudo_words": 0.0, "typos": 0.0}},
    "more dropout of words": {"token_dropout": 0.3},
    "no label smoothing": {"loss": {"label_smoothing": 0.0}},
    "60 epochs": {"epochs": 60},
    "120 epochs": {"epochs": 120},
    "twice the rate": {"optim": {"lr": 4e-3}},
    "half the rate": {"optim": {"lr": 1e-3}},
    "a tenth of the weight decay": {"optim": {"weight_decay": 0.01}},
    "three times the weight decay": {"optim": {"weight_decay": 0.3}},
}
# Changes of the model that are chosen in the same way.
DROPOUT: dict[str, Any] = {"layers": {"0": {"dropout": 0.2, "feed_forward": {"dropout": 0.2}}}}
MODEL_CHOICES: dict[str, dict[str, Any]] = {
    "dropout of 0.2 in the blocks": DROPOUT,
    "transitions": {"head": {"transitions": True}},
    "transitions and dropout": {"head": {"transitions": True}, **DROPOUT},
}


def base(options: argparse.Namespace, **changes: Any) -> ModelConfig:
    """pNLP-Mixer BASE, or the size that the options name, with changes."""
    return model_config(f"pnlp-mixer-{options.size}", changes)


def table_1(options: argparse.Namespace) -> Iterator[Row]:
    """Projections on English validation."""
    rows: dict[str, tuple[float | None, dict[str, Any]]] = {
        "MinHash": (80.8, {}),
        "Binary": (79.0, {"type": "binary", "num_features": 1024, "num_hashes": 64}),
        "SimHash": (78.0, {"type": "simhash", "num_features": 1024}),
        "TSP": (77.6, {"type": "ternary", "num_features": 1024, "num_hashes": 64}),
        "TSP of whole words (PRADO)": (None, {"type": "tsp", "num_features": 1024}),
    }
    for label, (paper, projection) in rows.items():
        yield Row(label, base(options, text={"projection": projection}), "mtop_en", paper)
    table = options.embeddings or random_table(options)
    number, width = np.load(table, mmap_mode="r").shape
    projection = {"type": "embedding", "num_features": number, "embedding_dim": width}
    label = "BERT embeddings" if options.embeddings else "random embeddings, averaged"
    model = base(options, text={"projection": projection}, embedding={"embeddings": str(table)})
    yield Row(label, model, "mtop_en", 11.0 if options.embeddings else None, vocabulary=str(mbert(options)))


def random_table(options: argparse.Namespace) -> Path:
    """A fixed table of random vectors for mBERT's subwords, as wide as BERT's."""
    path = options.runs / "rows" / "random.npy"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        number = len(Vocabulary.load(str(mbert(options))))
        np.save(path, np.random.default_rng(0).normal(0, 0.02, (number, 768)).astype(np.float32))
    return path


def table_2(options: argparse.Namespace) -> Iterator[Row]:
    """Architectures on English validation; in another size they have its width, and its window but for those named.

    The paper's LSTM has 1.8M parameters and is nowhere called bidirectional: two layers of 256 units in one direction,
    1.9M, are the nearest of round sizes. The preset reads in both directions.
    """
    own = base(options)
    for label, preset, paper in (
        ("Mixer", "pnlp-mixer-base", 80.8),
        ("Transformer", "pnlp-transformer", 79.4),
        ("projection only, w = 4", "projection-only-w4", 76.5),
        ("LSTM", "pnlp-lstm", 73.9),
        ("projection only, w = 1", "projection-only", 65.5),
        ("LSTM, both directions", "pnlp-lstm", None),
    ):
        mixer = {"type": "recurrent", "cell": "lstm", "hidden_dim": 256, "num_layers": 2, "bidirectional": False}
        changes = {"layers": {"0": {"mixers": {"0": mixer}}}} if label == "LSTM" else {}
        window = {} if preset.startswith("projection-only") else {"embedding": {"window": own.embedding.window}}
        yield Row(label, model_config(preset, {"dim": own.dim, **window, **changes}), "mtop_en", paper)
    yield Row("pQRNN", model_config("pqrnn"), "mtop_en")
    if options.teacher is not None:
        yield Row("pQRNN, distilled", model_config("pqrnn"), "mtop_en", taught=True)
        yield Row("Mixer, distilled", own, "mtop_en", taught=True)


# Tables 3 and 4 of the paper: the change of BASE, and exact match on validation. None: a row of ours.
PROJECTIONS_AND_SIZES = {
    "m = 256": None, "m = 512": 78.4, "m = 2048": 80.8, "m = 4096": None,
    "n = 16": None, "n = 32": 78.2, "n = 128": 79.9, "n = 256": None,
    "w = 0": 80.0, "w = 4": 80.6,
    "b = 64": 77.8, "b = 512": 81.0,
    "1 layer": 79.8, "4 layers": 80.7,
}  # fmt: skip
COMBINED = {
    "11: m = 2048, 4 layers (LARGE)": 81.2,
    "12: m = 2048, b = 512, 4 layers (X-LARGE)": 82.3,
    "13: w = 0, b = 64 (X-SMALL)": 76.9,
    "14: m = 512, w = 0, b = 64": 74.5,
}


def table_3(options: argparse.Namespace) -> Iterator[Row]:
    """One size of BASE changed, on English validation."""
    yield from _changed(options, PROJECTIONS_AND_SIZES)


def table_4(options: argparse.Namespace) -> Iterator[Row]:
    """Several sizes of BASE changed, on English validation."""
    yield from _changed(options, COMBINED)


def _changed(options: argparse.Namespace, rows: Mapping[str, float | None]) -> Iterator[Row]:
    for label, paper in rows.items():
        yield Row(label, base(options, **changes(label)), "mtop_en", paper)


def changes(label: str) -> dict[str, Any]:
    """The values of the configuration that a row of Table 3 or 4 changes, read from its label."""
    keys = {
        "m": ("text", "projection", "num_features"),
        "n": ("text", "projection", "num_hashes"),
        "w": ("embedding", "window"),
        "b": ("dim",),
    }
    values: dict[str, Any] = {}
    for name, value in re.findall(r"([mnwb]) = (\d+)", label):
        *tables, key = keys[name]
        table = values
        for outer in tables:
            table = table.setdefault(outer, {})
        table[key] = int(value)
    if layers := re.search(r"(\d+) layer", label):
        values["num_layers"] = int(layers[1])
    return values


def table_5(options: argparse.Namespace) -> Iterator[Row]:
    """Sizes on English test, two of them with transitions too, and BASE on the rows of six languages of XSemPLR."""
    for size, paper in zip(SIZES, (83.4, 81.9, 81.8, 79.9, 77.4), strict=True):
        yield Row(size.upper(), model_config(f"pnlp-mixer-{size}"), "mtop_en", paper)
    for size, paper in (("base", 81.8), ("x-small", 77.4)):
        model = model_config(f"pnlp-mixer-{size}", {"head": {"transitions": True}})
        yield Row(f"{size.upper()} with transitions", model, "mtop_en", paper, training={"epochs": 60})
    for language in LANGUAGES:
        yield Row(f"BASE, {language}, 859 rows", base(options), f"xsemplr:{language}")


def table_7(options: argparse.Namespace) -> Iterator[Row]:
    """Long texts: accuracy on IMDB's test split, F1 on Hyperpartisan, with a baseline of our own."""
    parts = [f"fold {fold}" for fold in range(FOLDS)] + list(SPLITS)
    for size, imdb, hyperpartisan in (("x-small", 81.9, 89.8), ("base", 78.6, 90.6), ("x-large", 82.9, 89.2)):
        short, long = (model_config(f"pnlp-mixer-{size}", {"text": {"max_len": length}}) for length in (1024, 2048))
        yield Row(f"IMDB, {size.upper()}", short, "imdb", imdb)
        for part in parts:
            yield Row(f"Hyperpartisan, {size.upper()}, {part}", long, f"hyperpartisan:{part}", hyperpartisan)
        for part in SPLITS:
            label, training = f"Hyperpartisan, {size.upper()}, {part}{LAST_EPOCH}", {"load_best_at_end": False}
            yield Row(label, long, f"hyperpartisan:{part}", hyperpartisan, training)
    for part in parts:
        yield Row(f"Hyperpartisan, TF-IDF, {part}", None, f"hyperpartisan:{part}")


def table_8(options: argparse.Namespace) -> Iterator[Row]:
    """BASE with vocabularies of one language and mBERT's on the rows of six languages; unknown words are [UNK].

    The last rows are what a vocabulary of another script comes to on all of MTOP English: no word is known.
    """
    for language, source in itertools.product(LANGUAGES, ("en", "es", "de", "hi", "th", "M")):
        vocabulary = mbert(options) if source == "M" else single_vocabulary(options, source)
        label = f"vocabulary {source}, rows {language}"
        yield Row(label, base(options), f"xsemplr:{language}:{vocabulary}", vocabulary=str(vocabulary))
    for size in ("x-small", "base"):
        yield Row(f"{size.upper()}, no word known", model_config(f"pnlp-mixer-{size}"), "mtop_en:unknown")


def choices(options: argparse.Namespace) -> Iterator[Row]:
    """One size on English validation, trained in different ways."""
    paper = {"x-small": 76.9, "base": 80.8}.get(options.size)
    for label, training in CHOICES.items():
        yield Row(label, base(options), "mtop_en", paper, training)
    for label, changes in MODEL_CHOICES.items():
        yield Row(label, base(options, **changes), "mtop_en", paper, {"epochs": 60})


def mbert(options: argparse.Namespace) -> Path:
    """Multilingual BERT's cased vocabulary."""
    return options.data / "vocab" / "bert-base-multilingual-cased.txt"


def single_vocabulary(options: argparse.Namespace, language: str) -> Path:
    """A vocabulary trained on the contexts of XQuAD in one language."""
    path = options.runs / "rows" / f"vocabulary-{language}.txt"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        texts = {row["context"] for row in rows_of(options.data / "xquad" / f"{language}.jsonl.gz")}
        config = TextConfig(lowercase=False, vocabulary_size=8000, max_len=10_000)
        path.write_text(train_vocabulary(sorted(texts), config).serialize()[1], "utf-8")
    return path


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a compressed file."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


TABLES: dict[str, Callable[[argparse.Namespace], Iterator[Row]]] = {
    "1": table_1, "2": table_2, "3": table_3, "4": table_4, "5": table_5, "7": table_7, "8": table_8,
    "choose": choices,
}  # fmt: skip
ON_TEST = ("5", "7", "8")
