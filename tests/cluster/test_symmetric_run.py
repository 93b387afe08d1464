"""`skate symmetric-run`: the same command on three machines."""

from __future__ import annotations

import sys

import pytest

from tests.cluster.cluster import PORT, TOKEN, Cluster
from tests.cluster.namespaces import Machine, Program

PROGRAM = """
import socket
import skate as ray
from skate.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

ray.init()
where = ray.remote(socket.gethostname)
print(sorted(ray.get([where.options(scheduling_strategy=On(node["NodeID"], False)).remote() for node in ray.nodes()])))
raise SystemExit(4)
"""


def begin(cluster: Cluster, machine: Machine, *, patience_s: int = 40) -> Program:
    machine.path("program.py").write_text(PROGRAM)
    return machine.start(
        sys.executable, "-m", "skate", "symmetric-run", "--address", f"machine1:{PORT}", "--min-nodes", "3",
        "--num-cpus=1", "--num-gpus=0", "--object-store-memory=100000000", "--", sys.executable, "/tmp/program.py",
        SKATE_AUTH_TOKEN_PATH=TOKEN, SKATE_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT=str(patience_s),
    )  # fmt: skip


@pytest.mark.cluster_scene
def test_one_command_on_each_machine_is_a_cluster_for_one_program(cluster: Cluster) -> None:
    machines = cluster.network.machines[:3]
    # The head comes last: the others wait for it.
    *others, head = [begin(cluster, machine) for machine in reversed(machines)]
    assert head.end(90) == 4, head.story()
    assert "['machine1', 'machine2', 'machine3']" in head.out
    for program in others:
        assert program.end(30) == 0, program.story()
    for machine in machines:
        cluster.gone(machine)


@pytest.mark.cluster_scene
def test_a_missing_machine_ends_all(cluster: Cluster) -> None:
    machines = cluster.network.machines[:2]
    head, other = [begin(cluster, machine, patience_s=10) for machine in machines]
    assert head.end(60) == 1
    assert "2 of 3 nodes have joined within 10 s" in head.err
    assert "machine1" not in head.out.splitlines()[-1]
    assert other.end(30) == 0, other.story()
    for machine in machines:
        cluster.gone(machine)
