"""EpisodeStore: the episodes of a replay buffer, with the steps of each module in a pool of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from skate.rllib.core import DEFAULT_AGENT_ID, DEFAULT_MODULE_ID
from skate.rllib.core.columns import Columns
from skate.rllib.env.multi_agent_episode import MultiAgentEpisode
from skate.rllib.env.rollout import AgentChunk, Rollout
from skate.rllib.env.single_agent_episode import SingleAgentEpisode
from skate.rllib.utils.replay_buffers.buffer_counts import BufferCounts
from skate.rllib.utils.replay_buffers.episode_book import AgentLane, EpisodeBook, StoredEpisode
from skate.rllib.utils.replay_buffers.episode_steps import (
    ENV_TIME,
    NEXT_ENV_TIME,
    NOT_OUTPUTS,
    agent_rollout,
    drawn_episode,
)
from skate.rllib.utils.replay_buffers.pool import LANE, TIME, ColumnPool
from skate.rllib.utils.replay_buffers.step_columns import NEXT_INFOS

Fragments = Mapping[str, Sequence[Rollout]]
Watcher = Callable[[str, np.ndarray], None]
#: Columns of which the store alone makes use.
_OWN = frozenset((LANE, TIME, ENV_TIME, NEXT_ENV_TIME))


class EpisodeStore:
    """Keeps the newest episodes; the oldest are evicted as wholes.

    Args:
        capacity: Steps of the environment. The only episode stays, however long it is.
        stored: Called with a module's id and the places of its new steps.
        removed: Called with a module's id and the places of steps that are gone.
    """

    def __init__(self, capacity: int, stored: Watcher, removed: Watcher) -> None:
        self.book = EpisodeBook(capacity)
        self.pools: dict[str, ColumnPool] = {}
        self.counts = BufferCounts()
        self._tell_stored, self._tell_removed = stored, removed

    def modules(self) -> list[str]:
        """Return the ids of the modules that have steps."""
        return [module_id for module_id, pool in self.pools.items() if pool.size]

    # -- steps that come and go

    def add_fragments(self, fragments: Fragments) -> None:
        """Add fragments of steps by module id, which name the agents of their lanes."""
        chunks = _chunks_of(fragments)
        self._add({chunk.episode_id: chunk.env_steps for chunk in chunks}, fragments, set())

    def add_episodes(self, episodes: Sequence[SingleAgentEpisode | MultiAgentEpisode]) -> None:
        """Add episodes, or parts that continue them."""
        gone: set[str] = set()
        for episode in episodes:
            self._add({episode.id_: len(episode)}, _fragments_of(episode), gone)
            stored = self.book.episodes.get(episode.id_)
            for lane in () if stored is None else stored.lanes.values():
                _name(lane, episode)

    def _add(self, arriving: dict[str, int], fragments: Fragments, gone: set[str]) -> None:
        begun, evicted = self.book.take(arriving, gone)
        for episode in evicted:
            self._evict(episode)
        steps = sum(count for id_, count in arriving.items() if id_ not in gone)
        self.counts.count("added", env_steps=steps, episodes=len(begun))
        for module_id, rollouts in fragments.items():
            for rollout in rollouts:
                self._add_fragment(module_id, rollout, gone)

    def _evict(self, episode: StoredEpisode) -> None:
        lanes = [(lane, len(lane.places)) for lane in episode.lanes.values()]
        self.counts.count("evicted", lanes, env_steps=episode.env_steps, episodes=1)
        by_module: dict[str, list[int]] = {}
        for lane, _ in lanes:
            self.counts.count_episode("evicted", lane)
            by_module.setdefault(lane.module_id, []).extend(lane.places)
        for module_id, held in by_module.items():
            places = np.array(held, np.int64)
            self.pools[module_id].remove(places)
            self._tell_removed(module_id, places)

    def _add_fragment(self, module_id: str, rollout: Rollout, gone: set[str]) -> None:
        kept = [place for place, chunk in enumerate(rollout.chunks) if chunk.episode_id not in gone]
        if not kept:
            return
        steps = len(rollout.valid)
        lanes = [self._lane(rollout.chunks[place], module_id, steps) for place in kept]
        columns = {
            name: column if len(kept) == rollout.num_lanes else column[:, kept]
            for name, column in {**rollout.columns, Columns.NEXT_OBS: rollout.next_obs}.items()
            if column.dtype.kind in "biufO"
        }
        own_times = np.array([len(lane.places) for lane in lanes]) + np.arange(steps)[:, None]
        columns |= {LANE: np.tile([lane.number for lane in lanes], (steps, 1)), TIME: own_times}
        pool = self.pools.setdefault(module_id, ColumnPool())
        places = pool.add(columns, np.array([lane.tail for lane in lanes], np.int64))
        ended = columns[Columns.TERMINATEDS][-1] | columns[Columns.TRUNCATEDS][-1]
        for lane, mine, over in zip(lanes, places.T.tolist(), ended, strict=True):
            lane.places.extend(mine)
            lane.tail = -1 if over else mine[-1]
        if ENV_TIME in columns:
            for column, lane in enumerate(lanes):
                episode = self.book.episodes[lane.episode_id]
                times, mine = columns[ENV_TIME][:, column].tolist(), places[:, column].tolist()
                for time, place in zip(times, mine, strict=True):
                    episode.note(time, module_id, place)
        self._tell_stored(module_id, places.reshape(-1))

    def _lane(self, chunk: AgentChunk, module_id: str, steps: int) -> AgentLane:
        lane, is_new = self.book.lane(chunk.episode_id, chunk.agent_id, module_id)
        if is_new:
            self.counts.count_episode("added", lane)
        self.counts.count("added", [(lane, steps)])
        return lane

    # -- rows

    def rows(
        self, module_id: str, places: np.ndarray, lengths: np.ndarray, gamma: float
    ) -> dict[str, np.ndarray]:
        """Return windows of steps of a module that were drawn, and count them; see :meth:`StepColumns.windows`."""
        found = self.pools[module_id].windows(places, lengths, gamma)
        lanes = [self.book.lanes[number] for number in found[LANE].tolist()]
        self.counts.count_drawn(lanes, places, found["n_step"])
        return found

    def episodes(
        self,
        rows: Mapping[str, dict[str, np.ndarray]],
        infos: bool,
        outputs: bool,
        to_numpy: bool,
        lookback: int = 0,
    ) -> Iterator[SingleAgentEpisode]:
        """Yield an episode of one step for each row.

        Args:
            rows: Columns of windows by module id.
            infos: True to add infos.
            outputs: True to add the outputs of the modules.
            to_numpy: True for episodes that hold arrays.
            lookback: The most steps before its own that each episode remembers.
        """
        for module_id, columns in rows.items():
            held = self.pools[module_id].columns
            names = [name for name in columns if name not in NOT_OUTPUTS] if outputs else []
            has_infos = infos and Columns.INFOS in columns
            for row, number in enumerate(columns[LANE].tolist()):
                lane = self.book.lanes[number]
                made = drawn_episode(columns, row, lane, names, has_infos, held, lookback)
                yield made.to_numpy() if to_numpy else made

    def get_state(self) -> dict[str, Any]:
        """Return everything that is stored."""
        return {
            "book": self.book.get_state(),
            "pools": {module_id: pool.get_state() for module_id, pool in self.pools.items()},
            "lifetime": dict(self.counts.lifetime),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Take what :meth:`get_state` returned."""
        self.book.set_state(state["book"])
        self.pools = {}
        for module_id, saved in state["pools"].items():
            self.pools[module_id] = ColumnPool()
            self.pools[module_id].set_state(saved)
        self.counts.lifetime = dict(state["lifetime"])


