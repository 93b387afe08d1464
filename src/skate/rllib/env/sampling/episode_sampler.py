"""The general way to sample: an episode per lane, callbacks, and any connectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from skate.rllib.core.columns import Columns
from skate.rllib.env.lanes import Step
from skate.rllib.env.nested import batch as put_together
from skate.rllib.env.nested import map_nested
from skate.rllib.env.rollout import Rollout
from skate.rllib.env.single_agent_episode import SingleAgentEpisode
from skate.rllib.utils import metrics as names


@dataclass
class Acted:
    """One step of all lanes with what led to it.

    Attributes:
        seen: The batch that the module acted on.
        outputs: What the pipeline to the environment returned beside actions, one item per lane.
        actions: The module's actions, one per lane.
        step: The step of the lanes.
        finals: The batch made of the observations after the step, where lanes that ended have their last one.
    """

    seen: dict[str, Any]
    outputs: dict[str, list[Any]]
    actions: list[Any]
    step: Step
    finals: dict[str, Any]


class EpisodeSampler:
    """Samples episodes from the lanes of a runner.

    Args:
        runner: The runner that the environments, the module and the connectors belong to.
    """

    def __init__(self, runner: Any) -> None:
        self.runner = runner
        self.episodes: list[SingleAgentEpisode] = []
        self.chunks: dict[str, list[SingleAgentEpisode]] = {}
        self.shared: dict[str, Any] = {"generator": runner._generator}
        self.to_module: dict[str, Any] | None = None

    def forget(self) -> None:
        """Drop the running episodes: the lanes moved on without them."""
        self.episodes = []
        self.to_module = None

    def get_state(self) -> dict[str, Any]:
        """Return the running episodes."""
        return {"episodes": self.episodes, "chunks": self.chunks, "to_module": self.to_module}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from another sampler's episodes."""
        self.episodes, self.chunks, self.to_module = state["episodes"], state["chunks"], state["to_module"]

    def reset(self, explore: bool) -> None:
        """Begin a new episode in every lane."""
        runner = self.runner
        self.chunks.clear()
        self.episodes = [self._new(lane) for lane in range(runner.num_envs)]
        with runner.metrics.log_time(names.ENV_RESET_TIMER):
            observations, infos = runner._lanes.reset(runner._lane_seeds())
        runner._needs_initial_reset = False
        runner._meter.begin()
        for episode, observation, info in zip(self.episodes, observations, infos, strict=True):
            episode.add_env_reset(observation, info)
        self.to_module = self._connect(self.episodes, explore)
        for lane in range(runner.num_envs):
            self._call("on_episode_start", lane)

    def _new(self, lane: int) -> SingleAgentEpisode:
        env = self.runner.env
        made = SingleAgentEpisode(
            observation_space=env.single_observation_space, action_space=env.single_action_space
        )
        self._call("on_episode_created", lane, made)
        return made

    def _call(self, moment: str, lane: int, episode: SingleAgentEpisode | None = None, **kwargs: Any) -> None:
        runner = self.runner
        if runner._callbacks.has(moment):
            runner._callbacks.run(
                moment,
                episode=self.episodes[lane] if episode is None else episode,
                env_runner=runner,
                metrics_logger=runner.metrics,
                env=runner.env.unwrapped,
                env_index=lane,
                rl_module=runner.module,
                **kwargs,
            )

    def _connect(self, episodes: list[SingleAgentEpisode], explore: bool) -> dict[str, Any]:
        runner = self.runner
        if runner.module is None:
            return {}
        made: dict[str, Any] = runner._env_to_module(
            rl_module=runner.module,
            batch={},
            episodes=episodes,
            explore=explore,
            shared_data=self.shared,
            metrics=runner.metrics,
            metrics_prefix_key=(names.ENV_TO_MODULE_CONNECTOR,),
        )
        return made

    @torch.no_grad()
    def _act(
        self, explore: bool, random_actions: bool, steps: int
    ) -> tuple[list[Any], Any, dict[str, list[Any]]]:
        """Return the actions to keep, those for the environments, and the other outputs."""
        runner = self.runner
        if random_actions or runner.module is None:
            drawn = runner._random_actions(runner.num_envs)
            return list(drawn), list(runner._action_plan.for_env(drawn)), {}
        t, growth = runner._lifetime_and_growth()
        with runner.metrics.log_time(names.RLMODULE_INFERENCE_TIMER):
            if explore:
                out = runner.module.forward_exploration(
                    self.to_module, t=t + steps * (growth // runner.num_envs)
                )
            else:
                out = runner.module.forward_inference(self.to_module)
        out = runner._module_to_env(
            rl_module=runner.module,
            batch=dict(out),
            episodes=self.episodes,
            explore=explore,
            shared_data=self.shared,
            metrics=runner.metrics,
            metrics_prefix_key=(names.MODULE_TO_ENV_CONNECTOR,),
        )
        actions = out.pop(Columns.ACTIONS)
        return actions, out.pop(Columns.ACTIONS_FOR_ENV, actions), out

    def _advance(
        self, explore: bool, random_actions: bool, steps: int, limit: int | None = None
    ) -> tuple[Acted, list[SingleAgentEpisode]]:
        """Step all lanes once.

        Args:
            explore: True to explore.
            random_actions: True to act at random.
            steps: Steps of all lanes since the call of the runner.
            limit: Stop after so many ended episodes; the lanes have to be reset then.

        Returns:
            The step, and the episodes that ended.
        """
        runner = self.runner
        seen = self.to_module or {}
        actions, for_env, outputs = self._act(explore, random_actions, steps)
        with runner.metrics.log_time(names.ENV_STEP_TIMER):
            step = runner._lanes.step(for_env if runner._lanes.is_direct else put_together(for_env))
        runner._meter.add(step.rewards, step.stepped)
        fresh: list[int] = []
        for lane, episode in enumerate(self.episodes):
            if step.stepped is not None and not step.stepped[lane]:
                if lane in step.restarted:
                    self.episodes[lane] = self._new(lane)
                    runner._meter.begin(lane)
                self.episodes[lane].add_env_reset(step.observations[lane], step.infos[lane])
                fresh.append(lane)
                continue
            observation, info = step.finals.get(lane, (step.observations[lane], step.infos[lane]))
            extra = {key: values[lane] for key, values in outputs.items()}
            extra[names.WEIGHTS_SEQ_NO] = runner._weights_seq_no
            episode.add_env_step(
                observation,
                actions[lane],
                step.rewards[lane],
                info,
                terminated=bool(step.terminateds[lane]),
                truncated=bool(step.truncateds[lane]),
                extra_model_outputs=extra,
            )
        self.to_module = after = self._connect(self.episodes, explore)
        ended = self._end(step, fresh, limit)
        if step.finals and len(ended) != limit:
            self._begin(step, after, explore)
        return Acted(seen, outputs, actions, step, after), ended

    def _end(self, step: Step, fresh: list[int], limit: int | None) -> list[SingleAgentEpisode]:
        runner = self.runner
        ended: list[SingleAgentEpisode] = []
        for lane, episode in enumerate(self.episodes):
            self._call("on_episode_start" if lane in fresh else "on_episode_step", lane)
            if not episode.is_done:
                continue
            self._call("on_episode_end", lane, prev_episode_chunks=self.chunks.pop(episode.id_, []))
            ended.append(episode)
            runner._meter.end(lane)
            self.episodes[lane] = self._new(lane)
            if len(ended) == limit:
                break
        return ended

    def _begin(self, step: Step, after: dict[str, Any], explore: bool) -> None:
        """Put the first observations of new episodes into the next batch, in the place of the last ones of the old."""
        lanes = sorted(step.finals)
        for lane in lanes:
            self.episodes[lane].add_env_reset(step.observations[lane], step.infos[lane])
        first = self._connect([self.episodes[lane] for lane in lanes], explore)

        def put(last: Any, new: Any) -> Any:
            if not torch.is_tensor(last):
                return last
            replaced = last.clone()
            replaced[lanes] = new
            return replaced

        if after:
            self.to_module = map_nested(put, after, first)
        for lane in lanes:
            self._call("on_episode_start", lane)

    def sample(
        self,
        num_timesteps: int | None,
        num_episodes: int | None,
        explore: bool,
        random_actions: bool,
        force_reset: bool,
    ) -> tuple[list[SingleAgentEpisode], int]:
        """Sample steps or whole episodes; see `SingleAgentEnvRunner.sample`.

        Returns:
            The episodes, and the number of steps.
        """
        runner = self.runner
        if force_reset or num_episodes is not None or runner._needs_initial_reset or not self.episodes:
            self.reset(explore)
        steps = 0
        done: list[SingleAgentEpisode] = []
        while steps < num_timesteps if num_timesteps is not None else len(done) < (num_episodes or 0):
            limit = None if num_episodes is None else num_episodes - len(done)
            acted, ended = self._advance(explore, random_actions, steps, limit)
            stepped = acted.step.stepped
            steps += runner.num_envs if stepped is None else sum(stepped)
            done.extend(ended)
        if num_episodes is not None:
            self.forget()
            runner._needs_initial_reset = False
        samples = done + (self._cut() if num_timesteps is not None else [])
        if getattr(runner.config, "episodes_to_numpy", True):
            samples = [episode.to_numpy() for episode in samples]
        return samples, steps

    def _cut(self) -> list[SingleAgentEpisode]:
        """Return the running chunks that have steps, and continue in new ones."""
        wanted = [getattr(each, "num_steps_back", 0) for each in self.runner._env_to_module.connectors]
        lookback = max([getattr(self.runner.config, "episode_lookback_horizon", 1), *wanted])
        running = self.episodes
        self.episodes = [episode.cut(lookback) if episode.is_reset else episode for episode in running]
        chunks = [episode for episode in running if len(episode)]
        for chunk in chunks:
            self.chunks.setdefault(chunk.id_, []).append(chunk)
        return chunks

    def sample_rollout(self, num_steps: int, explore: bool, random_actions: bool = False) -> Rollout:
        """Sample a fragment of columns through the connectors.

        Args:
            num_steps: Steps of each lane.
            explore: True to explore.
            random_actions: True to act at random.
        """
        runner = self.runner
        if runner._needs_initial_reset or not self.episodes:
            self.reset(explore)
        state = (self.to_module or {}).get(Columns.STATE_IN)
        state_in = (
            None if state is None else {key: value.cpu().numpy().copy() for key, value in state.items()}
        )
        taken = [
            self._advance(explore, random_actions, index * runner.num_envs)[0] for index in range(num_steps)
        ]
        self._cut()
        self.chunks.clear()
        return columns_of(taken, state_in, runner.num_envs)


def columns_of(taken: list[Acted], state_in: dict[str, np.ndarray] | None, num_lanes: int) -> Rollout:
    """Return steps of all lanes as columns; observations are those that the module saw."""
    shape = (len(taken), num_lanes)
    squeeze = state_in is not None

    def observed(batch: dict[str, Any]) -> np.ndarray:
        array: np.ndarray = batch[Columns.OBS].cpu().numpy()
        return array[:, 0] if squeeze else array

    columns = {
        Columns.OBS: np.stack([observed(each.seen) for each in taken]),
        Columns.REWARDS: np.array([each.step.rewards for each in taken], np.float32),
        Columns.TERMINATEDS: np.array([each.step.terminateds for each in taken], bool),
        Columns.TRUNCATEDS: np.array([each.step.truncateds for each in taken], bool),
        Columns.ACTIONS: np.stack([np.stack(each.actions) for each in taken]),
    }
    for key in taken[0].outputs:
        if key != Columns.STATE_OUT:
            columns[key] = np.stack([np.stack(each.outputs[key]) for each in taken])
    valid = np.ones(shape, bool)
    restarted = 0
    for index, each in enumerate(taken):
        if each.step.stepped is not None:
            valid[index] = each.step.stepped
        for lane in each.step.restarted:
            restarted += 1
            if index and valid[index - 1, lane] and not columns[Columns.TERMINATEDS][index - 1, lane]:
                columns[Columns.TRUNCATEDS][index - 1, lane] = True
    following = np.stack([observed(each.finals) for each in taken])
    for index, each in enumerate(taken):
        for lane in each.step.restarted:
            if index:
                following[index - 1, lane] = columns[Columns.OBS][index, lane]
    return Rollout(columns, valid, following, state_in, 0, restarted)
