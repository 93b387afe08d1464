"""SingleAgentEnvRunner: samples from copies of an environment with one agent, as columns or as episodes."""

from __future__ import annotations

import functools
import logging
import time
from typing import Any

import torch

from skate.rllib.callbacks.make import Callbacks
from skate.rllib.connectors import default_pipelines
from skate.rllib.core import (
    COMPONENT_ENV_TO_MODULE_CONNECTOR,
    COMPONENT_MODULE_TO_ENV_CONNECTOR,
    COMPONENT_RL_MODULE,
    DEFAULT_MODULE_ID,
)
from skate.rllib.core.rl_module.multi_rl_module import MultiRLModule
from skate.rllib.core.rl_module.torch.weight_copy import WeightCopy
from skate.rllib.env.creation import ACTION, LANE, make_vector, seed_of
from skate.rllib.env.env_context import EnvContext
from skate.rllib.env.env_runner import EnvRunner, check_sample_size
from skate.rllib.env.lanes import Lanes
from skate.rllib.env.rollout import Rollout
from skate.rllib.env.sampling.action_plan import ActionPlan
from skate.rllib.env.sampling.action_source import ActionSource
from skate.rllib.env.sampling.column_sampler import ColumnSampler
from skate.rllib.env.sampling.episode_meter import EpisodeMeter, log_sampled
from skate.rllib.env.sampling.episode_sampler import EpisodeSampler
from skate.rllib.env.sampling.space_plan import SpacePlan
from skate.rllib.env.sampling.whole_episodes import sample_whole
from skate.rllib.env.single_agent_episode import SingleAgentEpisode
from skate.rllib.utils import metrics as names

logger = logging.getLogger(__name__)

INPUT_ENV_SPACES = "__env__"
INPUT_ENV_SINGLE_SPACES = "__env_single__"


