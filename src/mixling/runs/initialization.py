"""The word vectors that initialize a model's embedding layer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from mixling.data.corpora import is_plain, read_texts
from mixling.data.dataset import Dataset
from mixling.data.unlabeled import read_unlabeled
from mixling.errors import DataError
from mixling.runs.resolve.config import RunConfig
from mixling.runs.shared import Shared
from mixling.tasks import task_type
from mixling.text.encoder import Text
from mixling.text.vectors import VectorConfig, WordVectors, train_vectors
from mixling.training.callbacks import Detail
from mixling.training.initialization import check_projection


def init_texts(config: RunConfig) -> Iterator[Text]:
    """Yield the unlabeled texts to count word vectors in.

    Raises:
        DataError: a file or row cannot be used.
    """
    for source in config.initialization.texts:
        if is_plain(source):
            yield from read_texts([source])
        else:
            data = config.data
            yield from read_unlabeled(
                [source], reader=task_type(config.task).reader, columns=data.columns, on_bad_row=data.on_bad_row
            )


def make_vectors(config: RunConfig, train: Dataset, log: Callable[[str], None], shared: Shared) -> WordVectors | None:
    """Load or count the word vectors of the initialization; None: the model is initialized otherwise.

    Raises:
        ConfigError: the projection does not hash.
        DataError: a file cannot be used or has too few words.
        ModelFileError: the folder holds no word vectors.
    """
    init, text = config.initialization, config.model.text
    if init.kind in ("random", "model"):
        return None
    check_projection(text)
    if init.vectors is not None:
        return WordVectors.load(init.vectors)
    texts: Iterable[Text] = chain(train.texts, init_texts(config))
    counting = VectorConfig(dim=config.model.dim, lowercase=text.lowercase, contractions=text.contractions)
    try:
        key = "vectors", init.model_dump_json(), counting.model_dump_json()
        vectors = shared.get(lambda: train_vectors(texts, counting), *key, of=(train,))
    except DataError as error:
        implied = config.distill is not None and init.texts == config.distill.unlabeled
        if init.has_texts and not implied:
            raise
        log(f"initialization: random, without word vectors: {error}")  # the user did not ask for vectors of a text
        return None
    counted = f"{len(vectors.words):,} different words, counted in a text of {vectors.num_tokens:,} words"
    log(Detail(f"word vectors: {counted}"))
    return vectors
