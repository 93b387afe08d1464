"""The directory: who is a member, suspected, draining or dead. Pure: the time is an argument, and actions are returned.

The head keeps a `HeadDirectory`, each other node a `MemberDirectory`. A carrier tells them what it hears and writes, calls
`tick` a few times a second from the loop that also runs the core, and carries out the actions. One verdict counts, the head's:
a dead member is never heard again, and its tasks and actors may run elsewhere. So the verdict needs care on both sides.

*Silence.* Every member writes to the head at least once in `beat` seconds, and the head answers; any write counts. One that has
nothing to write sends a pulse, and the head echoes it. A member that was silent for `silence` seconds is suspected. The head
then asks three others (the indirect probes of SWIM, 2002). If one of them hears the member, their lanes go through it, and there
is no verdict. The head trusts its clock only if its own loop has turned: a head that was stopped buries nobody.

*Fence.* A member ends itself before the head may declare it dead, as with the leases of Gray and Cheriton (1989): its time runs
from the sending of the last write that the head has confirmed, which is earlier than the head's hearing of it. Shortly before
it runs out, the member asks others whether they hear the head. One hears it: the lanes go through that one. More than half of
all members, itself counted, do not hear it: then the head is taken for gone, and the member continues for a grace time. Otherwise
it is cut off, and leaves. In a large cluster, three quarters of a random sample stand for that half: if all asked all others when
a head is silent, a thousand members would make a million connections. A member that finds nothing at the head's address needs no
majority, as long as it has found that out within `silence`: the process is gone.

*Doubt.* A head with confirmed contact to less than half of the members, itself counted, doubts itself, and believes in silence
only after the grace time. If a majority does not hear the head, its writes to them cannot be confirmed either, so either the
head doubts or the member that continues is not alone. After a doubt the head waits as long again, so that members that continued
without it find out first. The end of a connection together with the end of the registration is believed at once: the process is
gone. Only a head that was stopped gives members `silence` to connect again: the kernel ends connections that it does not read.

*Epochs.* Each head has an epoch, one more than that of the head before; members refuse what comes from an older one. They join
a later head again (`mesh_member.py`), with the numbers that they have, and with a new directory.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final, NamedTuple

from skate.fabric.contact import ALIVE, DEAD, DRAINING, JOINING, SUSPECT, Contact, Member
from skate.fabric.contact import Timing as Timing

HEAD: Final = 0

#: The last dead members that are remembered.
DEAD_MAX: Final = 1000
PROBES: Final = 3
#: The head echoes each pulse; if it has written nothing for so many beats, it writes by itself.
ANSWER_BEATS: Final = 1.5
ENDED: Final = "has died (its connections and its registration have ended)"
#: The most members that are asked for a majority, and how many of them count as one, the asking member included.
SAMPLE_MAX: Final = 48
SAMPLE_MAJORITY: Final = 36


class Beat(NamedTuple):
    """Write something to a member: an empty write does."""

    to: int


class Pulse(NamedTuple):
    """Send a pulse to the head, with its number and that of the last one that the head has echoed."""

    number: int
    echoed: int


class Ask(NamedTuple):
    """Ask a member whether it hears another; its carrier answers with `hears`."""

    peer: int
    about: int


class Relay(NamedTuple):
    """Let the lane to a member go through another one."""

    peer: int
    via: int


class Admit(NamedTuple):
    """A member has joined: tell the others."""

    member: int


class Bury(NamedTuple):
    """A member is dead: tell the others. `reason` continues the sentence "node x ..."."""

    member: int
    reason: str
    expected: bool


class Refuse(NamedTuple):
    """Tell one who was declared dead, or never joined, to leave."""

    member: int


class Leave(NamedTuple):
    """End this node and its workers at once."""

    reason: str


HeadAction = Beat | Ask | Relay | Admit | Bury | Refuse
MemberAction = Pulse | Ask | Relay | Leave


class HeadDirectory:
    """The head's half: the members and the verdicts."""

    def __init__(self, epoch: int, now: float, timing: Timing = Timing()) -> None:
        self.epoch = epoch
        self.timing = timing
        self.members: dict[int, Member] = {}
        self.doubted = now - timing.silence  # when the head was in doubt for the last time
        self._turns: deque[float] = deque()
        self._resumed = now - timing.silence  # when the head ran again after it had been stopped

    # -- what the carrier tells

    def register(self, number: int, now: float, patience: float = 0.0) -> None:
        """Add one who wants to join: it is a member when it is heard."""
        if number not in self.members:
            self.members[number] = Member(number, JOINING, Contact(now), patience=patience)

    def heard(self, number: int, now: float) -> list[HeadAction]:
        """Handle anything that has come from a member, by whatever path."""
        member = self.members.get(number)
        if member is None or member.state == DEAD:
            return [Refuse(number)]
        member.contact.heard = now
        if member.state == JOINING:
            member.state = ALIVE
            member.contact.confirmed = now
            return [Admit(number)]
        self._trust(member)
        return []

    def wrote(self, number: int, write: int, now: float) -> None:
        """Note a write to a member."""
        self.members[number].contact.write(write, now)

    def confirmed(self, number: int, write: int) -> None:
        """Handle a receipt of a member."""
        self.members[number].contact.confirm(write)

    def pulsed(self, number: int, pulse: int, echoed: int, now: float) -> list[HeadAction]:
        """Handle a pulse, with the last echo that its sender has; if nothing is returned, the carrier echoes it."""
        actions = self.heard(number, now)
        if not actions:
            contact = self.members[number].contact
            contact.confirm_pulse(echoed)
            contact.pulse(pulse, now)
        return actions

    def answer(self, peer: int, about: int, hears: bool) -> list[HeadAction]:
        """Handle the answer of a member to `Ask`."""
        member = self.members.get(about)
        if member is None or member.state != SUSPECT or peer not in member.asked or peer in member.answers:
            return []
        first = hears and not any(member.answers.values())
        member.answers[peer] = hears
        return [Relay(about, peer)] if first else []

    def disconnected(self, number: int, now: float) -> list[HeadAction]:
        """Handle the end of a member's connection."""
        return self._end(number, now, connected=False)

    def unregistered(self, number: int, now: float) -> list[HeadAction]:
        """Handle the end of a member's registration."""
        return self._end(number, now, registered=False)

    def reconnected(self, number: int) -> None:
        """Handle another connection of a member, which must be registered again too."""
        member = self.members.get(number)
        if member is not None and member.state != DEAD:
            member.connected = member.registered = True

    def _end(
        self, number: int, now: float, connected: bool = True, registered: bool = True
    ) -> list[HeadAction]:
        member = self.members.get(number)
        if member is None or member.state == DEAD:
            return []
        member.connected &= connected
        member.registered &= registered
        if member.connected or member.registered:
            return []
        # The kernel ends what a stopped head does not read; `tick` looks again.
        return [] if self._was_stopped(now) else self._bury(member, ENDED)

    def _was_stopped(self, now: float) -> bool:
        """Return True if this head has not run lately, or has begun again just now: members may have to connect again."""
        timing = self.timing
        stands = bool(self._turns) and now - self._turns[-1] >= timing.reach
        return stands or now - self._resumed < timing.silence

    def hears(self, about: int, now: float) -> bool:
        """Return the answer to a member that asks about another one, or about the head."""
        member = self.members.get(about)
        known = member is not None and now - member.contact.heard <= self.timing.reach
        return about == HEAD or known

    # -- drains

    def drain(self, number: int, deadline: float, reason: str) -> bool:
        """Begin to drain a member, which leaves by the deadline; return False if there is no such member."""
        member = self.members.get(number)
        if member is None or not member.is_living:
            return False
        member.deadline, member.reason = deadline, reason
        if member.state == ALIVE:
            member.state = DRAINING
        return True

    def drained(self, number: int) -> list[HeadAction]:
        """Handle the end of a drain."""
        member = self.members.get(number)
        if member is None or not member.is_living or member.deadline is None:
            return []
        return self._bury(member, f"was drained ({member.reason})", expected=True)

    # -- time

    def tick(self, now: float) -> list[HeadAction]:
        """Return what is due."""
        timing = self.timing
        if self._turns and now - self._turns[-1] >= timing.reach:
            self._resumed = now
        self._turns.append(now)
        while self._turns[0] < now - timing.silence:
            self._turns.popleft()
        due, in_doubt = self._look(now)
        if in_doubt:
            self.doubted = now
        was_stopped = self._was_stopped(now)
        actions: list[HeadAction] = []
        for member in due:
            if not member.is_living:
                if member.state == JOINING and now - member.contact.heard >= timing.silence:
                    del self.members[member.number]
                    actions.append(Refuse(member.number))
                continue
            if now - member.contact.wrote >= ANSWER_BEATS * timing.beat:
                member.contact.wrote = now
                actions.append(Beat(member.number))
            if member.deadline is not None and now >= member.deadline:
                text = f"was drained ({member.reason}), and did not end by the deadline"
                actions += self._bury(member, text, expected=True)
            elif was_stopped:
                continue
            elif not (member.connected or member.registered):
                actions += self._bury(member, ENDED)
            elif self._is_silent(member, now):
                actions += self._suspect(member, now)
        return actions

    def _look(self, now: float) -> tuple[list[Member], bool]:
        """Return the members for which something may be due, and the doubt: one pass, for the sake of many members."""
        timing = self.timing
        written, heard = now - ANSWER_BEATS * timing.beat, now - timing.silence
        confirmed = now - timing.reach - timing.beat  # receipts come with the next beat
        due: list[Member] = []
        living = near = 0
        for member in self.members.values():
            contact = member.contact
            if member.state == ALIVE and not member.patience:
                living += 1
                if contact.confirmed >= confirmed:
                    near += 1
                if (
                    contact.wrote > written
                    and contact.heard > heard
                    and (member.connected or member.registered)
                ):
                    continue
            elif member.is_living and not member.patience:
                living += 1
                near += contact.confirmed >= confirmed
            due.append(member)
        return due, 2 * (1 + near) < 1 + living

    def _is_silent(self, member: Member, now: float) -> bool:
        """Return True if a member was silent for too long, by a clock that can be trusted."""
        patience = self.timing.silence + member.patience
        return now - member.contact.heard >= patience and len(self._turns) >= self.timing.turns

    def _suspect(self, member: Member, now: float) -> list[HeadAction]:
        """Ask others about a silent member, or come to the verdict."""
        timing = self.timing
        if member.asked_at is None:
            member.state = SUSPECT
            return self._ask(member, now)
        if len(member.answers) < len(member.asked) and now - member.asked_at < timing.ask:
            return []
        if any(member.answers.values()):  # it lives, and its lane goes another way by now
            return self._ask(member, now) if now - member.asked_at >= timing.silence else []
        silent = now - member.contact.heard
        if now - self.doubted < timing.silence and silent < timing.grace + timing.silence:
            return []
        others = f" (also not by {len(member.answers)} others)" if member.answers else ""
        return self._bury(member, f"was not heard for {silent:.1f} s{others}")

    def _ask(self, member: Member, now: float) -> list[HeadAction]:
        near = [each for each in self.members.values() if each.state in (ALIVE, DRAINING)]
        near.sort(key=lambda each: (-each.contact.heard, each.number))
        member.asked_at = now
        member.asked = tuple(each.number for each in near[:PROBES])
        member.answers = {}
        return [Ask(peer, member.number) for peer in member.asked]

    def _trust(self, member: Member) -> None:
        if member.state == SUSPECT:
            member.state = ALIVE if member.deadline is None else DRAINING
            member.asked_at, member.asked, member.answers = None, (), {}

    def _bury(self, member: Member, reason: str, expected: bool = False) -> list[HeadAction]:
        if member.state == JOINING:
            del self.members[member.number]
            return []
        member.state, member.reason = DEAD, reason
        dead = [number for number, each in self.members.items() if each.state == DEAD]
        if len(dead) > DEAD_MAX:
            del self.members[dead[0]]
        return [Bury(member.number, reason, expected)]


