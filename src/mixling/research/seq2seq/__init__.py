"""Text-to-text models; the core does not import this package."""

from typing import TYPE_CHECKING

from mixling.lazy import lazy_imports

if TYPE_CHECKING:
    from mixling.research.seq2seq.batches import SubwordIds
    from mixling.research.seq2seq.config import PAIRS, SEQ2SEQ_DEFAULTS, PairRunConfig
    from mixling.research.seq2seq.evaluation import evaluate_task, exact_matches
    from mixling.research.seq2seq.generation import GenerationConfig, generate
    from mixling.research.seq2seq.mixture import MixingConfig, draws
    from mixling.research.seq2seq.model import EncoderDecoder, EncoderDecoderConfig, build_encoder_decoder
    from mixling.research.seq2seq.pair import Pair
    from mixling.research.seq2seq.pairs import PairColumns, read_pairs
    from mixling.research.seq2seq.presets import (
        CPU,
        SEQ2SEQ_PRESETS,
        SMALL,
        Family,
        Shape,
        bag_of_words,
        hypermixer,
        lstm,
        mixer,
        mixer_transformer,
        remixer,
        seq2seq_config,
        t5,
    )
    from mixling.research.seq2seq.run import fit_pairs
    from mixling.research.seq2seq.span_corruption import SpanConfig
    from mixling.research.seq2seq.templates import TEMPLATES
    from mixling.research.seq2seq.training import PairData, TextToText

__getattr__, __dir__ = lazy_imports(__name__)
