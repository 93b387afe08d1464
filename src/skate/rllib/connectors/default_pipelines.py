"""The pipelines of an algorithm: a user's connectors with the default ones, and whether both can be fused."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import gymnasium as gym

from skate.rllib.connectors.connector_pipeline_v2 import ConnectorPipelineV2
from skate.rllib.connectors.connector_v2 import ConnectorV2
from skate.rllib.connectors.env_to_module.defaults import (
    AddObservationsFromEpisodesToBatch,
    AddStatesFromEpisodesToBatch,
    AddTimeDimToBatchAndZeroPad,
    AgentToModuleMapping,
    BatchIndividualItems,
    EnvToModulePipeline,
    FlattenForModule,
    NumpyToTensor,
)
from skate.rllib.connectors.module_to_env.defaults import (
    GetActions,
    ListifyDataForVectorEnv,
    ModuleToAgentUnmapping,
    ModuleToEnvPipeline,
    NormalizeAndClipActions,
    RemoveSingleTsTimeRankFromBatch,
    TensorToNumpy,
    UnBatchToIndividualItems,
)
from skate.rllib.env.sampling.action_plan import ActionPlan
from skate.rllib.env.sampling.space_plan import SpacePlan

#: The default connectors of one agent, in their order.
ENV_TO_MODULE: tuple[type[ConnectorV2], ...] = (
    AddObservationsFromEpisodesToBatch,
    FlattenForModule,
    AddTimeDimToBatchAndZeroPad,
    AddStatesFromEpisodesToBatch,
    BatchIndividualItems,
    NumpyToTensor,
)
MODULE_TO_ENV: tuple[type[ConnectorV2], ...] = (
    GetActions,
    TensorToNumpy,
    UnBatchToIndividualItems,
    RemoveSingleTsTimeRankFromBatch,
    NormalizeAndClipActions,
    ListifyDataForVectorEnv,
)
DEFAULTS = (*ENV_TO_MODULE, *MODULE_TO_ENV)
#: Those of several agents.
MULTI_ENV_TO_MODULE = (*ENV_TO_MODULE[:4], AgentToModuleMapping, *ENV_TO_MODULE[4:])
MULTI_MODULE_TO_ENV = (*MODULE_TO_ENV[:3], ModuleToAgentUnmapping, *MODULE_TO_ENV[3:])


def build_env_to_module(
    config: Any, env: Any = None, spaces: Any = None, device: Any = None
) -> ConnectorPipelineV2:
    """Return the pipeline from episodes to the batch of a module.

    Args:
        config: The algorithm's config.
        env: The vector of environments.
        spaces: Pairs of spaces by id, if there is no environment.
        device: Where tensors go.
    """
    observations, actions = spaces_of(config, env, spaces)
    made = EnvToModulePipeline(
        observations, actions, connectors=custom(config, "env_to_module", (env, spaces, device))
    )
    if getattr(config, "add_default_connectors_to_env_to_module_pipeline", True):
        many = bool(getattr(config, "is_multi_agent", False))
        made.append(AddObservationsFromEpisodesToBatch())
        made.append(FlattenForModule(flat=wants_flat(config), multi_agent=many, keep=nested_modules(config)))
        made.append(AddTimeDimToBatchAndZeroPad())
        made.append(AddStatesFromEpisodesToBatch())
        if many:
            specs = getattr(getattr(config, "rl_module_spec", None), "rl_module_specs", None)
            modules = specs if isinstance(specs, dict) else set(config.policies)
            made.append(
                AgentToModuleMapping(
                    rl_module_specs=modules, agent_to_module_mapping_fn=config.policy_mapping_fn
                )
            )
        made.append(BatchIndividualItems(multi_agent=many))
        made.append(NumpyToTensor(device=device))
    return made


def build_module_to_env(config: Any, env: Any = None, spaces: Any = None) -> ConnectorPipelineV2:
    """Return the pipeline from a module's outputs to actions.

    Args:
        config: The algorithm's config.
        env: The vector of environments.
        spaces: Pairs of spaces by id, if there is no environment.
    """
    observations, actions = spaces_of(config, env, spaces)
    own = custom(config, "module_to_env", (env, spaces))
    if not getattr(config, "add_default_connectors_to_module_to_env_pipeline", True):
        return ModuleToEnvPipeline(observations, actions, connectors=own)
    first: list[ConnectorV2] = [GetActions(), TensorToNumpy(), UnBatchToIndividualItems()]
    if getattr(config, "is_multi_agent", False):
        first.append(ModuleToAgentUnmapping())
    last = [
        NormalizeAndClipActions(
            normalize_actions=getattr(config, "normalize_actions", True),
            clip_actions=getattr(config, "clip_actions", False),
        ),
        ListifyDataForVectorEnv(),
    ]
    return ModuleToEnvPipeline(
        observations, actions, connectors=[*first, RemoveSingleTsTimeRankFromBatch(), *own, *last]
    )


def env_to_module_of(config: Any, env: Any, spaces: Any, device: Any) -> ConnectorPipelineV2:
    """Return what the config's own method builds, or the default pipeline."""
    build = getattr(config, "build_env_to_module_connector", None)
    made: ConnectorPipelineV2 = (
        build_env_to_module(config, env, spaces, device)
        if build is None
        else build(env=env, spaces=spaces, device=device)
    )
    return made


