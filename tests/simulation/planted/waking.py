"""A waiter whose condition becomes true is not notified."""

from __future__ import annotations

from tests.simulation.planted.bug import Bug

BOTH = ("node", "cluster")
CLUSTER = ("cluster",)

BUGS = (
    Bug(
        "an argument's arrival does not wake the second waiting task",
        "skate.core.object.object_table:ObjectTable.fill",
        "for waiter in waiters:",
        "for waiter in waiters[:1]:",
    ),
    Bug(
        "a value that arrives is sent to only one of its requesters",
        "skate.core.object.object_table:ObjectTable.fill",
        "for cid in fetchers:",
        "for cid in fetchers[:1]:",
        rare=True,
    ),
    Bug(
        "an argument that arrives during the check of all arguments wakes no task",
        "skate.core.task.task_manager:TaskManager.argument_arrived",
        "if not task.missing and task.state == WAITING:",
        "if task.missing < 0 and task.state == WAITING:",
    ),
    Bug(
        "freed resources are offered to the first waiting class only",
        "skate.core.schedule.scheduler:Scheduler.dispatch_all",
        "for group in list(self.waiting.values()):",
        "for group in list(self.waiting.values())[:1]:",
    ),
    Bug(
        "a worker whose class has no more tasks is not released",
        "skate.core.schedule.scheduler:Scheduler.finished",
        "if not worker.outstanding:\n        self.let_go(worker)",
        "if not worker.outstanding and worker.leaving:\n        self.let_go(worker)",
    ),
    Bug(
        "the lease of an idle worker ends without a check for waiting tasks",
        "skate.core.schedule.scheduler:Scheduler.let_go",
        "if self.waiting or self.place is not None:",
        "if self.place is not None:",
    ),
    Bug(
        "CPUs of a task that waits in get are freed without notification",
        "skate.core.schedule.scheduler:Scheduler.blocked",
        "self.dispatch_all()",
        "pass",
    ),
    Bug(
        "tasks that a worker returned are not dispatched again",
        "skate.core.schedule.scheduler:Scheduler.returned",
        "self.dispatch_all()",
        "pass",
    ),
    Bug(
        "freed resources are not offered to placement groups",
        "skate.core.schedule.scheduler:Scheduler.dispatch_all",
        "if self.place is not None:",
        "if self.place is not None and not self.waiting and self.place is None:",
    ),
    Bug(
        "of the calls behind a missing argument only the first is sent when it arrives",
        "skate.core.actor.actor_calls:ActorCalls._advance",
        "while lane and not lane[0].missing:",
        "if lane and not lane[0].missing:",
    ),
    Bug(
        "a cancelled call leaves the calls behind it waiting",
        "skate.core.actor.actor_calls:ActorCalls.dequeue",
        "self._advance(actor, key)",
        "pass",
    ),
    Bug(
        "a dead actor's calls that had not been sent get no answer",
        "skate.core.actor.actor_manager:ActorManager.die",
        "*actor.queue, *lined",
        "*lined",
    ),
    Bug(
        "the reader of a stream continues, and its generator is not notified",
        "skate.core.task.task_manager:TaskManager.consumed",
        "if task.worker is not None:",
        "if task.worker is not None and task.cancelled:",
        rare=True,
    ),
    Bug(
        "a peer has room again, and the tasks that wait for a node are not checked",
        "skate.core.cluster.peer_table:PeerTable.report",
        "if self.waiting or self.scheduler.waiting:",
        "if self.scheduler.waiting:",
        CLUSTER,
    ),
    Bug(
        "a peer has room again, and the tasks queued here are not forwarded",
        "skate.core.cluster.peer_table:PeerTable.pump",
        "while group.queue and self.alive:",
        "while group.queue and not self.alive:",
        CLUSTER,
    ),
    Bug(
        "a node does not report freed resources",
        "skate.core.cluster.peer_table:PeerTable.tick",
        "is_changed = state != self._reported or self.unreported",
        "is_changed = self._reported is None or self.unreported",
        CLUSTER,
        rare=True,
    ),
)
