"""A small cluster of hollow nodes, so that the study of large ones runs when it is needed."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("distributed")
pytest.importorskip("cryptography")

import skate as ray
from skate.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from tests.conformance.waiting import wait_for
from tests.fabric.dask.hollow_cluster import HollowCluster

COUNT = 4
LONG_S = 60.0


def living() -> list[str]:
    return [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]


def test_hollow_nodes_join_answer_and_are_missed() -> None:
    cluster = HollowCluster()
    try:
        first = cluster.add(2, COUNT)
        assert [each["members"] for each in first] == [COUNT, COUNT]
        one, other = cluster.processes
        for each in (one, other):
            wait_for(lambda: each.figures()["known"] == [2 * COUNT] * COUNT, LONG_S, "all to know all")  # noqa: B023
        with ray.init(cluster.driver_address, log_to_driver=False):
            ids = living()
            assert len(ids) == 2 * COUNT

            task: Any = ray.remote(living)  # which does not run: a hollow node answers with its id

            def on(node_id: str) -> Any:
                wish: Any = NodeAffinitySchedulingStrategy(node_id, soft=False)
                return task.options(scheduling_strategy=wish).remote()

            assert ray.get([on(node_id) for node_id in ids], timeout=LONG_S) == ids
            before = one.figures()
            other.kill()
            wait_for(lambda: len(living()) == COUNT, LONG_S, "the deaths of the killed members")
            wait_for(lambda: one.figures()["known"] == [COUNT] * COUNT, LONG_S, "the news of them")
            after = one.figures()
            assert after["bytes_in"] > before["bytes_in"] and not after["lost"]
    finally:
        cluster.close()
