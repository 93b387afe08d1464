"""The number of threads follows the load, and does not swing with it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skate.llm.embedded.thread_count import CpuSample, ThreadCount
from skate.llm.embedded.thread_governor import cpu_times


class Machine:
    """A machine with CPUs, other load, and an engine that uses its threads all the time."""

    def __init__(self, most: int = 2, cpus: int = 2) -> None:
        self.counts = ThreadCount(most, cpus)
        self.cpus = cpus
        self.at = self.busy = self.own = 0.0

    def run(self, others: float, windows: int = 1, seconds: float = 0.25) -> list[int]:
        """The counts after some windows in which others wanted so many CPUs."""
        found = []
        for _ in range(windows):
            # All get the same share where there are more than CPUs.
            share = min(1.0, self.cpus / (others + self.counts.count))
            self.at += seconds
            self.own += self.counts.count * share * seconds
            self.busy += (self.counts.count + others) * share * seconds
            assert self.counts.due(self.at)
            sample = CpuSample(self.at, self.busy, self.own, 1 + round(others))
            found.append(self.counts.observe(sample))
        return found


def changes(counts: Iterable[int]) -> int:
    found = list(counts)
    return sum(one != other for one, other in zip(found, found[1:], strict=False))


def test_two_on_a_quiet_machine_and_one_beside_others() -> None:
    machine = Machine()
    assert machine.run(0.05, 10)[-1] == 2
    assert not machine.counts.due(machine.at + 0.05)
    assert machine.run(1) == [1], "the window in which others came is the last of two threads"
    assert machine.run(8, 20)[-1] == 1 and machine.run(1, 20)[-1] == 1
    counts = machine.run(0.1, 10)
    assert counts[-1] == 2 and changes(counts) == 1


def test_a_pause_does_not_decide_about_now() -> None:
    machine = Machine()
    machine.run(0, 5)
    # Nothing ran for an hour; now eight processes do, and the average of the hour does not show them.
    machine.at += 3600
    assert machine.run(8) == [1]
    machine.run(0, 5)
    machine.at += 3600
    assert machine.run(0) == [2], "the first step after a pause already has both"


def test_load_that_comes_and_goes_changes_the_count_seldom() -> None:
    machine = Machine()
    machine.run(0, 5)
    counts = [count for _ in range(100) for count in (*machine.run(0, 3), *machine.run(2, 3))]
    assert changes(counts) < 12  # of 200 changes of the load
    assert machine.run(0, 100)[-1] == 2


def test_as_many_as_cpus_are_free() -> None:
    machine = Machine(most=8, cpus=8)
    assert machine.run(0, 5)[-1] == 8
    assert machine.run(3, 20)[-1] == 5
    assert machine.run(0.2, 60)[-1] == 8
    assert Machine(most=4, cpus=8).run(0, 5)[-1] == 4
    assert Machine(most=8, cpus=3).run(0, 5)[-1] == 3
    assert not Machine(most=1).counts.due(100.0)


@given(st.lists(st.floats(0, 20), max_size=60), st.integers(1, 9), st.integers(1, 9))
def test_a_steady_load_ends_in_a_steady_count(loads: list[float], most: int, cpus: int) -> None:
    machine = Machine(max(2, most), cpus)
    if not machine.counts.due(1e9):
        return
    for load in loads:
        assert 1 <= machine.run(load)[0] <= min(max(2, most), cpus)
    for load in (0.0, 1.0, 20.0):
        machine.run(load, 80)
        assert changes(machine.run(load, 40)) == 0


def test_the_kernels_counters_are_read() -> None:
    text = (
        "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 10 1 5 1000 7 2 3 4 0 0\ncpu1 1 0 0 0 0 0 0 0 0 0\ncpu12 100 0 0 0 0 0 0 0 0 0\n"
        "intr 5 6\nctxt 7\nprocs_running 3\nprocs_blocked 1\n"
    )
    assert cpu_times(text, {0, 12}) == (125, 3)
    busy, running = cpu_times(Path("/proc/stat").read_text(), {0})
    assert busy > 0 and running >= 1
    with pytest.raises(ValueError):
        cpu_times("cpu0 broken\n", {0})
