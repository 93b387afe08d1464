"""Programs of Skate on a cluster of Dask that runs already."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("distributed")
pytest.importorskip("cryptography")

import dask.config
from distributed import Client, Scheduler
from distributed.diagnostics.plugin import SchedulerPlugin, WorkerPlugin

import skate as ray
from skate.client.session import dask_session
from skate.version import __version__
from tests.conformance.waiting import wait_for
from tests.launcher.test_dask_clusters import LONG_S, SMALL, nodes_of_skate

CLUSTER = """
import sys
from distributed import LocalCluster

if __name__ == "__main__":
    with LocalCluster(n_workers=int(sys.argv[1]), threads_per_worker=1, dashboard_address=None) as cluster:
        print(cluster.scheduler_address, flush=True)
        for line in sys.stdin:
            cluster.scale(int(line))
"""
PROGRAM = """
import sys, time
import skate as ray
ray.init(sys.argv[1], log_to_driver=False)
print(int(ray.cluster_resources()["CPU"]), flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def small() -> Iterator[None]:
    with dask.config.set({dask_session.NODE_OPTIONS: SMALL, dask_session.HEAD_OPTIONS: SMALL[1:]}):
        yield


class Running:
    """A cluster of Dask in a process of its own; `scale` sets the number of its workers."""

    def __init__(self, workers: int) -> None:
        words = [sys.executable, "-c", CLUSTER, str(workers)]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.scheduler = self._process.stdout.readline().strip()
        self.address = "dask://" + self.scheduler.removeprefix("tcp://")

    def scale(self, workers: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{workers}\n")
        self._process.stdin.flush()

    def close(self) -> None:
        self._process.communicate("", LONG_S)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Running]:
    cluster = Running(2)
    yield cluster
    cluster.close()


def plugins(dask_scheduler: Scheduler) -> list[str]:
    return [name for name in dask_scheduler.plugins if name.startswith("skate-")]


def tokens() -> set[str]:
    return {name for name in os.listdir(tempfile.gettempdir()) if name.startswith("skate-token-")}


def place() -> str:
    return str(ray.get_runtime_context().get_node_id())


def double(number: int) -> int:
    return 2 * number


def assert_clean(client: Client, before: set[str]) -> None:
    """Assert that nothing of Skate is left."""
    assert nodes_of_skate() <= before
    assert client.run_on_scheduler(plugins) == [] and tokens() == set()


def test_a_program_runs_beside_tasks_of_dask(cluster: Running) -> None:
    before = nodes_of_skate()
    with Client(cluster.scheduler) as client:
        pids = client.run(os.getpid)
        with ray.init(cluster.address, log_to_driver=False):
            assert ray.cluster_resources()["CPU"] == 2.0
            task: Any = ray.remote(place)
            several = client.map(double, range(20))
            places = {
                node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")
            }
            wish = {"scheduling_strategy": "SPREAD"}
            assert set(ray.get([task.options(**wish).remote() for _ in range(8)], timeout=LONG_S)) == places
            assert client.gather(several) == [double(number) for number in range(20)]
        assert_clean(client, before)
        assert client.run(os.getpid) == pids
        assert client.submit(double, 21).result(LONG_S) == 42


def test_a_worker_without_the_package_is_named(cluster: Running) -> None:
    with Client(cluster.scheduler) as client:
        worker = next(iter(client.scheduler_info()["workers"]))
        client.run(exec, "import sys; sys.modules['skate'] = None", workers=[worker])
        try:
            with pytest.raises(
                RuntimeError, match=rf"the worker {worker} has no package skate \(pip install"
            ):
                ray.init(cluster.address)
        finally:
            client.run(exec, "import sys; del sys.modules['skate']", workers=[worker])
    assert not ray.is_initialized() and not tokens()


def test_other_versions_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    fine = {"skate": __version__, "python": sys.version.split()[0], "encrypts": True}
    assert eval(dask_session.PROBE) == fine
    assert dask_session._problem(fine) == ""
    assert "has Skate 0.0.1, and this program " in dask_session._problem({**fine, "skate": "0.0.1"})
    assert "has no package cryptography" in dask_session._problem({**fine, "encrypts": False})
    other = {**fine, "python": "3.8.1"}
    assert "runs Python 3.8.1, and this program Python 3." in dask_session._problem(other)
    monkeypatch.setenv("RAY_IGNORE_VERSION_MISMATCH", "1")
    assert dask_session._problem(other) == ""


def test_addresses_without_a_scheduler_are_named() -> None:
    with pytest.raises(
        ConnectionError, match=r"no scheduler of Dask at dask://127\.0\.0\.1:1: Connection refused"
    ):
        ray.init("dask://127.0.0.1:1")
    with pytest.raises(ValueError, match=r"is dask://HOST:PORT, got 'dask://somewhere'"):
        ray.init("dask://somewhere")


def test_dask_has_the_names_that_sessions_use() -> None:
    assert {"remove_client", "add_worker", "remove_worker", "start", "close"} <= set(dir(SchedulerPlugin))
    assert {"setup", "teardown"} <= set(dir(WorkerPlugin))
    assert "plugin-add" in Path(sys.modules["distributed.worker"].__file__ or "").read_text()
    assert Scheduler.broadcast.__kwdefaults__["on_error"] == "raise"


@pytest.mark.cluster_scene
def test_workers_that_come_later_get_nodes_which_end_with_a_killed_program() -> None:
    before = nodes_of_skate()
    cluster = Running(1)
    try:
        with ray.init(cluster.address, log_to_driver=False):
            cluster.scale(2)
            wait_for(lambda: ray.cluster_resources().get("CPU") == 2.0, LONG_S, "the node of a new worker")
            cluster.scale(1)
            wait_for(lambda: ray.cluster_resources().get("CPU") == 1.0, LONG_S, "the end of a node")
        words = [sys.executable, "-c", PROGRAM, cluster.address]
        program = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert program.stdout is not None and program.stdout.readline() == "1\n"
        program.send_signal(signal.SIGKILL)
        program.communicate()
        wait_for(lambda: nodes_of_skate() <= before, LONG_S, "the end of the nodes")
        with Client(cluster.scheduler) as client:
            assert client.submit(double, 21).result(LONG_S) == 42
            assert_clean(client, before)
    finally:
        cluster.close()
