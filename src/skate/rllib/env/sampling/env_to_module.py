"""From episodes to the batch of a module: connectors of the user one by one, the default ones behind them at once."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch

from skate.rllib.connectors.connector_pipeline_v2 import ConnectorPipelineV2
from skate.rllib.connectors.default_pipelines import ENV_TO_MODULE
from skate.rllib.connectors.env_to_module.defaults import EnvToModulePipeline
from skate.rllib.connectors.env_to_module.observation_preprocessor import SingleAgentObservationPreprocessor
from skate.rllib.core.columns import Columns
from skate.rllib.core.rl_module.multi_rl_module import MultiRLModule
from skate.rllib.env.sampling.lane_episode import LaneEpisode
from skate.rllib.env.sampling.space_plan import SpacePlan
from skate.rllib.utils import metrics as names

PREFIX = (names.ENV_TO_MODULE_CONNECTOR,)


class EnvToModule:
    """Makes batches for a module of the newest observations of episodes.

    Default connectors at the end of the pipeline are not called one by one: they would add the newest observation of
    each episode, and put them together as a tensor.

    Args:
        runner: The runner whose pipeline, module and metrics these are.
        shared: What connectors share.
    """

    def __init__(self, runner: Any, shared: dict[str, Any]) -> None:
        self.pipeline: ConnectorPipelineV2 = runner._env_to_module
        self.module, self.metrics, self.shared = runner.module, runner.metrics, shared
        self.is_direct = self._ends_by_default()
        self.own = self.pipeline.connectors[: -len(ENV_TO_MODULE)] if self.is_direct else []
        if self.is_direct:
            flattening, to_tensor = self.pipeline.connectors[-5], self.pipeline.connectors[-1]
            self.plan: SpacePlan | None = flattening.plan if flattening.flat else None
            self.device = to_tensor.device

    def _ends_by_default(self) -> bool:
        pipeline, module = self.pipeline, self.module
        last = pipeline.connectors[-len(ENV_TO_MODULE) :]
        if type(pipeline) is not EnvToModulePipeline or tuple(map(type, last)) != ENV_TO_MODULE:
            return False
        if module is None or isinstance(module, MultiRLModule) or module.is_stateful():
            return False
        if any(
            getattr(each, "as_learner_connector", False) or getattr(each, "multi_agent", False)
            for each in last
        ):
            return False
        flattening: Any = last[1]
        if flattening.flat:
            return flattening.plan is not None
        return isinstance(flattening.input_observation_space, gym.spaces.Box)

    def connect(self, episodes: list[LaneEpisode], explore: bool) -> dict[str, Any]:
        """Return the batch of the episodes' newest observations.

        Args:
            episodes: One per row.
            explore: True while exploring.
        """
        if self.module is None:
            return {}
        pipeline = self.pipeline
        given: dict[str, Any] = {
            "rl_module": self.module,
            "explore": explore,
            "shared_data": self.shared,
            "metrics": self.metrics,
            "metrics_prefix_key": PREFIX,
        }
        if not self.is_direct:
            made: dict[str, Any] = pipeline(batch={}, episodes=episodes, **given)
            return made
        with self.metrics.log_time((*PREFIX, names.CONNECTOR_PIPELINE_TIMER)):
            for place, connector in enumerate(self.own):
                if rewrites_newest(connector):
                    with pipeline.timer(connector, self.metrics, PREFIX):
                        rewrite(connector, episodes)
                    continue
                batch = pipeline.run((connector,), batch={}, episodes=episodes, **given)
                if batch:
                    # Columns of the user's own: the default connectors have to see them.
                    return pipeline.run(
                        pipeline.connectors[place + 1 :], batch=batch, episodes=episodes, **given
                    )
            return {Columns.OBS: self._tensor([episode.newest() for episode in episodes])}

    def _tensor(self, rows: list[Any]) -> Any:
        plan = self.plan
        if plan is None or plan.keeps:
            array = np.array(rows)
            if array.dtype == np.float64:
                array = array.astype(np.float32)
        else:
            array = np.zeros((len(rows), *plan.shape), plan.dtype)
            plan.write(array, rows)
        return torch.as_tensor(array, device=self.device)


def rewrites_newest(connector: Any) -> bool:
    """True if a connector does nothing but to replace the newest observation of each episode."""
    kind = type(connector)
    return (
        isinstance(connector, SingleAgentObservationPreprocessor)
        and kind.__call__ is SingleAgentObservationPreprocessor.__call__
    )


def rewrite(connector: Any, episodes: list[LaneEpisode]) -> None:
    """Replace the newest observation of each episode, as the connector would."""
    new = connector.preprocess_batch([episode.newest() for episode in episodes], episodes)
    for episode, observation in zip(episodes, new, strict=True):
        episode.replace_newest(observation)
        episode.observation_space = connector.space_of(episode)
