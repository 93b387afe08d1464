"""A node that is lost during handle calls: its replicas are replaced, and only their own requests are lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import pytest
from serve.load import Calls, wait_for

import skate
from skate import serve
from skate.cluster_utils import Cluster


@pytest.fixture
def two_nodes() -> Iterator[Cluster]:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    with contextlib.ExitStack() as ends:  # each of them, also after a failure of the one before
        ends.callback(cluster.shutdown)
        ends.callback(skate.shutdown)
        ends.callback(serve.shutdown)
        yield cluster


def test_a_lost_node_is_made_up_for(two_nodes: Cluster) -> None:
    other = two_nodes.add_node(num_cpus=2)
    skate.init(address=two_nodes.address, log_to_driver=False)

    @serve.deployment(
        name="Spread", num_replicas=4, max_ongoing_requests=2, ray_actor_options={"num_cpus": 1}
    )
    class Spread:
        async def __call__(self) -> str:
            await asyncio.sleep(0.002)  # the work itself
            return skate.get_runtime_context().get_node_id()

    serve.start(http_options={"port": 0})
    handle = serve.run(Spread.bind(), name="spread", route_prefix="/spread")
    with Calls(handle, threads=6) as calls:
        wait_for(lambda: len(calls.answers) == 2, "answers of both nodes")
        two_nodes.remove_node(other)
        calls.more(100)
        # Requests that the lost node had begun or received are lost: at most one of each thread.
        assert len(calls.errors) <= 6, calls.errors
        two_nodes.add_node(num_cpus=2)
        wait_for(
            lambda: (
                serve.status().applications["spread"].deployments["Spread"].replica_states == {"RUNNING": 4}
            ),
            "replicas on the node that came",
        )
        wait_for(lambda: len(calls.answers) == 3, "answers of the new node")
    assert len(calls.errors) <= 6, calls.errors
