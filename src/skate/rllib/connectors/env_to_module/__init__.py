"""Connectors from episodes to the batch of a module."""

from __future__ import annotations

from skate import lazy_loader

#: Public names by their modules; loaded on first use.
_HOMES = {
    "skate.rllib.connectors.env_to_module.defaults": (
        "AddObservationsFromEpisodesToBatch",
        "AddStatesFromEpisodesToBatch",
        "AddTimeDimToBatchAndZeroPad",
        "AgentToModuleMapping",
        "BatchIndividualItems",
        "EnvToModulePipeline",
        "NumpyToTensor",
    ),
    "skate.rllib.connectors.env_to_module.flatten_observations": ("FlattenObservations",),
    "skate.rllib.connectors.env_to_module.frame_stacking": ("FrameStackingEnvToModule",),
    "skate.rllib.connectors.env_to_module.mean_std_filter": ("MeanStdFilter",),
    "skate.rllib.connectors.env_to_module.observation_preprocessor": (
        "MultiAgentObservationPreprocessor",
        "SingleAgentObservationPreprocessor",
    ),
    "skate.rllib.connectors.env_to_module.prev_actions_prev_rewards": ("PrevActionsPrevRewards",),
}

__getattr__, __dir__, __all__ = lazy_loader.attach(globals(), _HOMES)
