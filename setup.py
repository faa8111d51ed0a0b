"""The extension modules, and how they are compiled: see tools/build_native.py."""

import os
import sys
from pathlib import Path

from setuptools import setup

os.chdir(Path(__file__).parent)
sys.path.insert(0, "tools")
from build_native import BuildNative, extensions  # noqa: E402

setup(
    ext_modules=extensions(),
    cmdclass={"build_ext": BuildNative},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
