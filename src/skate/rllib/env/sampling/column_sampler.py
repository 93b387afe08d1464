"""The fast way to sample: steps of all lanes straight into columns, without an episode object or a connector."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_map

from skate.rllib.core.columns import Columns
from skate.rllib.env.lanes import Lanes, Step
from skate.rllib.env.rollout import PieceStates, Rollout
from skate.rllib.env.sampling.action_plan import ActionPlan
from skate.rllib.env.sampling.action_source import ActionSource
from skate.rllib.env.sampling.episode_meter import EpisodeMeter
from skate.rllib.env.sampling.sequence_rows import pieces_of, sequence_length, states_before
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
        with_logp: True to add the log-probabilities of actions that were drawn from a distribution.
    """

    def __init__(
        self,
        lanes: Lanes,
        observations: SpacePlan,
        actions: ActionPlan,
        source: ActionSource,
        meter: EpisodeMeter,
        device: torch.device | str = "cpu",
        with_logp: bool = True,
    ) -> None:
        self.with_logp = with_logp
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
        count, source, meter = self.lanes.num_lanes, self.source, self.meter
        growth = count if t_per_step is None else t_per_step
        assert self.row is not None
        block = np.empty((num_steps + 1, count, *self.observations.shape), self.observations.dtype)
        block[0] = self.row
        # The steps below are the hot path: what plain vectors and modules do not need is skipped.
        is_plain = self.state is None and self.device.type == "cpu"
        keeps_outs = source.prepare(explore and is_plain and not random_actions)
        fragment = _Fragment(num_steps, count, block, keeps_outs)
        for_env = None if self.actions.keeps else self.actions.for_env
        lanes, lengths = self._joined(block)
        state_in = self._state_as_arrays()
        seen = torch.from_numpy(block).unbind(0)
        states: list[dict[str, Any]] = []
        out: dict[str, Any]
        for index in range(num_steps):
            if random_actions:
                out, drawn = {}, self.actions.random(count, source.generator)
            elif is_plain:
                out, actions = source.act({Columns.OBS: seen[index]}, explore, t + index * growth)
                drawn = actions.numpy()
            else:
                if explore and self.state is not None:
                    states.append(_cloned(self.state))  # a module of the user's may change its state in place
                out = self._after(source.forward(self._batch(seen[index]), explore, t + index * growth))
                drawn = source.actions(out, explore).cpu().numpy()
            step = self.lanes.step(drawn if for_env is None else for_env(drawn))
            fragment.add(index, out, drawn, step)
            if lengths and {*map(len, step.observations)} == lengths:
                np.concatenate(step.observations, out=lanes[index + 1], casting="unsafe")
            else:
                self.observations.write(block[index + 1], step.observations)
            meter.add(step.rewards, step.stepped)
            if step.stepped is not None or step.finals or any(step.terminateds) or any(step.truncateds):
                self._end(fragment, index, step)
        self.row = block[num_steps].copy()
        columns = fragment.columns()
        self._add_logp(columns, explore)
        rollout = Rollout(columns, fragment.valid(), fragment.next_obs(), state_in, 0, fragment.restarted)
        rollout.piece_states = self._piece_states(rollout, states)
        return rollout

    def _piece_states(self, rollout: Rollout, states: list[dict[str, Any]]) -> PieceStates | None:
        if not states:
            return None
        length = sequence_length(self.source.module)
        first_rows = pieces_of(rollout, length)[0][:, 0]
        return PieceStates(length, states_before(first_rows, states))

    def _joined(self, block: np.ndarray) -> tuple[np.ndarray, set[int]]:
        """Return a block with the lanes of each step one after the other, and the only length of their observations.

        Observations that are rows already are joined in place, in half of the time of an assignment. Of others there is
        no length.
        """
        if not self.observations.is_copy or block.ndim == 2:
            return block, set()
        return block.reshape(len(block), -1, *block.shape[3:]), {block.shape[2]}

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

    def _add_logp(self, columns: dict[str, np.ndarray], explore: bool) -> None:
        if not explore or not self.with_logp:
            return
        if Columns.ACTION_LOGP in columns or Columns.ACTION_DIST_INPUTS not in columns:
            return
        inputs = torch.from_numpy(columns[Columns.ACTION_DIST_INPUTS])
        actions = torch.from_numpy(columns[Columns.ACTIONS])
        columns[Columns.ACTION_LOGP] = self.source.distribution(inputs, True).logp(actions).numpy()

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
                self.state = _cloned(self.state)
                _put_row(self.state, lane, self.source.module.get_initial_state())


