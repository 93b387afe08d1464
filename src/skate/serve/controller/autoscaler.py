"""The number of replicas for a load: pure functions of load samples, settings and the time."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from skate.serve.config.autoscaling import AggregationFunction, AutoscalingConfig, AutoscalingContext


def desired(total: float, running: int, config: AutoscalingConfig) -> int:
    """Return the number of replicas for `total` requests, within the bounds; the minimum if there are no requests."""
    low, high = config.min_replicas, config.max_replicas
    if total <= 0:
        return low
    if running == 0:
        return min(high, max(1, low, math.ceil(config.get_upscaling_factor())))
    ratio = total / (config.target_ongoing_requests * running)
    factor = config.get_upscaling_factor() if ratio >= 1 else config.get_downscaling_factor()
    wanted = math.ceil(round(running * (1 + (ratio - 1) * factor), 9))
    if ratio < 1 and wanted == running and math.ceil(round(running * ratio, 9)) < running:
        wanted = running - 1  # a small factor must not block a downscale forever
    return min(high, max(low, wanted, 1))


@dataclass
class History:
    """Recent numbers of requests, as (seconds, number)."""

    samples: deque[tuple[float, float]] = field(default_factory=deque)

    def add(self, now: float, total: float, keep_s: float) -> None:
        """Add a sample, and drop those older than `keep_s` seconds."""
        self.samples.append((now, total))
        while self.samples and self.samples[0][0] < now - keep_s:
            self.samples.popleft()

    def value(self, how: AggregationFunction) -> float:
        """Aggregate the samples into one number."""
        return aggregated([number for _, number in self.samples], how)


def aggregated(numbers: list[float], how: AggregationFunction) -> float:
    """Aggregate numbers into one; none are 0."""
    if not numbers:
        return 0.0
    if how is AggregationFunction.MAX:
        return max(numbers)
    if how is AggregationFunction.MIN:
        return min(numbers)
    return sum(numbers) / len(numbers)


@dataclass
class Scaler:
    """Scales one deployment. A step is taken once it has been wanted for the configured delay."""

    history: History = field(default_factory=History)
    #: +1 or -1 while a step is wanted, and the time since which it is.
    direction: int = 0
    since: float = 0.0
    policy_state: dict[str, object] = field(default_factory=dict)
    last_up: float | None = None
    last_down: float | None = None

    def step(self, now: float, target: int, wanted: int, config: AutoscalingConfig) -> int:
        """Return the new target if `wanted` replicas are wanted now."""
        direction = (wanted > target) - (wanted < target)
        if direction == 0:
            self.direction = 0
            return target
        if direction != self.direction:
            self.direction = direction
            self.since = now
        held = now - self.since
        if direction > 0:
            if target == 0 or held >= config.upscale_delay_s:
                return self._take(now, wanted, direction)
            return target
        if wanted == 0:
            to_zero = config.downscale_to_zero_delay_s
            if held >= (config.downscale_delay_s if to_zero is None else to_zero):
                return self._take(now, wanted, direction)
            wanted = 1
            if target == 1:
                return target
        if held >= config.downscale_delay_s:
            return self._take(now, wanted, direction, keep=wanted == 1 and config.min_replicas == 0)
        return target

    def _take(self, now: float, wanted: int, direction: int, keep: bool = False) -> int:
        if not keep:
            self.direction = 0
        if direction > 0:
            self.last_up = now
        else:
            self.last_down = now
        return wanted


def decide(scaler: Scaler, context: AutoscalingContext, config: AutoscalingConfig, now: float) -> int:
    """Return the new target, according to the deployment's policy.

    Raise whatever the policy raises, and TypeError if it does not return a number.
    """
    if not config.policy.is_default_policy_function():
        return follow(scaler, config.policy.get_policy()(context), context, config, now)
    target = context.target_num_replicas
    wanted = desired(context.total_num_requests, context.current_num_replicas, config)
    if context.current_num_replicas != target and wanted > target:
        # Replicas that are starting count as running.
        wanted = max(target, desired(context.total_num_requests, max(target, 1), config))
    return scaler.step(now, target, wanted, config)


def follow(
    scaler: Scaler, answer: Any, context: AutoscalingContext, config: AutoscalingConfig, now: float
) -> int:
    """Return the new target from the answer of a user's policy: apply the factors, the bounds and the delays. Raise
    TypeError if the answer is not a number.
    """
    if isinstance(answer, tuple):
        answer, state = answer
        scaler.policy_state = dict(state or {})
    if isinstance(answer, bool) or not isinstance(answer, (int, float)):
        raise TypeError(f"an autoscaling policy must return a number of replicas, got {answer!r}")
    running = context.current_num_replicas
    wanted = min(config.max_replicas, max(config.min_replicas, stepped(answer, running, config)))
    if running == 0 and wanted > 0:
        return max(wanted, context.target_num_replicas)
    return scaler.step(now, context.target_num_replicas, wanted, config)


def stepped(wanted: float, running: int, config: AutoscalingConfig) -> int:
    """Return the number of replicas after applying the scaling factors to a step."""
    if running == 0:
        return math.ceil(wanted)
    factor = config.get_upscaling_factor() if wanted > running else config.get_downscaling_factor()
    found = math.ceil(round(running + factor * (wanted - running), 9))
    if found == running and math.ceil(wanted) < running:
        found -= 1  # a small factor must not block a downscale forever
    return found


def share_of(number: int, capacity: float | None) -> int:
    """Scale a number of replicas by a capacity in percent. The result is at least one, unless either is 0."""
    if capacity is None or number == 0:
        return number
    return max(1, math.floor(number * capacity / 100 + 0.5)) if capacity > 0 else 0


def bounded(config: AutoscalingConfig, capacity: float | None) -> AutoscalingConfig:
    """Return the settings with bounds scaled by the capacity."""
    if capacity is None or capacity <= 0:
        return config
    low, high = share_of(config.min_replicas, capacity), share_of(config.max_replicas, capacity)
    return config.model_copy(update={"min_replicas": low, "max_replicas": high, "initial_replicas": None})
