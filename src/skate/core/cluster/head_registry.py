"""The registry on the head of a cluster, where it decides. A single node is its own head."""

from __future__ import annotations

from typing import Any

from skate.core.cluster.head_actors import HeadActors
from skate.core.cluster.head_groups import HeadGroups
from skate.core.cluster.membership import Peer
from skate.core.cluster.registry import Handlers
from skate.core.recovery.record_log import RecordLog
from skate.protocol import messages as m
from skate.protocol import registry_records as rr


class HeadRegistry:
    """The actors and placement groups of a cluster. Only the head has it."""

    def __init__(self, actors: HeadActors, groups: HeadGroups, log: RecordLog) -> None:
        self.log = log
        self.actors = actors
        self.groups = groups

        self.create_actor = actors.create
        self.host = actors.host
        self.entry = actors.entry
        self.is_here = actors.is_here
        self.sync_actor = actors.sync
        self.report_actor = actors.report
        self.actor_died = actors.died
        self.actor_starts = actors.starts
        self.actor_ends = actors.ends
        self.kill_elsewhere = actors.kill_elsewhere

        self.freed = groups.freed
        self.forget_owner = groups.forget_owner
        self.end_job = groups.end_job
        self.check_placed = groups.check_placed

        self.handlers: Handlers = {
            m.SEEK: actors.seek,
            m.ACTOR_REPORT: actors.reported,
            m.RESERVED: groups.reserved,
        }

    def ask_head(self, cid: int, number: int, verb: str, arguments: tuple[Any, ...]) -> bool:
        """Return False: this node is the head, so it answers."""
        return False

    def node_joined(self, peer: Peer) -> None:
        """Tell a new node of the groups, and place waiting ones there."""
        name = str(peer.facts.get("name") or peer.address)
        self.log.note(rr.MemberRecord(rr.MEMBER, peer.node_id, name))
        self.groups.node_joined(peer)

    def register_again(self, head: Peer) -> None:
        """Do nothing: this node is the head."""

    def node_left(self, peer: Peer) -> None:
        """Place what was on a lost node elsewhere."""
        self.log.note(rr.MemberGone(rr.MEMBER_GONE, peer.node_id))
        self.groups.node_left(peer)
        self.actors.node_left(peer)

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken."""
        self.actors.check()
        self.groups.check()

    def __repr__(self) -> str:
        return f"<HeadRegistry {self.actors!r} {self.groups!r}>"
