"""Conditions of the fast way for several agents, and what the default connectors do to observations and actions."""

from __future__ import annotations

from typing import Any

from skate.rllib.connectors import default_pipelines
from skate.rllib.connectors.connector_pipeline_v2 import ConnectorPipelineV2
from skate.rllib.connectors.env_to_module.defaults import EnvToModulePipeline, FlattenForModule, is_nested
from skate.rllib.connectors.module_to_env.defaults import ModuleToEnvPipeline
from skate.rllib.env.sampling.action_plan import ActionPlan
from skate.rllib.env.sampling.space_plan import SpacePlan


def can_fuse(runner: Any) -> bool:
    """True if the runner's pipelines have default connectors alone, and its modules no memory.

    Args:
        runner: A runner with modules.
    """
    to_module: ConnectorPipelineV2 = runner._env_to_module
    to_env: ConnectorPipelineV2 = runner._module_to_env
    if type(to_module) is not EnvToModulePipeline or type(to_env) is not ModuleToEnvPipeline:
        return False
    if tuple(map(type, to_module.connectors)) != default_pipelines.MULTI_ENV_TO_MODULE:
        return False
    if tuple(map(type, to_env.connectors)) != default_pipelines.MULTI_MODULE_TO_ENV:
        return False
    if runner._device.type != "cpu" or runner.module.is_stateful():
        return False
    actions = default_pipelines.action_plan_of
    spaces = runner.env.single_action_space.spaces.values()
    return all(actions(runner.config, space).is_simple for space in spaces) and _makes_rows(runner)


def _makes_rows(runner: Any) -> bool:
    """True if the observations of all agents become rows of arrays."""
    flattening: FlattenForModule = runner._env_to_module.connectors[1]
    if flattening.flat:
        return True
    try:
        return all(
            SpacePlan(space, flat=False).is_copy
            for space in runner.env.single_observation_space.spaces.values()
        )
    except ValueError:
        return False


def writers_of(runner: Any) -> tuple[dict[Any, SpacePlan], dict[str | None, set[Any]]]:
    """Return how observations of each agent become rows, and the agents whose observations are rows as they are.

    Args:
        runner: The runner.

    Returns:
        Plans by agent, none if no observation changes. The agents are under the id of a module of the user's own
        class, and under None for all other modules.
    """
    flattening: FlattenForModule = runner._env_to_module.connectors[1]
    plans = flattening.plans
    if all(plan.keeps for plan in plans.values()):
        return {}, {}
    kept: dict[str | None, set[Any]] = {None: {agent for agent, plan in plans.items() if plan.keeps}}
    plain = {agent for agent, plan in plans.items() if plan.keeps or not is_nested(plan.original)}
    return plans, kept | dict.fromkeys(flattening.keep, plain)


def action_plans_of(runner: Any) -> dict[Any, ActionPlan]:
    """Return the plans of the agents whose actions the environment takes in another form."""
    spaces = runner.env.single_action_space.spaces
    plans = {agent: default_pipelines.action_plan_of(runner.config, space) for agent, space in spaces.items()}
    return {agent: plan for agent, plan in plans.items() if not plan.keeps}
