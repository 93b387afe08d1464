"""The fast way to sample: steps of all lanes straight into columns, without an episode object or a connector."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_map

from skate.rllib.core.columns import Columns
from skate.rllib.env.lanes import Lanes, Step
from skate.rllib.env.rollout import Rollout
from skate.rllib.env.sampling.action_plan import ActionPlan
from skate.rllib.env.sampling.action_source import ActionSource
from skate.rllib.env.sampling.episode_meter import EpisodeMeter
from skate.rllib.env.sampling.space_plan import SpacePlan


class ColumnSampler:
    """Samples fragments of fixed length from lanes.

    Args:
        lanes: The environments.
        observations: How their observations become rows.
        actions: How the module's actions become theirs.
        source: Chooses actions.
        meter: Counts returns and lengths of episodes.
        device: Where the module computes.
    """

    def __init__(
        self,
        lanes: Lanes,
        observations: SpacePlan,
        actions: ActionPlan,
        source: ActionSource,
        meter: EpisodeMeter,
        device: torch.device | str = "cpu",
    ) -> None:
        self.lanes = lanes
        self.observations = observations
        self.actions = actions
        self.source = source
        self.meter = meter
        self.device = torch.device(device)
        self.row: np.ndarray | None = None
        self.state: dict[str, Any] | None = None
        self.last_done = np.zeros(lanes.num_lanes, bool)

    def reset(self, seeds: list[int | None] | None = None) -> None:
        """Begin a new episode in every lane."""
        observed, _ = self.lanes.reset(seeds)
        self.row = np.zeros((self.lanes.num_lanes, *self.observations.shape), self.observations.dtype)
        self.observations.write(self.row, observed)
        self.state = self._initial_state() if self.source.module.is_stateful() else None
        self.meter.begin()

    def _initial_state(self) -> dict[str, Any]:
        initial = self.source.module.get_initial_state()
        count = self.lanes.num_lanes
        spread: dict[str, Any] = tree_map(
            lambda value: torch.as_tensor(value, device=self.device).expand(count, *np.shape(value)).clone(),
            initial,
        )
        return spread

    @torch.no_grad()
    def sample(
        self,
        num_steps: int,
        explore: bool,
        t: int = 0,
        t_per_step: int | None = None,
        random_actions: bool = False,
    ) -> Rollout:
        """Sample a fragment.

        Args:
            num_steps: Steps of each lane.
            explore: True for exploration, False for the most likely actions.
            t: Steps sampled so far by all runners.
            t_per_step: Growth of ``t`` with each step of the lanes; default their number.
            random_actions: True to act at random, without the module.
        """
        count = self.lanes.num_lanes
        growth = count if t_per_step is None else t_per_step
        assert self.row is not None
        block = np.empty((num_steps + 1, count, *self.observations.shape), self.observations.dtype)
        block[0] = self.row
        fragment = _Fragment(num_steps, count, block)
        # The steps below are the hot path: what plain vectors and modules do not need is skipped.
        is_plain = self.state is None and self.device.type == "cpu"
        source, meter = self.source, self.meter
        for_env = None if self.actions.keeps else self.actions.for_env
        write = None if self.observations.is_copy else self.observations.write
        state_in = self._state_as_arrays()
        seen = torch.from_numpy(block)
        out: dict[str, Any]
        for index in range(num_steps):
            if random_actions:
                out, drawn = {}, self.actions.random(count, source.generator)
            elif is_plain:
                out, actions = source.act({Columns.OBS: seen[index]}, explore, t + index * growth)
                drawn = actions.numpy()
            else:
                out = self._after(source.forward(self._batch(seen[index]), explore, t + index * growth))
                drawn = source.actions(out, explore).cpu().numpy()
            step = self.lanes.step(drawn if for_env is None else for_env(drawn))
            fragment.add(index, out, drawn, step)
            if write is None:
                block[index + 1] = step.observations
            else:
                write(block[index + 1], step.observations)
            if step.stepped is None:
                meter.returns += step.rewards
                meter.lengths += 1
                ended = step.finals or any(step.terminateds) or any(step.truncateds)
            else:
                meter.add(step.rewards, step.stepped)
                ended = True
            if ended:
                self._end(fragment, index, step)
        self.row = block[num_steps].copy()
        columns = fragment.columns
        if explore and Columns.ACTION_LOGP not in columns and Columns.ACTION_DIST_INPUTS in columns:
            columns[Columns.ACTION_LOGP] = self._logp(columns)
        return Rollout(columns, fragment.valid, fragment.next_obs(), state_in, 0, fragment.restarted)

    def _state_as_arrays(self) -> dict[str, Any] | None:
        if self.state is None:
            return None
        arrays: dict[str, Any] = tree_map(lambda value: value.cpu().numpy().copy(), self.state)
        return arrays

    def _batch(self, observed: torch.Tensor) -> dict[str, Any]:
        if self.device.type != "cpu":
            observed = observed.to(self.device)
        if self.state is None:
            return {Columns.OBS: observed}
        return {Columns.OBS: observed.unsqueeze(1), Columns.STATE_IN: self.state}

    def _after(self, out: dict[str, Any]) -> dict[str, Any]:
        if self.state is None:
            return out
        kept = dict(out)
        self.state = dict(kept.pop(Columns.STATE_OUT))
        return {key: value.squeeze(1) if torch.is_tensor(value) else value for key, value in kept.items()}

    def _logp(self, columns: dict[str, np.ndarray]) -> np.ndarray:
        inputs = torch.from_numpy(columns[Columns.ACTION_DIST_INPUTS])
        actions = torch.from_numpy(columns[Columns.ACTIONS])
        logp: np.ndarray = self.source.distribution(inputs, True).logp(actions).numpy()
        return logp

    def _end(self, fragment: _Fragment, index: int, step: Step) -> None:
        for lane in step.restarted:
            fragment.restart(index, lane)
            self.meter.begin(lane)
        for lane, (final, _) in step.finals.items():
            fragment.finals[index, lane] = self.observations.row(final)
        stepped = step.stepped
        for lane in range(self.lanes.num_lanes):
            ended = step.terminateds[lane] or step.truncateds[lane]
            if ended and (stepped is None or stepped[lane]):
                self.meter.end(lane)
            # A vector that resets in the next step acts once more on the last observation: what counts is its reset.
            fresh = lane in step.finals or (stepped is not None and not stepped[lane])
            if self.state is not None and fresh:
                self.state = tree_map(lambda value: value.clone(), self.state)
                _put_row(self.state, lane, self.source.module.get_initial_state())


def _put_row(state: dict[str, Any], lane: int, row: dict[str, Any]) -> None:
    """Put a recurrent state of one lane, which may be nested, into that of all."""
    for key, value in row.items():
        if isinstance(value, dict):
            _put_row(state[key], lane, value)
        else:
            state[key][lane] = torch.as_tensor(value, device=state[key].device)


class _Fragment:
    """The columns of a fragment while it is filled."""

    def __init__(self, num_steps: int, num_lanes: int, block: np.ndarray) -> None:
        shape = (num_steps, num_lanes)
        self.block = block
        self.rewards = np.zeros(shape, np.float32)
        self.terminateds = np.zeros(shape, bool)
        self.truncateds = np.zeros(shape, bool)
        self.valid = np.ones(shape, bool)
        self.finals: dict[tuple[int, int], np.ndarray] = {}
        self.restarted = 0
        self.columns: dict[str, np.ndarray] = {
            Columns.OBS: block[:-1],
            Columns.REWARDS: self.rewards,
            Columns.TERMINATEDS: self.terminateds,
            Columns.TRUNCATEDS: self.truncateds,
        }

    def add(self, index: int, out: dict[str, Any], drawn: np.ndarray, step: Step) -> None:
        arrived = {Columns.ACTIONS: drawn}
        for key, value in out.items():
            if key != Columns.ACTIONS and isinstance(value, torch.Tensor):
                arrived[key] = value.cpu().numpy()
        for key, values in arrived.items():
            column = self.columns.get(key)
            if column is None:
                column = self.columns[key] = np.zeros((len(self.rewards), *values.shape), values.dtype)
            column[index] = values
        self.rewards[index] = step.rewards
        self.terminateds[index] = step.terminateds
        self.truncateds[index] = step.truncateds
        if step.stepped is not None:
            self.valid[index] = step.stepped

    def restart(self, index: int, lane: int) -> None:
        """End what ran in a lane before its environment failed: its last observation is the one before the failure."""
        self.restarted += 1
        if index and self.valid[index - 1, lane] and not self.terminateds[index - 1, lane]:
            self.truncateds[index - 1, lane] = True

    def next_obs(self) -> np.ndarray:
        following: np.ndarray = self.block[1:]
        if not self.finals:
            return following
        following = following.copy()
        for (index, lane), row in self.finals.items():
            following[index, lane] = row
        return following
