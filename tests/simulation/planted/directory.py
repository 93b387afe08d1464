"""The directory: verdicts about members that still run, fences that come too late, clocks and epochs that are not compared."""

from __future__ import annotations

from tests.simulation.planted.bug import Bug

HEAD = "skate.fabric.directory:HeadDirectory."
MEMBER = "skate.fabric.directory:MemberDirectory."

BUGS = tuple(
    Bug(name, where, old, new, (run,))
    for run, name, where, old, new in (
        (
            "watch",
            "a lease runs from the time when the head was heard",
            MEMBER + "lease",
            "self.head.confirmed",
            "self.head.heard",
        ),
        (
            "watch",
            "a lease is longer than the silence that the head waits for",
            MEMBER + "lease",
            "self.timing.silence",
            "self.timing.silence + 3.0",
        ),
        (
            "watch",
            "a member continues without a head, though few others do not hear it",
            MEMBER + "_fence",
            "if not is_majority:",
            "if False:",
        ),
        (
            "watch",
            "old answers count when the lease has ended",
            MEMBER + "_fence",
            "if now - when <= 2 * timing.ask",
            "if True",
        ),
        (
            "watch",
            "a head in doubt declares members dead",
            HEAD + "_suspect",
            "if now - self.doubted < timing.silence and",
            "if False and",
        ),
        (
            "watch",
            "a head that was in doubt declares members dead at once",
            HEAD + "_suspect",
            "now - self.doubted < timing.silence",
            "now - self.doubted < 0.05",
        ),
        (
            "case",
            "a head that was stopped declares everybody dead",
            HEAD + "_is_silent",
            "and len(self._turns) >= self.timing.turns",
            "",
        ),
        (
            "case",
            "a head that was stopped believes that its members have ended",
            HEAD + "_was_stopped",
            "return stands or now - self._resumed < timing.silence",
            "return False",
        ),
        (
            "case",
            "a member does not go through one that hears the head",
            MEMBER + "answer",
            "return [Relay(HEAD, peer)]",
            "return []",
        ),
        (
            "case",
            "a member that was declared dead is not refused",
            HEAD + "heard",
            "if member is None or member.state == DEAD:",
            "if member is None:",
        ),
        (
            "case",
            "a member obeys an old head",
            MEMBER + "accepts",
            "return epoch == self.epoch",
            "return True",
        ),
        (
            "case",
            "the end of a connection alone is a death",
            HEAD + "_end",
            "if member.connected or member.registered:",
            "if member.connected and member.registered:",
        ),
        (
            "case",
            "a member continues forever without a head",
            MEMBER + "tick",
            "if now >= self.lease + timing.grace:",
            "if False:",
        ),
    )
)
