"""A cluster of several nodes leaves no process, port or file behind, however it ends."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable

import pytest

from tests.process.programs import Program, listening_ports

NODES = """
    import os, sys, time
    from skate.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    nodes = [cluster.add_node(num_cpus=1, resources={f"at{i}": 1}) for i in range(2)]
    ray.init(address=cluster.address)

    @ray.remote(num_cpus=0)
    class Keeper:
        def pid(self):
            return os.getpid()

    keepers = [Keeper.options(resources={f"at{i}": 1}).remote() for i in range(2)]
    pids = ray.get([keeper.pid.remote() for keeper in keepers])

    @ray.remote
    def spin():
        while True:
            time.sleep(0.01)

    running = [spin.remote() for _ in range(3)]
    big = ray.put(bytes(1 << 22))
"""

ENDINGS = {
    "returns": ("", 0),
    "raises": ("raise KeyError('no such thing')", 1),
    "os._exit": ("os._exit(4)", 4),
    "kills itself": ("os.kill(os.getpid(), 9)", -9),
    "shut down": ("ray.shutdown(); cluster.shutdown()", 0),
    "session only": ("ray.shutdown()", 0),
    "cluster only": ("cluster.shutdown()", 0),
}


def folders() -> set[str]:
    return {name for name in os.listdir(tempfile.gettempdir()) if name.startswith("skate-")}


@pytest.mark.parametrize("ending", ENDINGS)
def test_cluster_whose_driver_ends_leaves_nothing(ending: str, program: Callable[..., Program]) -> None:
    before = folders()
    text, code = ENDINGS[ending]
    started = program(NODES + "    " + text)
    assert started.end() == code, started.story()
    started.gone()
    assert folders() == before


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_cluster_whose_driver_is_killed_leaves_nothing(
    number: signal.Signals, program: Callable[..., Program]
) -> None:
    before = folders()
    started = program(NODES + '    print("up", flush=True)\n    time.sleep(60)')
    started.wait_for_output("^up")
    os.kill(started.process.pid, number)
    started.end()
    started.gone()
    assert folders() == before


def test_nodes_listen_on_no_port_and_have_no_file(program: Callable[..., Program]) -> None:
    before = folders()
    text = """
    print("pids", os.getpid(), *[node.pid for node in nodes], flush=True)
    time.sleep(60)
    """
    started = program(NODES + text)
    pids = [int(pid) for pid in started.wait_for_output("^pids.*$").split()[1:]]
    assert len(pids) == 3
    assert not list(listening_ports(pids))
    assert folders() == before


def test_killed_node_takes_its_workers_along(run: Callable[..., Program]) -> None:
    run(
        NODES
        + """
    nodes[0].kill()
    deadline = time.monotonic() + 10
    while os.path.exists(f"/proc/{pids[0]}"):
        assert time.monotonic() < deadline, "the worker of the killed node lives on"
        time.sleep(0.01)
    assert ray.get(keepers[1].pid.remote()) == pids[1]
    """
    )


def test_value_arrives_from_a_node_that_dies_meanwhile_or_is_an_error(run: Callable[..., Program]) -> None:
    run(
        """
    import os, time
    from skate.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    ray.init(address=cluster.address)

    @ray.remote(num_cpus=1, max_retries=0)
    def make():
        return bytes(50_000_000)

    for turn in range(3):
        node = cluster.add_node(num_cpus=1, resources={"there": 1})
        made = make.options(resources={"there": 1}).remote()
        ray.wait([made], fetch_local=False)
        asked = made.future()
        os.kill(node.pid, 9)
        try:
            assert len(asked.result(timeout=20)) == 50_000_000
        except ray.exceptions.ObjectLostError as error:
            assert made.hex() in str(error)
    """
    )
