"""libmixling: the whole way from a text to its logits in C, for models whose parts it knows (mixling.h), and training.

The extension modules are part of mixling: from sources, the machine's C compiler or Zig's builds them, or installing
fails.
"""

import os

from mixling.errors import ConfigError, UserError, shown

# The widest registers that the modules use, in floats: with 4 a training has the bytes of one in a browser.
REGISTERS = "MIXLING_REGISTERS"
if (_wanted := os.environ.get(REGISTERS, "")) not in ("", "4", "8", "16"):
    raise ConfigError(f"{REGISTERS} is {shown(_wanted)}; allowed: 4, 8 or 16 floats, or nothing for the widest")

# Of what Python passes to the modules and what these read of a file: one more with each change. It is compiled into
# them, since old modules beside new Python files would leave out what they do not know.
INTERFACE = 10

try:
    from mixling.native import _core
except ImportError as error:
    raise UserError(
        f"the C core of mixling cannot be loaded ({error}): install mixling again, or run `make native` in a clone"
    ) from None
if (_built := getattr(_core, "INTERFACE", 0)) != INTERFACE:
    raise UserError(
        f"the C core of mixling was built from other sources than its Python files (its interface is {_built}, "
        f"theirs {INTERFACE}): install mixling again, or run `make native` in a clone"
    )
