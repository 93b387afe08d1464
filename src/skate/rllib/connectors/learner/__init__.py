"""Connectors from episodes to the batch of a learner."""

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
        "NumpyToTensor",
    ),
    "skate.rllib.connectors.learner.add_columns_from_episodes_to_train_batch": (
        "AddColumnsFromEpisodesToTrainBatch",
    ),
    "skate.rllib.connectors.learner.add_infos_from_episodes_to_train_batch": (
        "AddInfosFromEpisodesToTrainBatch",
    ),
    "skate.rllib.connectors.learner.add_next_observations_from_episodes_to_train_batch": (
        "AddNextObservationsFromEpisodesToTrainBatch",
    ),
    "skate.rllib.connectors.learner.add_one_ts_to_episodes_and_truncate": ("AddOneTsToEpisodesAndTruncate",),
    "skate.rllib.connectors.learner.compute_returns_to_go": ("ComputeReturnsToGo",),
    "skate.rllib.connectors.learner.frame_stacking": ("FrameStackingLearner",),
    "skate.rllib.connectors.learner.general_advantage_estimation": ("GeneralAdvantageEstimation",),
    "skate.rllib.connectors.learner.learner_connector_pipeline": ("LearnerConnectorPipeline",),
}

__getattr__, __dir__, __all__ = lazy_loader.attach(globals(), _HOMES)
