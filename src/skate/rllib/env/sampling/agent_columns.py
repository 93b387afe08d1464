"""The steps of agents while they are sampled: one log of rows for each module, and the rows that belong to each agent."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skate.rllib.core.columns import Columns
from skate.rllib.env.multi_agent_episode import ALL, MultiAgentEpisode, check_still_takes_part
from skate.rllib.env.rollout import AgentChunk, Rollout


@dataclass(slots=True)
class Track:
    """An agent's steps in the fragment.

    Attributes:
        rows: The row of each of its observations in the log of its module. Negative ones count in ``Log.finals``.
        rewards: One for each step.
        pending: The sum of rewards since its newest observation.
        as_given: True if its module takes observations as the environment returns them.
        chunk: The part of the episode that these steps are, once the fragment has ended.
    """

    agent_id: Any
    module_id: str
    as_given: bool
    rows: list[int] = field(default_factory=list)
    rewards: list[Any] = field(default_factory=list)
    pending: Any = 0.0
    terminated: bool = False
    truncated: bool = False
    chunk: AgentChunk | None = None

    @property
    def is_done(self) -> bool:
        """True if the agent's episode ended."""
        return self.terminated or self.truncated


@dataclass(slots=True)
class Log:
    """The observations and the outputs of a module, in order.

    Attributes:
        seen: Batches of observations.
        size: Rows in them.
        outputs: Batches of actions and other outputs; the newest batch of observations may have none yet.
        num_carried: Rows at the beginning that were acted on in the fragment before.
        carried_only: Names of outputs that none of the present fragment's batches has.
        finals: Last observations of episodes, which no module acts on.
    """

    seen: list[np.ndarray] = field(default_factory=list)
    size: int = 0
    outputs: dict[str, list[np.ndarray]] = field(default_factory=dict)
    num_carried: int = 0
    carried_only: set[str] = field(default_factory=set)
    finals: list[np.ndarray] = field(default_factory=list)

    def add(self, rows: np.ndarray) -> int:
        """Add a batch of observations, and return the row of the first."""
        first = self.size
        self.seen.append(rows)
        self.size += len(rows)
        return first

    def add_outputs(self, name: str, values: np.ndarray) -> None:
        """Add an output for the newest batch of observations."""
        held = self.outputs.get(name)
        self.carried_only.discard(name)
        if held is None:
            held = self.outputs[name] = []
            if self.num_carried:
                held.append(np.zeros((self.num_carried, *values.shape[1:]), values.dtype))
        held.append(values)

    def arrays(self) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return all observations, final ones behind the others, and all outputs."""
        parts = [*self.seen, np.array(self.finals)] if self.finals else self.seen
        # Carried rows were acted on in another way, such as at random, if they have outputs that no other row has.
        left_out = self.carried_only if self.carried_only != self.outputs.keys() else ()
        named = {name: held for name, held in self.outputs.items() if name not in left_out}
        return np.concatenate(parts), {name: np.concatenate(held) for name, held in named.items()}


@dataclass(slots=True)
class Group:
    """The newest observations of the agents of one module.

    Attributes:
        tracks: The agent of each row.
        lanes: Its environment.
        rows: The observations; an array once all are in.
    """

    tracks: list[Track] = field(default_factory=list)
    lanes: list[int] = field(default_factory=list)
    rows: Any = field(default_factory=list)


class AgentLane:
    """The running episode of one environment.

    Args:
        episode: The episode at its reset, which the mapping of agents to modules is given.
    """

    def __init__(self, episode: MultiAgentEpisode) -> None:
        self.episode = episode
        self.env_t = self.started = 0
        self.begin = time.perf_counter()
        #: All agents of this fragment, in the order in which they appeared, and those that have not ended.
        self.tracks: dict[Any, Track] = {}
        self.live: dict[Any, Track] = {}
        #: Agents that ended in this fragment, with the step at which they did.
        self.gone: dict[Any, int] = {}
        #: The observations of the last step.
        self.newest: list[tuple[Track, Any]] = []
        self.is_done = False
        #: The agents' rewards and numbers of steps in the fragments before.
        self.earned: list[list[tuple[Track, float, int]]] = []

    def appear(self, agent_id: Any, as_given: Any) -> Track:
        """Add an agent; ``as_given`` knows from the ids of an agent and a module whether observations stay as they are."""
        self.episode.env_t = self.env_t
        module_id = self.episode.module_for(agent_id)
        made = Track(agent_id, module_id, as_given(agent_id, module_id))
        self.tracks[agent_id] = self.live[agent_id] = made
        return made

    def add(self, found: tuple[Any, Any, Any, Any, Any], as_given: Any) -> None:
        """Add what the environment's step returned; see `MultiAgentEpisode.add_env_step`."""
        observations, rewards, terminateds, truncateds, _ = found
        self.env_t += 1
        if self.gone:
            check_still_takes_part(self.gone, observations, self.env_t)
        ended = terminateds if isinstance(terminateds, Mapping) else {ALL: bool(terminateds)}
        cut = truncateds if isinstance(truncateds, Mapping) else {ALL: bool(truncateds)}
        all_ended, all_cut = bool(ended.get(ALL)), bool(cut.get(ALL))
        live = self.live
        for agent_id, reward in rewards.items():
            track = live.get(agent_id)
            if track is not None:
                track.pending = track.pending + reward
        leaving = []
        for agent_id, track in live.items():
            is_seen = agent_id in observations
            terminated = all_ended or bool(ended.get(agent_id))
            truncated = all_cut or bool(cut.get(agent_id))
            if not (is_seen or terminated or truncated):
                continue
            track.rewards.append(track.pending)
            track.pending = 0.0
            if terminated or truncated:
                track.terminated, track.truncated = terminated, truncated
                leaving.append(agent_id)
                if not is_seen:
                    # The last observation of an agent that ends without one is that before.
                    track.rows.append(track.rows[-1])
        for agent_id in leaving:
            del live[agent_id]
            self.gone[agent_id] = self.env_t
        tracks = self.tracks
        self.newest = [
            (tracks.get(agent_id) or self.appear(agent_id, as_given), observation)
            for agent_id, observation in observations.items()
        ]
        self.is_done = all_ended or all_cut or (not live and bool(tracks))

    def end_fragment(self) -> list[Track]:
        """Note what the agents earned, and return all agents of this fragment."""
        tracks = list(self.tracks.values())
        for each in tracks:
            each.chunk = AgentChunk(self.episode.id_, each.agent_id, self.env_t - self.started)
        self.earned.append([(each, float(sum(each.rewards)), len(each.rewards)) for each in tracks])
        return tracks

    def continue_in_next(self) -> None:
        """Forget the steps of this fragment, and the agents that ended."""
        self.tracks = dict(self.live)
        self.gone = {}
        self.started = self.env_t
        for track in self.tracks.values():
            track.rows, track.rewards = [], []


