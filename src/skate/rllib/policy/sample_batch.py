"""SampleBatch: columns of equal length under the names of Columns."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from numbers import Number
from typing import Any

import numpy as np

from skate.rllib.core import DEFAULT_POLICY_ID
from skate.rllib.core.columns import Columns

__all__ = [
    "DEFAULT_POLICY_ID", "MultiAgentBatch", "SampleBatch", "concat_samples", "concat_samples_into_ma_batch",
    "convert_ma_batch_to_sample_batch",
]  # fmt: skip

#: Columns that have one row per sequence, in a batch of sequences.
_OF_SEQUENCES = (Columns.SEQ_LENS, "state_in_")
#: Columns whose length says nothing about the number of steps.
_UNCOUNTED = (Columns.SEQ_LENS, Columns.INFOS, "state_in_", "state_out_")


class SampleBatch(dict[str, Any]):
    """A dict of columns: arrays, or nested dicts of them, with one row per step.

    Batches of the new API stack are plain dicts of columns; this one is for modules and programs that use its names. Lists
    become arrays, apart from infos. With the column ``seq_lens`` the steps are sequences of these lengths, one after another.

    Args:
        *args: As of ``dict``.
        **kwargs: As of ``dict``.
    """

    OBS, NEXT_OBS, INFOS = Columns.OBS, Columns.NEXT_OBS, Columns.INFOS
    ACTIONS, REWARDS = Columns.ACTIONS, Columns.REWARDS
    TERMINATEDS, TRUNCATEDS = Columns.TERMINATEDS, Columns.TRUNCATEDS
    EPS_ID, T, SEQ_LENS = Columns.EPS_ID, Columns.T, Columns.SEQ_LENS
    ACTION_DIST_INPUTS, ACTION_PROB, ACTION_LOGP = (
        Columns.ACTION_DIST_INPUTS,
        Columns.ACTION_PROB,
        Columns.ACTION_LOGP,
    )
    VF_PREDS, VALUES_BOOTSTRAPPED = Columns.VF_PREDS, Columns.VALUES_BOOTSTRAPPED
    CUR_OBS = "obs"
    PREV_ACTIONS, PREV_REWARDS = "prev_actions", "prev_rewards"
    AGENT_INDEX, ENV_ID, UNROLL_ID, DONES = "agent_index", "env_id", "unroll_id", "dones"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        lengths = dict.get(self, Columns.SEQ_LENS)
        if Columns.SEQ_LENS in self and (lengths is None or len(lengths) == 0):
            del self[Columns.SEQ_LENS]
        elif isinstance(lengths, list):
            self[Columns.SEQ_LENS] = np.array(lengths, np.int32)
        for name, column in self.items():
            if isinstance(column, list | Number) and name != Columns.INFOS:
                self[name] = np.array(column)

    @property
    def count(self) -> int:
        """The number of steps."""
        lengths = dict.get(self, Columns.SEQ_LENS)
        return _rows(self) if lengths is None else int(sum(lengths))

    @property
    def max_seq_len(self) -> int | None:
        """The length of the longest sequence; None without sequences."""
        lengths = dict.get(self, Columns.SEQ_LENS)
        return None if lengths is None else int(max(lengths))

    def __len__(self) -> int:
        return self.count

    def __bool__(self) -> bool:
        return bool(self.keys())

    def __repr__(self) -> str:
        names = [name for name in self if name != Columns.SEQ_LENS]
        sequences = f" (seqs={len(self[Columns.SEQ_LENS])})" if Columns.SEQ_LENS in self else ""
        return f"SampleBatch({self.count}{sequences}: {names})"

    def __getitem__(self, key: Any) -> Any:
        """Return a column, or the steps of a slice as a batch, without copies.

        A slice of a batch of sequences begins and ends with whole ones.
        """
        if isinstance(key, slice):
            return self._steps(key.start or 0, key.stop or len(self))
        # The old name of the end of an episode.
        return super().__getitem__(Columns.TERMINATEDS if key == self.DONES and key not in self else key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a column, or a default.

        Args:
            key: The name of the column.
            default: What to return if there is none.
        """
        return self[key] if key in self or (key == self.DONES and Columns.TERMINATEDS in self) else default

    def _steps(self, start: int, stop: int) -> SampleBatch:
        lengths = dict.get(self, Columns.SEQ_LENS)
        if lengths is None:
            return self.slice(start, stop)
        ends = np.cumsum(np.asarray(lengths))
        first, last = (
            int(ends.searchsorted(step, side="right")) for step in (start, min(stop, int(ends[-1])))
        )
        steps = slice(*(int(ends[at - 1]) if at else 0 for at in (first, last)))
        return SampleBatch(
            {
                name: _changed(
                    column,
                    operator.itemgetter(slice(first, last) if name.startswith(_OF_SEQUENCES) else steps),
                )
                for name, column in self.items()
            }
        )

    def env_steps(self) -> int:
        """Return the number of steps."""
        return self.count

    agent_steps = env_steps

    def slice(self, start: int, end: int) -> SampleBatch:
        """Return a batch of some of the steps, without copies.

        Args:
            start: The first step.
            end: The step after the last.
        """
        if Columns.SEQ_LENS in self:
            return self._steps(start, end)
        return SampleBatch(_each(self, lambda column: column[start:end]))

    def timeslices(
        self, size: int | None = None, num_slices: int | None = None, k: int | None = None
    ) -> list[SampleBatch]:
        """Return the steps as several batches, without copies.

        Args:
            size: Steps of each batch; the last one may have fewer.
            num_slices: Number of batches, in the place of `size`.
            k: The old name of `size`.

        Raises:
            ValueError: neither size nor number is given.
        """
        size = k if size is None else size
        count = self.count
        cuts: Any
        if size is not None:
            cuts = range(0, count + size, size)
        elif num_slices is not None:
            cuts = [count * at // num_slices for at in range(num_slices + 1)]
        else:
            raise ValueError("timeslices() needs a size, or the number of slices")
        # A stop of zero is a missing one, for a slice.
        return [
            self._steps(start, min(stop, count)) for start, stop in _pairs(cuts) if start < min(stop, count)
        ]

    def split_by_episode(self, key: str | None = None) -> list[SampleBatch]:
        """Return one batch for each episode, without copies.

        Args:
            key: ``"eps_id"`` to cut where ids change, ``"dones"`` where episodes end. Default: ids, if there are any.

        Raises:
            KeyError: the batch has no such column.
            ValueError: the key is another one.
        """
        if key not in (None, Columns.EPS_ID, self.DONES):
            raise ValueError(
                f"key={key!r}; use 'eps_id' or 'dones', or none for the first of them that there is"
            )
        if key == Columns.EPS_ID or (key is None and Columns.EPS_ID in self):
            names = np.asarray(self[Columns.EPS_ID])
            ends = np.flatnonzero(names[1:] != names[:-1]) + 1
        else:
            ends = np.flatnonzero(self._ended()) + 1
        return [self._steps(start, stop) for start, stop in _pairs([0, *ends, self.count]) if start < stop]

    def _ended(self) -> np.ndarray:
        truncated = dict.get(self, Columns.TRUNCATEDS)
        ended = np.asarray(self[Columns.TERMINATEDS], bool)
        return ended if truncated is None else ended | np.asarray(truncated, bool)

    def is_terminated_or_truncated(self) -> bool:
        """Return True if an episode ends with the last step."""
        return bool(self._ended()[-1])

    def is_single_trajectory(self) -> bool:
        """Return True if no episode ends before the last step."""
        return not self._ended()[:-1].any()

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a dict of values for each step; the length of a sequence is 1 in it."""
        columns = {name: column for name, column in self.items() if name != Columns.SEQ_LENS}
        one = {Columns.SEQ_LENS: 1} if Columns.SEQ_LENS in self else {}
        for at in range(self.count):
            yield _each(columns, operator.itemgetter(at)) | one

    def columns(self, keys: Iterable[str]) -> list[Any]:
        """Return columns, in the order of their names.

        Args:
            keys: The names.
        """
        return [self[key] for key in keys]

    def shuffle(self) -> SampleBatch:
        """Put the steps in another order, the same in all columns, and return this batch.

        Raises:
            ValueError: the steps are sequences, which would fall apart.
        """
        if Columns.SEQ_LENS in self:
            raise ValueError(
                "shuffle() would tear the sequences of this batch apart; delete 'seq_lens' first"
            )
        order = np.random.permutation(self.count)
        self.update(_taken(self, order.tolist()))
        return self

    def copy(self, shallow: bool = False) -> SampleBatch:
        """Return a batch with the same columns.

        Args:
            shallow: True to share the arrays.
        """
        return SampleBatch(
            _each(
                self,
                lambda column: column.copy() if isinstance(column, np.ndarray) and not shallow else column,
            )
        )

    def concat(self, other: SampleBatch) -> SampleBatch:
        """Return a batch with the steps of this one and of another.

        Args:
            other: A batch with the same columns.
        """
        joined: SampleBatch = concat_samples([self, other])
        return joined

    def size_bytes(self) -> int:
        """Return the bytes of all columns."""
        return sum(
            column.nbytes if isinstance(column, np.ndarray) else sys.getsizeof(column)
            for column in _leaves(self)
        )

    def as_multi_agent(self, module_id: str | None = None) -> MultiAgentBatch:
        """Return a batch of several modules that has this one.

        Args:
            module_id: The module that the rows are for. Default: ``"default_policy"``.
        """
        return MultiAgentBatch({module_id or DEFAULT_POLICY_ID: self}, self.count)


class MultiAgentBatch:
    """Batches by module.

    Args:
        policy_batches: The batches, by module id.
        env_steps: Steps of environments that they come from.
    """

    def __init__(self, policy_batches: Mapping[Any, SampleBatch], env_steps: int) -> None:
        self.policy_batches: dict[Any, SampleBatch] = dict(policy_batches)
        self.count = env_steps

    def __getitem__(self, module_id: Any) -> SampleBatch:
        return self.policy_batches[module_id]

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return f"MultiAgentBatch({self.policy_batches}, env_steps={self.count})"

    def env_steps(self) -> int:
        """Return the steps of environments."""
        return self.count

    def agent_steps(self) -> int:
        """Return the rows of all modules together."""
        return sum(batch.count for batch in self.policy_batches.values())

    def size_bytes(self) -> int:
        """Return the bytes of all columns of all modules."""
        return sum(batch.size_bytes() for batch in self.policy_batches.values())

    def copy(self) -> MultiAgentBatch:
        """Return a batch with copies of all arrays."""
        return MultiAgentBatch(
            {name: batch.copy() for name, batch in self.policy_batches.items()}, self.count
        )

    def as_multi_agent(self) -> MultiAgentBatch:
        """Return this batch."""
        return self

    @staticmethod
    def wrap_as_needed(
        policy_batches: Mapping[Any, SampleBatch], env_steps: int
    ) -> SampleBatch | MultiAgentBatch:
        """Return the batch of the default module if it is the only one, and else a batch of several modules.

        Args:
            policy_batches: The batches, by module id.
            env_steps: Steps of environments that they come from.
        """
        if list(policy_batches) == [DEFAULT_POLICY_ID]:
            return policy_batches[DEFAULT_POLICY_ID]
        return MultiAgentBatch(policy_batches, env_steps)

    def timeslices(self, k: int) -> list[MultiAgentBatch]:
        """Return batches of some steps of environments, each with the rows of all modules at these steps.

        Rows belong to the same step if their episode and their number in it are the same, so ``eps_id`` and ``t`` have to be
        among the columns. Episodes come in the order of their ids.

        Args:
            k: Steps of each batch; the last one may have fewer.
        """
        steps: dict[tuple[Any, Any], dict[Any, list[int]]] = {}
        for module_id, batch in self.policy_batches.items():
            agents = batch.get(SampleBatch.AGENT_INDEX)
            order = range(batch.count) if agents is None else np.argsort(agents, kind="stable").tolist()
            names, times = batch[Columns.EPS_ID].tolist(), batch[Columns.T].tolist()
            for row in order:
                steps.setdefault((names[row], times[row]), {}).setdefault(module_id, []).append(row)
        ordered = [steps[step] for step in sorted(steps)]
        slices = []
        for start in range(0, len(ordered), k):
            rows: dict[Any, list[int]] = {}
            for step in ordered[start : start + k]:
                for module_id, found in step.items():
                    rows.setdefault(module_id, []).extend(found)
            parts = {
                module_id: SampleBatch(_taken(self.policy_batches[module_id], chosen))
                for module_id, chosen in rows.items()
            }
            slices.append(MultiAgentBatch(parts, len(ordered[start : start + k])))
        return slices


def concat_samples(samples: list[Any]) -> Any:
    """Return one batch with the steps of all.

    Args:
        samples: Batches with the same columns; those without steps are left out. If one is of several modules, all are joined by
            module.
    """
    if any(isinstance(batch, MultiAgentBatch) for batch in samples):
        return concat_samples_into_ma_batch(samples)
    samples = [batch for batch in samples if batch.count]
    if not samples:
        return SampleBatch()
    return SampleBatch({name: _joined([batch[name] for batch in samples]) for name in samples[0]})


def concat_samples_into_ma_batch(samples: list[Any]) -> MultiAgentBatch:
    """Return one batch of several modules with the steps of all.

    Args:
        samples: Batches of several modules, or of the default one.

    Raises:
        ValueError: one is of another type.
    """
    parts: dict[Any, list[SampleBatch]] = {}
    steps = 0
    for batch in samples:
        if not isinstance(batch, SampleBatch | MultiAgentBatch):
            raise ValueError(f"only batches can be joined, and one is a {type(batch).__name__}")
        if isinstance(batch, SampleBatch) and not batch.count:
            continue
        of_several = batch.as_multi_agent()
        steps += of_several.count
        for module_id, rows in of_several.policy_batches.items():
            parts.setdefault(module_id, []).append(rows)
    return MultiAgentBatch({module_id: concat_samples(rows) for module_id, rows in parts.items()}, steps)


def convert_ma_batch_to_sample_batch(batch: Any) -> SampleBatch:
    """Return a batch of the default module as a plain one.

    Args:
        batch: A batch of several modules, or a plain one, which is returned.

    Raises:
        ValueError: the batch has rows of other modules.
    """
    if not isinstance(batch, MultiAgentBatch):
        plain: SampleBatch = batch
        return plain
    if list(batch.policy_batches) != [DEFAULT_POLICY_ID]:
        raise ValueError(
            f"the batch has rows of the modules {list(batch.policy_batches)}, not of one default module"
        )
    return batch.policy_batches[DEFAULT_POLICY_ID]


def _rows(columns: Mapping[str, Any]) -> int:
    for name, column in columns.items():
        if str(name).startswith(_UNCOUNTED):
            continue
        found = _rows(column) if isinstance(column, Mapping) else _length(column)
        if found:
            return found
    return 0


def _length(column: Any) -> int:
    if isinstance(column, tuple):
        return _length(column[0]) if column else 0
    return len(column) if hasattr(column, "__len__") else 0


def _pairs(cuts: Any) -> list[tuple[int, int]]:
    return [(int(start), int(stop)) for start, stop in zip(cuts, cuts[1:], strict=False)]


def _changed(column: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(column, Mapping):
        return _each(column, change)
    return tuple(_changed(part, change) for part in column) if isinstance(column, tuple) else change(column)


def _each(columns: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    return {name: _changed(column, change) for name, column in columns.items()}


def _taken(columns: Mapping[str, Any], rows: list[int]) -> dict[str, Any]:
    of_steps = {name: column for name, column in columns.items() if name != Columns.SEQ_LENS}
    taken = _each(
        of_steps, lambda column: [column[at] for at in rows] if isinstance(column, list) else column[rows]
    )
    return taken | ({Columns.SEQ_LENS: np.ones(len(rows), np.int32)} if Columns.SEQ_LENS in columns else {})


def _leaves(column: Any) -> Iterator[Any]:
    if isinstance(column, Mapping | tuple):
        for part in column.values() if isinstance(column, Mapping) else column:
            yield from _leaves(part)
    else:
        yield column


def _joined(parts: list[Any]) -> Any:
    first = parts[0]
    if isinstance(first, Mapping):
        return {name: _joined([part[name] for part in parts]) for name in first}
    if isinstance(first, tuple):
        return tuple(_joined(list(column)) for column in zip(*parts, strict=True))
    if isinstance(first, list):
        return [value for part in parts for value in part]
    if isinstance(first, np.ndarray):
        return np.concatenate(parts)
    # Imported here because batches of arrays need no torch.
    import torch

    return torch.cat(parts)
