"""Episodes of several agents as wholes: filled from lists, sliced, put together, and as plain dicts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from skate.rllib.env.episode_buffer import InfiniteLookbackBuffer
from skate.rllib.env.single_agent_episode import SingleAgentEpisode

if TYPE_CHECKING:
    from typing_extensions import Self

# These have one more item than there are steps.
_SEEN = ("observations", "infos")
_PLAIN = (
    "id_", "observation_space", "action_space", "agent_to_module_mapping_fn", "env_t_started", "env_t",
    "is_terminated", "is_truncated", "_custom_data", "_pending", "_modules", "_times", "_start_time", "_last_step_time",
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
    #: By step of the environment; values by agent.
    _steps: dict[str, InfiniteLookbackBuffer]
    _modules: dict[Any, str]
    #: The step of the environment of each observation that an agent's episode holds, lookback included.
    _times: dict[Any, list[int]]
    _start_time: float | None
    _last_step_time: float | None
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
        **columns: list[Any] | None,
    ) -> None:
        """Put steps into a new episode.

        Args:
            observations: One dict by agent for each step, and one of the beginning.
            len_lookback_buffer: The number of steps that are lookback; ``"auto"`` for all.
            terminateds: The ends of the last step.
            truncateds: The ends of the last step.
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
        self.add_env_reset(observations=observations[0], infos=infos[0])
        for step in range(size):
            last = step == size - 1
            self.add_env_step(
                observations[step + 1],
                actions[step],
                rewards[step],
                infos[step + 1],
                terminateds=(terminateds if last else None) or {},
                truncateds=(truncateds if last else None) or {},
                extra_model_outputs=outputs[step],
            )
        if lookback:
            self.__dict__.update(self.slice(slice(lookback, None), len_lookback_buffer=lookback).__dict__)

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

        An action whose step ends after the part is kept with the rewards until then, and not as a step.

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
        remembered = self._steps["actions"].lookback
        lookback = min(remembered if len_lookback_buffer is None else len_lookback_buffer, remembered + start)
        made = self._continued()
        made.env_t_started, made.env_t = self.env_t_started + start, self.env_t_started + stop
        for name, buffer in self._steps.items():
            chosen = slice(start - lookback, stop + int(name in _SEEN))
            made._steps[name] = InfiniteLookbackBuffer(
                buffer.get(chosen, neg_index_as_lookback=True), lookback
            )
        for agent_id in self.agent_episodes:
            self._add_part_of_agent(made, agent_id, made.env_t_started - lookback)
        if stop == len(self):
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
        made.agent_episodes[agent_id] = one.slice(
            slice(first + before - own, last - own), len_lookback_buffer=before
        )
        made._times[agent_id] = times[first : last + 1]
        if times[last] == made.env_t or made.agent_episodes[agent_id].is_done:
            return
        # The agent acted within the part, and its step ends later.
        if last + 1 < len(times):
            action = one.actions.get(last - own, neg_index_as_lookback=True)
            outputs = {
                key: held.get(last - own, neg_index_as_lookback=True)
                for key, held in one.extra_model_outputs.items()
            }
        elif "action" in self._pending.get(agent_id, {}):
            action, outputs = self._pending[agent_id]["action"], self._pending[agent_id]["outputs"]
        else:
            return
        since = made._steps["rewards"]
        steps = since.data[max(times[last] - (made.env_t - since.len_incl_lookback()), 0) :]
        reward = sum(step.get(agent_id, 0.0) for step in steps)
        made._pending[agent_id] = {"reward": reward, "action": action, "outputs": outputs}

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
        for name, buffer in self._steps.items():
            if name in _SEEN:
                buffer.pop()
            buffer.concat(other._steps[name])
        self._pending = {agent_id: dict(pending) for agent_id, pending in other._pending.items()}
        self._modules.update(other._modules)
        self._custom_data.update(other._custom_data)
        self.env_t = other.env_t
        self.is_terminated = other.is_terminated
        self.is_truncated = other.is_truncated and not other.is_terminated
        self._last_step_time = other._last_step_time or self._last_step_time

    def _outputs_by_step(self, key: str) -> InfiniteLookbackBuffer:
        """Return an output of the modules with one dict by agent for each step of the environment."""
        actions = self._steps["actions"]
        steps: list[dict[Any, Any]] = [{} for _ in range(actions.len_incl_lookback())]
        origin = self.env_t - len(steps)
        for agent_id, one in self.agent_episodes.items():
            held = one.extra_model_outputs.get(key)
            for at, time in enumerate(self._times[agent_id]):
                if held is not None and at < held.len_incl_lookback() and time >= origin:
                    steps[time - origin][agent_id] = held.get(at - held.lookback, neg_index_as_lookback=True)
            pending = self._pending.get(agent_id, {}).get("outputs", {})
            time = self._times[agent_id][-1]
            if key in pending and origin <= time < self.env_t:
                steps[time - origin][agent_id] = pending[key]
        return InfiniteLookbackBuffer(steps, actions.lookback)

    def get_state(self) -> dict[str, Any]:
        """Return this episode as a dict; it can be pickled if the mapping function can."""
        state = {name: getattr(self, name) for name in _PLAIN}
        state["agent_episodes"] = {agent_id: one.get_state() for agent_id, one in self.agent_episodes.items()}
        state["steps"] = {name: buffer.get_state() for name, buffer in self._steps.items()}
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
        made._steps = {
            name: InfiniteLookbackBuffer.from_state(buffer) for name, buffer in state["steps"].items()
        }
        return made


def space_of_agent(space: Any, agent_id: Any) -> Any:
    """Return an agent's part of a Dict of spaces, or of a plain dict; None if it has none."""
    spaces = getattr(space, "spaces", space)
    return spaces.get(agent_id) if isinstance(spaces, Mapping) else None


def wanted(agent_ids: Any) -> Collection[Any] | None:
    """Return one id or several as a collection; None for all."""
    if agent_ids is None:
        return None
    return agent_ids if isinstance(agent_ids, list | set | tuple | frozenset) else [agent_ids]