def _copied(out: dict[str, Any]) -> dict[str, Any]:
    """Return the columns among the outputs of a module, in memory of their own."""
    return {
        key: value.clone()
        for key, value in out.items()
        if key != Columns.ACTIONS and isinstance(value, torch.Tensor)
    }


def _cloned(state: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a recurrent state; for such small ones `tree_map` takes many times longer."""
    return {
        key: _cloned(value)
        if isinstance(value, dict)
        else value.clone()
        if torch.is_tensor(value)
        else tree_map(torch.clone, value)
        for key, value in state.items()
    }


def _put_row(state: dict[str, Any], lane: int, row: dict[str, Any]) -> None:
    """Put a recurrent state of one lane, which may be nested, into that of all."""
    for key, value in row.items():
        if isinstance(value, dict):
            _put_row(state[key], lane, value)
        else:
            state[key][lane] = torch.as_tensor(value, device=state[key].device)


class _Fragment:
    """The columns of a fragment while it is filled; what comes as lists and tensors is put into arrays at its end."""

    def __init__(self, num_steps: int, num_lanes: int, block: np.ndarray, keeps_outs: bool) -> None:
        self.shape = num_steps, num_lanes
        self.block = block
        #: False if a module may write its next outputs into the same tensors.
        self.keeps_outs = keeps_outs
        self.rewards: list[list[float]] = []
        self.terminateds: list[list[bool]] = []
        self.truncateds: list[list[bool]] = []
        #: Per lane, False if it only reset, for the steps in which not all lanes stepped.
        self.stepped: dict[int, list[bool]] = {}
        self.finals: dict[tuple[int, int], np.ndarray] = {}
        self.restarted = 0
        self.actions: np.ndarray | None = None
        self.outs: list[dict[str, Any]] = []

    def add(self, index: int, out: dict[str, Any], drawn: np.ndarray, step: Step) -> None:
        if self.actions is None:
            self.actions = np.zeros((self.shape[0], *drawn.shape), drawn.dtype)
        self.actions[index] = drawn
        self.outs.append(out if self.keeps_outs else _copied(out))
        self.rewards.append(step.rewards)
        self.terminateds.append(step.terminateds)
        self.truncateds.append(step.truncateds)
        if step.stepped is not None:
            self.stepped[index] = step.stepped

    def restart(self, index: int, lane: int) -> None:
        """End what ran in a lane before its environment failed: its last observation is the one before the failure."""
        self.restarted += 1
        before = index - 1
        if index and (before not in self.stepped or self.stepped[before][lane]):
            if not self.terminateds[before][lane]:
                self.truncateds[before][lane] = True

    def valid(self) -> np.ndarray:
        """Return where lanes stepped, ``(T, N)``."""
        valid = np.ones(self.shape, bool)
        for index, stepped in self.stepped.items():
            valid[index] = stepped
        return valid

    def columns(self) -> dict[str, np.ndarray]:
        """Return the columns of all steps."""
        found: dict[str, np.ndarray] = {
            Columns.OBS: self.block[:-1],
            Columns.REWARDS: np.array(self.rewards, np.float32).reshape(self.shape),
            Columns.TERMINATEDS: np.array(self.terminateds, bool).reshape(self.shape),
            Columns.TRUNCATEDS: np.array(self.truncateds, bool).reshape(self.shape),
        }
        if self.actions is not None:
            found[Columns.ACTIONS] = self.actions
        for key in dict.fromkeys(key for out in self.outs for key in out):
            values = [out.get(key) for out in self.outs]
            tensors = [value for value in values if isinstance(value, torch.Tensor)]
            if key == Columns.ACTIONS or not tensors:
                continue
            if len(tensors) < len(values):  # a module that does not return it in each step
                empty = torch.zeros_like(tensors[0])
                tensors = [value if isinstance(value, torch.Tensor) else empty for value in values]
            found[key] = torch.stack(tensors).cpu().numpy()
        return found

    def next_obs(self) -> np.ndarray:
        following: np.ndarray = self.block[1:]
        if not self.finals:
            return following
        following = following.copy()
        for (index, lane), row in self.finals.items():
            following[index, lane] = row
        return following
