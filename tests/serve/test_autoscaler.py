"""The number of replicas that a load needs, for arbitrary figures."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skate.serve.config import AutoscalingConfig, AutoscalingContext, AutoscalingPolicy
from skate.serve.config.autoscaling import AggregationFunction
from skate.serve.controller.autoscaler import History, Scaler, bounded, decide, desired, share_of


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


def load(total: float, running: int, target: int) -> AutoscalingContext:
    return AutoscalingContext(
        total_num_requests=total, current_num_replicas=running, target_num_replicas=target
    )


@given(configs(), st.lists(st.tuples(st.sampled_from([0.5, 1.0, 3.0, 20.0]), st.floats(0, 300)), max_size=60))
def test_a_step_is_taken_only_when_it_was_wanted_for_its_whole_delay(
    config: AutoscalingConfig, steps: list[tuple[float, float]]
) -> None:
    """Steps in opposite directions are at least the delay of the second one apart, so the number does not oscillate."""
    scaler, target, now = Scaler(), config.first, 0.0
    #: The targets computed since the last step, with their times.
    wants: list[tuple[float, int]] = []
    for passed, total in steps:
        now += passed
        wants.append((now, desired(total, target, config)))
        before = target
        target = decide(scaler, load(total, target, target), config, now)
        assert config.min_replicas <= target <= config.max_replicas
        assert total > 0 or target <= before
        if target == before:
            continue
        up = target > before
        delay = config.upscale_delay_s if up else config.downscale_delay_s
        same = [(at, (want > before) == up and want != before) for at, want in wants]
        since = next((at for at, _ in reversed([each for each in same if not each[1]])), None)
        began = next(at for at, right in same if right and (since is None or at > since))
        if not (up and before == 0) and not (not up and target == 0):
            assert now - began >= delay - 1e-9, (now, began, delay)
        if not (not up and target == 1 and config.min_replicas == 0):
            wants = []


@given(configs(), st.floats(0, 300))
def test_a_load_that_stays_comes_to_rest(config: AutoscalingConfig, total: float) -> None:
    scaler, target, now = Scaler(), config.first, 0.0
    seen = []
    for _ in range(400):
        now += max(1.0, config.upscale_delay_s, config.downscale_delay_s)
        target = decide(scaler, load(total, target, target), config, now)
        seen.append(target)
    assert len(set(seen[-50:])) == 1, seen[-50:]
    if total == 0:
        assert target == config.min_replicas
    elif config.min_replicas < target < config.max_replicas:
        assert total <= target * config.target_ongoing_requests * (1 + 1e-6)


@given(st.floats(0.1, 300), st.integers(1, 40))
def test_factors_stretch_and_shrink_a_step(total: float, running: int) -> None:
    def wanted(up: float, down: float) -> int:
        config = AutoscalingConfig(
            min_replicas=1, max_replicas=10_000, upscaling_factor=up, downscaling_factor=down
        )
        return desired(total, running, config)

    plain, quick, slow = wanted(1.0, 1.0), wanted(2.0, 1.0), wanted(0.5, 0.5)
    assert quick >= plain
    if plain >= running:
        assert running <= slow <= plain
    else:
        assert plain <= slow <= running
        assert slow < running, "a small factor must not hold a step down forever"


@given(
    st.lists(st.tuples(st.floats(0, 5), st.floats(0, 100)), min_size=1, max_size=60),
    st.floats(0.5, 30),
    st.sampled_from(list(AggregationFunction)),
)
def test_only_the_look_back_counts(
    samples: list[tuple[float, float]], keep_s: float, how: AggregationFunction
) -> None:
    history, now = History(), 0.0
    added: list[tuple[float, float]] = []
    for passed, total in samples:
        now += passed
        history.add(now, total, keep_s)
        added.append((now, total))
        recent = [number for at, number in added if at >= now - keep_s]
        expected = {"max": max(recent), "min": min(recent), "mean": sum(recent) / len(recent)}
        assert history.value(how) == pytest.approx(expected[how.value])


def test_upscaling_waits_on_the_clock_however_often_it_is_asked() -> None:
    config = AutoscalingConfig(min_replicas=1, max_replicas=10, upscale_delay_s=30)
    scaler = Scaler()
    for tenth in range(299):
        assert decide(scaler, load(100, 1, 1), config, tenth / 10) == 1
    assert decide(scaler, load(100, 1, 1), config, 30.0) == 10


def test_a_lull_begins_the_wait_anew() -> None:
    config = AutoscalingConfig(min_replicas=1, max_replicas=10, upscale_delay_s=10)
    scaler = Scaler()
    assert decide(scaler, load(100, 1, 1), config, 0) == 1
    assert decide(scaler, load(1, 1, 1), config, 9) == 1
    assert decide(scaler, load(100, 1, 1), config, 11) == 1
    assert decide(scaler, load(100, 1, 1), config, 21) == 10


def test_to_zero_has_a_delay_of_its_own() -> None:
    config = AutoscalingConfig(
        min_replicas=0, max_replicas=4, downscale_delay_s=5, downscale_to_zero_delay_s=60
    )
    scaler = Scaler()
    seen = []
    target = 4
    for second in range(70):
        target = decide(scaler, load(0, target, target), config, float(second))
        seen.append(target)
    assert seen[4] == 4 and seen[5] == 1 and seen[59] == 1 and seen[60] == 0


def test_from_zero_without_delay() -> None:
    config = AutoscalingConfig(min_replicas=0, max_replicas=4, upscale_delay_s=3600)
    assert decide(Scaler(), load(3, 0, 0), config, 0.0) >= 1


def test_a_policy_of_ones_own() -> None:
    def policy(context: AutoscalingContext) -> Any:
        return 3, {"seen": 1}

    config = AutoscalingConfig(
        min_replicas=1, max_replicas=5, upscale_delay_s=10, policy=AutoscalingPolicy(policy_function=policy)
    )
    scaler = Scaler()
    assert [decide(scaler, load(0, 1, 1), config, float(second)) for second in (0, 9, 10)] == [1, 1, 3]
    assert scaler.policy_state == {"seen": 1}


def test_a_policy_is_held_within_the_bounds() -> None:
    config = AutoscalingConfig(
        min_replicas=1,
        max_replicas=5,
        upscale_delay_s=0,
        policy=AutoscalingPolicy(policy_function=lambda context: 99),
    )
    assert decide(Scaler(), load(0, 1, 1), config, 0.0) == 5


def test_a_policy_that_returns_no_number() -> None:
    config = AutoscalingConfig(policy=AutoscalingPolicy(policy_function=lambda context: "many"))
    with pytest.raises(TypeError, match="number of replicas"):
        decide(Scaler(), load(0, 1, 1), config, 0.0)


@pytest.mark.parametrize(
    ("answer", "running", "up", "down", "expected"),
    [
        (5, 1, 1.0, 1.0, 5),
        (5, 1, 0.5, 1.0, 3),
        (1, 5, 1.0, 0.5, 3),
        (4, 5, 1.0, 0.1, 4),
        (3.2, 0, 0.1, 1.0, 4),
    ],
)
def test_a_policy_steps_by_the_factors(
    answer: float, running: int, up: float, down: float, expected: int
) -> None:
    config = AutoscalingConfig(
        min_replicas=0,
        max_replicas=9,
        upscale_delay_s=0,
        downscale_delay_s=0,
        upscaling_factor=up,
        downscaling_factor=down,
        policy=AutoscalingPolicy(
            policy_function=lambda context, number: number, policy_kwargs={"number": answer}
        ),
    )
    assert decide(Scaler(), load(0, running, running), config, 0.0) == expected


@pytest.mark.parametrize(
    ("number", "capacity", "expected"),
    [(4, None, 4), (4, 50, 2), (5, 50, 3), (3, 10, 1), (0, 50, 0), (4, 0, 0), (4, 100, 4)],
)
def test_a_share_of_the_replicas(number: int, capacity: float | None, expected: int) -> None:
    assert share_of(number, capacity) == expected


def test_bounds_of_a_share() -> None:
    config = bounded(AutoscalingConfig(min_replicas=2, initial_replicas=8, max_replicas=10), 50)
    assert (config.min_replicas, config.max_replicas) == (1, 5)
