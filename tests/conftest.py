"""Fixtures that every test may ask for."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of public data sets that stands beside a development checkout; absent on a user's machine."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the folder of public data sets (shared/data beside the checkout) is absent")
    return SHARED_DATA
