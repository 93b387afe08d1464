"""The autoscaler on several nodes of this machine: workers start for what waits, and end when they are unused."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import skate as ray
from skate.autoscaler import sdk
from skate.autoscaler.adaptive import Autoscaler
from skate.autoscaler.demand import Limits
from skate.autoscaler.machines import LocalMachines
from skate.client.session.detached_node import GROWS_LABEL
from skate.util.placement_group import placement_group, remove_placement_group
from tests.conformance.waiting import wait_for

FLAGS = ("--num-gpus=0", "--object-store-memory=100000000")
LONG_S = 60.0
IDLE_S = 1.0


def run_skate(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "skate", *words], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class Running:
    """A head with one CPU, and an autoscaler that may start two workers with two CPUs each."""

    def __init__(self, folder: Path) -> None:
        self.lines: list[str] = []
        self._ended = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        where = f"--temp-dir={folder / 'head'}"
        run_skate(
            "start",
            "--head",
            "--port=0",
            "--node-ip-address=127.0.0.1",
            "--num-cpus=1",
            where,
            f"--labels={GROWS_LABEL}=on",
            *FLAGS,
        )
        status = json.loads(run_skate("status", "--json", where))
        ray.init(f"skate://{status['path']}")
        self.machines = LocalMachines(status["cluster"], 2, folder, ["--num-cpus=2", *FLAGS])
        self.autoscaler = Autoscaler(self.machines, Limits(0, 2, IDLE_S), self.lines.append)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self._loop.run_until_complete(self.autoscaler.run(self._ended, 0.2))
        self._loop.close()

    def close(self, folder: Path) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()
        ray.shutdown()
        for name in self.machines.names:
            self.machines.stop(name)
        run_skate("stop", f"--temp-dir={folder / 'head'}")


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    token = tmp_path / "token"
    token.write_text(os.urandom(32).hex())
    monkeypatch.setenv("SKATE_AUTH_TOKEN_PATH", str(token))
    made = Running(tmp_path)
    try:
        yield made
    finally:
        made.close(tmp_path)


def workers() -> int:
    return sum(1 for node in ray.nodes() if node["Alive"] and not node.get("Draining")) - 1


def wait_for_workers(count: int, running: Running) -> None:
    wait_for(lambda: workers() == count, LONG_S, f"{count} workers; {running.lines}")


@pytest.mark.cluster_scene
def test_the_cluster_grows_for_what_waits_and_shrinks_again(running: Running) -> None:
    @ray.remote(num_cpus=2)
    class Holder:
        def where(self) -> str:
            return str(ray.get_runtime_context().get_node_id())

    # No node can run it yet: it waits, and says why.
    holder: Any = Holder.remote()
    place = holder.where.remote()
    head = next(node["NodeID"] for node in ray.nodes())
    assert ray.get(place, timeout=LONG_S) != head
    wait_for_workers(1, running)

    # The busy worker stays, and another comes for a group that needs both.
    group = placement_group([{"CPU": 2}])
    ray.get(group.ready(), timeout=LONG_S)
    wait_for_workers(2, running)
    remove_placement_group(group)
    wait_for_workers(1, running)
    assert ray.get(holder.where.remote()) == ray.get(place)

    # What is requested stays, used or not.
    sdk.request_resources(bundles=[{"CPU": 2}, {"CPU": 2}])
    wait_for_workers(2, running)
    ray.kill(holder)
    threading.Event().wait(3 * IDLE_S)  # it is the absence of a change that is tested
    assert workers() == 2
    sdk.request_resources(num_cpus=0)
    wait_for_workers(0, running)


@pytest.mark.cluster_scene
def test_what_no_worker_can_hold_waits_and_says_so(running: Running) -> None:
    @ray.remote(num_cpus=64)
    def large() -> int:
        return 1

    waiting = large.remote()
    # One worker shows the size of all, and ends again.
    wait_for(
        lambda: any("local1: ends" in line for line in running.lines), LONG_S, f"its end: {running.lines}"
    )
    ready, _ = ray.wait([waiting], timeout=1)
    assert not ready
    rows = ray.util.state.list_tasks(detail=True)
    assert [row.waits_for for row in rows if row.name == "large"] == [
        "it requests CPU: 64, which is more than any node has and more than a worker that the autoscaler starts (CPU: 2): it "
        "will wait until you add a larger node; cancel it, or request less"
    ]
    (line,) = [line for line in running.lines if "is larger than" in line]
    assert line.startswith("a request of {'CPU': 64.0}") and line.endswith("until you add a larger node")
    ray.cancel(waiting)


@pytest.mark.cluster_scene
def test_a_head_with_a_cluster_file_starts_its_autoscaler_and_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SKATE_AUTH_TOKEN_PATH", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / "cluster.yaml"
    provider = {"type": "local", "head_ip": "127.0.0.1", "worker_ips": ["127.0.0.2"]}
    file.write_text(json.dumps({"cluster_name": "beside", "min_workers": 0, "provider": provider}))
    folder = tmp_path / "head"
    flags = ["--port=0", "--node-ip-address=127.0.0.1", "--num-cpus=1", *FLAGS]
    run_skate("start", "--head", f"--temp-dir={folder}", f"--autoscaling-config={file}", *flags)
    try:
        log = folder / "node.log"
        wait_for(
            lambda: log.exists() and "has 0 to 1 workers" in log.read_text(), LONG_S, "the autoscaler's line"
        )
        (first,) = autoscalers(file)
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: autoscalers(file) not in ([], [first]), LONG_S, "another autoscaler")
    finally:
        run_skate("stop", f"--temp-dir={folder}")
    wait_for(lambda: not autoscalers(file), LONG_S, "the end of the autoscaler")


def autoscalers(file: Path) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = entry.read_bytes().split(b"\0")
            if b"autoscale" in words and os.fsencode(file) in words:
                found.append(int(entry.parent.name))
    return found
