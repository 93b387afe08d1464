"""MultiAgentEnvRunner: samples from copies of an environment with several agents."""

from __future__ import annotations

import time
from typing import Any

import torch

from skate.rllib.callbacks.make import EPISODE_MOMENTS
from skate.rllib.core import COMPONENT_RL_MODULE
from skate.rllib.env.env_context import EnvContext
from skate.rllib.env.env_runner import check_sample_size
from skate.rllib.env.multi_agent_episode import MultiAgentEpisode
from skate.rllib.env.multi_agent_vector import MultiAgentVector
from skate.rllib.env.rollout import Rollout
from skate.rllib.env.sampling.agent_columns import AgentLane
from skate.rllib.env.sampling.multi_agent_column_sampler import MultiAgentColumnSampler
from skate.rllib.env.sampling.multi_agent_fusion import can_fuse
from skate.rllib.env.sampling.multi_agent_sampler import MultiAgentSampler
from skate.rllib.env.single_agent_env_runner import (
    INPUT_ENV_SINGLE_SPACES,
    INPUT_ENV_SPACES,
    SingleAgentEnvRunner,
)
from skate.rllib.utils import metrics as names


class MultiAgentEnvRunner(SingleAgentEnvRunner):
    """Samples from ``config.num_envs_per_env_runner`` copies of an environment with several agents.

    Args:
        config: The algorithm's config, with ``policies`` and ``policy_mapping_fn``.
        kwargs: See `SingleAgentEnvRunner`.
    """

    def __init__(self, config: Any, **kwargs: Any) -> None:
        super().__init__(config=config, **kwargs)

    def make_env(self) -> None:
        """Make the environments anew from ``config.env`` and ``config.env_config``."""
        if self.env is not None:
            self.env.close()
        settings = getattr(self.config, "env_config", None) or {}
        context = EnvContext(
            settings, self.worker_index, num_workers=self.num_workers, recreated_worker=self._recreated
        )
        self.env = MultiAgentVector(self.config, context)
        self.num_envs = self.env.num_envs
        self._needs_initial_reset = True
        self._sampler = MultiAgentSampler(self)
        self._agents: MultiAgentColumnSampler | None = None
        self._num_episodes = 0
        self._callbacks.run(
            "on_environment_created",
            env_runner=self,
            metrics_logger=self.metrics,
            env=self.env,
            env_context=context,
        )

    def make_module(self) -> None:
        """Make the modules from ``config.get_multi_rl_module_spec()``; without it only random actions can be sampled."""
        try:
            spec = self.config.get_multi_rl_module_spec(spaces=self.get_spaces(), inference_only=True)
        except NotImplementedError:
            self.module = None
            return
        self.module = spec.build()
        for module in self.module.values():
            if isinstance(module, torch.nn.Module):
                module.eval()

    def get_spaces(self) -> dict[str, Any]:
        """Return pairs of observation and action space: of all agents, and of each module."""
        if self.env is None:
            return self.spaces
        both = self.env.single_observation_space, self.env.single_action_space
        pipeline = self._env_to_module
        observations, actions = pipeline.observation_space, pipeline.action_space
        found = dict(getattr(observations, "spaces", {}))
        for connector in pipeline["FlattenForModule"]:
            found |= connector.spaces_kept(self.config.policy_mapping_fn)
        by_module = {module_id: (space, actions[module_id]) for module_id, space in found.items()}  # type: ignore[index]
        return {INPUT_ENV_SPACES: both, INPUT_ENV_SINGLE_SPACES: both, **by_module}

    @property
    def restarts_environments(self) -> bool:
        """True if an environment that raises is made anew, and its running episode dropped."""
        return bool(getattr(self.config, "restart_failed_sub_environments", False))

    @property
    def samples_columns(self) -> bool:
        """True if nothing asks for episode objects, so that steps go straight into columns."""
        if self.restarts_environments or self.module is None:
            return False
        if any(self._callbacks.has(moment) for moment in EPISODE_MOMENTS):
            return False
        return can_fuse(self)

    def sample_rollout(  # type: ignore[override]
        self, num_steps: int, explore: bool | None = None, random_actions: bool = False
    ) -> dict[str, list[Rollout]]:
        """Sample fragments of columns for each module.

        Args:
            num_steps: Steps of each environment, or if ``config.count_steps_by`` says so of the agents in each on
                average; with ``batch_mode="complete_episodes"`` each continues to the end of its episode.
            explore: True to explore, False for the most likely actions; default ``config.explore``.
            random_actions: True to act at random, without the modules.

        Returns:
            Fragments by module id, one lane for each agent's chunk; those of equal length stand side by side.
        """
        whole = getattr(self.config, "batch_mode", "truncate_episodes") == "complete_episodes"
        if self.samples_columns and not whole:
            return self._sample_columns(num_steps, explore, random_actions)
        chunks, _ = self._run(num_steps, None, explore, random_actions, False, whole)
        return self._sampler.columns(chunks)

    def _sample_columns(
        self, num_steps: int, explore: bool | None, random_actions: bool
    ) -> dict[str, list[Rollout]]:
        self._log_start()
        if self._agents is None:
            self._agents = MultiAgentColumnSampler(self)
        # The environments move on without the episodes, which begin anew if they are used again.
        self._sampler.episodes = []
        explore = getattr(self.config, "explore", True) if explore is None else explore
        with self.metrics.log_time(names.SAMPLE_TIMER):
            return self._agents.sample(num_steps, explore, random_actions, self._agent_steps(num_steps))

    def _agent_steps(self, steps: int | None) -> int | None:
        """Return the steps of agents to sample, if these are counted, in place of a number of steps of each environment."""
        if steps is None or getattr(self.config, "count_steps_by", "env_steps") != "agent_steps":
            return None
        return steps * self.num_envs

    def sample(  # type: ignore[override]
        self,
        *,
        num_timesteps: int | None = None,
        num_episodes: int | None = None,
        explore: bool | None = None,
        random_actions: bool = False,
        force_reset: bool = False,
        **kwargs: Any,
    ) -> list[MultiAgentEpisode]:
        """Sample steps of the environments or whole episodes; arguments as of `SingleAgentEnvRunner.sample`."""
        if self.env is None:
            raise ValueError(
                f"{self} has no environment; set create_env_on_local_worker=True or sample from a remote runner"
            )
        check_sample_size(num_timesteps, num_episodes)
        if num_timesteps is None and num_episodes is None:
            if getattr(self.config, "batch_mode", "truncate_episodes") == "truncate_episodes":
                num_timesteps = self._fragment_length() * self.num_envs
            else:
                num_episodes = self.num_envs
        steps = None if num_timesteps is None else -(-num_timesteps // self.num_envs)
        samples, _ = self._run(steps, num_episodes, explore, random_actions, force_reset)
        self._sampler.columns([])
        if getattr(self.config, "episodes_to_numpy", True):
            samples = [episode.to_numpy() for episode in samples]
        return samples

    def _run(
        self,
        steps: int | None,
        episodes: int | None,
        explore: bool | None,
        random_actions: bool,
        force_reset: bool,
        whole: bool = False,
    ) -> tuple[list[MultiAgentEpisode], int]:
        """Return the ended episodes and, if steps were asked for, the running chunks; and the number of steps.

        With ``whole`` every environment continues to the end of its episode, so that no chunk is left.
        """
        self._log_start()
        sampler = self._sampler
        if self._agents is not None:
            self._agents.forget()
        explore = getattr(self.config, "explore", True) if explore is None else explore
        before, lost, wanted = self._num_episodes, sampler.num_lost, self._agent_steps(steps)
        done: list[MultiAgentEpisode] = []
        taken = count = counted = 0

        def is_enough() -> bool:
            if steps is None:
                return len(done) >= (episodes or 0)
            return taken >= steps if wanted is None else counted >= wanted

        with self.metrics.log_time(names.SAMPLE_TIMER):
            if force_reset or episodes is not None or self._needs_initial_reset or not sampler.episodes:
                sampler.reset(explore)
            while not is_enough():
                limit = None if episodes is None else episodes - len(done)
                last = whole and steps is not None and taken == steps - 1
                count += len(sampler.lanes)
                ended = sampler.advance(explore, random_actions, taken * self.num_envs, limit, last)
                counted += sampler.num_seen
                done += ended
                taken += 1
            while whole and sampler.lanes:
                count += len(sampler.lanes)
                done += sampler.advance(explore, random_actions, taken * self.num_envs, last=True)
                taken += 1
            samples = done
            if whole or episodes is not None:
                self._needs_initial_reset = False
                sampler.episodes = []
            else:
                samples = done + sampler.cut()
            self._callbacks.run(
                "on_sample_end", env_runner=self, metrics_logger=self.metrics, samples=samples
            )
        count -= sampler.num_lost - lost
        self._log_sampled(samples, count, self._num_episodes - before)
        return samples, count

    def new_episode(self) -> MultiAgentEpisode:
        """Return an empty episode of the environment's spaces, with the mapping of the configuration."""
        return MultiAgentEpisode(
            observation_space=self.env.single_observation_space,
            action_space=self.env.single_action_space,
            agent_to_module_mapping_fn=self.config.policy_mapping_fn,
        )

    def log_episode(self, chunks: list[MultiAgentEpisode]) -> None:
        """Log an ended episode.

        Args:
            chunks: All of its chunks, in order.
        """
        total, length = sum(chunk.get_return() for chunk in chunks), sum(len(chunk) for chunk in chunks)
        earned = [
            (
                agent_id,
                chunk.module_for(agent_id),
                float(episode.get_return()) if len(episode) else 0.0,
                len(episode),
            )
            for chunk in chunks
            for agent_id, episode in chunk.agent_episodes.items()
        ]
        self._log_ended(total, length, sum(chunk.get_duration_s() for chunk in chunks), earned)

    def log_episode_of_columns(self, lane: AgentLane) -> None:
        """Log an ended episode that was sampled into columns."""
        parts = [each for part in lane.earned for each in part]
        total = sum(sum(reward for _, reward, _ in part) for part in lane.earned)
        earned = [(track.agent_id, track.module_id, reward, steps) for track, reward, steps in parts]
        self._log_ended(total, lane.env_t, time.perf_counter() - lane.begin, earned)

    def _log_ended(
        self, total: float, length: int, seconds: float, earned: list[tuple[Any, str, float, int]]
    ) -> None:
        self._num_episodes += 1
        window = max(1, int(getattr(self.config, "metrics_num_episodes_for_smoothing", 100)))
        agents: dict[Any, float] = {}
        modules: dict[str, float] = {}
        own_steps: dict[Any, int] = {}
        for agent_id, module_id, reward, steps in earned:
            agents[agent_id] = agents.get(agent_id, 0.0) + reward
            own_steps[agent_id] = own_steps.get(agent_id, 0) + steps
            modules[module_id] = modules.get(module_id, 0.0) + reward
        log = self.metrics.log_value
        log(names.EPISODE_RETURN_MEAN, total, window=window)
        log(names.EPISODE_LEN_MEAN, length, window=window)
        log(names.EPISODE_DURATION_SEC_MEAN, seconds, window=window)
        for low, high, value in (
            (names.EPISODE_RETURN_MIN, names.EPISODE_RETURN_MAX, total),
            (names.EPISODE_LEN_MIN, names.EPISODE_LEN_MAX, length),
        ):
            log(low, value, reduce="min", window=window)
            log(high, value, reduce="max", window=window)
        for agent_id, reward in agents.items():
            log((names.EPISODE_AGENT_RETURN_MEAN, str(agent_id)), reward, window=window)
            log((names.EPISODE_AGENT_STEPS, str(agent_id)), own_steps[agent_id], window=window)
        for module_id, reward in modules.items():
            log((names.EPISODE_MODULE_RETURN_MEAN, module_id), reward, window=window)

    def _log_sampled(self, chunks: list[MultiAgentEpisode], steps: int, episodes: int) -> None:
        parts = [
            (agent_id, chunk.module_for(agent_id), len(episode))
            for chunk in chunks
            for agent_id, episode in chunk.agent_episodes.items()
        ]
        self.log_agents(steps, parts, episodes)

    def log_agents(self, steps: int, parts: list[tuple[Any, str, int]], episodes: int) -> None:
        """Log a fragment.

        Args:
            steps: Steps of the environments.
            parts: Ids of an agent and of its module, and the number of the agent's steps.
            episodes: Episodes that ended.
        """
        self.num_env_steps_sampled_lifetime += steps
        log = self.metrics.log_value
        log(names.NUM_ENV_STEPS_SAMPLED, steps, reduce="sum")
        log(names.NUM_ENV_STEPS_SAMPLED_LIFETIME, steps, reduce="lifetime_sum", with_throughput=True)
        log(names.NUM_EPISODES, episodes, reduce="sum")
        log(names.NUM_EPISODES_LIFETIME, episodes, reduce="lifetime_sum")
        agents: dict[str, int] = {}
        modules: dict[str, int] = {}
        for agent_id, module_id, count in parts:
            agents[str(agent_id)] = agents.get(str(agent_id), 0) + count
            modules[module_id] = modules.get(module_id, 0) + count
        for once, ever, counts in (
            (names.NUM_AGENT_STEPS_SAMPLED, names.NUM_AGENT_STEPS_SAMPLED_LIFETIME, agents),
            (names.NUM_MODULE_STEPS_SAMPLED, names.NUM_MODULE_STEPS_SAMPLED_LIFETIME, modules),
        ):
            for key, count in counts.items():
                log((once, key), count, reduce="sum")
                log((ever, key), count, reduce="lifetime_sum")

    def set_state(self, state: dict[str, Any]) -> None:
        """Take weights, connectors' states and counters; see `SingleAgentEnvRunner.set_state`."""
        weights = state.get(COMPONENT_RL_MODULE)
        if isinstance(weights, dict) and self.module is not None:
            # Weights are by module id here, also when there is one module alone.
            version = int(state.get(names.WEIGHTS_SEQ_NO, 0))
            if version == 0 or version > self._weights_seq_no:
                self.module.set_state(weights)
            self._weights_seq_no = version or self._weights_seq_no
            state = {key: value for key, value in state.items() if key != COMPONENT_RL_MODULE}
        super().set_state(state)

    _plain_set_state = set_state

    def get_lane_state(self) -> dict[str, Any]:
        """Return the environments, their episodes and the random stream, so that another runner can continue from here."""
        kept = ("episodes", "chunks", "to_module", "seen", "states")
        return {
            "envs": self.env.envs,
            "generator": self._generator.get_state(),
            "needs_initial_reset": self._needs_initial_reset,
            "callbacks": self._callbacks.get_state(),
            "steps": self.num_env_steps_sampled_lifetime,
            "order": self._sampler.shared.get("memorized_map_structure", {}),
            "sampler": {name: getattr(self._sampler, name) for name in kept},
            "columns": None if self._agents is None else self._agents.get_state(),
        }

    def set_lane_state(self, state: dict[str, Any]) -> None:
        """Continue where another runner was; with new episodes, if the running ones need modules that are not there."""
        self.env.close()
        self.env.envs[:] = state["envs"]
        self._generator.set_state(state["generator"])
        self._callbacks.set_state(state.get("callbacks", ()))
        self._needs_initial_reset = state["needs_initial_reset"]
        self.num_env_steps_sampled_lifetime = state["steps"]
        self._sampler.shared["memorized_map_structure"] = state["order"]
        for name, value in state["sampler"].items():
            setattr(self._sampler, name, value)
        for episode in self._sampler.episodes:
            episode.agent_to_module_mapping_fn = self.config.policy_mapping_fn
        if state.get("columns") is not None:
            self._agents = MultiAgentColumnSampler(self)
            self._agents.set_state(state["columns"])
        running = self._sampler.episodes + (
            [lane.episode for lane in self._agents.lanes] if self._agents else []
        )
        if not all(module_id in self.module for episode in running for module_id in episode.modules_in_use):
            self._needs_initial_reset = True
