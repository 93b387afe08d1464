"""Names for the option `accelerator_type`; any other string works as well.

A node has a resource named after the accelerator that it detects. Names with a memory size, such as
`NVIDIA_A100_80G`, are not detected: add them to the node as a resource.
"""

from __future__ import annotations

import warnings

from skate.util.accelerators.names import *  # noqa: F403 - the constants are this package's whole content
from skate.util.accelerators.names import __all__ as __all__
from skate.util.annotations import RayDeprecationWarning


def __getattr__(name: str) -> str:
    if name == "NVIDIA_TESLA_A100":
        warnings.warn("NVIDIA_TESLA_A100 is deprecated; use NVIDIA_A100", RayDeprecationWarning, stacklevel=2)
        return "A100"
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
