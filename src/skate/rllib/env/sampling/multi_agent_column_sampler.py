"""The fast way to sample with several agents: rows of each module straight into columns, without a connector."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from skate.rllib.core.columns import Columns
from skate.rllib.env.nested import unbatch
from skate.rllib.env.rollout import Rollout
from skate.rllib.env.sampling.action_source import ActionSource, share_stream
from skate.rllib.env.sampling.agent_columns import AgentLane, Group, Log, Track, rollouts_of
from skate.rllib.env.sampling.multi_agent_fusion import action_plans_of, writers_of

_STATES = (Columns.STATE_IN, Columns.STATE_OUT)


class MultiAgentColumnSampler:
    """Samples fragments from the environments of a runner; see `MultiAgentSampler` for the general way.

    Args:
        runner: The runner that the environments and the modules belong to.
    """

    def __init__(self, runner: Any) -> None:
        self.runner = runner
        self.lanes: list[AgentLane] = []
        self.logs: dict[str, Log] = {}
        self.groups: dict[str, Group] = {}
        self._writers, self._kept = writers_of(runner)
        self._plans = action_plans_of(runner)
        self._sources: dict[str, ActionSource] = {}
        self._waiting: dict[str, ActionSource] = {}
        self._tracks: list[Track] = []
        self._num_ended = 0

    # -- state

    def get_state(self) -> dict[str, Any]:
        """Return the running episodes; can be pickled."""
        return {"lanes": self.lanes, "logs": self.logs, "groups": self.groups}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue the episodes of another sampler."""
        self.lanes, self.logs, self.groups = state["lanes"], state["logs"], state["groups"]
        for lane in self.lanes:
            lane.episode.agent_to_module_mapping_fn = self.runner.config.policy_mapping_fn

    def forget(self) -> None:
        """Drop the running episodes; the next fragment begins with new ones."""
        self.lanes, self.logs, self.groups = [], {}, {}

    # -- sampling

    def reset(self) -> None:
        """Begin a new episode in every environment."""
        runner = self.runner
        self.forget()
        seeds = runner._lane_seeds() or [None] * runner.num_envs
        runner._needs_initial_reset = False
        self.lanes = [self._begin(place, seed) for place, seed in enumerate(seeds)]
        self._observe()

    def _begin(self, place: int, seed: int | None = None) -> AgentLane:
        runner = self.runner
        episode = runner.new_episode()
        observations, infos = runner.env.envs[place].reset(seed=seed)
        episode.add_env_reset(observations=observations, infos=infos)
        lane = AgentLane(episode)
        lane.newest = [
            (lane.appear(agent_id, self._stays), observation)
            for agent_id, observation in observations.items()
        ]
        return lane

    def _stays(self, agent_id: Any, module_id: str) -> bool:
        """True if observations of an agent are rows as the environment returns them. Raises ValueError for an unknown module."""
        if module_id not in self.runner.module:
            known = ", ".join(sorted(self.runner.module.keys()))
            raise ValueError(
                f"policy_mapping_fn maps agent {agent_id!r} to module {module_id!r}; there are: {known}. Add it to `policies`"
            )
        return not self._writers or agent_id in self._kept.get(module_id, self._kept[None])

    def _row(self, track: Track, observation: Any) -> Any:
        return observation if track.as_given else self._writers[track.agent_id].row(observation)

    def _observe(self) -> None:
        """Put the newest observations of all agents together by module."""
        groups: dict[str, Group] = {}
        for place, lane in enumerate(self.lanes):
            for track, observation in lane.newest:
                group = groups.get(track.module_id)
                if group is None:
                    group = groups[track.module_id] = Group()
                group.tracks.append(track)
                group.lanes.append(place)
                group.rows.append(observation if track.as_given else self._row(track, observation))
            lane.newest = []
        for module_id, group in groups.items():
            group.rows = as_array(group.rows)
            log = self.logs.get(module_id)
            if log is None:
                log = self.logs[module_id] = Log()
            row = log.add(group.rows)
            for track in group.tracks:
                track.rows.append(row)
                row += 1
        self.groups = groups

    @torch.no_grad()
    def sample(
        self, num_steps: int, explore: bool, random_actions: bool, agent_steps: int | None = None
    ) -> dict[str, list[Rollout]]:
        """Sample a fragment.

        Args:
            num_steps: Steps of each environment.
            explore: True to explore.
            random_actions: True to act at random, without the modules.
            agent_steps: The least number of steps of all agents, in place of ``num_steps``.

        Returns:
            Fragments by module id.
        """
        runner = self.runner
        envs = runner.env.envs
        t, growth = runner._lifetime_and_growth()
        if runner._needs_initial_reset or not self.lanes:
            self.reset()
        index = counted = 0
        while index < num_steps if agent_steps is None else counted < agent_steps:
            actions = self._random() if random_actions else self._act(explore, t + index * growth)
            is_over = False
            for place, lane in enumerate(self.lanes):
                lane.add(envs[place].step(actions[place]), self._stays)
                is_over = is_over or lane.is_done
                counted += len(lane.newest)
            if is_over:
                self._end_episodes()
            self._observe()
            index += 1
        return self._end_fragment(index)

    def _random(self) -> list[dict[Any, Any]]:
        """Return random actions of the agents that act, by environment."""
        space, generator = self.runner.env.single_action_space, self.runner._generator
        drawn: dict[tuple[int, Any], Any] = {}
        acting = [
            (place, track.agent_id)
            for group in self.groups.values()
            for place, track in zip(group.lanes, group.tracks, strict=True)
            if not track.is_done
        ]
        actions: list[dict[Any, Any]] = [{} for _ in self.lanes]
        for place, agent_id in sorted(acting, key=lambda pair: (pair[0], str(pair[1]))):
            space[agent_id].seed(int(torch.randint(2**31 - 1, (1,), generator=generator)))
            actions[place][agent_id] = drawn[place, agent_id] = space[agent_id].sample()
        for module_id, group in self.groups.items():
            # Agents that ended do not act; their rows are in no step, so that any action stands for theirs.
            keys = [(place, track.agent_id) for place, track in zip(group.lanes, group.tracks, strict=True)]
            taken = [drawn[key] if key in drawn else np.zeros(space[key[1]].shape) for key in keys]
            dtype = space[keys[0][1]].dtype
            self.logs[module_id].add_outputs(Columns.ACTIONS, np.array(taken, dtype))
        return actions

    def _act(self, explore: bool, t: int) -> list[dict[Any, Any]]:
        """Run the modules, keep what they return, and return the actions for each environment, by agent."""
        actions: list[dict[Any, Any]] = [{} for _ in self.lanes]
        groups = self.groups
        if not groups:
            return actions
        module = self.runner.module
        batch = {key: {Columns.OBS: torch.from_numpy(group.rows)} for key, group in groups.items()}
        if explore:
            share_stream(module, self.runner._generator)
            out = module.forward_exploration(batch, t=t)
        else:
            out = module.forward_inference(batch)
        for module_id, group in groups.items():
            drawn = self._draw(module_id, out[module_id], explore)
            for place, track, action in zip(group.lanes, group.tracks, drawn, strict=True):
                if not (track.terminated or track.truncated):
                    plan = self._plans.get(track.agent_id)
                    actions[place][track.agent_id] = action if plan is None else plan.for_env(action)
        return actions

    def _draw(self, module_id: str, out: dict[str, Any], explore: bool) -> np.ndarray:
        """Return the actions that the outputs of a module stand for, and keep both."""
        log = self.logs[module_id]
        if Columns.ACTIONS in out:
            drawn = as_column(out[Columns.ACTIONS])
        else:
            source = self._source(module_id)
            drawn = as_column(source.actions(out, explore))
            if explore and Columns.ACTION_LOGP not in out:
                self._waiting[module_id] = source
        log.add_outputs(Columns.ACTIONS, drawn)
        for name, values in out.items():
            if name != Columns.ACTIONS and name not in _STATES:
                log.add_outputs(name, as_column(values))
        return drawn

    def _source(self, module_id: str) -> ActionSource:
        module, source = self.runner.module[module_id], self._sources.get(module_id)
        if source is None or source.module is not module:
            source = self._sources[module_id] = ActionSource(module, self.runner._generator)
        return source

    # -- ends

    def _end_episodes(self) -> None:
        """Finish the episodes that ended, and begin others."""
        for place, lane in enumerate(self.lanes):
            if not lane.is_done:
                continue
            for track, observation in lane.newest:
                log = self.logs.setdefault(track.module_id, Log())
                track.rows.append(-1 - len(log.finals))
                log.finals.append(as_array([self._row(track, observation)])[0])
            self._tracks += lane.end_fragment()
            self.runner.log_episode_of_columns(lane)
            self._num_ended += 1
            self.lanes[place] = self._begin(place)

    def _end_fragment(self, num_steps: int) -> dict[str, list[Rollout]]:
        """Return the steps of all agents as columns, and keep what the next fragment begins with."""
        runner = self.runner
        for lane in self.lanes:
            if lane.env_t > lane.started:
                self._tracks += lane.end_fragment()
        self._add_logps()
        tracks, self._tracks = self._tracks, []
        parts = [(each.agent_id, each.module_id, len(each.rewards)) for each in tracks]
        runner.log_agents(num_steps * len(self.lanes), parts, self._num_ended)
        self._num_ended = 0
        stepped: dict[str, list[Track]] = {}
        for track in tracks:
            if track.rewards:
                stepped.setdefault(track.module_id, []).append(track)
        version = runner._weights_seq_no
        found = {key: rollouts_of(stepped[key], self.logs[key], version) for key in sorted(stepped)}
        self._carry()
        return found

    def _add_logps(self) -> None:
        """Add the log-probabilities of the actions, of all steps of a module at once."""
        for module_id, source in self._waiting.items():
            log = self.logs[module_id]
            carried = log.num_carried
            inputs, actions = (
                np.concatenate(log.outputs[name])[carried:]
                for name in (Columns.ACTION_DIST_INPUTS, Columns.ACTIONS)
            )
            log.add_outputs(Columns.ACTION_LOGP, source.logp(inputs, actions))
        self._waiting = {}

    def _carry(self) -> None:
        """Begin new logs: with the rows of agents that wait for the end of their step, and the newest batch."""
        waiting: dict[str, list[Track]] = {}
        for lane in self.lanes:
            for track in lane.live.values():
                log = self.logs[track.module_id]
                group = self.groups.get(track.module_id)
                acted = log.size - (0 if group is None else len(group.rows))
                if track.rows[-1] < acted:
                    waiting.setdefault(track.module_id, []).append(track)
        held = {key: [track.rows[-1] for track in each] for key, each in waiting.items()}
        for lane in self.lanes:
            lane.continue_in_next()
        logs, self.logs = self.logs, {}
        for module_id, rows in held.items():
            seen, outputs = logs[module_id].arrays()
            made = self.logs[module_id] = Log(num_carried=len(rows), carried_only=set(outputs))
            made.add(seen[rows])
            made.outputs = {name: [values[rows]] for name, values in outputs.items()}
            for row, track in enumerate(waiting[module_id]):
                track.rows = [row]
        for module_id, group in self.groups.items():
            row = self.logs.setdefault(module_id, Log()).add(group.rows)
            for place, track in enumerate(group.tracks):
                if not track.is_done:
                    track.rows = [row + place]


def as_array(rows: list[Any]) -> np.ndarray:
    """Return observations as one array; doubles become floats."""
    array = np.array(rows)
    return array.astype(np.float32) if array.dtype == np.float64 else array


def as_column(values: Any) -> np.ndarray:
    """Return a column of a module's outputs as an array."""
    if isinstance(values, torch.Tensor):
        array: np.ndarray = values.cpu().numpy()
        return array
    return np.stack([np.asarray(each) for each in unbatch(values)])
