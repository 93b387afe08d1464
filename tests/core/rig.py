"""A test rig for a core without a shell: messages in, effects out, `check()` after each message."""

from __future__ import annotations

from typing import Any, TypeVar

from skate.core.node import SHELL, NodeCore, admit_client
from skate.protocol import messages as m
from skate.protocol import shell_events as se
from skate.protocol.effects import EndTask, KillWorker, Spawn
from skate.protocol.fields import Death
from skate.simulation import Spec
from skate.simulation.processes.process import JOB, NODE_TAG
from skate.simulation.programs.spec import CPU, method

E = TypeVar("E")


class Rig:
    """A core with drivers 1, 2, ... and the workers that it spawns."""

    def __init__(self, cpus: int = 1, drivers: int = 1, **options: Any) -> None:
        options.setdefault("node_id", NODE_TAG + bytes(20))
        self.core = NodeCore({"CPU": cpus * CPU, **options.pop("more", {})}, **options)
        self.now = 0.0
        self.outbox: list[tuple[int, Any]] = []
        self.count = 0
        for _ in range(drivers):
            self.join()

    # -- in

    def join(self) -> int:
        """Add a driver; return its id."""
        return admit_client(self.core, se.DriverJoined(se.DRIVER_JOINED, "job", "", False), self.now)

    def report(self, event: se.ShellEvent) -> None:
        self.core.step(SHELL, event, self.now)
        self._collect()

    def send(self, cid: int, *message: Any) -> None:
        self.core.step(cid, message, self.now)
        self._collect()

    def lose(self, cid: int, begun: int = 1 << 62, error: Death | None = None) -> None:
        if cid in self.core.scheduler.workers:
            self.report(se.WorkerLost(se.WORKER_LOST, cid, "was killed", begun, (), error, "", -1))
        else:
            self.report(se.DriverLeft(se.DRIVER_LEFT, cid))

    def tick(self, seconds: float) -> float | None:
        self.now += seconds
        wanted = self.core.tick(self.now)
        self._collect()
        return wanted

    def _collect(self) -> None:
        self.outbox += self.core.effects
        self.core.effects.clear()
        self.core.check()

    # -- out

    def received(self, cid: int, word: int) -> list[tuple[Any, ...]]:
        """Remove and return the messages of one kind that were sent to a process."""
        found = [message for to, message in self.outbox if to == cid and message[0] == word]
        self.outbox = [each for each in self.outbox if each[0] != cid or each[1][0] != word]
        return found

    def shell(self, kind: type[E]) -> list[E]:
        """Remove and return the effects of one kind for the shell."""
        found = [effect for to, effect in self.outbox if to == SHELL and isinstance(effect, kind)]
        self.outbox = [each for each in self.outbox if each[0] != SHELL or not isinstance(each[1], kind)]
        return found

    def shell_cids(self, kind: type[Spawn] | type[KillWorker] | type[EndTask]) -> list[int]:
        """Return the processes to be spawned or killed by the shell."""
        return [effect.cid for effect in self.shell(kind)]

    def results(self, cid: int = 1) -> dict[bytes, str]:
        """Return the results that a caller received: "ok" or the class of an error, by task id."""
        return {
            message[1][:24]: message[3][0] if message[2] == m.ERROR else "ok"
            for to, message in self.outbox
            if to == cid and message[0] == m.RESULT
        }

    def result(self, task_id: bytes, cid: int = 1) -> str | None:
        """Return the result of one call that its caller received."""
        return self.results(cid).get(task_id)

    def error(self, task_id: bytes, cid: int = 1) -> dict[str, Any]:
        """Return the fields of the error that the caller of one call received."""
        (fields,) = [
            message[3][1]
            for to, message in self.outbox
            if to == cid and message[0] == m.RESULT and message[1][:24] == task_id
        ]
        return fields  # type: ignore[no-any-return]

    # -- messages of clients

    def task_id(self, cid: int = 1) -> bytes:
        self.count += 1
        return self.count.to_bytes(8, "little") + NODE_TAG + cid.to_bytes(4, "little") + JOB

    def oid(self, cid: int = 1) -> bytes:
        return self.task_id(cid) + b"\x01\0\0\x80"

    def template(self, cid: int, spec: Spec) -> bytes:
        self.send(cid, m.FUNCTION, b"function", b"code", ())
        self.send(cid, m.TEMPLATE, spec.key, spec.fields())
        return spec.key

    def submit(
        self, *deps: bytes, cid: int = 1, held: tuple[bytes, ...] = (), parent: bytes = b"", **options: Any
    ) -> bytes:
        task_id = self.task_id(cid)
        key = self.template(cid, Spec(options.pop("name", "task"), **options))
        self.send(cid, m.SUBMIT, task_id, key, b"", tuple(enumerate(deps)), held, parent)
        return task_id

    def create(self, *deps: bytes, cid: int = 1, **life: Any) -> bytes:
        self.count += 1
        actor_id = self.count.to_bytes(12, "little") + JOB
        request = life.pop("request", {})
        key = self.template(cid, Spec("Actor", request=request, strategy=life.pop("strategy", None)))
        fields = {"actor_name": "", "namespace": "", "max_restarts": 0, "max_task_retries": 0, **life}
        self.send(cid, m.CREATE_ACTOR, actor_id, key, b"", tuple(enumerate(deps)), (), b"", fields)
        return actor_id

    def living(self, **life: Any) -> tuple[bytes, int]:
        """Start an actor; return its id and its worker."""
        actor_id = self.create(**life)
        worker = self.core.actors.actors[actor_id].worker.cid
        self.done(worker, actor_id, returns=())
        return actor_id, worker

    def call(self, actor_id: bytes, *deps: bytes, cid: int = 1, **options: Any) -> bytes:
        task_id = self.task_id(cid)
        key = self.template(cid, method("call", **options))
        self.send(cid, m.CALL, task_id, actor_id, key, b"", tuple(enumerate(deps)), (), b"")
        return task_id

    def group(self, *bundles: dict[str, int], cid: int = 1, strategy: str = "PACK") -> bytes:
        self.count += 1
        group_id = self.count.to_bytes(18, "little")
        self.send(cid, m.REQUEST, self.count, "create_group", (group_id, bundles, {"strategy": strategy}))
        return group_id

    def ask(self, verb: str, *arguments: Any, cid: int = 1) -> Any:
        self.count += 1
        self.send(cid, m.REQUEST, self.count, verb, arguments)
        (_, _, ok, value) = self.received(cid, m.REPLY)[-1]
        return value if ok else ("refused", value)

    # -- messages of workers

    def done(
        self, worker: int, task_id: bytes, status: int = m.OK, returns: Any = None, retriable: bool = False
    ) -> None:
        if returns is None:
            returns = ((m.INLINE, b"value", ()),) if status == m.OK else ("RayTaskError", {})
        self.send(worker, m.DONE, task_id, status, returns, 50, retriable)

    # -- state

    def state(self, task_id: bytes) -> int | None:
        task = self.core.tasks.get(task_id)
        return None if task is None else task.state

    def worker_of(self, task_id: bytes) -> int:
        worker: int = self.core.tasks[task_id].worker.cid
        return worker

    @property
    def free(self) -> float:
        return self.core.capacity.available["CPU"] / CPU


def first(task_id: bytes) -> bytes:
    """Return the id of a task's first result."""
    return task_id + b"\x01\0\0\0"
