"""Several nodes: answers that count twice, unsettled accounts, values lost or kept forever."""

from __future__ import annotations

from tests.simulation.planted.bug import Bug

CLUSTER = ("cluster",)
#: What needs a loss at the right moment: only a long run is sure to notice.
RARE = {
    "a cancelled task of a lost peer is retried",
    "a lost value is recreated, and its task's retries do not count",
    "a lost peer's task whose results had arrived runs again and delivers them twice",
    "a value expected from a lost node is not requested again",
    "an actor is not held at the head by a node with a handle",
    "calls at a lost node return in another order",
    "calls at a lost node run again although they may not",
    "the calls that wait for an actor to be found stay where they are",
    "objects owned by a lost node are still awaited",
    "a message about an earlier plan for a bundle is applied to the current one",
}

BUGS = tuple(
    Bug(name, where, old, new, CLUSTER, name in RARE)
    for name, where, old, new in (
        (
            "a task that a peer has finished stays in its account",
            "skate.core.cluster.task_forwarder:TaskForwarder.answered",
            "peer.outstanding.pop(task.task_id, None) is None",
            "peer.outstanding.get(task.task_id) is None",
        ),
        (
            "a peer's count of a class is not decreased",
            "skate.core.cluster.task_forwarder:TaskForwarder.answered",
            "peer.classes[group] -= 1",
            "pass",
        ),
        (
            "a forwarded task that ends notifies its node twice",
            "skate.core.cluster.task_forwarder:TaskForwarder.ended",
            "elif task.kind != CREATION:",
            "elif task.kind != CREATION:\n"
            "        self.emit(task.client, (m.FINISHED, task.task_id, -1, None))",
        ),
        (
            "a forwarded task is finished, and its node does not forget it",
            "skate.core.cluster.task_forwarder:TaskForwarder._end",
            "self.task_manager.forget(task)",
            "task.state = type(task.state)(2)",
        ),
        (
            "a lost peer's task whose results had arrived runs again and delivers them twice",
            "skate.core.task.task_manager:TaskManager.give",
            "if given is not None and oid in given:",
            "if given is not None and oid in given and index:",
        ),
        (
            "the tasks of a lost peer are forgotten",
            "skate.core.cluster.cluster:Cluster.left",
            "if task.kind == PLAIN:",
            "if task.kind == PLAIN and task.retries:",
        ),
        (
            "a lost peer's task is retried forever",
            "skate.core.cluster.task_forwarder:TaskForwarder.lost",
            "task.retries -= task.retries > 0",
            "pass",
        ),
        (
            "a cancelled task of a lost peer is retried",
            "skate.core.cluster.task_forwarder:TaskForwarder.lost",
            "elif task.cancelled:",
            "elif task.cancelled and not task.retries:",
        ),
        (
            "a peer does not report a task's number of attempts",
            "skate.core.cluster.task_forwarder:TaskForwarder.tell_retried",
            "task.retries",
            "task.retries + 1",
        ),
        (
            "an object of another node is used here, and its owner is not notified",
            "skate.core.cluster.remote_objects:RemoteObjects.used",
            "self.emit(owner.cid, m.Hold(m.HOLD, record.oid))",
            "pass",
        ),
        (
            "an object of another node is released here, and its owner is not notified",
            "skate.core.cluster.remote_objects:RemoteObjects.unused",
            "self.emit(owner.cid, (m.FREE, record.oid, 1))",
            "pass",
        ),
        (
            "the copy of a freed value stays where it was created",
            "skate.core.cluster.remote_objects:RemoteObjects.dropped",
            "self.emit(place.cid, (m.FREE, record.oid, 1))",
            "pass",
        ),
        (
            "memory for a value that does not arrive is kept",
            "skate.core.cluster.remote_objects:RemoteObjects.pulled",
            "self.spill_manager.release(offset)",
            "pass",
        ),
        (
            "a value expected from a lost node is not requested again",
            "skate.core.cluster.remote_objects:RemoteObjects.pulled",
            "self._ask_again(record)",
            "pass",
        ),
        (
            "objects owned by a lost node are still awaited",
            "skate.core.cluster.remote_objects:RemoteObjects.node_left",
            "self._owner_died(record, peer)",
            "pass",
        ),
        (
            "refs inside a value in transit are not pinned",
            "skate.core.cluster.remote_objects:RemoteObjects._pull",
            "self.objects.pin(other)",
            "pass",
        ),
        (
            "the task that created a value is kept after the value is gone",
            "skate.core.cluster.lineage:Lineage.released",
            "if not task.lineage_refs:",
            "if task.lineage_refs < 0:",
        ),
        (
            "the task that created several values is dropped with the first of them",
            "skate.core.cluster.lineage:Lineage.released",
            "if not task.lineage_refs:",
            "if True:",
        ),
        (
            "the task that created a value is dropped too early",
            "skate.core.cluster.lineage:Lineage._keep",
            "if not made:",
            "if len(made) < 2:",
        ),
        (
            "the arguments of a kept task are dropped",
            "skate.core.cluster.lineage:Lineage.retain",
            "if record.oid not in self.needs or",
            "if record.kind in (m.ARENA, m.REMOTE) or record.oid not in self.needs or",
        ),
        (
            "a lost value is recreated, and its task's retries do not count",
            "skate.core.cluster.lineage:Lineage.rebuild",
            "task.retries -= task.retries > 0",
            "pass",
        ),
        (
            "a message about an earlier plan for a bundle is applied to the current one",
            "skate.core.cluster.head_groups:HeadGroups.reserved",
            "if group is None or index not in group.requested or group.planned[index].cid != cid:",
            "if group is None:",
        ),
        (
            "an actor is not held at the head by a node with a handle",
            "skate.core.cluster.member_actors:MemberActors.sync",
            "self.emit(head.cid, m.Hold(m.HOLD, actor.actor_id))",
            "pass",
        ),
        (
            "an actor stays held at the head by a node without a handle",
            "skate.core.cluster.member_actors:MemberActors.sync",
            "self.emit(head.cid, (m.FREE, actor.actor_id, actor.grants))",
            "pass",
        ),
        (
            "an actor stays held at its host when it is unused",
            "skate.core.cluster.head_actors:HeadActors.sync",
            "self.emit(host.cid, (m.FREE, actor.actor_id, 1))",
            "pass",
        ),
        (
            "calls at a lost node run again although they may not",
            "skate.core.actor.actor_manager:ActorManager.resume_elsewhere",
            "elif task.retries:",
            "elif True:",
        ),
        (
            "calls at a lost node return in another order",
            "skate.core.actor.actor_manager:ActorManager.resume_elsewhere",
            "for task in reversed(calls):",
            "for task in calls:",
        ),
        (
            "an actor moves to another node once too often",
            "skate.core.cluster.head_actors:HeadActors.host_lost",
            "actor.restarts < actor.restarts_max",
            "actor.restarts <= actor.restarts_max",
        ),
        (
            "a node is notified of an actor's location once, and not when it moves",
            "skate.core.cluster.head_actors:HeadActors.report",
            "if cid in self.members.alive:",
            "if cid in self.members.alive and actor.state == DEAD:",
        ),
        (
            "the calls that wait for an actor to be found stay where they are",
            "skate.core.cluster.member_actors:MemberActors.located",
            "self.actor_manager.calls.flush(actor)",
            "pass",
        ),
    )
)
