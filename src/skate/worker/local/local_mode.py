"""Local mode: a node whose workers are not processes, so that debuggers, profilers and tracebacks see everything.

The core of the node and the client are the usual ones; only the code around the core differs. A task runs in the
submitting thread, before `.remote()` returns, as far as it can. The rest (waiting for a later call, producing the
next value of a stream) runs whenever a thread waits.
"""

from __future__ import annotations

import contextvars
import os
import time
from typing import TYPE_CHECKING, Any

from skate.client.process import Process
from skate.core.node import SHELL, NodeCore, admit_client
from skate.protocol import messages as m
from skate.protocol.effects import FindStopped, KillWorker, ShellEffect, Spawn
from skate.protocol.shell_events import (
    DRIVER_JOINED,
    STOPPED_FOUND,
    WORKER_LOST,
    DriverJoined,
    StoppedFound,
    WorkerLost,
)
from skate.worker.local.inline_worker import DRIVER, InlineWorker
from skate.worker.local.local_memory import LocalMemory
from skate.worker.local.local_pump import LocalPump

if TYPE_CHECKING:
    from skate.node.settings import Settings

STARTS_WORK = frozenset({m.SUBMIT, m.CALL, m.CREATE_ACTOR})
WAITING_TASKS_SHOWN = 5
#: A number above any sequence number, which reports that all tasks of a worker had begun.
EVERY_TASK = 1 << 62


class LocalHost:
    """Owns the core and the inline workers of a node in local mode. The process is linked to it by direct calls."""

    address = ""
    output = None

    def __init__(self, settings: Settings) -> None:
        self.pump = LocalPump(self.standstill)
        self.lock = self.pump.lock
        self.workers = self.pump.workers
        #: The worker of the current thread or coroutine.
        self.here: contextvars.ContextVar[InlineWorker | None] = contextvars.ContextVar(
            "skate_inline", default=None
        )
        self._settling = False
        node_id = os.urandom(28)
        memory = LocalMemory(settings.object_store_memory)
        self.core = NodeCore(
            settings.totals(),
            gpus=settings.gpu_ids,
            arena_bytes=settings.object_store_memory,
            node_id=node_id,
            memory=memory,
            labels={**settings.labels, "ray.io/node-id": node_id.hex()},
            facts={"address": settings.node_ip_address},
            patient=True,  # nothing runs here while no thread waits
        )
        job = os.urandom(2).rjust(4, b"\0")
        self.process = LocalProcess(self, node_id, job)
        self.process.connect(self)
        self.process.mapping = memory
        self.process.is_driver = True
        self.process.namespace = settings.namespace
        self.process.node_id = node_id
        self.process.node_ip_address = settings.node_ip_address
        self.process.job_environment = settings.runtime_env
        admit_client(
            self.core, DriverJoined(DRIVER_JOINED, job.hex(), settings.namespace, True), time.monotonic()
        )

    # -- effects, under the lock

    def step(self, cid: int, message: tuple[Any, ...]) -> None:
        """Pass a message to the core and carry out its effects, without running user code."""
        self.pump.steps += 1
        self.core.step(cid, message, time.monotonic())
        self.settle()

    def settle(self) -> None:
        """Carry out the core's effects, and any that follow from them."""
        if self._settling:
            return
        self._settling = True
        try:
            while self.core.effects:
                effects = self.core.effects.copy()
                self.core.effects.clear()
                for cid, message in effects:
                    if cid == DRIVER:
                        self.process.handlers[message[0]](message)
                    elif cid == SHELL:
                        self._act(message)
                    elif cid in self.workers:
                        handler = self.workers[cid].handlers.get(message[0])
                        if handler is not None:
                            handler(message)
        finally:
            self._settling = False
        self.pump.changed.notify_all()

    def _act(self, effect: ShellEffect) -> None:
        """Carry out an effect of the core. Local mode has no disk, sockets or processes."""
        match effect:
            case Spawn(cid, _):
                self.workers[cid] = InlineWorker(cid, self)
            case KillWorker(cid):
                if cid in self.workers:
                    self.lose(self.workers[cid], "was killed")
            case FindStopped(cid, number, any_id):
                self.step(SHELL, StoppedFound(STOPPED_FOUND, cid, number, any_id, ()))

    def lose(self, worker: InlineWorker, reason: str) -> None:
        """Remove a worker that has left or was killed."""
        if self.workers.pop(worker.cid, None) is not None:
            worker.close()
            self.step(SHELL, WorkerLost(WORKER_LOST, worker.cid, reason, EVERY_TASK, (), None, "", -1))

    def standstill(self) -> str:
        """Return the message for a wait that can never end because no work remains."""
        waiting = [f"{name}: {why}" for name, why in self.core.snapshot.unended()]
        text = (
            "this would wait forever: in local mode tasks run one after the other where they are "
            "submitted, and nothing "
            "is left to run"
        )
        if waiting:
            text += "; not ended are:\n    " + "\n    ".join(waiting[:WAITING_TASKS_SHOWN])
        return text + "\nsubmit first what it waits for, pass a timeout, or leave local_mode=True out"

    # -- the link of the process

    def send(self, message: tuple[Any, ...]) -> None:
        """Pass a message to the node, and run the tasks that become ready."""
        if message[0] not in STARTS_WORK:
            self.step(DRIVER, message)
            return
        blocked = self.block()  # the current task runs another one, which may need its CPUs
        try:
            self.step(DRIVER, message)
            self.pump.run_ready()
        finally:
            if blocked:
                self.unblock()

    def flush(self) -> None:
        """No-op: nothing is queued."""

    def block(self) -> bool:
        """Release the CPUs and the queue of the current task, which waits."""
        worker = self.here.get()
        if worker is None or worker.gone:
            return False
        worker.block(worker.context.task_id(), in_main=True)
        return True

    def unblock(self) -> None:
        """Resume the current task after a wait."""
        worker = self.here.get()
        if worker is not None:
            worker.unblock(worker.context.task_id())

    # -- the host of the session

    def preload(self, name: str) -> None:
        """No-op: there are no workers to start."""

    def forked(self) -> None:
        """Detach a forked child from everything outside its process."""

    def shutdown(self) -> None:
        """End everything, and drop all pending work."""
        with self.lock:
            self.process.end()
            workers = list(self.workers.values())
            self.workers.clear()
        for worker in workers:
            worker.close()
        self.pump.close()


class LocalProcess(Process):
    """The single process. Its context is that of the current thread's task."""

    def __init__(self, host: LocalHost, node_id: bytes, job: bytes) -> None:
        self._host = host
        super().__init__(DRIVER, host.pump, node_id, job)  # type: ignore[arg-type]

    @property
    def context(self) -> Any:
        """The context of the running task; None in the driver's own code."""
        worker = self._host.here.get()
        return None if worker is None else worker.context

    @context.setter
    def context(self, value: Any) -> None:
        """Ignore the assignment: the context follows from the running code."""
