"""Python functions of ours that are called for one step of an environment: a figure that no machine changes."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import skate
from skate.rllib.algorithms.ppo import PPOConfig

OURS = str(Path(skate.__file__).parent)
CALLS_PER_STEP_MAX = 4.0


def test_an_iteration_of_ppo_makes_at_most_four_calls_per_step() -> None:
    algorithm = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=8)
        .training(train_batch_size=1024, minibatch_size=256, num_epochs=4)
        .rl_module(model_config={"fcnet_hiddens": [64, 64]})
        .debugging(seed=1)
        .build_algo()
    )
    # The first iteration opens statistics and makes samplers.
    algorithm.train()
    counts: Counter[str] = Counter()

    def profile(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(OURS):
            counts[f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_name}"] += 1

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        result = algorithm.train()
    finally:
        sys.setprofile(before)
    algorithm.stop()
    steps = result["env_runners"]["num_env_steps_sampled"]
    calls = sum(counts.values()) / steps
    assert steps == 1024
    # Every step of the eight lanes asks the module once; a count without that would be of nothing.
    assert counts["dense_pass.__call__"] >= 128
    assert calls <= CALLS_PER_STEP_MAX, f"{calls:.2f} calls per step; the most: {counts.most_common(12)}"
