"""The import path with which the workers of these tests find functions passed by reference."""

from __future__ import annotations

import os
import pathlib

HERE = pathlib.Path(__file__).parent

os.environ["PYTHONPATH"] = os.pathsep.join(
    [*map(str, (HERE, HERE.parent / "conformance")), *filter(None, [os.environ.get("PYTHONPATH")])]
)
