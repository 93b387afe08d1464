"""A session on a cluster of Dask that runs already: `init("dask://HOST:8786")`.

A plugin of Dask's scheduler starts a head of Skate beside it, and a node beside each worker, also beside those that come later.
All of it belongs to this program: it ends with the session, and with the program's connection to the scheduler. Dask's own
tasks continue meanwhile; neither side counts the CPUs of the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import secrets
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import dask.config
from distributed import Client, Scheduler, Worker
from distributed.comm import get_address_host
from distributed.diagnostics.plugin import SchedulerPlugin, WorkerPlugin
from distributed.protocol.pickle import dumps
from distributed.security import Security

from skate.client.session.attached import Attachment, OwnNode, join
from skate.client.session.node_process import Facts, NodeProcess
from skate.node.driver.address import to_address
from skate.protocol.values import LOOPBACK
from skate.version import __version__

SCHEME = "dask://"
#: Keys of Dask's configuration with more options of `skate start`: for the head, and for each node.
HEAD_OPTIONS, NODE_OPTIONS = "skate.head-options", "skate.node-options"
CONNECT_SECONDS = 10.0
TOKEN_BYTES = 32
NAMED_MAX = 3
#: What a process of Dask has, as an expression: a function of Skate could not be read where Skate is missing.
PROBE = (
    "(lambda has: {'python': __import__('platform').python_version(), "
    "'skate': __import__('skate.version', fromlist=['_']).__version__ if has('skate') else '', "
    "'encrypts': has('cryptography') is not None})(__import__('importlib.util', fromlist=['_']).find_spec)"
)

logger = logging.getLogger("skate")


def host_of(scheduler: Scheduler) -> str:
    """Return the host where a scheduler listens."""
    local = scheduler.address.startswith("inproc")
    return LOOPBACK if local else str(get_address_host(scheduler.address))


def node_flags(worker: Worker, head_address: str, token_file: str) -> list[str]:
    """Return the options of `skate start` for a node beside a worker, with the worker's CPUs, memory and resources."""
    resources = dict(worker.state.total_resources)
    flags = [f"--address={head_address}", f"--num-cpus={worker.state.nthreads}"]
    if token_file:
        flags.append(f"--token-file={token_file}")
    if "GPU" in resources:
        flags.append(f"--num-gpus={resources.pop('GPU')}")
    if resources:
        flags.append(f"--resources={json.dumps(resources)}")
    if worker.memory_manager.memory_limit:
        flags.append(f"--memory={worker.memory_manager.memory_limit}")
    return flags


