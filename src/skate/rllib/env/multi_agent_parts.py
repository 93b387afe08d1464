"""Episodes of several agents as wholes: filled from lists, sliced, put together, and as plain dicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from skate.rllib.env.episode_buffer import InfiniteLookbackBuffer
from skate.rllib.env.single_agent_episode import SingleAgentEpisode

if TYPE_CHECKING:
    from typing_extensions import Self

_PLAIN = (
    "id_", "observation_space", "action_space", "agent_to_module_mapping_fn", "env_t_started", "env_t",
    "is_terminated", "is_truncated", "_custom_data", "_pending", "_early", "_lookback", "_newest", "_modules", "_times",
    "_start_time", "_last_step_time",
)  # fmt: skip


class EpisodeParts:
    """The part of an episode of several agents that does not depend on how steps are added."""

    id_: str
    observation_space: Any
    action_space: Any
    agent_to_module_mapping_fn: Callable[..., str] | None
    env_t_started: int
    env_t: int
    agent_episodes: dict[Any, SingleAgentEpisode]
    is_terminated: bool
    is_truncated: bool
    _custom_data: dict[str, Any]
    #: What each agent did since its newest observation: action, outputs of the module, sum of rewards.
    _pending: dict[Any, dict[str, Any]]
    #: Rewards of agents from before their first observation.
    _early: dict[Any, float]
    #: Steps of the environment before this chunk that it remembers.
    _lookback: int
    #: Agents that got an observation in the last step, in the environment's order.
    _newest: list[Any]
    _modules: dict[Any, str]
    #: The step of the environment of each observation that an agent's episode holds, lookback included.
    _times: dict[Any, list[int]]
    _start_time: float | None
    _last_step_time: float | None
    _given_to: int
    add_env_reset: Callable[..., None]
    add_env_step: Callable[..., None]

    def __len__(self) -> int:
        return self.env_t - self.env_t_started

    @property
    def is_done(self) -> bool:
        """True if the episode ended for all agents."""
        return self.is_terminated or self.is_truncated

    def shallow_copy(self) -> Self:
        """Return an episode with the same agents' episodes, in a dict of its own."""
        made = self._continued()
        made.__dict__.update(self.__dict__)
        made.agent_episodes = dict(self.agent_episodes)
        return made

    def _fill(
        self,
        *,
        observations: list[Any] | None = None,
        len_lookback_buffer: int | str = "auto",
        terminateds: Any = None,
        truncateds: Any = None,
        agent_episode_ids: Mapping[Any, str] | None = None,
        agent_t_started: Mapping[Any, int] | None = None,
        **columns: list[Any] | None,
    ) -> None:
        """Put steps into a new episode.

        Args:
            observations: One dict by agent for each step, and one of the beginning.
            len_lookback_buffer: The number of steps that are lookback; ``"auto"`` for all.
            terminateds: The ends of the last step.
            truncateds: The ends of the last step.
            agent_episode_ids: Ids of the agents' episodes, by agent.
            agent_t_started: Step of its own at which an agent's chunk begins, by agent; default 0.
            columns: Lists ``actions``, ``rewards``, ``infos`` and ``extra_model_outputs``, one dict by agent for each step.

        Raises:
            ValueError: The lists do not go together, or one of them is unknown.
        """
        unknown = set(columns) - {"actions", "rewards", "infos", "extra_model_outputs"}
        if unknown:
            raise ValueError(f"an episode has no {sorted(unknown)}; see help(MultiAgentEpisode)")
        if not observations:
            return
        size = len(observations) - 1
        actions, rewards = columns.get("actions") or [], columns.get("rewards") or []
        infos = columns.get("infos") or [{} for _ in observations]
        outputs = columns.get("extra_model_outputs") or [{} for _ in range(size)]
        sizes = {"actions": len(actions), "rewards": len(rewards), "extra_model_outputs": len(outputs)}
        if any(count != size for count in sizes.values()) or len(infos) != size + 1:
            raise ValueError(
                f"{size + 1} observations go with {size} of everything else and {size + 1} infos, but {sizes} and "
                f"{len(infos)} infos were given"
            )
        lookback = size if isinstance(len_lookback_buffer, str) else min(len_lookback_buffer, size)
        started = self.env_t_started
        self.env_t_started = self.env_t = started - lookback
        steps: dict[str, list[Any]] = {"observations": observations, "actions": actions, "rewards": rewards}
        steps |= {"infos": infos, "extra_model_outputs": outputs}
        self._add_steps(steps, terminateds or {}, truncateds or {})
        if lookback:
            self.__dict__.update(self.slice(slice(lookback, None), len_lookback_buffer=lookback).__dict__)
        for agent_id, name in (agent_episode_ids or {}).items():
            if agent_id in self.agent_episodes:
                self.agent_episodes[agent_id].id_ = name
        for agent_id, start in (agent_t_started or {}).items():
            if agent_id in self.agent_episodes:
                one = self.agent_episodes[agent_id]
                one.t_started, one.t = start, start + len(one)

    def _add_steps(self, columns: dict[str, list[Any]], terminateds: Any, truncateds: Any) -> None:
        observations, actions = columns["observations"], columns["actions"]
        # An agent that does not act on an observation ended with it; with its first one, it took no part.
        gone = [
            dict.fromkeys(seen.keys() - acted.keys(), True)
            for seen, acted in zip(observations, actions, strict=False)
        ]
        first = {each: value for each, value in observations[0].items() if not gone or each not in gone[0]}
        self.add_env_reset(observations=first, infos=columns["infos"][0])
        for step in range(len(actions)):
            last = step == len(actions) - 1
            self.add_env_step(
                observations[step + 1],
                actions[step],
                columns["rewards"][step],
                columns["infos"][step + 1],
                terminateds=terminateds if last else gone[step + 1],
                truncateds=truncateds if last else {},
                extra_model_outputs=columns["extra_model_outputs"][step],
            )

    def _continued(self) -> Self:
        """Return an empty episode of the same id, spaces and modules that begins where this one stops."""
        kind: Any = type(self)
        made: Self = kind(
            self.id_,
            observation_space=self.observation_space,
            action_space=self.action_space,
            agent_to_module_mapping_fn=self.agent_to_module_mapping_fn,
            env_t_started=self.env_t,
        )
        made._modules = dict(self._modules)
        made._custom_data = dict(self._custom_data)
        return made

    def slice(self, slice_: slice, *, len_lookback_buffer: int | None = None) -> Self:
        """Return a part of this chunk as an episode of its own.

        An action whose step ends after the part hangs in it, with its reward, and is not a step.

        Args:
            slice_: Steps of the environment, without a stride; negative ones count from the end of this chunk.
            len_lookback_buffer: Steps of the environment before the part that it remembers; default as many as this
                chunk does.

        Raises:
            NotImplementedError: The slice has a stride.
        """
        if slice_.step not in (None, 1):
            raise NotImplementedError(
                f"episodes of several agents have no part with stride {slice_.step}; leave it out"
            )
        start, stop, _ = slice(slice_.start, slice_.stop).indices(len(self))
        stop = max(start, stop)
        remembered = self._lookback
        lookback = min(remembered if len_lookback_buffer is None else len_lookback_buffer, remembered + start)
        made = self._continued()
        made.env_t_started, made.env_t = self.env_t_started + start, self.env_t_started + stop
        made._lookback, made._given_to = lookback, made.env_t
        for agent_id in self.agent_episodes:
            self._add_part_of_agent(made, agent_id, made.env_t_started - lookback)
        made._newest = [each for each, times in made._times.items() if times[-1] == made.env_t]
        if stop == len(self):
            made._newest, made._early = list(self._newest), dict(self._early)
            made.is_terminated, made.is_truncated = self.is_terminated, self.is_truncated
        made._start_time, made._last_step_time = self._start_time, self._last_step_time
        return made

    def _add_part_of_agent(self, made: Self, agent_id: str | int, earliest: int) -> None:
        """Add an agent's observations from a step of the environment on to the end of the part."""
        one, times = self.agent_episodes[agent_id], self._times[agent_id]
        inside = [at for at, time in enumerate(times) if earliest <= time <= made.env_t]
        if not inside:
            return
        first, last = inside[0], inside[-1]
        before = sum(times[at] <= made.env_t_started for at in range(first + 1, last + 1))
        own = one.observations.lookback
        part = one.slice(slice(first + before - own, last - own), len_lookback_buffer=before)
        if part.is_done and first == last:
            return  # its end alone, without a step
        made.agent_episodes[agent_id] = part
        made._times[agent_id] = times[first : last + 1]
        if times[last] == made.env_t or part.is_done:
            return
        # The agent acted within the part, and its step ends later.
        if last + 1 < len(times):

            def at_last(held: InfiniteLookbackBuffer) -> Any:
                return held.get(last - own, neg_index_as_lookback=True)

            outputs = {key: at_last(held) for key, held in one.extra_model_outputs.items()}
            pending = {"action": at_last(one.actions), "reward": at_last(one.rewards), "outputs": outputs}
        else:
            pending = dict(self._pending.get(agent_id, {}))
        if pending:
            made._pending[agent_id] = pending

    def __getitem__(self, item: Any) -> Self:
        if isinstance(item, slice):
            return self.slice(item)
        raise NotImplementedError(
            f"episode[{item!r}] is not one step; write episode[a:b], or get_observations({item!r})"
        )

    def concat_episode(self, other: Self) -> None:
        """Add the steps of the chunk that follows this one.

        Args:
            other: Has the same id, and begins with the last observations of this chunk.
        """
        assert other.id_ == self.id_ and not self.is_done and other.env_t_started == self.env_t, (
            f"{other} does not follow {self}: ids have to agree, and it has to begin at step {self.env_t}"
        )
        for agent_id, theirs in other.agent_episodes.items():
            own = self.agent_episodes.get(agent_id)
            times = other._times[agent_id][theirs.observations.lookback :]
            if own is None:
                self.agent_episodes[agent_id] = theirs
                self._times[agent_id] = times
            elif not own.is_done:
                # The agent did not act on its newest observation, which the first one of the next chunk replaced.
                own.set_observations(at_indices=-1, new_data=theirs.get_observations(0))
                own.concat_episode(theirs)
                self._times[agent_id][-1:] = times
        self._pending = {agent_id: dict(pending) for agent_id, pending in other._pending.items()}
        self._early.update(other._early)
        self._newest = list(other._newest)
        self._modules.update(other._modules)
        self._custom_data.update(other._custom_data)
        self.env_t = other.env_t
        self.is_terminated = other.is_terminated
        self.is_truncated = other.is_truncated and not other.is_terminated
        self._last_step_time = other._last_step_time or self._last_step_time

    def get_state(self) -> dict[str, Any]:
        """Return this episode as a dict; it can be pickled if the mapping function can."""
        state = {name: getattr(self, name) for name in _PLAIN}
        state["agent_episodes"] = {agent_id: one.get_state() for agent_id, one in self.agent_episodes.items()}
        return state

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Return the episode that `get_state` described."""
        made = cls()
        for name in _PLAIN:
            setattr(made, name, state[name])
        made.agent_episodes = {
            agent_id: SingleAgentEpisode.from_state(one) for agent_id, one in state["agent_episodes"].items()
        }
        return made


def space_of_agent(space: Any, agent_id: Any) -> Any:
    """Return an agent's part of a Dict of spaces, or of a plain dict; None if it has none."""
    spaces = getattr(space, "spaces", space)
    return spaces.get(agent_id) if isinstance(spaces, Mapping) else None
