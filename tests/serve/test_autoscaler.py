"""How many replicas a load needs: pure, so tried with any figures."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skate.serve.config import AutoscalingConfig, AutoscalingContext, AutoscalingPolicy
from skate.serve.controller.autoscaler import Scaler, decide, desired


@st.composite
def configs(draw: st.DrawFn) -> AutoscalingConfig:
    low = draw(st.integers(0, 5))
    high = draw(st.integers(max(low, 1), 50))
    return AutoscalingConfig(
        min_replicas=low,
        max_replicas=high,
        target_ongoing_requests=draw(st.floats(0.5, 20)),
        upscaling_factor=draw(st.sampled_from([None, 0.5, 1.0, 2.0])),
        downscaling_factor=draw(st.sampled_from([None, 0.3, 1.0])),
        upscale_delay_s=draw(st.sampled_from([0.0, 5.0, 30.0])),
        downscale_delay_s=draw(st.sampled_from([0.0, 10.0, 600.0])),
    )


@given(configs(), st.floats(0, 10_000), st.integers(0, 60))
def test_within_the_bounds(config: AutoscalingConfig, total: float, running: int) -> None:
    assert config.min_replicas <= desired(total, running, config) <= config.max_replicas


@given(configs(), st.integers(0, 60))
def test_no_requests_never_scale_up(config: AutoscalingConfig, running: int) -> None:
    assert desired(0, running, config) <= max(running, config.min_replicas)


@given(configs(), st.integers(1, 60), st.floats(0, 1000), st.floats(0, 1000))
def test_more_requests_never_mean_fewer_replicas(
    config: AutoscalingConfig, running: int, one: float, other: float
) -> None:
    low, high = sorted((one, other))
    assert desired(low, running, config) <= desired(high, running, config)


@given(configs(), st.floats(0.01, 1000))
def test_requests_start_from_zero(config: AutoscalingConfig, total: float) -> None:
    assert desired(total, 0, config) >= 1


@given(st.integers(1, 20), st.floats(0.1, 200))
def test_plain_settings_meet_the_target(running: int, total: float) -> None:
    config = AutoscalingConfig(min_replicas=1, max_replicas=1000, target_ongoing_requests=2)
    assert desired(total, running, config) == max(1, math.ceil(round(total / 2, 9)))


def told(total: float, running: int, target: int) -> AutoscalingContext:
    return AutoscalingContext(
        total_num_requests=total, current_num_replicas=running, target_num_replicas=target
    )


@given(configs(), st.lists(st.tuples(st.floats(0.1, 30), st.floats(0, 500)), max_size=40))
def test_a_step_is_taken_only_after_its_delay(
    config: AutoscalingConfig, steps: list[tuple[float, float]]
) -> None:
    scaler, target, now, since_change = Scaler(), config.first, 0.0, 0.0
    for passed, total in steps:
        now += passed
        before = target
        target = decide(scaler, told(total, target, target), config, now)
        assert config.min_replicas <= target <= config.max_replicas
        if total == 0:
            assert target <= before
        since_change = 0.0 if target != before else since_change + passed


def test_upscaling_waits_on_the_clock_however_often_it_is_asked() -> None:
    config = AutoscalingConfig(min_replicas=1, max_replicas=10, upscale_delay_s=30)
    scaler = Scaler()
    for tenth in range(299):
        assert decide(scaler, told(100, 1, 1), config, tenth / 10) == 1
    assert decide(scaler, told(100, 1, 1), config, 30.0) == 10


def test_a_lull_begins_the_wait_anew() -> None:
    config = AutoscalingConfig(min_replicas=1, max_replicas=10, upscale_delay_s=10)
    scaler = Scaler()
    assert decide(scaler, told(100, 1, 1), config, 0) == 1
    assert decide(scaler, told(1, 1, 1), config, 9) == 1
    assert decide(scaler, told(100, 1, 1), config, 11) == 1
    assert decide(scaler, told(100, 1, 1), config, 21) == 10


def test_to_zero_has_a_delay_of_its_own() -> None:
    config = AutoscalingConfig(
        min_replicas=0, max_replicas=4, downscale_delay_s=5, downscale_to_zero_delay_s=60
    )
    scaler = Scaler()
    seen = []
    target = 4
    for second in range(70):
        target = decide(scaler, told(0, target, target), config, float(second))
        seen.append(target)
    assert seen[4] == 4 and seen[5] == 1 and seen[59] == 1 and seen[60] == 0


def test_from_zero_without_delay() -> None:
    config = AutoscalingConfig(min_replicas=0, max_replicas=4, upscale_delay_s=3600)
    assert decide(Scaler(), told(3, 0, 0), config, 0.0) >= 1


def test_a_policy_of_ones_own() -> None:
    def policy(context: AutoscalingContext) -> Any:
        return 3, {"seen": 1}

    config = AutoscalingConfig(
        min_replicas=1, max_replicas=5, policy=AutoscalingPolicy(policy_function=policy)
    )
    scaler = Scaler()
    assert decide(scaler, told(0, 1, 1), config, 0.0) == 3
    assert scaler.policy_state == {"seen": 1}


def test_a_policy_is_held_within_the_bounds() -> None:
    config = AutoscalingConfig(
        min_replicas=1, max_replicas=5, policy=AutoscalingPolicy(policy_function=lambda context: 99)
    )
    assert decide(Scaler(), told(0, 1, 1), config, 0.0) == 5


def test_a_policy_that_returns_no_number() -> None:
    config = AutoscalingConfig(policy=AutoscalingPolicy(policy_function=lambda context: "many"))
    with pytest.raises(TypeError, match="number of replicas"):
        decide(Scaler(), told(0, 1, 1), config, 0.0)
