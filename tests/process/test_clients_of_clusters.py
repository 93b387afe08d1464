"""Drivers on machines that have no node of their cluster: each brings a node of its own, which nobody else uses."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance.waiting import wait_for
from tests.process.programs import Program
from tests.process.standing import Node
from tests.process.test_standing_clusters import HEAD_IP, MEMBER_IP, Pair

pytest.importorskip("distributed")
pytest.importorskip("cryptography")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("pair")
    made = Pair(folder)
    made.start()
    yield made
    made.member.kill()
    made.head.kill()


def outside(pair: Pair, folder: Path) -> dict[str, str]:
    """Return the environment of a program on a machine that has the token, and no node."""
    return {
        "SKATE_TMPDIR": str(folder / "none"),
        "SKATE_AUTH_TOKEN_PATH": pair.token[1],
        "SKATE_CACHE_DIR": str(folder / "cache"),
        "TMPDIR": str(folder),
    }


CLIENT = """
    import os, sys
    import numpy as np
    from skate.util import client

    def on(ip):
        return {"num_cpus": 0, "resources": {f"node:{ip}": 0.001}}

    @ray.remote(num_cpus=0)
    def where():
        print("said at", ray.util.get_node_ip_address())
        return ray.get_runtime_context().get_node_id()

    @ray.remote
    class Counter:
        def __init__(self):
            self.count = 0

        def add(self, values):
            self.count += int(values.sum())
            return self.count

        def make(self, size):
            return np.ones(size)
"""


def test_a_client_uses_the_cluster_through_its_head(
    pair: Pair, program: Callable[..., Program], tmp_path: Path
) -> None:
    text = (
        CLIENT
        + """
    os.mkdir("project")
    open("project/only_here.py", "w").write("VALUE = 5")
    context = ray.init(sys.argv[1], runtime_env={"working_dir": "project"})
    assert type(context).__name__ == "ClientContext" and context.python_version and context.ray_version
    assert client.ray.is_connected() and client.num_connected_contexts() == 1
    mine = ray.get_runtime_context().get_node_id()
    assert len(ray.nodes()) == 3 and ray.cluster_resources()["CPU"] == 8
    # Work without CPUs stays in the cluster as well.
    assert mine not in ray.get([where.remote() for _ in range(4)])
    (there,) = {ray.get(where.options(**on("127.0.0.2")).remote()) for _ in range(2)}
    counters = [Counter.options(**on(ip)).remote() for ip in ("127.0.0.1", "127.0.0.2")]
    values = ray.put(np.ones(600_000))
    assert ray.get([each.add.remote(values) for each in counters]) == [600_000] * 2
    assert [float(each.sum()) for each in ray.get([each.make.remote(700_000) for each in counters])] == [7e5] * 2

    @ray.remote(**on("127.0.0.2"))
    def imported():
        import only_here
        return only_here.VALUE

    assert ray.get(imported.remote()) == 5
    context.disconnect()
    assert not ray.is_initialized() and not client.ray.is_connected()
    """
    )
    driver = program(text, f"ray://{pair.address}", **outside(pair, tmp_path))
    assert driver.end() == 0, driver.story()
    assert f", ip={MEMBER_IP}) said at {MEMBER_IP}\n" in driver.out, driver.story()
    driver.gone()
    assert pair.alive() == [HEAD_IP, MEMBER_IP]
    assert not list(tmp_path.glob("skate-driver-*"))


@pytest.mark.parametrize("how", ["ray.init(WHERE)", "ray.client(WHERE).connect()", "ray.util.connect(WHERE)"])
def test_a_killed_driver_takes_its_node_along(
    pair: Pair, program: Callable[..., Program], tmp_path: Path, how: str
) -> None:
    text = (
        CLIENT
        + """
    WHERE = sys.argv[1]
    CONNECT
    silent = ray.remote(num_cpus=0)(lambda: ray.get_runtime_context().get_node_id())
    assert ray.get(silent.remote()) != ray.get_runtime_context().get_node_id()
    print("ready", client.ray.is_connected(), flush=True)
    sys.stdin.readline()
    """.replace("CONNECT", how)
    )
    driver = program(text, pair.address, **outside(pair, tmp_path))
    is_client = "init" not in how
    assert driver.wait_for_output("^ready.*") == f"ready {is_client}"
    assert len(pair.alive()) == 3
    os.kill(driver.process.pid, signal.SIGKILL)
    driver.gone(5.0)
    wait_for(lambda: pair.alive() == [HEAD_IP, MEMBER_IP], 5, "the end of the driver's node")
    wait_for(lambda: not list(tmp_path.glob("skate-driver-*")), 5, "the end of its folder")


def test_why_a_driver_cannot_join_is_said(
    pair: Pair, program: Callable[..., Program], tmp_path: Path
) -> None:
    text = """
    import sys
    try:
        ray.init(address=sys.argv[1])
    except ConnectionError as error:
        print("error", error, flush=True)
    assert not ray.is_initialized()
    """
    here = outside(pair, tmp_path)
    without = program(
        text, f"ray://{pair.address}", **{**here, "SKATE_AUTH_TOKEN_PATH": "", "HOME": str(tmp_path)}
    )
    said = without.wait_for_output("^error.*")
    assert f"no node of the cluster at {pair.address}" in said and "requires its token" in said, said
    assert without.end() == 0, without.story()
    without.gone()
    assert not list(tmp_path.glob("skate-driver-*"))


def test_the_port_of_clients_is_that_of_the_head(node: Node) -> None:
    said = node.start("--ray-client-server-port", "0", "--node-ip-address", HEAD_IP)
    address = (node.folder / "cluster").read_text()
    assert f'skate.init("ray://{address}")' in said
    node.stop()