def rollouts_of(tracks: list[Track], log: Log, version: int) -> list[Rollout]:
    """Return the steps of agents of one module; those of equal number stand side by side.

    Args:
        tracks: The agents, each with at least one step.
        log: What the module saw and returned.
        version: The version of the weights.
    """
    seen, outputs = log.arrays()
    by_length: dict[int, list[Track]] = {}
    for track in tracks:
        by_length.setdefault(len(track.rewards), []).append(track)
    made = []
    for length in sorted(by_length):
        chosen = by_length[length]
        rows = np.array([track.rows for track in chosen]).T
        rows = np.where(rows < 0, log.size - 1 - rows, rows)
        acted = rows[:-1]
        ends = np.zeros((2, length, len(chosen)), bool)
        ends[0, -1] = [track.terminated for track in chosen]
        ends[1, -1] = [track.truncated for track in chosen]
        columns = {
            Columns.OBS: seen[acted],
            Columns.ACTIONS: outputs[Columns.ACTIONS][acted],
            Columns.REWARDS: np.array([track.rewards for track in chosen], np.float32).T.copy(),
            Columns.TERMINATEDS: ends[0],
            Columns.TRUNCATEDS: ends[1],
        }
        columns |= {name: values[acted] for name, values in outputs.items() if name != Columns.ACTIONS}
        valid = np.ones((length, len(chosen)), bool)
        chunks = tuple(track.chunk for track in chosen if track.chunk is not None)
        made.append(Rollout(columns, valid, seen[rows[1:]], None, version, chunks=chunks))
    return made
