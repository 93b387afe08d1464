"""The code of a worker process. `ray.worker` is also an old name of Ray's: see `private_names`."""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    return getattr(importlib.import_module("skate.private_names.table").module("worker"), name)