def columns_of(rows: dict[str, np.ndarray], infos: bool, outputs: bool) -> dict[str, np.ndarray]:
    """Return the columns of rows that were asked for; doubles become floats.

    Args:
        rows: Columns of windows.
        infos: True to keep infos.
        outputs: True to keep the outputs of modules.

    Raises:
        ValueError: Observations or actions consist of several arrays.
    """
    nested = [name for name in (Columns.OBS, Columns.ACTIONS) if rows[name].dtype == object]
    if nested:
        raise ValueError(
            f"the {' and '.join(nested)} of these episodes are nested and fit no column; draw them with "
            "sample_episodes=True, or flatten observations with FlattenObservations() as an env_to_module_connector"
        )
    left_out = _OWN if infos else _OWN | {Columns.INFOS, NEXT_INFOS}
    return {
        name: column.astype(np.float32) if column.dtype == np.float64 else column
        for name, column in rows.items()
        if name not in left_out and (outputs or name in NOT_OUTPUTS)
    }


def _chunks_of(fragments: Fragments) -> list[AgentChunk]:
    unnamed = [
        module_id
        for module_id, rollouts in fragments.items()
        for rollout in rollouts
        if len(rollout.chunks) != rollout.num_lanes
    ]
    if unnamed:
        raise TypeError(
            f"fragments of {unnamed} do not say which agents their lanes are of; give fragments that a runner of several "
            "agents sampled, or episodes"
        )
    return [chunk for rollouts in fragments.values() for rollout in rollouts for chunk in rollout.chunks]


def _fragments_of(episode: SingleAgentEpisode | MultiAgentEpisode) -> dict[str, list[Rollout]]:
    """Return the agents' steps by module."""
    if isinstance(episode, SingleAgentEpisode):
        if not len(episode):
            return {}
        agent_id = DEFAULT_AGENT_ID if episode.agent_id is None else episode.agent_id
        chunk = AgentChunk(episode.id_, agent_id, len(episode))
        return {episode.module_id or DEFAULT_MODULE_ID: [agent_rollout(episode, chunk)]}
    found: dict[str, list[Rollout]] = {}
    for agent_id, one in episode.agent_episodes.items():
        if len(one):
            chunk = AgentChunk(episode.id_, agent_id, len(episode))
            made = agent_rollout(one, chunk, episode.times_of(agent_id))
            found.setdefault(episode.module_for(agent_id), []).append(made)
    return found


def _name(lane: AgentLane, episode: SingleAgentEpisode | MultiAgentEpisode) -> None:
    """Give a lane what only episodes know."""
    one = episode if isinstance(episode, SingleAgentEpisode) else episode.agent_episodes.get(lane.agent_id)
    if one is not None:
        lane.like = {
            "id_": one.id_,
            "agent_id": one.agent_id,
            "module_id": one.module_id,
            "multi_agent_episode_id": one.multi_agent_episode_id,
            "observation_space": one.observation_space,
            "action_space": one.action_space,
        }
