"""The registry on a node that is not the head: it passes questions on to the head, and keeps what the head reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skate.core.actor.actor_table import Actor
from skate.core.cluster.member_actors import MemberActors
from skate.core.cluster.member_groups import MemberGroups
from skate.core.cluster.membership import Membership, Peer
from skate.core.cluster.registry import Handlers
from skate.core.recovery.record_log import RecordLog
from skate.core.task.task_manager import TaskManager
from skate.protocol import messages as m


class MemberRegistry:
    """The head's actors and placement groups as another node knows them. The head itself has none of this."""

    def __init__(
        self, actors: MemberActors, groups: MemberGroups, task_manager: TaskManager, members: Membership
    ) -> None:
        self.actors = actors
        self.groups = groups
        self.log = RecordLog(task_manager.out, False)
        self.clients = task_manager.clients
        self.emit = task_manager.out.emit
        self.members = members
        #: Questions at the head: the client that asked, and its number for the question.
        self._questions: dict[int, tuple[int, int, m.Request]] = {}
        self._number = 0

        self.create_actor = actors.create
        self.host = actors.host
        self.entry = actors.entry
        self.is_here = actors.is_here
        self.sync_actor = actors.sync
        self.report_actor = actors.report
        self.kill_elsewhere = actors.kill_elsewhere

        self.handlers: Handlers = {
            m.ACTOR_AT: actors.located,
            m.RESERVE: groups.reserve,
            m.UNRESERVE: groups.unreserve,
            m.GROUP: groups.group_changed,
            m.REPLY: self.reply,
        }

    # -- questions that only the head can answer

    def ask_head(self, cid: int, number: int, verb: str, arguments: tuple[Any, ...]) -> bool:
        """Pass a client's query on to the head; return True."""
        if verb == "group_ready":
            self.groups.await_ready(cid, *arguments)
        self._number += 1
        request = m.Request(m.REQUEST, self._number, verb, arguments)
        self._questions[self._number] = (cid, number, request)
        self.emit(self.members.head.cid, request)
        return True

    def reply(self, cid: int, message: m.Reply) -> None:
        """REPLY: pass the head's answer to the client that asked."""
        _, number, ok, value = message
        found = self._questions.pop(number, None)
        if found is not None and found[0] in self.clients:
            self.emit(found[0], m.Reply(m.REPLY, found[1], ok, value))

    # -- another head

    def node_left(self, peer: Peer) -> None:
        """Handle the loss of a node; if it is the head, what needs one waits for the next."""
        if peer is self.members.head:
            self.actors.head_lost()
        self.actors.node_left(peer)

    def register_again(self, head: Peer) -> None:
        """Report to a new head what the last one knew of this node, and ask what that one has not answered."""
        self.actors.register_again(head)
        self.groups.register_again(head)
        self.actors.create_again(head)
        self.emit(head.cid, m.Registered(m.REGISTERED))
        self.actors.seek_again(head)
        asked = [request.arguments for _, _, request in self._questions.values()]
        for _, _, request in self._questions.values():
            self.emit(head.cid, request)
        self.actors.kill_again(head)
        for oid, group_id in self.groups.table.awaiting.items():
            if (group_id, oid) not in asked:
                self.emit(head.cid, m.Request(m.REQUEST, 0, "group_ready", (group_id, oid)))

    # -- what the head does

    def freed(self, place: Peer) -> None:
        """Do nothing: the head gets the same report, and places the groups."""

    def forget_owner(self, cid: int) -> None:
        """Do nothing: the head has the groups."""

    def end_job(self, job: str, survivors: set[int]) -> None:
        """Do nothing: the head has the groups."""

    def node_joined(self, peer: Peer) -> None:
        """Do nothing: the head tells a new node what it has to know."""

    def actor_starts(self, actor: Actor, construct: Callable[[], None]) -> None:
        """Call `construct`: the head learns from this node where its actors have begun."""
        construct()

    def actor_ends(self, actor: Actor, end: Callable[[], None]) -> None:
        """Call `end`: the head stores it when it learns of it."""
        end()

    def actor_died(self, actor: Actor) -> None:
        """Do nothing: the head has the records."""

    def check(self) -> None:
        """Do nothing: the head has the names of the actors."""

    def check_placed(self) -> None:
        """Do nothing: the head places the groups."""

    def __repr__(self) -> str:
        return f"<MemberRegistry {self.actors!r} {self.groups!r}>"
