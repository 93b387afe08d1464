"""Connectors from a module's outputs to actions."""

from __future__ import annotations

from skate import lazy_loader

#: Public names by their modules; loaded on first use.
_HOMES = {
    "skate.rllib.connectors.module_to_env.defaults": (
        "GetActions",
        "ListifyDataForVectorEnv",
        "ModuleToAgentUnmapping",
        "ModuleToEnvPipeline",
        "NormalizeAndClipActions",
        "RemoveSingleTsTimeRankFromBatch",
        "TensorToNumpy",
        "UnBatchToIndividualItems",
    ),
}

__getattr__, __dir__, __all__ = lazy_loader.attach(globals(), _HOMES)
