"""Learners that update together: shares of a batch, and gradients averaged over all of them."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed

import skate
from skate.rllib.policy.sample_batch import MultiAgentBatch

_TIMEOUT = timedelta(minutes=5)


class PeerLost(RuntimeError):
    """Another learner is gone, so that gradients cannot be averaged."""


class GradientGroup:
    """Sums tensors over all learners, through sockets of this machine or of the network.

    Args:
        host: Address of the first learner.
        port: A free port there.
        rank: Number of this learner; the first is 0.
        size: Number of learners.
    """

    def __init__(self, host: str, port: int, rank: int, size: int) -> None:
        self.size = size
        store = distributed.TCPStore(  # type: ignore[attr-defined]
            host, port, size, is_master=rank == 0, timeout=_TIMEOUT, wait_for_workers=False
        )
        # A group of its own: the program may use torch's default group for something else.
        self._group: Any = distributed.ProcessGroupGloo(store, rank, size, _TIMEOUT)

    def close(self) -> None:
        """Close the sockets to the other learners."""
        self._group = None

    def average(self, gradients: Sequence[Tensor]) -> None:
        """Replace the gradients by their means over all learners, in place.

        Raises:
            PeerLost: Another learner has died, or has left the group after an error.
        """
        flat = torch.cat([gradient.reshape(-1).to("cpu") for gradient in gradients])
        try:
            self._group.allreduce([flat]).wait()
        except RuntimeError as error:
            raise PeerLost(f"another learner is gone: {error}") from error
        flat /= self.size
        start = 0
        for gradient in gradients:
            part = flat[start : start + gradient.numel()]
            gradient.copy_(part.reshape(gradient.shape))
            start += gradient.numel()


class Peer:
    """A learner in a process of its own."""

    def __init__(self, config: Any, module_spec: Any, state: dict[str, Any]) -> None:
        self._learner = config.learner_class(config=config, module_spec=module_spec)
        self._learner.build()
        self._learner.set_state(state)

    def join(self, host: str, port: int, rank: int, size: int) -> None:
        """Average gradients with the others from now on."""
        self._learner.gradient_group = GradientGroup(host, port, rank, size)

    def update(self, rollouts: Any, kwargs: dict[str, Any]) -> Any:
        """Update on this learner's share."""
        try:
            return self._learner.update(rollouts, **kwargs)
        except (
            BaseException
        ):  # the others would wait for this learner's gradients; without its sockets they end at once
            self._learner.gradient_group.close()
            raise

    def ping(self) -> None:
        """Return once the learner is made."""

    def call(self, func: Any, kwargs: dict[str, Any]) -> Any:
        """Call a function with the learner, or a method by its name."""
        return call_with(self._learner, func, kwargs)


def call_with(learner: Any, func: Any, kwargs: Mapping[str, Any]) -> Any:
    """Call a function with a learner, or a method of the learner by its name."""
    return getattr(learner, func)(**kwargs) if isinstance(func, str) else func(learner, **kwargs)


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as listener:
        listener.bind(("", 0))
        port: int = listener.getsockname()[1]
        return port


