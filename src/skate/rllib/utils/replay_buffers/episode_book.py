"""EpisodeBook: the episodes of a replay buffer, the oldest first, and the lanes of their agents."""

from __future__ import annotations

import dataclasses
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class AgentLane:
    """The steps of one agent in one episode.

    Attributes:
        number: A number of its own, never used again.
        tail: The place of its newest step; -1 if it has none, or has ended.
        places: The places of its steps.
        like: Arguments that an episode of these steps is made with.
    """

    number: int
    agent_id: Any
    module_id: str
    episode_id: str
    tail: int = -1
    places: array[int] = field(default_factory=lambda: array("q"))
    like: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class StoredEpisode:
    """An episode of all agents.

    Attributes:
        env_steps: Steps of the environment.
        lanes: By agent.
        at: By step of the environment, the modules and places of the agents' steps that begin there; empty if the
            samples did not say.
        times: The steps of the environment in it.
    """

    id_: str
    env_steps: int = 0
    lanes: dict[Any, AgentLane] = field(default_factory=dict)
    at: dict[int, list[tuple[str, int]]] = field(default_factory=dict)
    times: list[int] = field(default_factory=list)

    def note(self, time: int, module_id: str, place: int) -> None:
        """Note where a step of an agent is that begins at a step of the environment."""
        if time not in self.at:
            self.at[time] = []
            self.times.append(time)
        self.at[time].append((module_id, place))


class EpisodeBook:
    """Keeps so many episodes that their steps fit, and evicts the oldest ones as wholes.

    Args:
        capacity: Steps of the environment.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.episodes: OrderedDict[str, StoredEpisode] = OrderedDict()
        self.lanes: dict[int, AgentLane] = {}
        self.env_steps = 0
        self.num_lanes = 0

    def take(self, arriving: Mapping[str, int], gone: set[str]) -> tuple[list[str], list[StoredEpisode]]:
        """Make room for parts of episodes, and add their steps to the account.

        The only episode stays even if it is too long. Of an episode that has to go, a part that arrives goes as well.

        Args:
            arriving: Steps of the environment by the episode's id.
            gone: Ids of episodes whose parts do not stay; those that are evicted are added.

        Returns:
            The ids of the episodes that are new, and those that were evicted.
        """
        begun, evicted = [], []
        for id_, steps in arriving.items():
            while (
                id_ not in gone
                and self.env_steps + steps > self.capacity
                and len(self.episodes) + (id_ not in self.episodes) > 1
            ):
                _, oldest = self.episodes.popitem(last=False)
                self.env_steps -= oldest.env_steps
                gone.add(oldest.id_)
                evicted.append(oldest)
            if id_ in gone:
                continue
            if id_ not in self.episodes:
                self.episodes[id_] = StoredEpisode(id_)
                begun.append(id_)
            self.episodes[id_].env_steps += steps
            self.env_steps += steps
        for episode in evicted:
            for lane in episode.lanes.values():
                del self.lanes[lane.number]
        return begun, evicted

    def lane(self, episode_id: str, agent_id: Any, module_id: str) -> tuple[AgentLane, bool]:
        """Return an agent's lane, and True if it is a new one."""
        episode = self.episodes[episode_id]
        lane = episode.lanes.get(agent_id)
        if lane is not None:
            return lane, False
        lane = AgentLane(self.num_lanes, agent_id, module_id, episode_id)
        lane.like = {
            "id_": f"{episode_id}_{agent_id}",
            "agent_id": agent_id,
            "module_id": module_id,
            "multi_agent_episode_id": episode_id,
        }
        episode.lanes[agent_id] = self.lanes[lane.number] = lane
        self.num_lanes += 1
        return lane, True

    def __iter__(self) -> Iterator[StoredEpisode]:
        return iter(self.episodes.values())

    def __len__(self) -> int:
        return len(self.episodes)

    def get_state(self) -> dict[str, Any]:
        """Return the whole account as plain values."""
        fields = [each.name for each in dataclasses.fields(AgentLane)]
        return {
            "env_steps": self.env_steps,
            "num_lanes": self.num_lanes,
            "episodes": [
                {
                    "id_": each.id_,
                    "env_steps": each.env_steps,
                    "at": {time: list(held) for time, held in each.at.items()},
                    "lanes": [
                        {name: getattr(lane, name) for name in fields} | {"places": lane.places[:]}
                        for lane in each.lanes.values()
                    ],
                }
                for each in self
            ],
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Take what :meth:`get_state` returned."""
        self.env_steps, self.num_lanes = state["env_steps"], state["num_lanes"]
        self.episodes.clear()
        self.lanes.clear()
        for saved in state["episodes"]:
            lanes = [AgentLane(**{**each, "places": each["places"][:]}) for each in saved["lanes"]]
            episode = StoredEpisode(
                saved["id_"],
                saved["env_steps"],
                {lane.agent_id: lane for lane in lanes},
                {time: list(held) for time, held in saved["at"].items()},
                list(saved["at"]),
            )
            self.episodes[episode.id_] = episode
            self.lanes |= {lane.number: lane for lane in lanes}
