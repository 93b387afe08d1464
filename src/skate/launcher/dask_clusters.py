"""Skate on clusters that Dask's own classes start: `LocalCluster`, `SSHCluster`, `SLURMCluster`, `KubeCluster`, `dask worker`.

These classes start a scheduler and workers of Dask. As a preload of the scheduler, this module starts a head of Skate beside it.
`Node` is a worker that starts a node of Skate, which joins that head. Dask starts, counts and ends the workers; each ends its
node, and a node that has ended ends its worker. Dask's tasks can run on the same workers, but neither side counts the CPUs of the
other.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence

import dask.config
from distributed import Scheduler, Worker
from distributed.comm import get_address_host
from distributed.core import rpc
from distributed.deploy.spec import SpecCluster

from skate.client.session import detached_node

#: The module to preload, for `scheduler_options` and `scheduler_kwargs` of Dask's classes.
PRELOAD = "skate.launcher.dask_clusters"
#: Options of Dask's classes that start the head of Skate with the scheduler.
HEAD: Mapping[str, Sequence[str]] = {"preload": [PRELOAD]}
#: Arguments of `dask worker`, for `worker_extra_args` of the classes of dask-jobqueue.
WORKER_ARGUMENTS: Sequence[str] = ["--worker-class", f"{PRELOAD}.Node"]
#: Keys of Dask's configuration with more options of `skate start`: for the head, and for each node.
HEAD_OPTIONS, NODE_OPTIONS = "skate.head-options", "skate.node-options"
#: The key of the head's facts in the metadata of Dask's scheduler, and of its process among the extensions.
KEY = "skate"
START_SECONDS = 60.0
#: How long a node may take to end before it is killed.
END_SECONDS = 10.0
POLL_SECONDS = 0.1
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)

Facts = dict[str, str]


class NodeProcess:
    """A node of Skate in a process of its own, which ends when the thread that has made it does."""

    def __init__(self, options: Sequence[str]) -> None:
        self.folder = os.path.join(tempfile.gettempdir(), f"skate-{secrets.token_hex(6)}")
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - `end` closes it
        environment = {
            name: value for name, value in os.environ.items() if name not in ("SKATE_ADDRESS", "RAY_ADDRESS")
        }
        words = [sys.executable, "-m", "skate", "start", "--block", f"--temp-dir={self.folder}", *options]
        # A session of its own: SSH kills all processes of a session, but a node needs a moment to clean up.
        self._process = subprocess.Popen(
            words,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
        self.pid = self._process.pid

    async def facts(self) -> Facts:
        """Wait until the node runs; return where it is. Raises RuntimeError with its error."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            if self._process.poll() is not None:
                raise RuntimeError(f"the node of Skate has not started: {self.error()}")
            with contextlib.suppress(OSError):
                found = await asyncio.to_thread(self._status)
                token = os.path.join(self.folder, detached_node.TOKEN_NAME)
                return {
                    "path": str(found["path"]),
                    "address": str(found["cluster"]),
                    "token_file": token if os.path.exists(token) else "",
                }
            if time.monotonic() > deadline:
                raise RuntimeError(f"the node of Skate has not started within {START_SECONDS:g} s")
            await asyncio.sleep(POLL_SECONDS)

    def _status(self) -> Mapping[str, object]:
        return detached_node.status(detached_node.locate("auto", self.folder))

    def error(self) -> str:
        """Return what the node has written to its standard error."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace").strip() or f"status {self._process.returncode}"

    async def ended(self) -> None:
        """Wait for the end of the process."""
        loop = asyncio.get_running_loop()
        done = asyncio.Event()
        watched = os.pidfd_open(self.pid)
        try:
            loop.add_reader(watched, done.set)
            await done.wait()
        finally:
            loop.remove_reader(watched)
            os.close(watched)
        self._process.wait()

    async def end(self) -> None:
        """End the node; kill it if it takes too long. Safe to call more than once."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                await asyncio.wait_for(self.ended(), END_SECONDS)
            except asyncio.TimeoutError:
                self._process.kill()
                self._process.wait()
        self._errors.close()
        shutil.rmtree(self.folder, ignore_errors=True)  # a node that was killed has left files there


def _end_with_parent() -> None:
    """Have the kernel end the node when its worker is killed; runs in the forked child."""
    LIBC.prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)


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
        self._process = NodeProcess([*self._flags(head), *self._options])
        await self._process.facts()
        await super().start_unsafe()
        self._watch = asyncio.create_task(self._close_without_node(self._process))
        return self

    def _flags(self, head: Facts) -> list[str]:
        resources = dict(self.state.total_resources)
        flags = [f"--address={head['address']}", f"--num-cpus={self.state.nthreads}"]
        if os.access(head["token_file"], os.R_OK):
            flags.append(f"--token-file={head['token_file']}")
        if "GPU" in resources:
            flags.append(f"--num-gpus={resources.pop('GPU')}")
        if resources:
            flags.append(f"--resources={json.dumps(resources)}")
        if self.memory_manager.memory_limit:
            flags.append(f"--memory={self.memory_manager.memory_limit}")
        return flags

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
    local = scheduler.address.startswith("inproc")
    host = "127.0.0.1" if local else get_address_host(scheduler.address)
    flags = ["--head", "--port=0", f"--node-ip-address={host}", "--num-cpus=0", "--num-gpus=0"]
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
