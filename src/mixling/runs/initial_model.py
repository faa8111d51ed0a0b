"""The vocabulary, the encoder and the model of a run before it is trained, and the word vectors that it begins with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from mixling.data.corpora import is_plain, read_texts
from mixling.data.dataset import Dataset
from mixling.data.unlabeled import read_unlabeled
from mixling.errors import DataError
from mixling.networks.network import TextNetwork
from mixling.runs.pretrained import load_pretrained
from mixling.runs.replay import load_head, replayed_run
from mixling.runs.resolve.config import RunConfig
from mixling.runs.shared import Shared
from mixling.tasks import task_type
from mixling.tasks.base import Task
from mixling.text.config import TextConfig
from mixling.text.encoder import Text, TextEncoder, train_vocabulary
from mixling.text.vectors import VectorConfig, WordVectors, train_vectors
from mixling.text.vocabulary import Vocabulary
from mixling.training.backends.choose import make_network, trains_natively
from mixling.training.backends.context import DistributedContext
from mixling.training.callbacks import Detail, Log
from mixling.training.initialization import check_projection, init_bottleneck, read_embeddings

_VOCABULARY_BYTES = 8 << 20  # size of the text sample that a vocabulary is trained on
_UNREAD_VOCABULARY_BYTES = 1 << 18  # the same, for a network that is not read


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
    init = config.initialization
    text = config.model.text
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


def make_encoder(text: TextConfig, texts: Dataset, seed: int, shared: Shared, *, alone: bool = False) -> TextEncoder:
    """Return an encoder with the vocabulary that the configuration names, or one trained on the texts.

    Args:
        alone: whether n-grams are alone, which are of whole words.
    """
    if text.vocabulary is not None:
        vocabulary = Vocabulary.load(text.vocabulary)
    else:
        size = _UNREAD_VOCABULARY_BYTES if alone and text.tokens == "words" else _VOCABULARY_BYTES
        # A sample of all texts is the same with every seed.
        key = (seed,) if texts.text_bytes().sum() > size else ()
        vocabulary = shared.get(
            lambda: train_vocabulary(texts.sample_texts(size, seed), text),
            *("vocabulary", text.model_dump_json(), size, *key),
            of=(texts,),
        )
    completed = text.for_vocabulary(vocabulary)
    return shared.get(lambda: TextEncoder(completed, vocabulary), completed.model_dump_json(), of=(vocabulary,))


def initial_model(
    config: RunConfig,
    task: Task,
    encoder: TextEncoder,
    vectors: WordVectors | None,
    distributed: DistributedContext,
    log: Log,
) -> TextNetwork:
    """Return the network with its initial weights, and its configuration completed for the vocabulary.

    Raises:
        ConfigError: the configuration names a backend that does not know the model or the training.
    """
    completed = config.model.model_copy(update={"text": encoder.config})
    natively = config.ngrams.use == "alone" or trains_natively(
        completed, task, config.train, distributed, distilled=config.distill is not None
    )
    network = make_network(completed, len(task.labels), task.output, natively=natively, seed=config.train.seed)
    if completed.text.projection.fixed_dim is not None:
        weights = network.weights()
        shape = weights["embedding.embeddings"].shape
        read = read_embeddings(config.model.embedding.embeddings, shape)
        network.restore({**weights, "embedding.embeddings": read})
    if config.init.pretrained is not None:
        load_pretrained(network, config.init.pretrained)
        if replayed_run(config.init, config.task) is not None:
            load_head(network, task.labels, config.init.pretrained)
    counted = f"{len(task.labels)} labels, " if task.has_labels else ""
    log(Detail(f"{counted}{len(encoder.vocabulary):,} subwords, {network.num_parameters:,} parameters"))
    if vectors is not None:
        weights = network.weights()
        table = weights["embedding.weight"]
        fitted = init_bottleneck(table, completed.embedding, encoder, vectors, dim=completed.dim)
        network.restore(weights)
        known = f"the embeddings of {fitted.words:,} words reproduce {fitted.explained:.0%} of the variance"
        log(Detail(f"initialization: {known} of their vectors"))
    return network
