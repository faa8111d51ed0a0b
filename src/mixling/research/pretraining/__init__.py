"""Pretraining on unlabeled text: masked language modeling, and the encoded text that it reads."""

from mixling.lazy import TYPE_CHECKING, lazy_imports

if TYPE_CHECKING:
    from mixling.research.pretraining.corpus import (
        MASK_WORD,
        MaskedText,
        document_encoder,
        subword_targets,
        word_targets,
    )
    from mixling.research.pretraining.documents import DocumentReader, SubwordReader, WordReader
    from mixling.research.pretraining.evaluation import PretrainedModel, evaluate_text, load_pretraining
    from mixling.research.pretraining.masked_lm import MaskedLM, MaskedLMConfig
    from mixling.research.pretraining.packing import Packing
    from mixling.research.pretraining.prepared import (
        CorpusConfig,
        Prepared,
        Tokens,
        encode_documents,
        is_prepared,
        open_prepared,
        prepare,
        sample_documents,
    )
    from mixling.research.pretraining.run import MASKED_LM, PRETRAINING_DEFAULTS, PretrainConfig

__getattr__, __dir__ = lazy_imports(__name__)
