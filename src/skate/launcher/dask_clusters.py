"""Skate on clusters that Dask's own classes start: `LocalCluster`, `SSHCluster`, `SLURMCluster`, `KubeCluster`, `dask worker`.

These classes start a scheduler and workers of Dask. As a preload of the scheduler, this module starts a head of Skate beside it.
`Node` is a worker that starts a node of Skate, which joins that head. Dask starts, counts and ends the workers; each ends its
node, and a node that has ended ends its worker. Dask's tasks can run on the same workers, but neither side counts the CPUs of the
other.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence

import dask.config
from distributed import Scheduler, Worker
from distributed.core import rpc
from distributed.deploy.spec import SpecCluster

from skate.client.session.dask_session import HEAD_OPTIONS, NODE_OPTIONS, host_of, node_flags
from skate.client.session.node_process import Facts, NodeProcess

#: The module to preload, for `scheduler_options` and `scheduler_kwargs` of Dask's classes.
PRELOAD = "skate.launcher.dask_clusters"
#: Options of Dask's classes that start the head of Skate with the scheduler.
HEAD: Mapping[str, Sequence[str]] = {"preload": [PRELOAD]}
#: Arguments of `dask worker`, for `worker_extra_args` of the classes of dask-jobqueue.
WORKER_ARGUMENTS: Sequence[str] = ["--worker-class", f"{PRELOAD}.Node"]
#: The key of the head's facts in the metadata of Dask's scheduler, and of its process among the extensions.
KEY = "skate"
#: How long the head beside a scheduler may take to start.
START_SECONDS = 60.0
POLL_SECONDS = 0.1


class Node(Worker):  # type: ignore[misc]
    """A worker of Dask with a node of Skate, which has as many CPUs as the worker has threads.

    Args:
        arguments, more: those of Dask's `Worker`. `nthreads`, `memory_limit` and `resources` are also those of the node.
        options: more options of `skate start`, such as ["--num-gpus=1"]; after those of the configuration.
    """

    def __init__(self, *arguments: object, options: Sequence[str] = (), **more: object) -> None:
        super().__init__(*arguments, **more)
        self._options = [*dask.config.get(NODE_OPTIONS, []), *options]
        self._process: NodeProcess | None = None
        self._watch: asyncio.Task[None] | None = None

    async def start_unsafe(self) -> Node:
        """Start the node, then the worker, so that Dask counts only workers whose node runs."""
        await self.rpc.start()  # as Dask's own method does, only earlier
        head = await head_of(self.scheduler)
        token = head["token_file"] if os.access(head["token_file"], os.R_OK) else ""
        self._process = NodeProcess([*node_flags(self, head["address"], token), *self._options])
        await self._process.facts()
        await super().start_unsafe()
        self._watch = asyncio.create_task(self._close_without_node(self._process))
        return self

    async def _close_without_node(self, process: NodeProcess) -> None:
        await process.ended()
        self._watch = None
        await self.close(reason="skate-node-ended")

    async def close(self, *arguments: object, **more: object) -> object:
        """End the node and close the worker."""
        if self._watch is not None:
            self._watch.cancel()
        if self._process is not None:
            await self._process.end()
        return await super().close(*arguments, **more)


async def dask_setup(scheduler: Scheduler) -> None:
    """Start a head of Skate beside a scheduler; called by Dask."""
    flags = ["--head", "--port=0", f"--node-ip-address={host_of(scheduler)}", "--num-cpus=0", "--num-gpus=0"]
    process = scheduler.extensions[KEY] = NodeProcess([*flags, *dask.config.get(HEAD_OPTIONS, [])])
    try:
        facts = await process.facts()
    except RuntimeError as error:  # Dask only logs what a preload raises
        facts = {"error": str(error)}
    scheduler.set_metadata(keys=[KEY], value=facts)


async def dask_teardown(scheduler: Scheduler) -> None:
    """End the head; called by Dask."""
    process = scheduler.extensions.pop(KEY, None)
    if process is not None:
        await process.end()


async def head_of(scheduler: rpc) -> Facts:
    """Return where the head beside a scheduler is.

    Raises:
        RuntimeError: the head has not started, or the scheduler has none.
    """
    deadline = time.monotonic() + START_SECONDS
    while True:
        found: Facts | None = await scheduler.get_metadata(keys=[KEY], default=None)
        if found is not None:
            break
        if time.monotonic() > deadline:
            raise RuntimeError(
                f"Dask's scheduler at {scheduler.address} has no head of Skate: start it with `--preload {PRELOAD}`, or with "
                "dask_clusters.HEAD as scheduler_options or scheduler_kwargs"
            )
        await asyncio.sleep(POLL_SECONDS)
    if "error" in found:
        raise RuntimeError(f"the head beside Dask's scheduler at {scheduler.address}: {found['error']}")
    return found


def address(cluster: SpecCluster) -> str:
    """Return the address of a cluster for `skate.init`: HOST:PORT, or that of the head if it is on this machine.

    Raises:
        RuntimeError: the cluster has no head of Skate.
    """
    found: Facts = cluster.sync(head_of, cluster.scheduler_comm)
    return f"skate://{found['path']}" if os.path.exists(found["path"]) else found["address"]
