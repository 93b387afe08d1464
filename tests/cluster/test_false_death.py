"""Nobody is taken for dead while all machines are overloaded; `SKATE_OVERLOAD_S=3600` for an hour instead of half a minute."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cluster.cluster import Cluster, Driver, hold
from tests.cluster.namespaces import Program

pytestmark = pytest.mark.cluster_scene

OVERLOAD_S = float(os.environ.get("SKATE_OVERLOAD_S", "30"))
#: Processes that compute, for each CPU; fewer if the host is busy with other work.
COMPUTING = int(os.environ.get("SKATE_OVERLOAD_PROCESSES", "4"))
#: Pulses have to come through between two rounds of work, too.
PAUSE_S = 1.0
#: The bytes of a value that crosses from node to node; a cable is full meanwhile.
VALUE_BYTES = 64_000_000
BUSY = "while True: sum(range(100_000))"
ALL = ("machine1", "machine2", "machine3", "machine4")


@contextmanager
def computing(cluster: Cluster) -> Iterator[list[Program]]:
    """Keep all CPUs busy with programs of every machine."""
    number = COMPUTING * (os.cpu_count() or 1)
    machines = cluster.network.machines
    programs = [machines[each % len(machines)].start(sys.executable, "-c", BUSY) for each in range(number)]
    try:
        yield programs
    finally:
        for program in programs:
            program.kill()
            program.end()


def work_everywhere(driver: Driver, round_number: int) -> None:
    """Run tasks and calls on all machines while a large value crosses between two of them."""
    first, second = (ALL[1 + (round_number + each) % 3] for each in range(2))
    driver.ask(f"value = make.options(**on('{first}')).remote({VALUE_BYTES})")
    crossing = driver.submit(f"ray.get(total.options(**on('{second}')).remote(value))")
    numbers = VALUE_BYTES // 8
    assert driver.answer(crossing, 120) == str(numbers * (numbers - 1) // 2)
    driver.ask(
        f"found = ray.get([where.options(**on(each)).remote() for each in {ALL} for _ in range(50)])", 120
    )
    assert driver.ask("sorted(set(found))") == str(list(ALL))
    assert driver.ask("ray.get([each.add.remote(1) for each in counters])", 120) == str(
        [round_number + 1] * len(ALL)
    )


@pytest.mark.timeout(OVERLOAD_S + 300)
def test_nobody_is_taken_for_dead_under_load(cluster: Cluster) -> None:
    driver = cluster.up()
    driver.ask(f"counters = [Counter.options(**on(each)).remote() for each in {ALL}]")
    reports = driver.reports()
    with computing(cluster) as programs:
        end = time.monotonic() + OVERLOAD_S
        rounds = 0
        while rounds == 0 or time.monotonic() < end:
            work_everywhere(driver, rounds)
            rounds += 1
            hold(PAUSE_S)
        assert all(program.process.poll() is None for program in programs)
    # A change would be a node that was taken for dead, or came back.
    assert driver.reports() == reports
    cluster.down(driver)
