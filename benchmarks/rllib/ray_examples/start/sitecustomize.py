"""Read by every Python process of a run: ``ray`` means Skate, and ``ray.rllib.examples`` Ray's own folder of examples."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder

from skate import compat

PACKAGE = "ray.rllib.examples"


class Examples:
    """Finds the examples, and nothing else of Ray."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        if fullname == PACKAGE:
            path = [os.path.dirname(os.environ["RAY_EXAMPLES"])]
        elif not fullname.startswith(f"{PACKAGE}."):
            return None
        return PathFinder.find_spec(fullname, path)


compat.install()
sys.meta_path.insert(0, Examples())  # type: ignore[arg-type]
