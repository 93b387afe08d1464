"""Samples episodes of several agents, and columns for each module from them."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import torch

from skate.rllib.core.columns import Columns
from skate.rllib.env.env_runner import StepFailedRecreateEnvError
from skate.rllib.env.multi_agent_episode import MultiAgentEpisode
from skate.rllib.env.nested import map_nested
from skate.rllib.env.rollout import AgentChunk, Rollout, concatenate_lanes
from skate.rllib.env.sampling.action_source import share_stream
from skate.rllib.env.single_agent_episode import SingleAgentEpisode
from skate.rllib.utils import metrics as names

logger = logging.getLogger(__name__)

Key = tuple[str, Any]
_STATES = (Columns.STATE_OUT, Columns.STATE_IN)


class MultiAgentSampler:
    """Samples from the environments of a runner.

    Args:
        runner: The runner that the environments, the modules and the connectors belong to.
    """

    def __init__(self, runner: Any) -> None:
        self.runner = runner
        self.episodes: list[MultiAgentEpisode] = []
        self.chunks: dict[str, list[MultiAgentEpisode]] = {}
        self.shared: dict[str, Any] = {"generator": runner._generator}
        self.to_module: dict[str, Any] = {}
        #: The rows that the modules saw, by episode and agent; the first belongs to the first step of the chunk.
        self.seen: dict[Key, list[np.ndarray]] = {}
        self.states: dict[Key, dict[str, Any]] = {}
        #: By module, an example of each output of this fragment.
        self.outputs: dict[str, dict[str, Any]] = {}
        #: Agents that got an observation in the last step of all environments.
        self.num_seen = 0
        #: Steps of environments that failed: the failed ones, and those before them in their episodes.
        self.num_lost = 0
        #: The environments that are stepped; the others wait for these to end their episodes.
        self.lanes = list(range(runner.num_envs))

    def reset(self, explore: bool) -> None:
        """Begin a new episode in every environment."""
        self.chunks.clear()
        self.seen.clear()
        self.lanes = list(range(self.runner.num_envs))
        seeds = self.runner._lane_seeds() or [None] * self.runner.num_envs
        self.runner._needs_initial_reset = False
        self.episodes = [self._begin(lane, seed) for lane, seed in enumerate(seeds)]
        self.to_module = self._connect(self.episodes, explore)
        for lane in range(self.runner.num_envs):
            self._call("on_episode_start", lane)

    def _begin(self, lane: int, seed: int | None = None) -> MultiAgentEpisode:
        runner = self.runner
        made: MultiAgentEpisode = runner.new_episode()
        self._call("on_episode_created", lane, made)
        with runner.metrics.log_time(names.ENV_RESET_TIMER):
            try:
                observations, infos = runner.env.envs[lane].reset(seed=seed)
            except Exception as error:  # an environment is the user's code, which may raise anything
                self._remake(lane, error)
                observations, infos = runner.env.envs[lane].reset(seed=seed)
        made.add_env_reset(observations=observations, infos=infos)
        return made

    def _remake(self, lane: int, error: Exception) -> None:
        """Put a new environment in the place of one that raised, or raise its error."""
        if not self.runner.restarts_environments:
            raise error
        if not isinstance(error, StepFailedRecreateEnvError):
            logger.error("The environment of lane %d failed; it is made anew", lane, exc_info=error)
        self.runner.env.remake(lane)

    def _drop(self, lane: int) -> None:
        """Begin another episode in the place of one that cannot continue."""
        dropped = self.episodes[lane]
        self.num_lost += len(dropped) + 1
        self.chunks.pop(dropped.id_, None)
        self.episodes[lane] = self._begin(lane)

    def _call(self, moment: str, lane: int, episode: Any = None, **kwargs: Any) -> None:
        runner = self.runner
        if runner._callbacks.has(moment):
            runner._callbacks.run(
                moment,
                episode=self.episodes[lane] if episode is None else episode,
                env_runner=runner,
                metrics_logger=runner.metrics,
                env=runner.env,
                env_index=lane,
                rl_module=runner.module,
                **kwargs,
            )

    def _connect(self, episodes: list[MultiAgentEpisode], explore: bool) -> dict[str, Any]:
        """Return the batches of the modules, and keep the rows that they are made of."""
        runner = self.runner
        if runner.module is None or not any(episode.newest_agents() for episode in episodes):
            return {}
        batch: dict[str, Any] = runner._env_to_module(
            rl_module=runner.module,
            batch={},
            episodes=episodes,
            explore=explore,
            shared_data=self.shared,
            metrics=runner.metrics,
            metrics_prefix_key=(names.ENV_TO_MODULE_CONNECTOR,),
        )
        for module_id, keys in self.shared.get("memorized_map_structure", {}).items():
            columns = batch.get(module_id, {})
            rows = columns.get(Columns.OBS)
            if not torch.is_tensor(rows):
                continue
            stateful = Columns.STATE_IN in columns
            for at, key in enumerate(keys):
                row = rows[at, 0] if stateful else rows[at]
                held = self.seen.setdefault(key[:2], [])
                if stateful and not held:
                    self.states[key[:2]] = nested_row(columns[Columns.STATE_IN], at)
                held.append(row.cpu().numpy())
        return batch

    @torch.no_grad()
    def _act(self, explore: bool, random_actions: bool, steps: int) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the actions to keep, those for the environment, and the other outputs, by agent.

        Each is a list with one item for each environment that is stepped.
        """
        runner = self.runner
        episodes = [self.episodes[lane] for lane in self.lanes]
        empty: list[dict[Any, Any]] = [{} for _ in episodes]
        if random_actions or runner.module is None:
            space = runner.env.single_action_space
            for episode, actions in zip(episodes, empty, strict=True):
                for agent_id in sorted(episode.get_agents_to_act(), key=str):
                    seed = int(torch.randint(2**31 - 1, (1,), generator=runner._generator))
                    space[agent_id].seed(seed)
                    actions[agent_id] = space[agent_id].sample()
            return empty, empty, [{} for _ in episodes]
        if not self.to_module:
            return empty, empty, [{} for _ in episodes]
        with runner.metrics.log_time(names.RLMODULE_INFERENCE_TIMER):
            if explore:
                share_stream(runner.module, runner._generator)
                t, growth = runner._lifetime_and_growth()
                out = runner.module.forward_exploration(
                    self.to_module, t=t + steps * (growth // runner.num_envs)
                )
            else:
                out = runner.module.forward_inference(self.to_module)
        out = runner._module_to_env(
            rl_module=runner.module,
            batch={module_id: dict(columns) for module_id, columns in out.items()},
            episodes=episodes,
            explore=explore,
            shared_data=self.shared,
            metrics=runner.metrics,
            metrics_prefix_key=(names.MODULE_TO_ENV_CONNECTOR,),
        )
        actions = out.pop(Columns.ACTIONS)
        for_env = out.pop(Columns.ACTIONS_FOR_ENV, actions)
        extra = [
            {
                agent: {key: rows[place][agent] for key, rows in out.items() if agent in rows[place]}
                for agent in actions[place]
            }
            for place in range(len(episodes))
        ]
        return actions, for_env, extra

    def advance(
        self, explore: bool, random_actions: bool, steps: int, limit: int | None = None, last: bool = False
    ) -> list[MultiAgentEpisode]:
        """Step the environments once.

        Args:
            explore: True to explore.
            random_actions: True to act at random.
            steps: Steps of all environments since the call of the runner.
            limit: Stop after so many ended episodes; the environments have to be reset then.
            last: True to begin no further episode where one ends; these environments are left out from then on.

        Returns:
            The episodes that ended.
        """
        runner = self.runner
        actions, for_env, extra = self._act(explore, random_actions, steps)
        anew: list[int] = []
        for place, lane in enumerate(self.lanes):
            episode = self.episodes[lane]
            acting = episode.get_agents_to_act()
            taken = {agent: action for agent, action in actions[place].items() if agent in acting}
            sent = {agent: action for agent, action in for_env[place].items() if agent in acting}
            for agent in taken:
                named = self.outputs.setdefault(episode.module_for(agent), {})
                named.update(extra[place].get(agent, {}))
            try:
                with runner.metrics.log_time(names.ENV_STEP_TIMER):
                    observations, rewards, terminateds, truncateds, infos = runner.env.envs[lane].step(sent)
            except Exception as error:  # an environment is the user's code, which may raise anything
                self._remake(lane, error)
                self._drop(lane)
                anew.append(lane)
                continue
            episode.add_env_step(
                observations,
                taken,
                rewards,
                infos,
                terminateds=terminateds,
                truncateds=truncateds,
                extra_model_outputs=extra[place],
            )
        self.num_seen = sum(len(self.episodes[lane].newest_agents()) for lane in self.lanes)
        ended = [lane for lane in self.lanes if self.episodes[lane].is_done]
        done = [self.episodes[lane] for lane in ended][:limit]
        if done:
            self._connect(done, explore)
        is_over = len(done) == limit
        begun = anew + self._end(set(ended), last or is_over, limit, anew)
        if is_over:
            return done
        self.to_module = self._connect([self.episodes[lane] for lane in self.lanes], explore)
        for lane in begun:
            self._call("on_episode_start", lane)
        return done

    def _end(self, ended: set[int], last: bool, limit: int | None, anew: list[int]) -> list[int]:
        """Finish the episodes that ended, and begin others; return the environments of these.

        Those that were made anew have had no step.
        """
        begun = []
        count = 0
        for lane in [each for each in self.lanes if each not in anew]:
            self._call("on_episode_step", lane)
            if lane not in ended:
                continue
            episode = self.episodes[lane]
            chunks = self.chunks.pop(episode.id_, [])
            self._call("on_episode_end", lane, prev_episode_chunks=chunks)
            self.runner.log_episode([*chunks, episode])
            count += 1
            if count == limit:
                break
            if last:
                self.lanes.remove(lane)
                continue
            self.episodes[lane] = self._begin(lane)
            begun.append(lane)
        return begun

    def cut(self) -> list[MultiAgentEpisode]:
        """Return the running chunks that have steps, and continue in new ones."""
        wanted = [getattr(each, "num_steps_back", 0) for each in self.runner._env_to_module.connectors]
        lookback = max([getattr(self.runner.config, "episode_lookback_horizon", 1), *wanted])
        running = self.episodes
        self.episodes = [episode.cut(lookback) for episode in running]
        chunks = [episode for episode in running if len(episode)]
        for chunk in chunks:
            self.chunks.setdefault(chunk.id_, []).append(chunk)
        return chunks

    def columns(self, chunks: list[MultiAgentEpisode]) -> dict[str, list[Rollout]]:
        """Return the agents' steps as columns by module; steps of equal number stand side by side.

        Args:
            chunks: Every chunk of the fragment.
        """
        found: dict[str, dict[int, list[Rollout]]] = {}
        for chunk in chunks:
            for agent_id, episode in chunk.agent_episodes.items():
                rows = self.seen.get((chunk.id_, agent_id), [])
                if len(episode):
                    outputs = outputs_of(episode, self.outputs.get(chunk.module_for(agent_id)))
                    made = rollout_of(
                        episode,
                        rows,
                        outputs,
                        self.states.get((chunk.id_, agent_id)),
                        self.runner._weights_seq_no,
                    )
                    made.chunks = (AgentChunk(chunk.id_, agent_id, len(chunk)),)
                    found.setdefault(chunk.module_for(agent_id), {}).setdefault(len(episode), []).append(made)
        self.outputs = {}
        running = {episode.id_: episode for episode in self.episodes}
        # An agent's newest row is the first of its next step; ended agents have no next step.
        self.seen = {
            key: rows[-1:]
            for key, rows in self.seen.items()
            if key[0] in running and key[1] in running[key[0]].agent_episodes
        }
        self.states = {
            key: newest_state(running[key[0]].agent_episodes[key[1]], self.states[key])
            for key in self.seen
            if key in self.states
        }
        return {
            module_id: [concatenate_lanes(by_length[length]) for length in sorted(by_length)]
            for module_id, by_length in sorted(found.items())
        }


def newest_state(episode: SingleAgentEpisode, first: dict[str, Any]) -> dict[str, Any]:
    """Return the memory of a module after the newest step of an episode, or `first` before any step."""
    if Columns.STATE_OUT not in episode.extra_model_outputs:
        return first
    state: dict[str, Any] = episode.get_extra_model_outputs(Columns.STATE_OUT, -1)
    return state


def outputs_of(episode: SingleAgentEpisode, named: dict[str, Any] | None) -> dict[str, list[Any]]:
    """Return the outputs of a module for the steps of an agent.

    Args:
        episode: The chunk.
        named: An example of each output of this fragment; None if the module was not run. An action from the fragment
            before may have been taken in another way, such as at random: what it lacks is zero.
    """
    held = {name: list(values.get()) for name, values in episode.extra_model_outputs.items()}
    if named is not None:
        held = {name: held.get(name, []) for name in named if name not in _STATES}
        for name, values in held.items():
            if len(values) < len(episode):
                values.insert(0, np.zeros_like(np.asarray(named[name])))
    return {name: values for name, values in held.items() if name not in _STATES}


def rollout_of(
    episode: SingleAgentEpisode,
    rows: list[np.ndarray],
    outputs: dict[str, list[Any]],
    state: dict[str, Any] | None,
    version: int,
) -> Rollout:
    """Return the steps of one agent as a fragment with one lane.

    Args:
        episode: The chunk, with at least one step.
        rows: The observations that the module saw: one for each step, and the newest one.
        outputs: What the module returned beside actions, by name.
        state: The module's memory before the first step; None if it has none.
        version: The version of the weights.
    """
    size = len(episode)
    # An agent that ended without a last observation was not seen again by its module.
    rows = [*rows, rows[-1]] if len(rows) == size else rows
    assert len(rows) == size + 1, f"{episode} has {size} steps and {len(rows)} observations"
    ends = np.zeros((2, size, 1), bool)
    ends[:, -1, 0] = episode.is_terminated, episode.is_truncated
    columns = {
        Columns.OBS: np.stack(rows[:-1])[:, None],
        Columns.ACTIONS: np.stack([np.asarray(each) for each in episode.get_actions()])[:, None],
        Columns.REWARDS: np.array(episode.get_rewards(), np.float32)[:, None],
        Columns.TERMINATEDS: ends[0],
        Columns.TRUNCATEDS: ends[1],
    }
    for key, values in outputs.items():
        columns[key] = np.stack([np.asarray(each) for each in values])[:, None]
    state_in = None if state is None else map_nested(lambda value: value[None], state)
    return Rollout(columns, np.ones((size, 1), bool), np.stack(rows[1:])[:, None], state_in, version)


def nested_row(columns: dict[str, Any], at: int) -> dict[str, Any]:
    """Return a row of nested tensors as arrays.

    Args:
        columns: The tensors.
        at: The row.
    """
    found: dict[str, Any] = map_nested(lambda value: value[at].numpy(), columns)
    return found