class SingleAgentEnvRunner(EnvRunner):
    """Samples from ``config.num_envs_per_env_runner`` copies of an environment.

    Without callbacks of episodes and connectors of your own it steps straight into columns; otherwise it keeps
    episodes and runs the connectors. Both ways give the same numbers.

    Args:
        config: The algorithm's config.
        kwargs: ``worker_index``, ``num_workers``, ``tune_trial_id``, ``spaces``, ``recreated_worker``.
    """

    def __init__(self, *, config: Any, **kwargs: Any) -> None:
        super().__init__(config=config, **kwargs)
        self.tune_trial_id = kwargs.get("tune_trial_id")
        self.spaces: dict[str, Any] = kwargs.get("spaces") or {}
        self._recreated = bool(kwargs.get("recreated_worker", False))
        self._callbacks = Callbacks(config)
        self._device = self._choose_device()
        self._generator = torch.Generator(self._device)
        self._seed: int | None = getattr(config, "seed", None)
        action_seed = seed_of(self._seed, ACTION, self.worker_index)
        if action_seed is None:
            self._generator.seed()
        else:
            self._generator.manual_seed(action_seed)
        self.env: Any = None
        self.num_envs = 0
        self.module: Any = None
        self._weights_seq_no = 0
        self._copies: list[WeightCopy] = []
        self._sampled_at: float | None = None
        self._columns: ColumnSampler | None = None
        self._episodes: EpisodeSampler | None = None
        #: The connectors of both pipelines when they were looked at last, and whether they can be fused.
        self._fused: tuple[list[Any] | None, bool] = None, False
        if self._needs_env():
            self.make_env()
        self._env_to_module = default_pipelines.env_to_module_of(config, self.env, self.spaces, self._device)
        self._module_to_env = default_pipelines.module_to_env_of(config, self.env, self.spaces)
        self.make_module()

    def _needs_env(self) -> bool:
        samples = self._is_alone or self.worker_index > 0 or not getattr(self.config, "num_env_runners", 0)
        return samples or bool(getattr(self.config, "create_env_on_local_worker", False))

    def _choose_device(self) -> torch.device:
        gpus = getattr(self.config, "num_gpus_per_env_runner", 0) if self.worker_index else 0
        return torch.device("cuda" if gpus and torch.cuda.is_available() else "cpu")

    def make_env(self) -> None:
        """Make the environments anew from ``config.env`` and ``config.env_config``."""
        if self.env is not None:
            self.env.close()
        settings = getattr(self.config, "env_config", None) or {}
        context = EnvContext(
            settings, self.worker_index, num_workers=self.num_workers, recreated_worker=self._recreated
        )
        self.env = make_vector(self.config, context)
        if not hasattr(self.env, "env"):
            # Ray puts a wrapper around the vector, so programs write `runner.env.env`.
            self.env.env = self.env
        self.num_envs = int(self.env.num_envs)
        self._lanes = Lanes(self.env, bool(getattr(self.config, "restart_failed_sub_environments", False)))
        window = getattr(self.config, "metrics_num_episodes_for_smoothing", 100)
        self._meter = EpisodeMeter(self.num_envs, self.metrics, window)
        self._needs_initial_reset = True
        self._columns = self._episodes = None
        self._fused = None, False
        self._callbacks.run(
            "on_environment_created",
            env_runner=self,
            metrics_logger=self.metrics,
            env=self.env.unwrapped,
            env_context=context,
        )

    def make_module(self) -> None:
        """Make the module from ``config.get_rl_module_spec()``; without one only random actions can be sampled."""
        try:
            spec = self.config.get_rl_module_spec(
                env=self.env.unwrapped if self.env is not None else None,
                spaces=self.get_spaces(),
                inference_only=True,
            )
        except NotImplementedError:
            self.module = None
            return
        self.module = spec.build()
        if hasattr(self.module, "to"):
            self.module.to(self._device)
        if isinstance(self.module, torch.nn.Module):
            self.module.eval()
        self._columns = self._episodes = None

    def get_spaces(self) -> dict[str, Any]:
        """Return pairs of observation and action space: of the vector, of one environment, of the module."""
        if self.env is None:
            return self.spaces
        single = self.env.single_observation_space, self.env.single_action_space
        return {
            INPUT_ENV_SPACES: (self.env.observation_space, self.env.action_space),
            INPUT_ENV_SINGLE_SPACES: single,
            DEFAULT_MODULE_ID: (self._env_to_module.observation_space, single[1]),
        }

    @property
    def samples_columns(self) -> bool:
        """True if nothing asks for episode objects, so that steps go straight into columns."""
        if self.module is None or self._callbacks.watch_episodes:
            return False
        # Programs may change the pipelines of a runner, so their connectors are looked at each time.
        connectors = [*self._env_to_module.connectors, *self._module_to_env.connectors]
        if connectors != self._fused[0]:
            is_fused = (
                default_pipelines.is_default(self._env_to_module)
                and default_pipelines.is_default(self._module_to_env)
                and default_pipelines.is_flat(self.env.single_observation_space, self._env_to_module)
                and self._action_plan.is_simple
            )
            self._fused = connectors, is_fused
        return self._fused[1]

    @functools.cached_property
    def _action_plan(self) -> ActionPlan:
        return default_pipelines.action_plan_of(self.config, self.env.single_action_space)

    def sample_rollout(
        self, num_steps: int, explore: bool | None = None, random_actions: bool = False
    ) -> Rollout:
        """Sample a fragment of columns.

        Args:
            num_steps: Steps of each environment; with ``batch_mode="complete_episodes"`` each continues to the end of
                its episode.
            explore: True to explore, False for the most likely actions; default ``config.explore``.
            random_actions: True to act at random, without the module.

        Returns:
            The fragment; its observations are those that the module saw.
        """
        self._log_start()
        explore = getattr(self.config, "explore", True) if explore is None else explore
        before = self._meter.num_episodes
        whole = getattr(self.config, "batch_mode", "truncate_episodes") == "complete_episodes"

        shown: list[Any] | None = [] if self._callbacks.has("on_sample_end") else None

        def part(steps: int) -> Rollout:
            if self.samples_columns:
                sampler = self._column_sampler()
                return sampler.sample(steps, explore, *self._lifetime_and_growth(), random_actions)
            return self._episode_sampler().sample_rollout(steps, explore, random_actions, shown)

        with self.metrics.log_time(names.SAMPLE_TIMER):
            rollout = sample_whole(part, num_steps, self._meter) if whole else part(num_steps)
            if shown is not None:
                self._show(shown)
        if whole:
            self._begin_anew()
        rollout.weights_seq_no = self._weights_seq_no
        self._log_end(rollout.num_steps, self._meter.num_episodes - before)
        return rollout

    def _begin_anew(self) -> None:
        """Drop the running episodes; the next sample begins with new ones, which are not seeded again."""
        if self._columns is not None:
            self._columns.row = None
        if self._episodes is not None:
            self._episodes.forget()

    def sample(
        self,
        *,
        num_timesteps: int | None = None,
        num_episodes: int | None = None,
        explore: bool | None = None,
        random_actions: bool = False,
        force_reset: bool = False,
        **kwargs: Any,
    ) -> list[SingleAgentEpisode]:
        """Sample steps or whole episodes.

        Args:
            num_timesteps: At least so many steps over all environments. Default, if ``num_episodes`` is None too:
                a rollout fragment of each environment, or one episode of each with
                ``batch_mode="complete_episodes"``.
            num_episodes: So many whole episodes; all environments begin anew before and after.
            explore: True to explore, False for the most likely actions; default ``config.explore``.
            random_actions: True to act at random, without the module.
            force_reset: True to begin anew before sampling.

        Returns:
            Ended episodes first, then chunks of those that continue.

        Raises:
            ValueError: Both numbers were given, one is negative, or this runner has no environment.
        """
        if self.env is None:
            raise ValueError(
                f"{self} has no environment; set create_env_on_local_worker=True or sample from a remote runner"
            )
        check_sample_size(num_timesteps, num_episodes)
        self._log_start()
        explore = getattr(self.config, "explore", True) if explore is None else explore
        if num_timesteps is None and num_episodes is None:
            if getattr(self.config, "batch_mode", "truncate_episodes") == "truncate_episodes":
                num_timesteps = self._fragment_length() * self.num_envs
            else:
                num_episodes = self.num_envs
        before = self._meter.num_episodes
        with self.metrics.log_time(names.SAMPLE_TIMER):
            samples, steps = self._episode_sampler().sample(
                num_timesteps, num_episodes, explore, random_actions, force_reset
            )
            self._callbacks.run(
                "on_sample_end", env_runner=self, metrics_logger=self.metrics, samples=samples
            )
        self._log_end(steps, self._meter.num_episodes - before)
        return samples

    def _show(self, samples: list[Any]) -> None:
        """Call `on_sample_end` with the episodes of a fragment; its columns are learnt from as they are."""
        whole: dict[str, Any] = {}
        for episode in samples:
            if episode.id_ in whole:
                whole[episode.id_].concat_episode(episode)
            else:
                whole[episode.id_] = episode
        if getattr(self.config, "episodes_to_numpy", True):
            whole = {key: episode.to_numpy() for key, episode in whole.items()}
        self._callbacks.run(
            "on_sample_end", env_runner=self, metrics_logger=self.metrics, samples=list(whole.values())
        )

    def sample_episodes(
        self, num_steps: int, explore: bool | None = None, random_actions: bool = False
    ) -> list[Any]:
        """Sample a fragment as episodes.

        Args:
            num_steps: Steps of each environment; with ``batch_mode="complete_episodes"`` as many whole episodes as
                have that many steps together.
            explore: True to explore; default ``config.explore``.
            random_actions: True to act at random, without the module.
        """
        wanted = num_steps * self.num_envs
        if getattr(self.config, "batch_mode", "truncate_episodes") != "complete_episodes":
            return self.sample(num_timesteps=wanted, explore=explore, random_actions=random_actions)
        found: list[Any] = []
        while sum(len(episode) for episode in found) < wanted:
            found += self.sample(num_episodes=self.num_envs, explore=explore, random_actions=random_actions)
        return found

    def _random_actions(self, count: int) -> Any:
        return self._action_plan.random(count, self._generator)

    def _fragment_length(self) -> int:
        get = getattr(self.config, "get_rollout_fragment_length", None)
        return int(get(self.worker_index) if get is not None else self.config.rollout_fragment_length)

    def _lifetime_and_growth(self) -> tuple[int, int]:
        """Return the steps that all runners sampled so far, as far as this one knows, and their growth per step."""
        runners = getattr(self.config, "num_env_runners", 0) or 1
        return self.num_env_steps_sampled_lifetime * runners, self.num_envs * runners

    def _lane_seeds(self) -> list[int | None] | None:
        if self._seed is None or not self._needs_initial_reset:
            return None
        return [seed_of(self._seed, LANE, self.worker_index, lane) for lane in range(self.num_envs)]

    def _make_column_sampler(self) -> ColumnSampler:
        if self._columns is None:
            plan = SpacePlan(self.env.single_observation_space)
            source = ActionSource(self.module, self._generator)
            with_logp = getattr(self.config, "_learns_from_logp", True)
            self._columns = ColumnSampler(
                self._lanes, plan, self._action_plan, source, self._meter, self._device, with_logp
            )
        return self._columns

    def _column_sampler(self) -> ColumnSampler:
        sampler = self._make_column_sampler()
        if self._needs_initial_reset or sampler.row is None:
            sampler.reset(self._lane_seeds())
            self._needs_initial_reset = False
            if self._episodes is not None:
                self._episodes.forget()
        return sampler

    def _episode_sampler(self) -> EpisodeSampler:
        if self._episodes is None:
            self._episodes = EpisodeSampler(self)
        if self._columns is not None and self._columns.row is not None:
            # The lanes move on without the columns, which begin anew if they are used again.
            self._columns.row = None
            self._episodes.forget()
        return self._episodes

    def _log_start(self) -> None:
        if self._sampled_at is not None:
            self.metrics.log_value(names.TIME_BETWEEN_SAMPLING, time.perf_counter() - self._sampled_at)
        self.metrics.log_value(names.WEIGHTS_SEQ_NO, self._weights_seq_no, window=1)

    def _log_end(self, num_steps: int, num_episodes: int) -> None:
        self.num_env_steps_sampled_lifetime += num_steps
        self._meter.flush()
        log_sampled(self.metrics, num_steps, num_episodes)
        self._sampled_at = time.perf_counter()

    def get_state(
        self, components: Any = None, *, not_components: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Return weights, connectors' states and counters.

        Args:
            components: Names of the parts to return; all if None.
            not_components: Names of parts to leave out.
            kwargs: Passed to the module's ``get_state``.
        """
        wanted = {COMPONENT_RL_MODULE, COMPONENT_ENV_TO_MODULE_CONNECTOR, COMPONENT_MODULE_TO_ENV_CONNECTOR}
        if components is not None:
            wanted &= {components} if isinstance(components, str) else set(components)
        wanted -= {not_components} if isinstance(not_components, str) else set(not_components or ())
        state: dict[str, Any] = {names.NUM_ENV_STEPS_SAMPLED_LIFETIME: self.num_env_steps_sampled_lifetime}
        if COMPONENT_RL_MODULE in wanted and self.module is not None:
            state[COMPONENT_RL_MODULE] = self.module.get_state(**kwargs)
            state[names.WEIGHTS_SEQ_NO] = self._weights_seq_no
        if COMPONENT_ENV_TO_MODULE_CONNECTOR in wanted:
            state[COMPONENT_ENV_TO_MODULE_CONNECTOR] = self._env_to_module.get_state()
        if COMPONENT_MODULE_TO_ENV_CONNECTOR in wanted:
            state[COMPONENT_MODULE_TO_ENV_CONNECTOR] = self._module_to_env.get_state()
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Take weights, connectors' states and counters; older weights than the present ones are left out.

        Args:
            state: Any part of what `get_state` returns.
        """
        if COMPONENT_ENV_TO_MODULE_CONNECTOR in state:
            self._env_to_module.set_state(state[COMPONENT_ENV_TO_MODULE_CONNECTOR])
        if COMPONENT_MODULE_TO_ENV_CONNECTOR in state:
            self._module_to_env.set_state(state[COMPONENT_MODULE_TO_ENV_CONNECTOR])
        if COMPONENT_RL_MODULE in state:
            version = int(state.get(names.WEIGHTS_SEQ_NO, 0))
            if version == 0 or version > self._weights_seq_no:
                weights = state[COMPONENT_RL_MODULE]
                if isinstance(weights, dict) and DEFAULT_MODULE_ID in weights:
                    weights = weights[DEFAULT_MODULE_ID]
                self.module.set_state(weights)
            self._weights_seq_no = version or self._weights_seq_no
        if names.NUM_ENV_STEPS_SAMPLED_LIFETIME in state:
            self.num_env_steps_sampled_lifetime = state[names.NUM_ENV_STEPS_SAMPLED_LIFETIME]

    _plain_set_state = set_state

    def copy_weights(self, modules: Any, version: int) -> bool:
        """Take the weights of modules in this process: what `set_state` does with their states.

        Args:
            modules: The learner's modules by id.
            version: Their version.

        Returns:
            False if nothing was copied, since a module or a subclass of this runner does more with states.
        """
        own = self.module
        if own is None or type(self).set_state is not type(self)._plain_set_state:
            return False
        pairs = (
            [(modules[module_id], own[module_id]) for module_id in own.keys() if module_id in modules.keys()]  # noqa: SIM118
            if isinstance(own, MultiRLModule)
            else [(modules[DEFAULT_MODULE_ID], own)]
        )
        known = [(copy.source, copy.target) for copy in self._copies]
        if len(known) != len(pairs) or any(
            a is not c or b is not d for (a, b), (c, d) in zip(known, pairs, strict=True)
        ):
            if not all(WeightCopy.can_copy(*pair) for pair in pairs):
                return False
            self._copies = [WeightCopy(*pair) for pair in pairs]
        if version == 0 or version > self._weights_seq_no:
            for copy in self._copies:
                copy.run()
        self._weights_seq_no = version or self._weights_seq_no
        return True

    def get_lane_state(self) -> dict[str, Any]:
        """Return the environments, their episodes and the random stream, so that another runner can continue from here."""
        return {
            "envs": self.env.envs,
            "generator": self._generator.get_state(),
            "needs_initial_reset": self._needs_initial_reset,
            "callbacks": self._callbacks.get_state(),
            "meter": self._meter.get_state(),
            "steps": self.num_env_steps_sampled_lifetime,
            "columns": None if self._columns is None else (self._columns.row, self._columns.state),
            "episodes": None if self._episodes is None else self._episodes.get_state(),
        }

    def set_lane_state(self, state: dict[str, Any]) -> None:
        """Continue where another runner was."""
        for env in self.env.envs:
            env.close()
        self.env.envs[:] = state["envs"]
        self._generator.set_state(state["generator"])
        self._callbacks.set_state(state.get("callbacks", ()))
        self._meter.set_state(state["meter"])
        self.num_env_steps_sampled_lifetime = state["steps"]
        self._needs_initial_reset = True
        self._columns = self._episodes = None
        if state["columns"] is not None:
            sampler = self._make_column_sampler()
            sampler.row, sampler.state = state["columns"]
        if state["episodes"] is not None:
            self._episodes = EpisodeSampler(self)
            self._episodes.set_state(state["episodes"])
        self._needs_initial_reset = state["needs_initial_reset"]

    def assert_healthy(self) -> None:
        assert self.env is not None and self.module is not None

    def stop(self) -> None:
        if self.env is not None:
            self.env.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(worker_index={self.worker_index}, num_envs={self.num_envs})"
