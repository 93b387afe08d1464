"""Drivers of a cluster in processes of their own: their jobs have work on every node, with their settings, and end everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from skate.cluster_utils import Cluster
from tests.conformance.waiting import wait_for
from tests.process.programs import Program

PROGRAM = """
    import os, sys
    import rules

    ray.init(sys.argv[1], namespace="shared")

    @ray.remote(resources={"far": 1})
    def look(text):
        print("said", text)
        return rules.WHO, os.getcwd(), os.environ["COLOUR"], ray.get_runtime_context().get_job_id()

    @ray.remote
    def nested():
        return ray.get(look.remote("nested"))

    @ray.remote(resources={"far": 1}, num_cpus=0)
    class Holder:
        def look(self):
            return ray.get(look.remote("by an actor"))

        def pid(self):
            return os.getpid()
"""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A head without the resource `far`, and a node with it."""
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    made.add_node(num_cpus=2, resources={"far": 8}, node_ip_address="127.0.0.9")
    yield made
    made.shutdown()


def jobs_of(cluster: Cluster) -> list[str]:
    """Return the jobs that the head knows."""
    assert cluster._host is not None
    return sorted(cluster._host.core.jobs.jobs)


def with_rules(folder: Path, who: str) -> Path:
    folder.mkdir()
    (folder / "rules.py").write_text(f"WHO = {who!r}\n")
    return folder


def test_settings_of_a_driver_reach_workers_of_other_nodes(
    cluster: Cluster, run: Callable[..., Program], tmp_path: Path
) -> None:
    """Modules, directory and variables are the driver's, on any node; output comes to the driver with the address."""
    for who in ("red", "blue"):
        text = """
    job = ray.get_runtime_context().get_job_id()
    wanted = ("WHO", os.getcwd(), "WHO", job)
    assert ray.get(look.remote("first")) == wanted
    assert ray.get(nested.remote()) == wanted
    assert ray.get(Holder.remote().look.remote()) == wanted
    """.replace("WHO", who)
        folder = with_rules(tmp_path / who, who)
        ended = run(PROGRAM + text, cluster.address, folder=folder, COLOUR=who)
        for word in ("first", "nested", "by an actor"):
            assert f", ip=127.0.0.9) said {word}\n" in ended.out and "(look pid=" in ended.out, ended.story()
        wait_for(lambda: not jobs_of(cluster), 5, "the end of the job")


def test_a_detached_actor_on_another_node_outlives_its_driver(
    cluster: Cluster, run: Callable[..., Program], program: Callable[..., Program], tmp_path: Path
) -> None:
    """The actor keeps the settings of its job and can start more work; other actors end with the driver."""
    folder = with_rules(tmp_path / "first", "red")
    first = program(
        PROGRAM
        + """
    keeper = Holder.options(name="keeper", lifetime="detached").remote()
    other = Holder.options(name="other").remote()
    print("pid", *ray.get([keeper.pid.remote(), other.pid.remote()]), ray.get_runtime_context().get_job_id())
    """,
        cluster.address,
        folder=folder,
        COLOUR="red",
    )
    assert first.end() == 0, first.story()
    ended = run(
        PROGRAM
        + """
    keeper = ray.get_actor("keeper")
    try:
        ray.get_actor("other")
    except ValueError:
        pass
    else:
        raise AssertionError("the other actor lives")
    found = ray.get(keeper.look.remote())
    assert found[0] == found[2] == "red", found
    assert found[3] != ray.get_runtime_context().get_job_id()
    ray.kill(keeper)
    """,
        cluster.address,
        folder=with_rules(tmp_path / "second", "blue"),
        COLOUR="blue",
    )
    assert "by an actor" not in ended.out, "the output of another job"
    wait_for(lambda: not jobs_of(cluster), 5, "the end of both jobs")


def test_a_killed_driver_ends_its_work_on_all_nodes(
    cluster: Cluster, program: Callable[..., Program], tmp_path: Path
) -> None:
    started = program(
        PROGRAM
        + """
    import time

    @ray.remote(resources={"far": 1})
    def sleep(depth):
        print("sleeps", flush=True)
        if depth:
            ray.get(sleep.remote(depth - 1))
        time.sleep(100)

    holder = Holder.remote()
    ray.get(holder.pid.remote())
    refs = [sleep.remote(1)]
    time.sleep(100)
    """,
        cluster.address,
        folder=with_rules(tmp_path / "killed", "red"),
        COLOUR="red",
    )
    started.wait_for_output(r"(?s)sleeps.*sleeps")
    started.process.kill()
    wait_for(lambda: not jobs_of(cluster), 5, "the end of the job")
    host = cluster._host
    assert host is not None
    (peer,) = host.core.members.alive.values()
    wait_for(
        lambda: peer.available.get("far") == peer.total["far"], 5, "the resources of its work to be free"
    )
