"""The controller uses the monotonic clock: if the wall clock jumps, no replica starts or ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import skate
from skate import serve
from skate.serve.controller import clock
from tests.conformance.waiting import Tally, wait_for
from tests.serve.standing import free_port

LIGHT: dict[str, Any] = {"ray_actor_options": {"num_cpus": 0}}
JUMP_SECONDS = 86_400.0


@pytest.fixture(scope="module", autouse=True)
def running() -> Iterator[None]:
    skate.init(num_cpus=2, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": free_port()})
    yield
    serve.shutdown()
    skate.shutdown()


class Jump:
    """A policy that sets the clock of the controller's process forward by a day, and counts its calls."""

    def __init__(self, tally: str) -> None:
        self.tally = Tally(Path(tally))

    def __call__(self, context: Any) -> tuple[int, dict[str, Any]]:
        real = time.time
        if not hasattr(real, "jumped"):

            def later() -> float:
                return real() + JUMP_SECONDS

            later.jumped = True  # type: ignore[attr-defined]
            time.time = later
        self.tally.add()
        return context.current_num_replicas, {}


def test_delays_are_not_over_when_the_wall_clock_jumps(tmp_path: Path) -> None:
    patient = {"min_replicas": 1, "max_replicas": 2, "initial_replicas": 2, "downscale_delay_s": 3600}

    @serve.deployment(autoscaling_config=patient, **LIGHT)
    def stays() -> int:
        return 1

    serve.run(stays.bind(), name="stays", route_prefix=None)

    def states() -> dict[str, int]:
        found: dict[str, int] = serve.status().applications["stays"].deployments["stays"].replica_states
        return found

    assert states() == {"RUNNING": 2}
    before = serve.status().applications["stays"].last_deployed_time_s
    tally = Tally(tmp_path / "turns")
    policy = {"policy_function": Jump, "policy_kwargs": {"tally": str(tally.path)}}

    @serve.deployment(autoscaling_config={"min_replicas": 1, "max_replicas": 2, "policy": policy}, **LIGHT)
    def jumps() -> int:
        return 1

    serve.run(jumps.bind(), name="jumps", route_prefix=None)
    wait_for(lambda: tally.count() >= 8, 30, "eight looks at the clock after it has jumped")
    assert states() == {"RUNNING": 2}, "a delay of an hour is over after no time"
    shown = serve.status().applications["stays"].last_deployed_time_s
    assert abs(shown - before - JUMP_SECONDS) < 60, "what is shown goes by the wall clock"
    assert serve.get_app_handle("stays").remote().result(timeout_s=20) == 1


def test_the_clock_of_a_restarted_controller_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    left = clock.mark()
    reported = clock.now()
    monkeypatch.setattr(clock, "_epoch", clock._epoch + JUMP_SECONDS)  # it restarted after a jump
    clock.resume(("another boot", left[1]))
    assert clock.now() - reported > JUMP_SECONDS - 60, "another machine's clock is not taken over"
    clock.resume(left)
    assert abs(clock.now() - reported) < 60


def test_times_are_shown_as_they_were_told_while_the_wall_clock_is_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reported = clock.now()
    assert clock.shown(reported) == reported
    real = time.time
    monkeypatch.setattr(clock.time, "time", lambda: real() + 100)
    assert abs(clock.shown(reported) - reported - 100) < 1
