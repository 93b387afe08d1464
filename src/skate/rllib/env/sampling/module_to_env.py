"""From a module's outputs to actions: by the pipeline, or at once if it has default connectors alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from skate.rllib.connectors.default_pipelines import MODULE_TO_ENV
from skate.rllib.connectors.module_to_env.defaults import ModuleToEnvPipeline, NormalizeAndClipActions
from skate.rllib.core.columns import Columns
from skate.rllib.core.rl_module.multi_rl_module import MultiRLModule
from skate.rllib.env.sampling.action_source import ActionSource
from skate.rllib.utils import metrics as names


class ModuleToEnv:
    """Runs the module of a runner and makes actions of its outputs.

    Args:
        runner: The runner whose pipeline, module and metrics these are.
        shared: What connectors share.
    """

    def __init__(self, runner: Any, shared: dict[str, Any]) -> None:
        self.runner, self.shared = runner, shared
        self.source: ActionSource | None = None
        if runner.module is not None and not isinstance(runner.module, MultiRLModule):
            self.source = ActionSource(runner.module, runner._generator)
        pipeline = runner._module_to_env
        self.is_direct = (
            self.source is not None
            and type(pipeline) is ModuleToEnvPipeline
            and tuple(map(type, pipeline.connectors)) == MODULE_TO_ENV
            and runner._action_plan.is_simple
        )

    def forward(self, batch: dict[str, Any], explore: bool, t: int) -> dict[str, Any]:
        """Return the outputs of the module.

        Args:
            batch: Columns with a row for each lane.
            explore: True while exploring.
            t: Steps sampled so far.
        """
        module = self.runner.module
        if self.source is not None:
            return self.source.forward(batch, explore, t)
        out: dict[str, Any] = (
            module.forward_exploration(batch, t=t) if explore else module.forward_inference(batch)
        )
        return out

    def choose(
        self, out: dict[str, Any], episodes: list[Any], explore: bool
    ) -> tuple[Sequence[Any], Any, dict[str, Sequence[Any]], ActionSource | None]:
        """Return the actions, those for the environments, the other outputs, and what knows missing log-probabilities.

        Args:
            out: What the module returned.
            episodes: The episodes that it acts in.
            explore: True while exploring.
        """
        if self.is_direct and all(is_column(value, len(episodes)) for value in out.values()):
            return self._choose_at_once(out, explore)
        runner = self.runner
        found = runner._module_to_env(
            rl_module=runner.module,
            batch=dict(out),
            episodes=episodes,
            explore=explore,
            shared_data=self.shared,
            metrics=runner.metrics,
            metrics_prefix_key=(names.MODULE_TO_ENV_CONNECTOR,),
        )
        actions = found.pop(Columns.ACTIONS)
        return actions, found.pop(Columns.ACTIONS_FOR_ENV, actions), found, None

    def _choose_at_once(
        self, out: dict[str, Any], explore: bool
    ) -> tuple[Sequence[Any], Any, dict[str, Sequence[Any]], ActionSource | None]:
        source: Any = self.source
        bounds = self.runner._module_to_env.connectors[MODULE_TO_ENV.index(NormalizeAndClipActions)]
        actions = source.actions(out, explore).detach().cpu().numpy()
        outputs = {key: value.detach().cpu().numpy() for key, value in out.items() if key != Columns.ACTIONS}
        for_env = actions if bounds.action_space is None else bounds.for_env(actions, bounds.action_space)
        waits = explore and Columns.ACTIONS not in out and Columns.ACTION_LOGP not in out
        return actions, for_env, outputs, source if waits else None


def is_column(value: Any, size: int) -> bool:
    """True for a tensor with so many rows."""
    return torch.is_tensor(value) and value.shape[:1] == (size,)
