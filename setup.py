"""The extension modules. Without a compiler they are left out, and ONNX Runtime and scikit-learn compute.

With MIXLING_NATIVE=required, as wheels are built, the build fails instead.
"""

import os
from pathlib import Path

from setuptools import Extension, setup

NATIVE = Path("src/mixling/native")
OPTIONAL = os.environ.get("MIXLING_NATIVE") != "required"
FLAGS = ["-Wall", "-Wextra", "-O3", "-g0", "-std=gnu11", "-fvisibility=hidden", "-fno-math-errno", "-fno-trapping-math"]

setup(
    ext_modules=[
        Extension(
            "mixling.native._core",
            sources=[
                *sorted(str(file) for file in NATIVE.glob("*.c") if file.name != "example.c"),
                *sorted(map(str, NATIVE.glob("texts/*.c"))),
            ],
            depends=[*map(str, NATIVE.glob("**/*.h")), "src/mixling/text/unicode_tables.inc"],
            extra_compile_args=[] if os.name == "nt" else FLAGS,
            py_limited_api=True,
            optional=OPTIONAL,
        ),
        Extension(
            "mixling.native._margins",
            sources=[str(NATIVE / "linear" / name) for name in ("margins.c", "own_terms.c")],
            extra_compile_args=[] if os.name == "nt" else FLAGS,
            py_limited_api=True,
            optional=OPTIONAL,
        ),
        Extension(
            "mixling.native._counts",
            sources=[str(NATIVE / "vectors" / "counts.c")],
            extra_compile_args=[] if os.name == "nt" else FLAGS,
            py_limited_api=True,
            optional=OPTIONAL,
        ),
        Extension(
            "mixling.native._steps",
            sources=sorted(map(str, NATIVE.glob("training/*.c"))),
            depends=[*map(str, NATIVE.glob("training/*.h")), *map(str, NATIVE.glob("gelu_*.h"))],
            # Products are fused with sums where the source says so, not where a compiler likes to.
            extra_compile_args=[] if os.name == "nt" else [*FLAGS, "-ffp-contract=off", "-pthread"],
            py_limited_api=True,
            optional=OPTIONAL,
        ),
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
