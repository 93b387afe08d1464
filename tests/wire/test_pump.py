"""The input loop of a process: how soon its background thread gets to run while the program computes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

from skate.wire.pump import Pump
from tests.conformance.waiting import wait_for

SOONER = 0.0002


@pytest.fixture
def usual() -> Iterator[float]:
    """The interpreter's setting, which is restored after the test."""
    before = sys.getswitchinterval()
    yield before
    sys.setswitchinterval(before)


def shown(seconds: float) -> bool:
    """True if the interpreter has this setting."""
    return abs(sys.getswitchinterval() - seconds) < 1e-6


def test_threads_give_way_sooner_only_while_the_background_thread_drives(usual: float) -> None:
    pump = Pump(threading.RLock(), "test")
    pump.switch_seconds = SOONER
    pump.start()
    wait_for(lambda: shown(SOONER), what="the setting of the background thread")
    with pump.lock:
        seen: list[float] = []
        pump.wait(lambda: seen.append(sys.getswitchinterval()) is not None, 0.05)
    assert abs(seen[-1] - usual) < 1e-6, seen
    wait_for(lambda: shown(SOONER), what="the setting once the background thread drives again")
    pump.close()
    assert shown(usual)


def test_a_setting_of_the_program_is_left_alone(usual: float) -> None:
    pump = Pump(threading.RLock(), "test")
    pump.switch_seconds = SOONER
    pump.start()
    wait_for(lambda: shown(SOONER), what="the setting of the background thread")
    sys.setswitchinterval(0.02)
    pump.close()
    assert shown(0.02)


def test_a_pump_changes_nothing_unless_it_is_told_to(usual: float) -> None:
    pump = Pump(threading.RLock(), "test")
    pump.start()
    wait_for(lambda: pump._background_drives, what="the background thread")
    assert shown(usual)
    pump.close()
