"""The address of a node: one setting, which everything that shows or uses an address follows."""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import Any

import pytest

import skate as ray
from skate.cluster_utils import Cluster
from skate.command.start import main
from skate.core.cluster.membership import Peer
from skate.node.driver.address import is_network
from skate.node.network import same
from skate.node.settings import Settings
from skate.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from skate.util.state import list_jobs, list_workers
from tests.conformance.waiting import wait_for

SOURCE = Path(ray.__file__).parent
#: The default, and places that listen on loopback for programs of this machine.
MAY_NAME_LOOPBACK = {
    "protocol/values.py",
    "private_names/cluster_test_kit.py",
    "private_names/serve_constants.py",
    "util/tpu.py",
    "serve/config/http.py",
    "serve/command/deploy_verbs.py",
    "serve/command/verbs.py",
    "serve/rest.py",
    "client/session/init.py",
    "command/metrics.py",
    "command/start.py",
    "dashboard/__init__.py",
    "dashboard/__main__.py",
    "dashboard/access.py",
    "dashboard/own_api/serve.py",
    "node/dashboard_process.py",
    "util/http/token_client.py",
}
HEAD, OTHER = "10.20.0.1", "10.20.0.2"
SAID = "it fails on purpose"


def test_no_other_file_decides_about_the_address() -> None:
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "127.0.0.1" in node.value
        if " " not in node.value.strip()  # a text, for people
    }
    assert found == MAY_NAME_LOOPBACK


def test_the_default_is_loopback() -> None:
    assert Settings.of("local", {}).node_ip_address == "127.0.0.1"
    assert Peer(1, bytes(28), {}, {}).address == "127.0.0.1"
    with pytest.raises(TypeError, match="_node_ip_address must be a string"):
        Settings.of("local", {"_node_ip_address": 1})


@pytest.fixture(autouse=True, scope="module")
def no_session() -> None:
    """End what an earlier test module has left."""
    ray.shutdown()


@ray.remote
def look(fail: bool = False) -> Any:
    if fail:
        print(SAID)
        raise ValueError("on purpose")
    return ray.util.get_node_ip_address()


@ray.remote
def end(_: Any = None) -> None:
    os._exit(3)


@ray.remote(num_cpus=0)
class Mortal:
    def end(self) -> None:
        os._exit(3)

    def pid(self) -> int:
        return os.getpid()


def failed_on(ip: str, place: NodeAffinitySchedulingStrategy) -> None:
    """Check that errors of tasks name the address of the node on which those ran, also when other tasks needed them."""
    failing, ending = (each.options(scheduling_strategy=place, max_retries=0) for each in (look, end))
    for ref in (failing.remote(True), look.remote(failing.remote(True)), look.remote(ending.remote())):
        with pytest.raises(ray.exceptions.RayTaskError, match=f"ip={ip}") as failure:
            ray.get(ref)
        assert failure.value.ip == ip
    with pytest.raises(ray.exceptions.WorkerCrashedError, match=f"ip={ip}"):
        ray.get(ending.remote())


def died_on(ip: str, place: NodeAffinitySchedulingStrategy) -> None:
    """Check that errors of dead actors name the address of the node on which those lived."""
    ended, killed = (Mortal.options(scheduling_strategy=place).remote() for _ in range(2))
    pids = ray.get([ended.pid.remote(), killed.pid.remote()])
    ray.kill(killed)
    for actor, call, pid in zip((ended, killed), (ended.end, killed.pid), pids, strict=True):
        with pytest.raises(ray.exceptions.ActorDiedError, match=f"pid={pid}, ip={ip}") as death:
            ray.get(call.remote())
        assert death.value.cause.node_ip_address == ip and death.value.cause.node_id == place.node_id, actor


def test_each_node_of_a_cluster_has_its_own(capfd: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "node_ip_address": HEAD})
    try:
        other = cluster.add_node(num_cpus=1, node_ip_address=OTHER)
        cluster.connect()
        assert [node.node_ip_address for node in cluster.list_all_nodes()] == [HEAD, OTHER]
        assert {node["NodeManagerAddress"] for node in ray.nodes()} == {HEAD, OTHER}
        assert {f"node:{HEAD}", f"node:{OTHER}"} < ray.cluster_resources().keys()
        assert ray.util.get_node_ip_address() == HEAD
        on_other = look.options(scheduling_strategy=NodeAffinitySchedulingStrategy(other.node_id, soft=False))
        assert ray.get(on_other.remote()) == OTHER
        assert ray.get(look.options(resources={f"node:{HEAD}": 0.01}).remote()) == HEAD
        there = NodeAffinitySchedulingStrategy(other.node_id, soft=False)
        failed_on(OTHER, there)
        failed_on(HEAD, NodeAffinitySchedulingStrategy(cluster.head_node.node_id, soft=False))
        died_on(OTHER, there)
        line = f", ip={OTHER}) {SAID}"
        wait_for(lambda: line in capfd.readouterr().out, 10, line)
        shown = {each.node_id: each.ip for each in list_workers(detail=True)}
        assert shown[other.node_id] == OTHER and shown[ray.get_runtime_context().get_node_id()] == HEAD
        assert [job.driver_info["node_ip_address"] for job in list_jobs(detail=True)] == [HEAD]
    finally:
        ray.shutdown()
        cluster.shutdown()


@pytest.mark.parametrize("local_mode", [False, True])
def test_a_session_of_one_node_has_the_one_it_was_given(local_mode: bool) -> None:
    context = ray.init(num_cpus=1, _node_ip_address=HEAD, local_mode=local_mode)
    try:
        assert context.address_info["node_ip_address"] == HEAD
        assert ray.get(look.remote()) == ray.util.get_node_ip_address() == HEAD
        assert [node["NodeManagerAddress"] for node in ray.nodes()] == [HEAD]
    finally:
        ray.shutdown()


@pytest.mark.parametrize(
    ("address", "is_one"),
    [
        ("10.0.0.5:6379", True),
        ("[fd00::1]:6379", True),
        ("one:6379,two:6380", True),
        ("one:6379,two", False),
        ("one:6379,", False),
        (",one:6379", False),
        ("one:70000", False),
        ("/tmp/skate/node-1.sock", False),
        ("auto", False),
    ],
)
def test_addresses_of_clusters(address: str, is_one: bool) -> None:
    assert is_network(address) == is_one


def test_a_cluster_has_one_of_several_addresses_in_common() -> None:
    assert same("127.0.0.1:6379", "127.0.0.1:6379")
    assert same("127.0.0.2:6379,127.0.0.1:6380", "localhost:6380")
    assert not same("127.0.0.2:6379,127.0.0.1:6380", "127.0.0.1:6379")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--head", "--port", "0", "--standby"), "--standby waits for the place of the head"),
        (("--head", "--port", "6379", "--state-dir", "/x", "--standby"), "use it with --block"),
        (("--address", "one:6379,two"), "or several with commas between them"),
    ],
)
def test_wrong_flags_are_refused(
    flags: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(flags) == 1
    assert message in capsys.readouterr().err
