"""Runs: training from a configuration and data to a folder with the model, its metrics and its record."""

from typing import TYPE_CHECKING

from mixling.lazy import lazy_imports

if TYPE_CHECKING:
    from mixling.runs.artifact import read_folder
    from mixling.runs.choice import choose_model
    from mixling.runs.config import RunConfig, resumed_config
    from mixling.runs.description import describe
    from mixling.runs.evaluation import evaluate
    from mixling.runs.files import NEXT, RUN_FILE, SEEN_FILE, WRITTEN, is_finished, read_metrics, read_run
    from mixling.runs.kinds import infer_kind
    from mixling.runs.ngram_data import LinearData
    from mixling.runs.ngrams import budget, fit_ngrams
    from mixling.runs.pretrain import PRETRAINING_DEFAULTS, PretrainConfig
    from mixling.runs.pretrained import FINE_TUNING, evaluate_text, load_pretraining, pretrained_config
    from mixling.runs.recipes import RECIPES
    from mixling.runs.resume import unfinished_run
    from mixling.runs.spec import LABELS, MASKED_LM, Spec, resolve
    from mixling.runs.suggestions import suggest
    from mixling.runs.teacher import DistillConfig, check_distill, open_teacher
    from mixling.runs.toml import as_toml
    from mixling.runs.weights import load_model, write_model

__getattr__, __dir__ = lazy_imports(__name__)
