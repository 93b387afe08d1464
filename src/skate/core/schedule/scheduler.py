"""The scheduler of one node: assigns tasks to workers and resources.

Ready tasks queue by *scheduling class*: tasks with the same resources, environment and placement. A worker is leased to a class,
with its resources, for as long as it has tasks of that class. While resources are free, each queued task gets its own worker.
After that, tasks are sent ahead to leased workers: as many as amount to a few milliseconds of work, by their measured run times.
Tasks of microseconds stay with few workers, although resources are free (`short_tasks`).
No task is sent behind one that runs long or waits, and tasks already sent behind it are called back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from skate.core.clock import Clock
from skate.core.resource.capacity import Capacity
from skate.core.schedule.sched_class import SchedClass
from skate.core.schedule.short_tasks import ShortTasks
from skate.core.schedule.worker_record import IDLE, Worker
from skate.core.schedule.zero_cpu_admission import ZeroCpuAdmission
from skate.core.task.task import Task
from skate.protocol import messages as m
from skate.protocol.states import CREATION, QUEUED, SENT
from skate.protocol.strategies import ANY_BUNDLE, BundleStrategy

AHEAD_SECONDS = 0.004
AHEAD_MAX = 100
STALL_SECONDS = 0.008
IDLE_SECONDS_MAX = 2.0
LEASE_SECONDS_MAX = 0.25

Emit = Callable[[int, m.OfNode], None]


class Starter(Protocol):
    """Sends tasks to the workers chosen here."""

    def lend(self, worker: Worker, task: Task) -> None:
        """Send a worker its new lease, if it has changed."""

    def start(self, task: Task) -> None:
        """Send a task to its worker."""


class Disk(Protocol):
    """The values that are only on disk."""

    spilled: dict[bytes, Any]

    def lacks(self, task: Task) -> bool:
        """Return True if a task takes one of them; start to restore it."""


class Scheduler:
    """The queues, leases and idle workers of one node."""

    def __init__(
        self,
        capacity: Capacity,
        clock: Clock,
        emit: Emit,
        starter: Starter,
        spawn: Callable[[str, str | None], Worker],
        disk: Disk,
    ) -> None:
        self.capacity = capacity
        self.clock = clock
        self.emit = emit
        self._start = starter.start
        self._lend = starter.lend
        self._spawn = spawn
        self.spilled = disk.spilled
        self._lacks = disk.lacks
        #: Tasks that request nothing at all, and those that request other resources than CPUs.
        self.admission = ZeroCpuAdmission(capacity)
        self.cpuless = ZeroCpuAdmission(capacity, by_batch=True)
        self.short_tasks = ShortTasks()
        self.pools: dict[tuple[bytes, int], Capacity] = {}
        self.classes: dict[Any, SchedClass] = {}
        self.workers: dict[int, Worker] = {}
        self.idle: dict[str, list[Worker]] = {}
        #: Classes with queued tasks, in the order they began to wait.
        self.waiting: dict[SchedClass, SchedClass] = {}
        self.watchful = False  # `tick` has something to watch
        self.version = 0  # counts changes of the node's resources
        #: Counts what may let queued tasks run: another task behind them does not, so a batch is not tried again for each.
        self.changes = 0
        #: Tries to place waiting placement groups; set while there are any.
        self.place: Callable[[], None] | None = None
        #: Returns True if ready tasks must wait for memory; set while memory is short.
        self.held: Callable[[], bool] | None = None

    def class_of(self, task: Task) -> SchedClass:
        """Return the scheduling class of a task."""
        template = task.template
        found: SchedClass | None = template.sched_class
        if found is None:
            # A function with `max_calls` has workers of its own, which run one task at a time.
            worn = template.function if template.max_calls else b""
            request = tuple(sorted(template.request.items()))
            key = (request, template.env_key, template.strategy, task.kind == CREATION, worn)
            found = self.classes.get(key)
            if found is None:
                found = self.classes[key] = SchedClass(
                    key,
                    template.request,
                    template.env_key,
                    template.environment,
                    template.strategy,
                    self._admission_of(task),
                )
            template.sched_class = found
        return found

    def _admission_of(self, task: Task) -> ZeroCpuAdmission | None:
        request = task.template.request
        if task.kind == CREATION or request.get("CPU"):
            return None
        return self.cpuless if request else self.admission

    def forget_classes(self, used: set[int]) -> None:
        """Drop the classes without tasks that no template uses; `used` has the identities of those in use."""
        for key, group in list(self.classes.items()):
            if id(group) not in used and not group.queue and not group.workers:
                del self.classes[key]

    # -- queueing

    def enqueue(self, task: Task, front: bool = False) -> None:
        """Queue a task whose arguments are available; it may get a worker at once."""
        group = task.template.sched_class or self.class_of(task)
        if group not in self.waiting and not (self.spilled and task.deps and self._lacks(task)):
            lease = self._acquire(group, task)
            if lease is not None:
                self._launch(group, task, lease)
                return
            worker = self._roomy(group, task) if group.workers else None
            if worker is not None:
                self._send(worker, task)
                return
        task.state = QUEUED
        if front:
            group.queue.appendleft(task)
        else:
            group.queue.append(task)
        if group not in self.waiting:
            self.waiting[group] = group
            self.dispatch(group)
        elif len(group.queue) == 1 or (group.workers and not self._tried(group, front)):
            self.dispatch(group)

    def _tried(self, group: SchedClass, front: bool) -> bool:
        """Return True if nothing has changed for a class since none of its tasks could be sent any more."""
        return group.tried == self.changes and not (front or self.spilled) and self.held is None

    def dequeue(self, task: Task) -> bool:
        """Remove a queued task; return False if it is not in a queue."""
        taken = self.take_out(task)
        if taken and self.spilled:  # the next ones may have waited only while this one's values were restored
            self.dispatch(self.class_of(task))
        return taken

    def take_out(self, task: Task) -> bool:
        """Remove a queued task like `dequeue`, but start no other task in its place yet."""
        self.changes += 1
        group = self.class_of(task)
        queue = group.queue
        # Many removals go from one end: all tasks of a dead process, newest first, or tasks cancelled in order.
        if queue and queue[-1] is task:
            queue.pop()
        elif queue and queue[0] is task:
            queue.popleft()
        else:
            try:
                queue.remove(task)
            except ValueError:
                return False
        if not queue:
            self.waiting.pop(group, None)
        return True

    def dispatch_all(self) -> None:
        """Handle freed resources or workers: try placement groups, then all classes, longest waiting first."""
        self.changes += 1
        if self.place is not None:
            self.place()
        for group in list(self.waiting.values()):
            self.dispatch(group)

    def dispatch(self, group: SchedClass) -> None:
        """Send as many tasks of one class as possible."""
        queue = group.queue
        while queue:
            if self.spilled and queue[0].deps and self._lacks(queue[0]):
                break
            lease = self._acquire(group, queue[0])
            if lease is None:
                break
            self._launch(group, queue.popleft(), lease)
        if queue and group.workers and queue[0].kind != CREATION:
            self._send_ahead(group)
        if not queue:
            self.waiting.pop(group, None)
            return
        group.tried = self.changes
        if group.admission is not None:  # they may wait for each other without end
            self.watchful = True

    def _launch(self, group: SchedClass, task: Task, lease: Any) -> None:
        """Start a task on a worker of its own, with the resources acquired for it."""
        self.changes += 1
        idle = self.idle.get(group.env_key)
        worker = idle.pop() if idle else self._spawn(group.env_key, group.environment)
        worker.lease = lease
        worker.sched_class = group
        worker.stalled = worker.recall_sent = False
        worker.leased_at = self.clock.now
        group.workers[worker.cid] = worker
        if group.admission is not None:
            group.admission.members[worker.cid] = worker
        self._lend(worker, task)
        self._send(worker, task)

    def _roomy(self, group: SchedClass, task: Task) -> Worker | None:
        """Return a leased worker to send the only task of a class ahead to, or None; as `_send_ahead` chooses it."""
        depth = self.depth(task)
        if depth > 1 and self.held is None and task.kind != CREATION:
            for worker in group.workers.values():
                if len(worker.outstanding) < depth and not (worker.stalled or worker.leaving):
                    return worker
        return None

    def _send_ahead(self, group: SchedClass) -> None:
        queue = group.queue
        depth = self.depth(queue[0])
        if depth <= 1 or self.held is not None:
            return
        # Evenly, so that the last tasks of a batch do not all wait behind one worker.
        room = [
            w for w in group.workers.values() if not (w.stalled or w.leaving) and len(w.outstanding) < depth
        ]
        while queue and room:
            still = []
            for worker in room:
                if not queue:
                    break
                if self.spilled and queue[0].deps and self._lacks(queue[0]):
                    return
                self._send(worker, queue.popleft())
                if len(worker.outstanding) < depth:
                    still.append(worker)
            room = still

    def depth(self, task: Task) -> int:
        """Return how many tasks a worker may hold: more if they are short."""
        seconds = task.template.seconds
        if seconds < 0 or task.template.max_calls:
            return 1
        return min(AHEAD_MAX, max(1, int(AHEAD_SECONDS / (seconds + 1e-5))))

    def _acquire(self, group: SchedClass, task: Task) -> Any:
        if self.held is not None and self.held():
            return None
        if group.admission is not None and group.admission.full:
            return None
        enough = len(group.workers) >= self.short_tasks.workers and self.held is None
        if enough and self.short_tasks.have_enough(group, task):
            return None
        strategy = group.strategy
        if strategy is None or not isinstance(strategy, BundleStrategy):
            return self.capacity.acquire(group.request)
        if strategy.bundle != ANY_BUNDLE:
            pool = self.pools.get((strategy.group_id, strategy.bundle))
            return None if pool is None else pool.acquire(group.request)
        for (owner, _), pool in self.pools.items():
            if owner == strategy.group_id:
                lease = pool.acquire(group.request)
                if lease is not None:
                    return lease
        return None

    def has_room(self, group: SchedClass) -> bool:
        """Return True if the first task of a class could get resources now; change nothing."""
        lease = self._acquire(group, group.queue[0])
        if lease is not None:
            lease.capacity.release(lease)
        return lease is not None

    def _send(self, worker: Worker, task: Task) -> None:
        task.state = SENT
        task.worker = worker
        worker.sent += 1
        task.sequence = worker.sent
        if worker.outstanding:
            self.watchful = True
        else:
            worker.progress = self.clock.now
        worker.outstanding[task.task_id] = task
        self._start(task)

    # -- progress

    def finished(self, worker: Worker, task: Task) -> None:
        """Handle a finished task: send its worker the next tasks, or end the lease."""
        self.changes += 1
        worker.progress = self.clock.now
        worker.recall_sent = False
        if worker.blocked:
            self.unblocked(worker, task.task_id)
        group = worker.sched_class
        if group is None:
            return
        queue = group.queue
        # A class that has kept a worker for long gives the other classes a turn.
        over = len(self.waiting) > 1 and self.clock.now - worker.leased_at > LEASE_SECONDS_MAX
        worker.stalled = over or bool(worker.blocked)
        if over and group in self.waiting:
            self.waiting[group] = self.waiting.pop(group)
        elif queue and not worker.leaving and not worker.blocked and self.held is None:
            depth = self.depth(queue[0]) if worker.outstanding else 1
            while queue and len(worker.outstanding) < depth:
                if self.spilled and queue[0].deps and self._lacks(queue[0]):
                    break
                self._send(worker, queue.popleft())
            if not queue:
                self.waiting.pop(group, None)
        if not worker.outstanding:
            self.let_go(worker)

    def let_go(self, worker: Worker) -> None:
        """End a worker's lease; the worker becomes idle or exits."""
        self.end_lease(worker)
        if not worker.leaving:
            worker.idle_since = self.clock.now
            idle = self.idle.setdefault(worker.env_key, [])
            idle.append(worker)
            if len(idle) > 1 or worker.env_key:
                self.watchful = True
        if self.waiting or self.place is not None:
            self.dispatch_all()

    def end_lease(self, worker: Worker) -> None:
        """Release the resources that a worker holds."""
        self.changes += 1
        group = worker.sched_class
        if group is not None:
            group.workers.pop(worker.cid, None)
            worker.sched_class = None
            if group.admission is not None:
                group.admission.members.pop(worker.cid, None)
        lease, worker.lease = worker.lease, None
        if lease is not None:
            lease.capacity.release(lease)
        worker.blocked.clear()

    def returned(self, worker: Worker, tasks: list[Task]) -> None:
        """Queue tasks again that a worker returned because it had not begun them."""
        worker.recall_sent = False
        for task in reversed(tasks):
            if worker.outstanding.pop(task.task_id, None) is None:
                continue
            task.worker = None
            self.requeue(task)
        if not worker.outstanding and worker.sched_class is not None:
            self.let_go(worker)
        self.dispatch_all()

    def requeue(self, task: Task) -> None:
        """Put a task back at the front of its queue without sending it."""
        self.changes += 1
        task.state = QUEUED
        group = self.class_of(task)
        group.queue.appendleft(task)
        self.waiting.setdefault(group, group)

    def blocked(self, worker: Worker, task_id: bytes) -> None:
        """Lend a worker's CPUs to other tasks while its task waits in `get`."""
        worker.blocked.add(task_id)
        worker.stalled = True
        lease = worker.lease
        if lease is not None:
            lease.capacity.return_cpu(lease)
            if worker.sched_class.admission is not None:
                worker.sched_class.admission.members.pop(worker.cid, None)
            self.dispatch_all()

    def unblocked(self, worker: Worker, task_id: bytes) -> None:
        """Take the CPUs back at once when the task resumes."""
        self.changes += 1
        worker.blocked.discard(task_id)
        if not worker.blocked and worker.lease is not None:
            worker.lease.capacity.retake_cpu(worker.lease)
            if worker.sched_class.admission is not None:
                worker.sched_class.admission.members[worker.cid] = worker

    def remove(self, worker: Worker) -> None:
        """Remove a worker process that has ended."""
        self.workers.pop(worker.cid, None)
        idle = self.idle.get(worker.env_key)
        if idle and worker in idle:
            idle.remove(worker)
        self.end_lease(worker)

    # -- time

    def tick(self, now: float) -> float | None:
        """Call back tasks that wait behind long ones and retire idle workers; return the seconds until the next tick."""
        if not self.watchful:
            return None
        again = None
        for group in self.classes.values():
            for worker in group.workers.values():
                if len(worker.outstanding) < 2 or worker.recall_sent or worker.actor is not None:
                    continue
                if now - worker.progress >= STALL_SECONDS:
                    worker.stalled = True
                    self.changes += 1  # short tasks may use other workers now
                    if self._could_use(group):
                        worker.recall_sent = True
                        self.emit(worker.cid, m.TakeBack(m.TAKE_BACK))
                        continue
                again = STALL_SECONDS
        for more in (self._retire(now), self._admit(self.admission, now), self._admit(self.cpuless, now)):
            if more is not None and (again is None or more < again):
                again = more
        self.watchful = again is not None
        return again

    def _admit(self, admission: ZeroCpuAdmission, now: float) -> float | None:
        """Admit more tasks without CPUs when none of those running makes progress."""
        waiting = [group for group in self.waiting if group.admission is admission]
        if not waiting or not admission.full:
            return None
        left = admission.raise_limit(now)
        if left is None:
            for group in waiting:
                self.dispatch(group)
            left = admission.raise_limit(now) if admission.full else None
        return left

    def _could_use(self, group: SchedClass) -> bool:
        strategy = group.strategy
        if isinstance(strategy, BundleStrategy):
            pools = [pool for (owner, _), pool in self.pools.items() if owner == strategy.group_id]
            return any(pool.fits(group.request) for pool in pools)
        return self.capacity.fits(group.request)

    def _retire(self, now: float) -> float | None:
        keep = max(1, self.capacity.total.get("CPU", 0) // 10_000)
        surplus = sum(map(len, self.idle.values())) - keep
        if surplus <= 0:
            return None
        resting = sorted(
            (w for idle in self.idle.values() for w in idle), key=lambda w: (w.idle_since, w.cid)
        )
        for worker in resting[:surplus]:
            if now - worker.idle_since < IDLE_SECONDS_MAX:
                return IDLE_SECONDS_MAX - (now - worker.idle_since)
            self.idle[worker.env_key].remove(worker)
            worker.leaving, worker.ending = True, IDLE
            self.emit(worker.cid, EXIT_MESSAGE)
        return None

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken."""
        self.capacity.check()
        for pool in self.pools.values():
            pool.check()
        for admission in (self.admission, self.cpuless):
            leased = [
                worker for worker in self.workers.values() if worker.lease is not None and worker.sched_class
            ]
            held = {w.cid for w in leased if w.sched_class.admission is admission and not w.blocked}
            assert set(admission.members) == held, f"{admission} should be {held}"
        for group in self.classes.values():
            assert bool(group.queue) == (group in self.waiting), group
            for task in group.queue:
                assert task.state == QUEUED, task
                assert task.worker is None, task
            for worker in group.workers.values():
                assert worker.sched_class is group and worker.lease is not None, worker
                assert worker.outstanding or worker.actor is not None, f"{worker} holds resources for nothing"
                waits = bool(worker.blocked)
                assert waits == worker.lease.cpu_returned, (
                    f"{worker} waits in get, or not, with the wrong CPUs"
                )
        for worker in self.workers.values():
            assert worker.lease is not None or not worker.outstanding, f"{worker} works without resources"
            for task_id, task in worker.outstanding.items():
                assert task.task_id == task_id and task.state == SENT and task.worker is worker, (
                    worker,
                    task,
                )
        for idle in self.idle.values():
            for worker in idle:
                assert not worker.outstanding and worker.lease is None and worker.cid in self.workers, worker
                assert not worker.leaving and worker.actor is None, worker


EXIT_MESSAGE = m.Exit(m.EXIT, "retired")