class MemberDirectory:
    """A member's half: its lease, and the fence at the end of it."""

    def __init__(self, number: int, epoch: int, now: float, timing: Timing = Timing()) -> None:
        self.number = number
        self.epoch = epoch
        self.timing = timing
        self.head = Contact(now)
        self.peers: dict[int, float] = {}  # when the other members, the head left out, were last heard
        self.left = ""  # the reason, once it has left
        self.is_headless = False
        self._gone_at: float | None = None  # when the head's process was last found to be gone
        self._asked_at: float | None = None
        self._asked_all = False
        #: Of members: True if they hear the head, and when they said so.
        self._claims: dict[int, tuple[bool, float]] = {}
        self._last_chance: float | None = None

    # -- what the carrier tells

    def joined(self, number: int, now: float) -> None:
        """Add another member."""
        self.peers[number] = now

    def gone(self, number: int) -> None:
        """Remove another member, as the head has told."""
        self.peers.pop(number, None)
        self._claims.pop(number, None)

    def heard(self, number: int, now: float) -> None:
        """Handle anything that has come from a member, by whatever path."""
        if number == HEAD:
            self.head.heard = now
        elif number in self.peers:
            self.peers[number] = now

    def accepts(self, epoch: int) -> bool:
        """Return True if a head with this epoch may give orders; an older one may not."""
        if epoch > self.epoch:
            self.epoch = epoch
        return epoch == self.epoch

    def head_is_gone(self, now: float) -> None:
        """Note that nothing listens at the head's address: its process has ended, so nobody declares this member dead."""
        self._gone_at = now
        self.is_headless = True

    def wrote(self, write: int, now: float) -> None:
        """Note a write to the head."""
        self.head.write(write, now)

    def confirmed(self, write: int) -> None:
        """Handle a receipt of the head: the lease is renewed."""
        before = self.head.confirmed
        self.head.confirm(write)
        self._renew(before)

    def echoed(self, pulse: int, now: float) -> None:
        """Handle the head's echo of a pulse: the lease is renewed."""
        head = self.head
        before = head.confirmed
        head.heard = now
        head.echoed = max(head.echoed, pulse)
        head.confirm_pulse(pulse)
        self._renew(before)

    def reconnected(self) -> None:
        """Handle another connection to the head: the next look at the time sends a pulse, as the last one may be lost."""
        self.head.wrote = -math.inf

    def _renew(self, before: float) -> None:
        if self.head.confirmed > before:
            self.is_headless = False
            self._gone_at = None
            self._asked_at = self._last_chance = None
            self._asked_all = False
            self._claims.clear()

    def hears(self, about: int, now: float) -> bool:
        """Return the answer to one who asks about a member."""
        when = self.head.heard if about == HEAD else self.peers.get(about)
        return when is not None and now - when <= self.timing.reach

    def answer(self, peer: int, hears: bool, now: float) -> list[MemberAction]:
        """Handle the answer of a member about the head."""
        if self.left or self._asked_at is None or peer not in self.peers:
            return []
        self._claims[peer] = (hears, now)
        if not any(claim for claim, _ in self._claims.values()):
            self._last_chance = None  # who has heard it does so no longer
        if not hears or self._last_chance is not None:
            return []
        self._last_chance = now + 2 * self.timing.ask
        return [Relay(HEAD, peer)]

    def refused(self, epoch: int) -> list[MemberAction]:
        """Handle the head's word that this member is dead."""
        return self._leave("was declared dead by the head") if self.accepts(epoch) else []

    # -- time

    @property
    def lease(self) -> float:
        """The end of the time for which the head cannot declare this member dead."""
        return self.head.confirmed + self.timing.silence

    def tick(self, now: float) -> list[MemberAction]:
        """Return what is due; call this before anything else that was waiting is done."""
        timing = self.timing
        if self.left:
            return []
        actions: list[MemberAction] = []
        if now - self.head.wrote >= timing.beat:
            head = self.head
            head.pulse(head.pulses.newest + 1, now)
            actions.append(Pulse(head.pulses.newest, head.echoed))
        if now >= self.lease + timing.grace:
            return self._leave(f"has not heard the head for {now - self.head.heard:.1f} s")
        if self._gone_at is not None and now - self._gone_at < timing.silence:
            return actions
        if now >= self.lease or self.is_headless:
            return actions + self._fence(now)
        if now >= self.lease - 2 * timing.ask and self._asked_at is None:
            self._asked_at = now
            reach = timing.reach
            near = sorted(self._sample(), key=lambda peer: now - self.peers[peer] > reach)
            actions += [Ask(peer, HEAD) for peer in near[:PROBES]]
        elif now >= self.lease - timing.ask and not self._asked_all:
            self._asked_all = True
            actions += self._ask_all(now)
        return actions

    def _fence(self, now: float) -> list[MemberAction]:
        """Decide, when the lease has ended, whether this member is cut off or the head is gone."""
        timing = self.timing
        if self._last_chance is not None and self.is_headless:  # the head will confirm, or not
            return [] if now < self._last_chance else self._leave(self._cut_off(now))
        deaf = 1 + sum(not hears for hears, when in self._claims.values() if now - when <= 2 * timing.ask)
        needed = 2 + len(self.peers) // 2 if len(self.peers) <= SAMPLE_MAX else SAMPLE_MAJORITY
        is_majority = deaf >= needed
        if not is_majority:
            return self._leave(self._cut_off(now))
        self.is_headless = True
        is_due = self._asked_at is None or now - self._asked_at >= timing.ask
        return self._ask_all(now) if is_due else []

    def _ask_all(self, now: float) -> list[MemberAction]:
        self._asked_at = now
        return [Ask(peer, HEAD) for peer in self._sample()]

    def _sample(self) -> list[int]:
        """Return the members to be asked: all of them, or a sample that is another one for each member that asks."""
        if len(self.peers) <= SAMPLE_MAX:
            return sorted(self.peers)
        return sorted(self.peers, key=lambda peer: hash((self.number, peer)))[:SAMPLE_MAX]

    def _cut_off(self, now: float) -> str:
        return f"is cut off: the head has confirmed nothing for {now - self.head.confirmed:.1f} s"

    def _leave(self, reason: str) -> list[MemberAction]:
        self.left = reason
        return [Leave(reason)]
