"""Data: datasets that stream through functions of rows and batches, under a budget of memory.

What is public here is loaded when it is asked for: `import skate.data` alone reads no table library.
"""

from __future__ import annotations

import importlib
from typing import Any

#: Public names by the module that has them.
# fmt: off
_HOMES = {
    "skate.data.compute": ("ActorPoolStrategy", "ComputeStrategy", "TaskPoolStrategy"),
    "skate.data.context": (
        "DataContext", "DatasetContext", "ExecutionOptions", "ExecutionResources", "MixStoppingCondition", "NodeIdStr",
        "RandomSeedConfig",
    ),
    "skate.data.dataset": ("Dataset", "MaterializedDataset"),
    "skate.data.dataset.schema": ("Schema",),
    "skate.data.iterating.iterator": ("DataIterator", "DatasetIterator"),
    "skate.data.reading.memory": ("range", "from_items"),
    "skate.data.source.datasink": ("Datasink",),
    "skate.data.source.datasource": ("Datasource", "ReadTask"),
}
# fmt: on
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'skate.data' has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(home), name)
    return found


def __dir__() -> list[str]:
    return [*globals(), *__all__]
