"""SampleBatch: columns of equal length under the names of Columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from skate.rllib.core import DEFAULT_POLICY_ID
from skate.rllib.core.columns import Columns

__all__ = ["DEFAULT_POLICY_ID", "MultiAgentBatch", "SampleBatch", "concat_samples"]


class SampleBatch(dict[str, Any]):
    """A dict of columns: arrays, or nested dicts of them, with one row per step.

    Batches of the new API stack are plain dicts of columns; this one is for modules and programs that use its names.

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

    @property
    def count(self) -> int:
        """The number of rows."""
        return _rows(self)

    def __len__(self) -> int:
        return _rows(self)

    def __bool__(self) -> bool:
        return bool(self.keys())

    def env_steps(self) -> int:
        """Return the number of rows."""
        return _rows(self)

    agent_steps = env_steps

    def slice(self, start: int, end: int) -> SampleBatch:
        """Return a batch of some of the rows, without copies.

        Args:
            start: The first row.
            end: The row after the last.
        """
        return SampleBatch(_each(self, lambda column: column[start:end]))

    def as_multi_agent(self, module_id: str = DEFAULT_POLICY_ID) -> MultiAgentBatch:
        """Return a batch of several modules that has this one.

        Args:
            module_id: The module that the rows are for.
        """
        return MultiAgentBatch({module_id: self}, self.count)


class MultiAgentBatch:
    """Batches by module.

    Args:
        policy_batches: The batches, by module id.
        env_steps: Steps of environments that they come from.
    """

    def __init__(self, policy_batches: Mapping[str, SampleBatch], env_steps: int) -> None:
        self.policy_batches = dict(policy_batches)
        self.count = env_steps

    def __getitem__(self, module_id: str) -> SampleBatch:
        return self.policy_batches[module_id]

    def __len__(self) -> int:
        return self.count

    def env_steps(self) -> int:
        """Return the steps of environments."""
        return self.count

    def agent_steps(self) -> int:
        """Return the rows of all modules together."""
        return sum(batch.count for batch in self.policy_batches.values())


def concat_samples(samples: list[SampleBatch]) -> SampleBatch:
    """Return one batch with the rows of all.

    Args:
        samples: Batches with the same columns.
    """
    columns = {name: [batch[name] for batch in samples] for name in samples[0]}
    return SampleBatch({name: np.concatenate(parts) for name, parts in columns.items()})


def _rows(columns: Mapping[str, Any]) -> int:
    for name, column in columns.items():
        if name == Columns.SEQ_LENS:
            continue
        if isinstance(column, Mapping):
            return _rows(column)
        return len(column)
    return 0


def _each(columns: Mapping[str, Any], change: Any) -> dict[str, Any]:
    return {
        name: _each(column, change) if isinstance(column, Mapping) else change(column)
        for name, column in columns.items()
    }
