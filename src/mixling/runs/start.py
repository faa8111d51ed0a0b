"""What a model begins with: the word vectors that the configuration speaks of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from mixling.data.corpora import is_plain, read_texts
from mixling.data.dataset import Dataset
from mixling.data.unlabeled import read_unlabeled
from mixling.errors import DataError
from mixling.runs.config import RunConfig
from mixling.tasks import task_type
from mixling.text.encoder import Text
from mixling.text.vectors import VectorConfig, WordVectors, train_vectors
from mixling.training.start import check_projection


def start_texts(config: RunConfig) -> Iterator[Text]:
    """The texts of the files to begin with, by the columns of the rows.

    Raises:
        DataError: a file or row that cannot be used.
    """
    for source in config.initialisation.texts:
        if is_plain(source):
            yield from read_texts([source])
        else:
            data = config.data
            yield from read_unlabeled(
                [source], reader=task_type(config.task).reader, columns=data.columns, on_bad_row=data.on_bad_row
            )


def make_vectors(config: RunConfig, train: Dataset, log: Callable[[str], None]) -> WordVectors | None:
    """The vectors to begin with; None: random numbers.

    Raises:
        ConfigError: the embedding layer has no hashed features.
        DataError: files that cannot be used, or have too few words.
        ModelFileError: no vectors are in the folder.
    """
    start, text = config.initialisation, config.model.text
    if start.kind in ("random", "model"):
        return None
    check_projection(text)
    if start.vectors is not None:
        return WordVectors.load(start.vectors)
    texts: Iterable[Text] = chain(train.texts, start_texts(config))
    counting = VectorConfig(dim=config.model.dim, lowercase=text.lowercase, contractions=text.contractions)
    try:
        vectors = train_vectors(texts, counting)
    except DataError as error:
        implied = config.distill is not None and start.texts == config.distill.unlabeled
        if start.kind == "text" and not implied:
            raise
        log(f"initialisation: random, without word vectors: {error}")  # nobody asked for more than a try
        return None
    log(f"word vectors: of {len(vectors.words):,} different words, counted in {vectors.num_tokens:,} words of text")
    return vectors