class Token:
    """The token of one program in a file of this machine that only its owner can read, until `remove`."""

    def __init__(self, token: str) -> None:
        fd, self.path = tempfile.mkstemp(prefix="skate-token-")
        with os.fdopen(fd, "w") as file:
            file.write(token)

    def remove(self) -> None:
        """Remove the file. Safe to call more than once."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)


class NodePlugin(WorkerPlugin):  # type: ignore[misc]
    """Starts a node beside a worker, and ends it."""

    def __init__(self, head_address: str, token: str, options: Sequence[str]) -> None:
        self._head_address = head_address
        self._token = token
        self._options = options

    async def setup(self, worker: Worker) -> None:
        """Start the node. Raises RuntimeError with its error."""
        self._file = Token(self._token)
        flags = node_flags(worker, self._head_address, self._file.path)
        self._process = NodeProcess([*flags, *dask.config.get(NODE_OPTIONS, []), *self._options])
        try:
            await self._process.facts()
        except BaseException:  # also a cancellation, when the worker closes
            await self.teardown(worker)
            raise

    async def teardown(self, worker: Worker) -> None:
        """End the node."""
        await self._process.end()
        self._file.remove()


class HeadPlugin(SchedulerPlugin):  # type: ignore[misc]
    """Starts a head beside a scheduler, and the nodes beside its workers; ends them when the program's client has left."""

    def __init__(
        self, name: str, client: str, token: str, head_options: Sequence[str], options: Sequence[str]
    ) -> None:
        self.name = name
        self._client = client
        self._token = token
        self._head_options = head_options
        self._options = options
        self._begun: set[str] = set()
        self._tasks: set[asyncio.Task[object]] = set()
        self._ended = False

    async def start(self, scheduler: Scheduler) -> None:
        """Start the head. Raises RuntimeError with its error."""
        self._file = Token(self._token)
        flags = [f"--node-ip-address={host_of(scheduler)}", "--num-cpus=0", "--num-gpus=0"]
        flags += [f"--token-file={self._file.path}", *dask.config.get(HEAD_OPTIONS, []), *self._head_options]
        self._process = NodeProcess(["--head", "--port=0", *flags])
        try:
            self.facts = await self._process.facts()
        except BaseException:  # also a cancellation, when the scheduler closes
            await self.close()
            raise

    async def start_nodes(self, scheduler: Scheduler, workers: Sequence[str]) -> dict[str, str]:
        """Start nodes beside these workers; return the errors by worker."""
        self._begun.update(workers)
        plugin = NodePlugin(self.facts["address"], self._token, self._options)
        message = {"op": "plugin-add", "plugin": dumps(plugin), "name": self.name}
        answers = await scheduler.broadcast(msg=message, workers=workers, on_error="return")
        return {
            worker: f"{type(answer).__name__}: {answer}"
            for worker, answer in answers.items()
            if isinstance(answer, Exception)
        }

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        """Start a node beside a worker that comes later."""
        if not self._ended:
            self._do(self._start_late(scheduler, worker))

    async def _start_late(self, scheduler: Scheduler, worker: str) -> None:
        if worker not in self._begun:
            for error in (await self.start_nodes(scheduler, [worker])).values():
                logger.warning("The worker %s gets no node of Skate: %s", worker, error)

    def remove_worker(self, scheduler: Scheduler, worker: str, **more: object) -> None:
        """Forget a worker, whose node ends with it."""
        self._begun.discard(worker)

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """End everything when the program is gone."""
        if client == self._client:
            self._do(self.end(scheduler))

    def _do(self, coroutine: Any) -> None:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def end(self, scheduler: Scheduler) -> None:
        """End the nodes and the head; the scheduler and its workers stay. Safe to call more than once."""
        if self._ended:
            return
        self._ended = True
        message = {"op": "plugin-remove", "name": self.name}
        workers = [worker for worker in self._begun if worker in scheduler.workers]
        await scheduler.broadcast(msg=message, workers=workers, on_error="return")
        await self.close()
        scheduler.plugins.pop(self.name, None)

    async def close(self) -> None:
        """End the head, as the scheduler ends."""
        self._ended = True
        await self._process.end()
        self._file.remove()


async def begin(name: str, dask_scheduler: Scheduler) -> tuple[Facts, dict[str, str]]:
    """On the scheduler: start the nodes beside its workers; return where the head is, and the errors by worker."""
    plugin: HeadPlugin = dask_scheduler.plugins[name]
    return plugin.facts, await plugin.start_nodes(dask_scheduler, list(dask_scheduler.workers))


async def end(name: str, dask_scheduler: Scheduler) -> None:
    """On the scheduler: end what was started for a program."""
    plugin = dask_scheduler.plugins.get(name)
    if plugin is not None:
        await plugin.end(dask_scheduler)


