"""The saved folder: its files, checksums, replacement, resume."""

from mixling.lazy import TYPE_CHECKING, lazy_imports

if TYPE_CHECKING:
    from mixling.artifacts.artifact import read_artifact, read_folder
    from mixling.artifacts.description import describe
    from mixling.artifacts.files import NEXT, RUN_FILE, SEEN_FILE, WRITTEN, is_finished, read_metrics, read_run
    from mixling.artifacts.kinds import PRETRAINING, TRAINING, all_kinds
    from mixling.artifacts.resume import unfinished_run
    from mixling.artifacts.weights import load_network, write_model

__getattr__, __dir__ = lazy_imports(__name__)