def without_references(given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of an update with one batch, or episodes, in the place of several batches and references.

    Args:
        given: The arguments.

    Raises:
        ValueError: More than one kind of samples was given.
    """
    kinds = ("batch", "batches", "batch_refs", "episodes", "episodes_refs")
    named = [name for name in kinds if given.get(name) is not None]
    if len(named) > 1:
        raise ValueError(f"an update takes one kind of samples, got {' and '.join(named)}")
    made = {name: value for name, value in given.items() if name not in kinds}
    if not named:
        return made
    name, samples = named[0], given[named[0]]
    if name.endswith("_refs"):
        samples = skate.get(list(samples))
    if name == "episodes_refs":
        samples = [episode for part in samples for episode in (part if isinstance(part, list) else [part])]
    elif name in ("batches", "batch_refs"):
        samples = joined(samples)
    return {**made, "episodes" if name.startswith("episodes") else "batch": samples}


def joined(batches: Sequence[Any]) -> Any:
    """Return one batch with the rows of all.

    Args:
        batches: Columns, or dicts of them by module id, not all of which have to have all modules.
    """
    if isinstance(batches[0], MultiAgentBatch):
        rows = joined([batch.policy_batches for batch in batches])
        return MultiAgentBatch(rows, sum(batch.count for batch in batches))
    if isinstance(batches[0], Mapping):
        names = dict.fromkeys(name for batch in batches for name in batch)
        return {name: joined([batch[name] for batch in batches if name in batch]) for name in names}
    if isinstance(batches[0], Tensor):
        return torch.cat(list(batches))
    return np.concatenate(batches)


def shares_of(given: Any, count: int) -> list[Any]:
    """Split what an update was given into one share per learner.

    Fragments are split by lanes, or by time if they have fewer lanes than there are learners; batches by rows.

    Args:
        given: Fragments, columns, or dicts of them by module id.
        count: Number of learners.
    """
    if isinstance(given, MultiAgentBatch):
        given = given.policy_batches
    if isinstance(given, Mapping):
        parts = {name: shares_of(value, count) for name, value in given.items()}
        return [{name: part[index] for name, part in parts.items()} for index in range(count)]
    if isinstance(given, np.ndarray | Tensor):
        return [
            given[rows[0] : rows[-1] + 1] if len(rows) else given[:0] for rows in _ranges(len(given), count)
        ]
    shares: list[list[Any]] = [[] for _ in range(count)]
    for rollout in given:
        steps, lanes = rollout.valid.shape
        if lanes < count and rollout.state_in is not None:
            raise ValueError(
                f"a fragment of {lanes} lanes cannot be split among {count} learners, since its module has memory; "
                "set num_envs_per_env_runner to the number of learners or more"
            )
        by_lanes = lanes >= count
        for share, rows in zip(shares, _ranges(lanes if by_lanes else steps, count), strict=True):
            if len(rows):
                share.append(_cut(rollout, rows, by_lanes))
    return shares


def shares_of_episodes(episodes: Sequence[Any], count: int) -> list[list[Any]]:
    """Split episodes into one share per learner, of about equally many steps.

    Episodes of equal length keep their order within each module, so that errors of their rows can be put together again.

    Args:
        episodes: Episodes, each of which goes to one learner.
        count: Number of learners.

    Raises:
        ValueError: Fewer episodes than learners were given.
    """
    if len(episodes) < count:
        raise ValueError(
            f"{len(episodes)} episodes cannot be split among {count} learners; sample more, or set num_learners lower"
        )
    shares: list[list[Any]] = [[] for _ in range(count)]
    if len({len(episode) for episode in episodes}) == 1:
        by_module: dict[Any, list[Any]] = {}
        for episode in episodes:
            by_module.setdefault(getattr(episode, "module_id", None), []).append(episode)
        for mine in by_module.values():
            for share, rows in zip(shares, _ranges(len(mine), count), strict=True):
                share.extend(mine[row] for row in rows)
        return shares
    for episode in sorted(episodes, key=len, reverse=True):
        min(shares, key=lambda share: (sum(len(each) for each in share), len(share))).append(episode)
    return shares


def _ranges(length: int, count: int) -> list[np.ndarray]:
    return np.array_split(np.arange(length), count)


def _cut(rollout: Any, rows: np.ndarray, by_lanes: bool) -> Any:
    chosen = slice(int(rows[0]), int(rows[-1]) + 1)
    place = (slice(None), chosen) if by_lanes else (chosen,)
    return replace(
        rollout,
        columns={name: column[place] for name, column in rollout.columns.items()},
        valid=rollout.valid[place],
        next_obs=rollout.next_obs[place],
        state_in=None if rollout.state_in is None else _lanes_of(rollout.state_in, chosen),
        piece_states=None,
    )


def _lanes_of(state: Mapping[str, Any], chosen: slice) -> dict[str, Any]:
    return {n: _lanes_of(v, chosen) if isinstance(v, Mapping) else v[chosen] for n, v in state.items()}


def steps_of(share: Any) -> int:
    """Return the most steps that a share has for one module."""
    if isinstance(share, Mapping):
        return max((steps_of(part) for part in share.values()), default=0)
    if isinstance(share, np.ndarray | Tensor):
        return len(share)
    return sum(int(each.valid.sum()) if hasattr(each, "valid") else len(each) for each in share)
