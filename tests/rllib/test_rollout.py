"""Fragments as columns: shapes, counting, lanes side by side."""

from __future__ import annotations

import numpy as np
import pytest

from skate.rllib.env.rollout import Rollout, concatenate_lanes


def rollout(steps: int, lanes: int, version: int = 0) -> Rollout:
    shape = (steps, lanes)
    return Rollout(
        columns={"obs": np.full((*shape, 3), version, np.float32), "rewards": np.zeros(shape, np.float32)},
        valid=np.ones(shape, bool),
        next_obs=np.zeros((*shape, 3), np.float32),
        weights_seq_no=version,
    )


def test_lanes_stand_side_by_side_in_order() -> None:
    both = concatenate_lanes([rollout(4, 2, 5), rollout(4, 3, 6)])
    both.check()
    assert both.num_lanes == 5 and both.num_steps == 20 and both.weights_seq_no == 5
    assert both.columns["obs"][0, :, 0].tolist() == [5, 5, 6, 6, 6]


def test_fragments_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="side by side"):
        concatenate_lanes([rollout(4, 2), rollout(5, 2)])
    wrong = rollout(4, 2)
    wrong.columns["rewards"] = np.zeros((3, 2), np.float32)
    with pytest.raises(ValueError, match="rewards"):
        wrong.check()
