"""Raw text -> `Encoded`, with NumPy only."""

from mixling.lazy import TYPE_CHECKING, lazy_imports

if TYPE_CHECKING:
    from mixling.text.clean import normalize
    from mixling.text.encoder import Encoded, Text, train_vocabulary
    from mixling.text.fingerprint import (
        AveragedEmbedding,
        Binary,
        MinHash,
        Projection,
        Projector,
        SimHash,
        SubwordEmbedding,
        Ternary,
        Tsp,
    )
    from mixling.text.ngram_branch import (
        NgramBranch,
        NgramMetadata,
        pack_sorted,
        stored_bytes,
        term_bytes,
        unpack_sorted,
    )
    from mixling.text.ngrams import Distinct, Words, pair_hashes
    from mixling.text.noise import NOISES, NoiseLevel, WordNumbers, blend, blendable, mixed_noise, noisy_texts
    from mixling.text.sparse_weights import SparseWeights
    from mixling.text.splitting import StringSplitter
    from mixling.text.subwords import SubwordTokenizer
    from mixling.text.table import FIRST, SEPARATOR
    from mixling.text.tsp import tsp_features
    from mixling.text.vectors import VectorConfig, WordVectors, train_vectors
    from mixling.text.vocabulary import UNKNOWN
    from mixling.text.windows import ReadingConfig, WindowEncoder
    from mixling.text.words import split_words, word_spans

__getattr__, __dir__ = lazy_imports(__name__)
