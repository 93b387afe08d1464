"""Reading and overwriting what the agents of an episode did, by steps of the environment or by the agents' own.

An agent's action belongs to the step of the environment at which it got the observation that it acts on. Its step ends
with its next observation; until then, action and rewards hang: they are read with the others and cannot be set.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator
from typing import Any

from skate.rllib.env.episode_buffer import Indices, InfiniteLookbackBuffer, one_hot
from skate.rllib.env.nested import batch
from skate.rllib.env.single_agent_episode import SingleAgentEpisode

_MISSING: Any = object()
#: No episode is that long: reading there gives what fills.
_BEYOND = 10**12
_OPTIONS = {"neg_index_as_lookback", "fill", "one_hot_discrete"}


class EpisodeReads:
    """The part of an episode of several agents that reads columns and overwrites them."""

    env_t: int
    env_t_started: int
    agent_episodes: dict[Any, SingleAgentEpisode]
    #: Steps of the environment before this chunk that it remembers.
    _lookback: int
    #: What each agent did since its newest observation: action, outputs of the module, sum of rewards.
    _pending: dict[Any, dict[str, Any]]
    #: The step of the environment of each observation that an agent's episode holds, lookback included.
    _times: dict[Any, list[int]]

    def times_of(self, agent_id: Any) -> list[int]:
        """Return the step of the environment of each of an agent's observations in this chunk."""
        return self._times[agent_id][-len(self.agent_episodes[agent_id]) - 1 :]

    def _columns(
        self, name: str, key: str | None, agent_id: Any
    ) -> Iterator[tuple[str, InfiniteLookbackBuffer, Any]]:
        """Yield a column of an agent and what hangs after its end; for outputs of the module each, or that of a key."""
        one, pending = self.agent_episodes[agent_id], self._pending.get(agent_id, {})
        acted = "action" in pending
        if name == "extra_model_outputs":
            hanging = pending["outputs"] if acted else {}
            for each in {**one.extra_model_outputs, **hanging} if key is None else (key,):
                held = one.extra_model_outputs.get(each, InfiniteLookbackBuffer())
                yield each, held, hanging.get(each, _MISSING)
            return
        hangs = pending.get(name[:-1], _MISSING) if acted and name in ("actions", "rewards") else _MISSING
        yield name, getattr(one, name), hangs

    def _get(
        self,
        name: str,
        indices: Indices,
        agent_ids: Any,
        env_steps: bool,
        return_list: bool,
        options: dict[str, Any],
        key: str | None = None,
    ) -> Any:
        unknown = options.keys() - _OPTIONS
        if unknown:
            raise TypeError(f"get_{name}() has no {sorted(unknown)}; it takes {sorted(_OPTIONS)}")
        chosen = wanted(agent_ids)
        agents = [each for each in self.agent_episodes if chosen is None or each in chosen]
        if env_steps:
            return self._by_env_step(name, key, indices, agents, return_list, options)
        if return_list:
            raise ValueError(
                f"get_{name}(env_steps=False, return_list=True) has no list to return: steps of different agents do "
                f"not go together; leave one of the two out"
            )
        found = {}
        for agent_id in agents:
            values = {
                each: _extended(held, _MISSING if indices is None else hangs).get(indices, **options)
                for each, held, hangs in self._columns(name, key, agent_id)
            }
            value = values if name == "extra_model_outputs" and key is None else next(iter(values.values()))
            if not (isinstance(value, list | dict) and not value and name != "infos"):
                found[agent_id] = value
        return found

    def _env_times(self, name: str, indices: Indices, back: bool, fills: bool) -> Any:
        """Return the steps of the environment that indices name, with ``_MISSING`` in the place of others if asked to."""
        lookback = self._lookback
        first = self.env_t_started - lookback
        # An episode of n steps has n + 1 observations and infos.
        size = self.env_t - first + (name in ("observations", "infos"))
        if indices == -1 and not back and size > 0:
            return first + size - 1
        held = InfiniteLookbackBuffer(list(range(first, first + size)), lookback)
        return held.get(indices, neg_index_as_lookback=back, fill=_MISSING if fills else None)

    def _by_env_step(
        self,
        name: str,
        key: str | None,
        indices: Indices,
        agents: list[Any],
        return_list: bool,
        options: dict[str, Any],
    ) -> Any:
        if not agents:
            return [] if return_list else {}
        fill, hot = options.get("fill"), options.get("one_hot_discrete", False)
        back = options.get("neg_index_as_lookback", False)
        times = self._env_times(name, indices, back, return_list or fill is not None)
        if not isinstance(times, list):
            found = {each: self._at_env_step(name, key, each, times, fill, hot) for each in agents}
            return {each: value for each, value in found.items() if value is not _MISSING}
        if return_list:
            steps = []
            for time in times:
                step = {each: self._at_env_step(name, key, each, time, fill, hot) for each in agents}
                steps.append({each: value for each, value in step.items() if value is not _MISSING})
            return steps
        columns = {}
        for each in agents:
            values = [self._at_env_step(name, key, each, time, fill, hot) for time in times]
            values = [value for value in values if value is not _MISSING]
            if values:
                arrays = name != "infos" and self.agent_episodes[each].is_numpy
                columns[each] = batch(values) if arrays else values
        return columns

    def _at_env_step(self, name: str, key: str | None, agent_id: Any, time: Any, fill: Any, hot: bool) -> Any:
        """Return an agent's value at a step of the environment; what fills, or ``_MISSING``, if it has none there."""
        times = self._times[agent_id]
        at = _BEYOND
        if time is not _MISSING:
            place = bisect_left(times, time)
            if place < len(times) and times[place] == time:
                at = place
        values = {}
        for each, held, hangs in self._columns(name, key, agent_id):
            value = _read(held, hangs, at, fill, hot)
            if value is not _MISSING:
                values[each] = value
        if name == "extra_model_outputs" and key is None:
            return values or _MISSING
        return next(iter(values.values()), _MISSING)

    def get_observations(
        self,
        indices: Indices = None,
        agent_ids: Any = None,
        *,
        env_steps: bool = True,
        return_list: bool = False,
        **options: Any,
    ) -> Any:
        """Return observations by agent; agents that have none at these steps are left out.

        Args:
            indices: Steps; see `InfiniteLookbackBuffer.get`. An int gives one value for each agent, others lists, or
                arrays once the episode consists of arrays.
            agent_ids: An id or several; all if None.
            env_steps: True if indices count steps of the environment, False if each agent's own.
            return_list: True for a list with one dict per step of the environment.
            options: ``neg_index_as_lookback``, ``fill`` and ``one_hot_discrete``.

        Raises:
            IndexError: An int is out of range, and no fill is given.
            ValueError: A list is asked for, by the agents' own steps.
        """  # fmt: skip
        return self._get("observations", indices, agent_ids, env_steps, return_list, options)

    def get_infos(
        self,
        indices: Indices = None,
        agent_ids: Any = None,
        *,
        env_steps: bool = True,
        return_list: bool = False,
        **options: Any,
    ) -> Any:
        """Return infos by agent; arguments as of `get_observations`."""  # fmt: skip
        return self._get("infos", indices, agent_ids, env_steps, return_list, options)

    def get_actions(
        self,
        indices: Indices = None,
        agent_ids: Any = None,
        *,
        env_steps: bool = True,
        return_list: bool = False,
        **options: Any,
    ) -> Any:
        """Return actions by agent; arguments as of `get_observations`."""  # fmt: skip
        return self._get("actions", indices, agent_ids, env_steps, return_list, options)

    def get_rewards(
        self,
        indices: Indices = None,
        agent_ids: Any = None,
        *,
        env_steps: bool = True,
        return_list: bool = False,
        **options: Any,
    ) -> Any:
        """Return rewards by agent, each the sum from an action to the next observation.

        Arguments are those of `get_observations`.
        """  # fmt: skip
        return self._get("rewards", indices, agent_ids, env_steps, return_list, options)

    def get_extra_model_outputs(
        self,
        key: str | None = None,
        indices: Indices = None,
        agent_ids: Any = None,
        *,
        env_steps: bool = True,
        return_list: bool = False,
        **options: Any,
    ) -> Any:
        """Return what the modules returned beside actions, by agent.

        Args:
            key: Name of an output; None for a dict of all for each agent.
            indices: See `get_observations`.
            agent_ids: See `get_observations`.
            env_steps: See `get_observations`.
            return_list: See `get_observations`.
            options: See `get_observations`.
        """
        return self._get("extra_model_outputs", indices, agent_ids, env_steps, return_list, options, key)

    def _set(self, name: str, new_data: dict[Any, Any], options: dict[str, Any]) -> None:
        for agent_id in new_data:
            if agent_id not in self.agent_episodes:
                raise KeyError(
                    f"agent {agent_id!r} is not in this episode; its agents are {list(self.agent_episodes)}"
                )
        for agent_id, values in new_data.items():
            getattr(self.agent_episodes[agent_id], f"set_{name}")(new_data=values, **options)

    def set_observations(
        self, *, new_data: dict[Any, Any], at_indices: Indices = None, neg_index_as_lookback: bool = False
    ) -> None:
        """Overwrite observations of some agents.

        Args:
            new_data: By agent; for each see `InfiniteLookbackBuffer.set`.
            at_indices: Steps of each agent's own; None for all but the lookback.
            neg_index_as_lookback: True if negative indices count back from index 0, not from the end.

        Raises:
            KeyError: An agent is not in this episode; nothing is changed then.
            IndexError: An index is out of range, or the number of items differs.
        """
        options = {"at_indices": at_indices, "neg_index_as_lookback": neg_index_as_lookback}
        self._set("observations", new_data, options)

    def set_actions(
        self, *, new_data: dict[Any, Any], at_indices: Indices = None, neg_index_as_lookback: bool = False
    ) -> None:
        """Overwrite actions of some agents; arguments and errors as of `set_observations`."""
        options = {"at_indices": at_indices, "neg_index_as_lookback": neg_index_as_lookback}
        self._set("actions", new_data, options)

    def set_rewards(
        self, *, new_data: dict[Any, Any], at_indices: Indices = None, neg_index_as_lookback: bool = False
    ) -> None:
        """Overwrite rewards of some agents; arguments and errors as of `set_observations`."""
        options = {"at_indices": at_indices, "neg_index_as_lookback": neg_index_as_lookback}
        self._set("rewards", new_data, options)

    def set_extra_model_outputs(
        self,
        *,
        key: str,
        new_data: dict[Any, Any],
        at_indices: Indices = None,
        neg_index_as_lookback: bool = False,
    ) -> None:
        """Overwrite one output of the modules of some agents.

        Args:
            key: Name of the output.
            new_data: See `set_observations`.
            at_indices: See `set_observations`.
            neg_index_as_lookback: See `set_observations`.

        Raises:
            KeyError: An agent is not in this episode.
            AssertionError: Its module has no output of that name.
            IndexError: An index is out of range, or the number of items differs.
        """
        options = {"key": key, "at_indices": at_indices, "neg_index_as_lookback": neg_index_as_lookback}
        self._set("extra_model_outputs", new_data, options)


def _extended(held: InfiniteLookbackBuffer, hangs: Any) -> InfiniteLookbackBuffer:
    """Return a column with one value more at its end, if there is one."""
    if hangs is _MISSING:
        return held
    data = held.data if held.finalized else list(held.data)
    made = InfiniteLookbackBuffer(data, held.lookback, held.space)
    made.append(hangs)
    return made


def _read(held: InfiniteLookbackBuffer, hangs: Any, at: int, fill: Any, hot: bool) -> Any:
    """Return the value at a position that counts from the beginning of the lookback."""
    size = held.len_incl_lookback()
    if at < size:
        return held.get(at - held.lookback, neg_index_as_lookback=True, one_hot_discrete=hot)
    if at == size and hangs is not _MISSING:
        return one_hot(hangs, held.space) if hot and held.space is not None else hangs
    return _MISSING if fill is None else held.get(_BEYOND, fill=fill, one_hot_discrete=hot)


def wanted(agent_ids: Any) -> Collection[Any] | None:
    """Return one id or several as a collection; None for all."""
    if agent_ids is None:
        return None
    return agent_ids if isinstance(agent_ids, list | set | tuple | frozenset) else [agent_ids]
