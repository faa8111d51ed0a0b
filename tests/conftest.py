"""Fixtures that every test may ask for, and the check of tensors' shapes, which is on in tests only."""

from __future__ import annotations

import functools
import gc
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import settings

# Must come before the packages are first imported. Without torch, which prediction does not need, there is nothing to
# check, and the tests that need no torch still run.
SHAPES = all(find_spec(name) is not None for name in ("torch", "jaxtyping", "beartype"))
if SHAPES:
    import jaxtyping
    from jaxtyping import install_import_hook

    # Not the packages themselves: `mixling.lazy` has Python read, and keep on disk, their bytecode without checks.
    SOURCE = Path(find_spec("mixling").origin).parent  # type: ignore[union-attr, arg-type]
    CHECKED = [path for package in ("mixers", "models") for path in (SOURCE / package).glob("[!_]*.py")]
    install_import_hook([f"mixling.{path.parent.name}.{path.stem}" for path in CHECKED], "beartype.beartype")

# Where shapes are checked: these tests call all that is checked. In trainings the checks took half of the time.
SHAPES_CHECKED = ("contract", "layers", "mixers", "models")

# Where trainings draw their two plots, which elsewhere are empty files: they take half the time of a tiny training.
PLOTS_DRAWN = ("test_images.py", "test_plots.py", "test_questions.py")
DRAWN = pytest.StashKey[bool]()
PLOTS = {
    "mixling.runs.run": "training_curves",
    "mixling.runs.training": "plot_confusion",
    "mixling.research.vision.run": "plot_confusion",
}

# Of the commands that tests start as processes, because pytest's own filters hold in this process only. Standard
# streams that a test has closed are open until the process ends.
os.environ["PYTHONWARNINGS"] = "error,ignore::ResourceWarning"

# The same examples in every run, however busy the machine is.
settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")

TESTS = Path(__file__).resolve().parent
# Their tests train models or start processes: all of them are slow, and the fast tier does not even import them.
SLOW = ("cli", "comparison", "end_to_end", "experiments", "runs", "test_estimators.py")
FAST = (  # files in these folders whose tests cost milliseconds
    "cli/test_config.py",
    "cli/test_configure.py",
    "cli/test_groups.py",
    "cli/test_output.py",
    "cli/test_panel.py",
    "runs/resolve",
    "runs/resolve/test_choice.py",
    "runs/resolve/test_recipes.py",
    "runs/test_shared.py",
)

ROOT = TESTS.parent
SHARED_DATA = ROOT.parent / "shared" / "data"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave what is slow as a whole out of `make test-fast`."""
    return True if config.option.markexpr == "not slow" and _is_slow(collection_path) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of what is slow as a whole; files with slow tests run first, so that no process ends with one."""
    for item in items:
        if _is_slow(item.path):
            item.add_marker(pytest.mark.slow)
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Check shapes and draw plots for some tests only, fixtures included."""
    item.config.stash[DRAWN] = item.path.name in PLOTS_DRAWN
    if SHAPES:
        jaxtyping.config.update("jaxtyping_disable", item.path.parent.name not in SHAPES_CHECKED)


@pytest.fixture(autouse=True, scope="session")
def plots_where_they_are_looked_at(request: pytest.FixtureRequest) -> Iterator[None]:
    """Replace the plots of trainings by empty files, but for the tests of PLOTS_DRAWN."""
    with pytest.MonkeyPatch.context() as patched:
        for module, name in PLOTS.items() if SHAPES else ():
            draw = getattr(importlib.import_module(module), name)
            patched.setattr(f"{module}.{name}", functools.partial(_draw_or_touch, request.session, draw))
        yield


def _draw_or_touch(session: pytest.Session, draw: Callable[..., None], values: Any, path: Path, **how: Any) -> None:
    if session.config.stash[DRAWN]:
        draw(values, path, **how)
    else:
        path.touch()


def pytest_collection_finish() -> None:
    """Leave modules, which live to the end, out of the collections of garbage: these took a tenth of the time."""
    gc.collect()
    gc.freeze()


def _is_slow(path: Path) -> bool:
    if not path.is_relative_to(TESTS) or path in (TESTS / "cli", TESTS / "runs"):
        return False
    return path.relative_to(TESTS).parts[:1] in {(name,) for name in SLOW} and str(path.relative_to(TESTS)) not in FAST


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of public data sets that stands beside a development checkout; absent on a user's machine."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the folder of public data sets (shared/data beside the checkout) is absent")
    return SHARED_DATA


@pytest.fixture(scope="session")
def load_script() -> Callable[[str], ModuleType]:
    """Import a script outside of the package, given its path in the repository."""

    def load(path: str) -> ModuleType:
        spec = spec_from_file_location(f"script_{Path(path).stem}", ROOT / path)
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        sys.modules[spec.name] = module  # where dataclasses look it up
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture
def unchecked_shapes() -> Iterator[None]:
    """Checking shapes while a graph is traced would fix the sizes that are meant to stay free."""
    disabled = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", disabled)