def module_to_env_of(config: Any, env: Any, spaces: Any) -> ConnectorPipelineV2:
    """Return what the config's own method builds, or the default pipeline."""
    build = getattr(config, "build_module_to_env_connector", None)
    made: ConnectorPipelineV2 = (
        build_module_to_env(config, env, spaces) if build is None else build(env=env, spaces=spaces)
    )
    return made


def custom(config: Any, which: str, arguments: tuple[Any, ...]) -> list[ConnectorV2]:
    """Return the user's own connectors.

    Args:
        config: The algorithm's config.
        which: ``"env_to_module"``, ``"module_to_env"`` or ``"learner"``.
        arguments: Arguments for the user's function; one that takes fewer is given the first ones.

    Raises:
        ValueError: The function returned something else.
    """
    build = getattr(config, f"_{which}_connector", None)
    if build is None:
        return []
    made = build(*arguments[: number_of_arguments(build, len(arguments))])
    found = (
        [made] if isinstance(made, ConnectorV2) else list(made) if isinstance(made, list | tuple) else [made]
    )
    wrong = [each for each in found if not isinstance(each, ConnectorV2)]
    if wrong:
        raise ValueError(
            f"{which}_connector returned {wrong[0]!r:.80}; return a ConnectorV2 or a list of them"
        )
    return found


def number_of_arguments(function: Callable[..., Any], most: int) -> int:
    """Return how many of the arguments a function takes by position."""
    parameters = inspect.signature(function).parameters.values()
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return most
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return min(most, sum(1 for each in parameters if each.kind in positional))


def spaces_of(config: Any, env: Any, spaces: Any) -> tuple[Any, Any]:
    """Return the spaces of one observation and one action, from the first source that knows them."""
    if env is not None:
        return (
            getattr(env, "single_observation_space", None) or getattr(env, "observation_space", None),
            getattr(env, "single_action_space", None) or getattr(env, "action_space", None),
        )
    if spaces and "__env_single__" in spaces:
        return tuple(spaces["__env_single__"])
    return getattr(config, "observation_space", None), getattr(config, "action_space", None)


def wants_flat(config: Any) -> bool:
    """True if observations are made vectors: for default modules, but not if all are of a user's own classes."""
    spec = getattr(config, "_rl_module_spec", None)
    specs = getattr(spec, "rl_module_specs", None)
    if not isinstance(specs, dict):
        return getattr(spec, "module_class", None) is None
    classes = [getattr(each, "module_class", None) for each in specs.values()]
    own = [each is not None and not each.__module__.startswith("skate.rllib.") for each in classes]
    return not all(own) or not set(config.policies) <= set(specs)


def nested_modules(config: Any) -> set[str]:
    """Return the ids of the modules that have a class of the user's own, which flattens for itself."""
    specs = getattr(getattr(config, "_rl_module_spec", None), "rl_module_specs", None)
    if not isinstance(specs, dict):
        return set()
    return {name for name, spec in specs.items() if getattr(spec, "module_class", None) is not None}


def is_default(pipeline: ConnectorPipelineV2) -> bool:
    """True if a pipeline has default connectors alone, which the fast way of sampling stands for."""
    return all(type(connector) in DEFAULTS for connector in pipeline.connectors)


def is_flat(space: gym.Space[Any], pipeline: ConnectorPipelineV2) -> bool:
    """True if the observations that leave a default pipeline are rows of one array."""
    flattening = pipeline["FlattenForModule"]
    if flattening and flattening[0].flat:
        return True
    try:
        return SpacePlan(space, flat=False).is_copy
    except ValueError:
        return False


def action_plan_of(config: Any, space: gym.Space[Any]) -> ActionPlan:
    """Return how a module's actions become those of the environment."""
    return ActionPlan(
        space, getattr(config, "normalize_actions", True), getattr(config, "clip_actions", False)
    )
