"""The code of a worker process. `ray.worker` is also an old public name: see `import_paths`."""

from __future__ import annotations

import os
from typing import Any


def __getattr__(name: str) -> Any:
    # An import of a submodule calls this first; it must not load the table in every worker.
    if os.path.exists(os.path.join(__path__[0], f"{name}.py")):
        raise AttributeError(f"module {__name__!r} has not imported {name!r} yet")
    from skate import import_paths  # only for programs that use the old name

    return getattr(import_paths.load("worker"), name)