class Guest:
    """The part of a program on a cluster of Dask: its client there, and the node of this machine if it needs one."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._name = f"skate-{secrets.token_hex(6)}"
        self._file: Token | None = None
        self._client = _client(address)
        #: A driver's node of its own, on a machine without the head.
        self.node: OwnNode | None = None

    def begin(self, given: dict[str, Any]) -> Attachment:
        """Start the head and the nodes, and attach to the cluster."""
        self._check()
        token = secrets.token_hex(TOKEN_BYTES)
        options = [dask.config.get(key, []) for key in (HEAD_OPTIONS, NODE_OPTIONS)]
        self._client.register_plugin(
            HeadPlugin(self._name, self._client.id, token, *options), name=self._name
        )
        facts, errors = self._client.run_on_scheduler(begin, self._name)
        if errors:
            raise RuntimeError(f"nodes of Skate have not started beside workers of Dask: {_named(errors)}")
        if os.path.exists(facts["path"]):
            attachment = join(to_address(facts["path"]), given)
        else:
            self._file = Token(token)
            attachment = join(facts["address"], {**given, "_token_file": self._file.path})
        self.node, attachment.node = attachment.node, self
        return attachment

    def _check(self) -> None:
        """Raise RuntimeError if nodes cannot run beside the scheduler or a worker."""
        found = {f"the scheduler {self.address}": self._client.run_on_scheduler(eval, PROBE)}
        found |= {f"the worker {name}": each for name, each in self._client.run(eval, PROBE).items()}
        problems = {name: text for name, each in found.items() if (text := _problem(each))}
        if problems:
            raise RuntimeError(f"this cluster of Dask cannot carry nodes of Skate: {_named(problems)}")

    def forked(self) -> None:
        """Forget everything in a forked child; the connection belongs to the parent."""
        if self.node is not None:
            self.node.forked()

    def end(self) -> None:
        """End the nodes and the head; the cluster of Dask stays. Safe to call more than once."""
        if self.node is not None:
            self.node.end()
            self.node = None
        # A scheduler that is gone has taken all of it along.
        with contextlib.suppress(OSError, asyncio.TimeoutError, asyncio.CancelledError, RuntimeError):
            self._client.run_on_scheduler(end, self._name)
        self._client.close()
        if self._file is not None:
            self._file.remove()


def _client(address: str) -> Client:
    """Connect to a scheduler. Raises ConnectionError with the cause."""
    place = address.removeprefix(SCHEME)
    host, _, port = place.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"an address of Dask's scheduler is dask://HOST:PORT, got {address!r}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except OSError as error:
        raise ConnectionError(
            f"no scheduler of Dask at {address}: {error.strerror or error}; start one there with `dask scheduler`, or check "
            "host and port"
        ) from None
    security = Security()  # as Dask's configuration says
    scheme = "tls" if security.require_encryption else "tcp"
    try:
        return Client(
            f"{scheme}://{place}",
            security=security,
            timeout=CONNECT_SECONDS,
            set_as_default=False,
            name="skate",
        )
    except OSError as error:
        raise ConnectionError(
            f"what listens at {address} does not answer as a scheduler of Dask over {scheme}: {error}"
        ) from None


def _problem(found: Mapping[str, Any]) -> str:
    """Return why a process of Dask cannot have a node of Skate beside it; empty if it can."""
    install = f"pip install 'skate[cluster]=={__version__}'"
    if not found["skate"]:
        return f"has no package skate ({install})"
    if found["skate"] != __version__:
        return f"has Skate {found['skate']}, and this program {__version__} ({install})"
    if not found["encrypts"]:
        return f"has no package cryptography ({install})"
    theirs, ours = found["python"].split(".")[:2], [str(each) for each in sys.version_info[:2]]
    if theirs != ours and not os.environ.get("RAY_IGNORE_VERSION_MISMATCH"):
        return (
            f"runs Python {found['python']}, and this program Python {'.'.join(ours)}: use the same minor version, or set "
            "RAY_IGNORE_VERSION_MISMATCH=1"
        )
    return ""


def _named(problems: Mapping[str, str]) -> str:
    texts = [f"{name} {text}" for name, text in problems.items()]
    more = f"; and {len(texts) - NAMED_MAX} more" if len(texts) > NAMED_MAX else ""
    return "; ".join(texts[:NAMED_MAX]) + more


def connect(address: str, given: dict[str, Any]) -> Attachment:
    """Start Skate on the cluster of Dask at dask://HOST:PORT for this program, and attach to it.

    Raises:
        ConnectionError: no scheduler answers there.
        RuntimeError: a worker cannot have a node; the text names it and the cause.
    """
    guest = Guest(address)
    try:
        attachment = guest.begin(given)
    except BaseException:  # also Ctrl-C: a part of it may run by now
        guest.end()
        raise
    return attachment
