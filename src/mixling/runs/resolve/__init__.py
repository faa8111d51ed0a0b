"""From options and files to the configuration of a run."""

from mixling.lazy import TYPE_CHECKING, lazy_imports

if TYPE_CHECKING:
    from mixling.runs.resolve.choice import choose_model
    from mixling.runs.resolve.config import DecisionsConfig, RunConfig, resumed_config
    from mixling.runs.resolve.kinds import infer_kind
    from mixling.runs.resolve.spec import LABELS, Spec, resolve
    from mixling.runs.resolve.toml import as_toml

__getattr__, __dir__ = lazy_imports(__name__)
