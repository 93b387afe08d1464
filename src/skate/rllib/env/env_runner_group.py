"""EnvRunnerGroup: the local runner and the remote ones of an algorithm."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

from skate.rllib.connectors import default_pipelines
from skate.rllib.connectors.connector_v2 import ConnectorV2
from skate.rllib.core import (
    COMPONENT_ENV_TO_MODULE_CONNECTOR,
    COMPONENT_LEARNER,
    COMPONENT_MODULE_TO_ENV_CONNECTOR,
    COMPONENT_RL_MODULE,
)
from skate.rllib.env.env_runner import EnvRunner
from skate.rllib.env.remote_runners import RemoteRunners
from skate.rllib.env.rollout import Rollout
from skate.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from skate.rllib.flow.runner_calls import RunnerCalls
from skate.rllib.utils.metrics import NUM_ENV_STEPS_SAMPLED_LIFETIME, WEIGHTS_SEQ_NO
from skate.rllib.utils.metrics.metrics_logger import MetricsLogger

logger = logging.getLogger(__name__)

CONNECTORS = (COMPONENT_ENV_TO_MODULE_CONNECTOR, COMPONENT_MODULE_TO_ENV_CONNECTOR)


class EnvRunnerGroup(RunnerCalls):
    """The runners of an algorithm: one in this process, the others as actors.

    Args:
        config: The algorithm's config.
        local_env_runner: True to make a runner in this process; without remote ones it is made anyway.
        num_env_runners: Number of remote runners; default ``config.num_env_runners``.
        kwargs: Passed to the runners.
    """

    def __init__(
        self, config: Any, *, local_env_runner: bool = True, num_env_runners: int | None = None, **kwargs: Any
    ) -> None:
        self.config = config
        count = getattr(config, "num_env_runners", 0) if num_env_runners is None else num_env_runners
        self.num_env_runners = int(count or 0)
        self._weights_seq_no = 0
        self._remote: RemoteRunners | None = None
        self._local: Any = None
        self._built: Any = None
        runner_class = runner_class_of(config)
        if self.num_env_runners:
            self._remote = RemoteRunners(config, runner_class, self.num_env_runners, kwargs)
        try:
            spaces = self._remote.start() if self._remote is not None else {}
            if self._remote is None or (
                local_env_runner and getattr(config, "create_local_env_runner", True)
            ):
                known = {"spaces": spaces} if spaces else {}
                self._local = runner_class(
                    config=config, worker_index=0, num_workers=self.num_env_runners, **{**kwargs, **known}
                )
        except BaseException:
            self.stop()
            raise

    @property
    def local_env_runner(self) -> Any:
        """The runner in this process; None if there is none."""
        return self._local

    def get_spaces(self) -> dict[str, Any]:
        """Return pairs of observation and action space: of the vector, of one environment, of the module."""
        spaces: dict[str, Any] = self._remote.spaces if self._remote is not None else self._local.get_spaces()
        return spaces

    @property
    def num_restarts(self) -> int:
        """The number of remote runners that were made anew."""
        return self._remote.machine.restarts if self._remote is not None else 0

    def num_remote_worker_restarts(self) -> int:
        """Return the number of remote runners that were made anew."""
        return self.num_restarts

    @property
    def num_dropped(self) -> int:
        """The number of remote runners that were given up."""
        return self.num_env_runners - len(self.healthy_env_runner_ids())

    def num_remote_env_runners(self) -> int:
        """Return the number of remote runners."""
        return self.num_env_runners

    def num_healthy_remote_env_runners(self) -> int:
        """Return the number of remote runners that can sample."""
        return len(self.healthy_env_runner_ids())

    def num_healthy_env_runners(self) -> int:
        """Return the number of runners that can sample, the local one included."""
        return len(self.healthy_env_runner_ids()) + int(self._local is not None)

    def healthy_env_runner_ids(self) -> list[int]:
        """Return the indices of remote runners that can sample."""
        return self._remote.healthy() if self._remote is not None else []

    # Older names of Ray's, which programs still use.
    num_remote_workers = num_remote_env_runners
    num_healthy_remote_workers = num_healthy_remote_env_runners
    num_healthy_workers = num_healthy_env_runners
    healthy_worker_ids = healthy_env_runner_ids

    def sample_rollouts(
        self, total_steps: int, explore: bool | None = None, random_actions: bool = False
    ) -> tuple[list[Rollout] | dict[str, list[Rollout]], list[dict[str, Any]]]:
        """Sample a batch, in equal fragments of all lanes of all runners.

        A runner that dies is made anew and samples its part again, so that the batch is whole.

        Args:
            total_steps: Steps in all; rounded up to whole steps of all lanes.
            explore: True to explore; default ``config.explore``.
            random_actions: True to act at random, without the module.

        Returns:
            The fragments, by module id if there are several agents, and the metrics, in the order of the runners.

        Raises:
            Exception: The environment's own, if it raises again after restarts, or if those are off.
            RuntimeError: No runner is left.
        """
        kwargs: dict[str, Any] = {"num_steps": self._steps_of_lanes(total_steps), "explore": explore}
        if random_actions:
            kwargs["random_actions"] = True
        if self._remote is None:
            sampled, metrics = [self._local.sample_rollout(**kwargs)], [self._local.get_metrics()]
        else:
            sampled, metrics = self._remote.gather(kwargs)
        return by_module(sampled) if sampled and isinstance(sampled[0], dict) else sampled, metrics

    def sample_rollouts_into(
        self, metrics: MetricsLogger, key: str, *, total_steps: int, **kwargs: Any
    ) -> list[Rollout] | dict[str, list[Rollout]]:
        """Sample a batch, and merge the metrics of the runners into a logger.

        Args:
            metrics: The logger of the algorithm.
            key: Key to merge under.
            total_steps: Steps in all; rounded up to whole steps of all lanes.
            **kwargs: Other arguments of `sample_rollouts`.

        Returns:
            The fragments, by module id if there are several agents.
        """
        local = self._local
        if self._remote is not None or type(local).get_metrics is not EnvRunner.get_metrics:
            sampled, found = self.sample_rollouts(total_steps, **kwargs)
            metrics.aggregate(found, key=key)
            return sampled
        one = local.sample_rollout(num_steps=self._steps_of_lanes(total_steps), **kwargs)
        metrics.absorb(local.metrics, key=key)
        return by_module([one]) if isinstance(one, dict) else [one]

    def sample_episodes(
        self, total_steps: int, explore: bool | None = None, random_actions: bool = False
    ) -> tuple[list[Any], list[dict[str, Any]]]:
        """Sample a batch as episodes; see `sample_rollouts`.

        Args:
            total_steps: Steps in all; rounded up to whole steps of all lanes.
            explore: True to explore; default ``config.explore``.
            random_actions: True to act at random, without the module.

        Returns:
            The episodes and chunks of all runners, and the metrics, in the order of the runners.
        """
        kwargs: dict[str, Any] = {"num_steps": self._steps_of_lanes(total_steps), "explore": explore}
        if random_actions:
            kwargs["random_actions"] = True
        if self._remote is None:
            return self._local.sample_episodes(**kwargs), [self._local.get_metrics()]
        sampled, metrics = self._remote.gather({**kwargs, "as_episodes": True})
        parts: Any = sampled
        return [episode for part in parts for episode in part], metrics

    def sample_episodes_into(
        self, metrics: MetricsLogger, key: str, *, total_steps: int, **kwargs: Any
    ) -> list[Any]:
        """Sample a batch as episodes, and merge the metrics of the runners into a logger; see `sample_rollouts_into`."""
        sampled, found = self.sample_episodes(total_steps, **kwargs)
        metrics.aggregate(found, key=key)
        return sampled

    def _steps_of_lanes(self, total_steps: int) -> int:
        lanes = int(self.config.num_envs_per_env_runner) * max(self.num_env_runners, 1)
        return max(1, math.ceil(total_steps / lanes))

    def sync_weights(
        self,
        state: Any = None,
        weights_seq_no: int | None = None,
        *,
        from_worker_or_learner_group: Any = None,
        inference_only: bool = True,
        **kwargs: Any,
    ) -> None:
        """Send weights to all runners; remote ones take them with the next part that they sample.

        Args:
            state: The module's state, as ``module.get_state(inference_only=True)`` returns it; the local runner's
                if None.
            weights_seq_no: Its version; default the next one.
            from_worker_or_learner_group: The learners, or a runner, to take the weights of instead.
            inference_only: True to leave out the parts of modules that only learning needs.
            kwargs: Of Ray's; without effect.
        """
        if from_worker_or_learner_group is not None:
            state = weights_of(from_worker_or_learner_group, inference_only)
        if state is None:
            state = self._local.get_state(components=COMPONENT_RL_MODULE)[COMPONENT_RL_MODULE]
        self._weights_seq_no = self._weights_seq_no + 1 if weights_seq_no is None else weights_seq_no
        if self._local is not None and self._local.module is not None:
            self._local.set_state({COMPONENT_RL_MODULE: state, WEIGHTS_SEQ_NO: self._weights_seq_no})
        if self._remote is not None:
            self._remote.set_weights(state, self._weights_seq_no)

    def copy_weights(self, modules: Any, weights_seq_no: int) -> bool:
        """Copy weights to the only runner, if that is in this process and its modules are plain ones.

        Args:
            modules: The learner's modules by id.
            weights_seq_no: Their version.

        Returns:
            False if nothing was copied, since `sync_weights` has to do it.
        """
        local = self._local
        if self._remote is not None or not isinstance(local, SingleAgentEnvRunner):
            return False
        if not local.copy_weights(modules, weights_seq_no):
            return False
        self._weights_seq_no = weights_seq_no
        return True

    def foreach_env_runner(
        self,
        func: Callable[..., Any] | str | list[Any],
        *,
        kwargs: dict[str, Any] | list[dict[str, Any]] | None = None,
        local_env_runner: bool = True,
        healthy_only: bool = True,
        remote_worker_ids: list[int] | None = None,
        timeout_seconds: float | None = None,
        return_obj_refs: bool = False,
        mark_healthy: bool = False,
    ) -> list[Any]:
        """Run a function on each runner.

        Args:
            func: A function of the runner, or the name of a method; a list has one for each remote runner.
            kwargs: Keyword arguments, or a list with those of each remote runner.
            local_env_runner: True to run it on the local runner too, first.
            healthy_only: Of Ray's; runners that were given up are always left out.
            remote_worker_ids: Indices of the remote runners to run it on; all if None.
            timeout_seconds: Seconds to wait for remote runners; None for as long as they take.
            return_obj_refs: True for references to the results; without the local runner, which has none.
            mark_healthy: Of Ray's; a runner that was made anew counts as healthy at once.

        Returns:
            The results, the local runner's first; those of runners that failed or took too long are left out.

        Raises:
            ValueError: References are wanted, and the local runner is not left out.
        """
        if return_obj_refs and local_env_runner:
            raise ValueError(
                "return_obj_refs=True needs local_env_runner=False: the local runner returns no reference"
            )
        results = []
        if local_env_runner and self._local is not None:
            first = func[0] if isinstance(func, list) else func
            given = kwargs[0] if isinstance(kwargs, list) else kwargs or {}
            results.append(
                getattr(self._local, first)(**given)
                if isinstance(first, str)
                else first(self._local, **given)
            )
        if self._remote is not None:
            results += self._remote.each(func, kwargs, remote_worker_ids, timeout_seconds, return_obj_refs)
        return results

    foreach_worker = foreach_env_runner

    def foreach_env_runner_with_id(self, func: Callable[..., Any], **kwargs: Any) -> list[Any]:
        """Run a function of index and runner on each runner; arguments as of `foreach_env_runner`."""
        return self.foreach_env_runner(lambda runner: func(runner.worker_index, runner), **kwargs)

    def _pipelines(self) -> dict[str, Any]:
        """Return the pipelines that merge states: those of the local runner, or ones of the same connectors."""
        if self._local is not None:
            found = (getattr(self._local, name, None) for name in ("_env_to_module", "_module_to_env"))
            return dict(zip(CONNECTORS, found, strict=True))
        if self._built is None:
            spaces = self.get_spaces()
            self._built = (
                default_pipelines.env_to_module_of(self.config, None, spaces, None),
                default_pipelines.module_to_env_of(self.config, None, spaces),
            )
        return dict(zip(CONNECTORS, self._built, strict=True))

    def get_connector_states(self) -> dict[str, Any]:
        """Return the connectors' states of all sampling runners, merged into one."""
        states = self.foreach_env_runner(
            "get_state", kwargs={"components": list(CONNECTORS)}, local_env_runner=self._remote is None
        )
        if not states:
            return {}
        if len(states) == 1:
            return {key: states[0][key] for key in CONNECTORS}
        merged = {
            key: pipeline.merge_states([state[key] for state in states])
            for key, pipeline in self._pipelines().items()
        }
        # A connector that merges nothing leaves each runner its own state.
        return {key: {name: each for name, each in held.items() if each} for key, held in merged.items()}

    def set_connector_states(self, states: dict[str, Any]) -> None:
        """Give the connectors' states to all runners; remote ones take them before they do anything else."""
        if any(states.values()):
            if self._local is not None:
                self._local.set_state(states)
            if self._remote is not None:
                self._remote.set_connectors(states)

    def sync_env_runner_states(self, *, config: Any = None, from_worker: Any = None, **kwargs: Any) -> None:
        """Merge the connectors' states of all runners, and give the result to all.

        ``config.merge_env_runner_states`` says if states are merged, or those of one runner count;
        ``config.broadcast_env_runner_states`` if remote runners get them too, or the local one alone.

        Args:
            config: The config of these runners, or another one. Default: the former.
            from_worker: The runner whose states count if none are merged. Default: the local one.
            kwargs: Of Ray's; without effect.
        """
        if self._remote is None:
            return
        config = self.config if config is None else config
        connectors = [
            each for pipeline in self._pipelines().values() for each in getattr(pipeline, "connectors", ())
        ]
        if all(type(each).get_state is ConnectorV2.get_state for each in connectors):
            return
        merges = getattr(config, "merge_env_runner_states", "training_only")
        source = from_worker or self._local
        if merges is True or (merges == "training_only" and not getattr(config, "in_evaluation", False)):
            states = self.get_connector_states()
        elif source is not None:
            states = source.get_state(components=list(CONNECTORS))
            states = {key: states[key] for key in CONNECTORS if key in states}
        else:
            return
        if getattr(config, "broadcast_env_runner_states", True):
            self.set_connector_states(states)
        elif self._local is not None:
            self._local.set_state(states)

    @property
    def runner_class(self) -> Any:
        """The class of the runners."""
        return runner_class_of(self.config)

    def get_state(
        self, components: Any = None, *, not_components: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Return the state of a runner with the connectors' states of all; arguments as of the runner's."""
        if self._local is not None and self._remote is None:
            local: dict[str, Any] = self._local.get_state(components, not_components=not_components, **kwargs)
            return local
        state = self.get_connector_states()
        state[NUM_ENV_STEPS_SAMPLED_LIFETIME] = sum(
            each.get(NUM_ENV_STEPS_SAMPLED_LIFETIME, 0)
            for each in self.foreach_env_runner(
                "get_state", kwargs={"components": []}, local_env_runner=False
            )
        )
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Send a state to all runners."""
        steps = state.get(NUM_ENV_STEPS_SAMPLED_LIFETIME, 0)
        shared = {**state, NUM_ENV_STEPS_SAMPLED_LIFETIME: steps // max(self.num_env_runners, 1)}
        connectors = {key: state[key] for key in CONNECTORS if state.get(key)}
        if connectors and self._remote is not None:
            self._remote.set_connectors(connectors)
        self.foreach_env_runner("set_state", kwargs={"state": shared})

    def stop(self) -> None:
        """Close the environments and end the remote runners."""
        if self._local is not None:
            self._local.stop()
            self._local = None
        if self._remote is not None:
            self._remote.stop()


def runner_class_of(config: Any) -> Any:
    """Return the class of runners: the config's own, or the one for the number of agents."""
    own = getattr(config, "env_runner_cls", None)
    if own is not None:
        return own
    if getattr(config, "is_multi_agent", False):
        # The part for many agents is loaded only by those who use it.
        from skate.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner

        return MultiAgentEnvRunner
    return SingleAgentEnvRunner


def weights_of(source: Any, inference_only: bool) -> dict[str, Any]:
    """Return the weights of the modules of a learner group or of a runner."""
    if hasattr(source, "foreach_learner"):
        component = f"{COMPONENT_LEARNER}/{COMPONENT_RL_MODULE}"
        source_state = source.get_state(component, inference_only=inference_only)[COMPONENT_LEARNER]
    else:
        source_state = source.get_state(COMPONENT_RL_MODULE)
    weights: dict[str, Any] = source_state[COMPONENT_RL_MODULE]
    return weights


def by_module(sampled: list[Any]) -> dict[str, list[Rollout]]:
    """Return the runners' fragments by module, in the order of the runners."""
    found: dict[str, list[Rollout]] = {}
    for each in sampled:
        for module_id, rollouts in each.items():
            found.setdefault(module_id, []).extend(rollouts)
    return found
