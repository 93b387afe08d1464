"""Gathering: a round of fragments from runners that may die, raise or hang; a pure machine.

A round has one fragment, a slot, per runner. The runner of a slot samples it; after its death it is restarted at once and
samples the slot again, so that the numbers do not depend on the death. Where a restart has to wait, or is not allowed,
another runner samples the slot, so that a round is always whole. Time comes in as an argument, in seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Ask:
    """Let a runner sample a slot. Answers to older asks of the slot are to be ignored."""

    runner: int
    slot: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Restart:
    """Make a runner anew; `restarted` follows."""

    runner: int


@dataclass(frozen=True, slots=True)
class Kill:
    """End a runner that took longer than the time-out."""

    runner: int


@dataclass(frozen=True, slots=True)
class Finish:
    """All slots are sampled, or given up where failures are ignored."""


@dataclass(frozen=True, slots=True)
class Fail:
    """The round cannot be completed; the cause is the last loss of this runner."""

    runner: int


Command = Ask | Restart | Kill | Finish | Fail


@dataclass(frozen=True, slots=True)
class Policy:
    """How losses are treated.

    Attributes:
        restart: True to make lost runners anew.
        ignore: True to continue without the lost runners' slots if they cannot be made anew.
        max_restarts: Restarts of all runners together, over the life of the group.
        delay_s: Seconds between two restarts of one runner that sampled nothing in between.
        timeout_s: Seconds after which a runner counts as hung; None for never.
        max_errors: Times that a slot may end in an error of the environment before the round fails with that error.
        max_losses: Times that a slot may be lost for any reason before the round fails.
    """

    restart: bool = True
    ignore: bool = False
    max_restarts: int = 1000
    delay_s: float = 60.0
    timeout_s: float | None = None
    max_errors: int = 3
    max_losses: int = 10


@dataclass(slots=True)
class Runner:
    """One runner as the machine knows it.

    Attributes:
        state: ``free``, ``busy``, ``restarting``, ``waiting`` (for its next restart) or ``gone``.
        slot: The slot that it samples, if busy.
        since: Time of the ask, or of the next restart if waiting.
        fruitless: Losses since it last sampled something.
    """

    state: str = "free"
    slot: int | None = None
    since: float = 0.0
    fruitless: int = 0


@dataclass(slots=True)
class Slot:
    """One fragment of the round.

    Attributes:
        home: The runner that it belongs to.
        state: ``pending``, ``asked``, ``done`` or ``given up``.
        attempt: Number of asks so far.
        errors: Times that it ended in an error of the environment.
        losses: Times that it was lost for any reason.
    """

    home: int
    state: str = "pending"
    attempt: int = 0
    errors: int = 0
    losses: int = 0


@dataclass(slots=True)
class Gathering:
    """Rounds of fragments from runners.

    Args:
        indices: The runners' indices.
        policy: How losses are treated.
    """

    indices: Sequence[int]
    policy: Policy = field(default_factory=Policy)
    runners: dict[int, Runner] = field(default_factory=dict)
    slots: list[Slot] = field(default_factory=list)
    restarts: int = 0
    over: bool = True

    def __post_init__(self) -> None:
        self.runners = {index: Runner() for index in self.indices}

    def begin(self, now: float, homes: Sequence[int] | None = None) -> list[Command]:
        """Begin a round.

        Args:
            now: The time.
            homes: The runner of each slot; default one slot for each runner.
        """
        assert self.over, "the round before has not ended"
        self.slots = [Slot(home) for home in (self.indices if homes is None else homes)]
        self.over = False
        return self._go_on(now)

    def arrived(self, runner: int, slot: int, attempt: int, now: float) -> list[Command]:
        """Take note of a sampled slot.

        Args:
            runner: The runner that sampled.
            slot: The slot.
            attempt: The number that its ask had.
            now: The time.
        """
        if not self.expects(runner, slot, attempt):
            return []
        one = self.runners[runner]
        one.state, one.slot, one.fruitless = "free", None, 0
        self.slots[slot].state = "done"
        return self._go_on(now)

    def expects(self, runner: int, slot: int, attempt: int) -> bool:
        """True if an answer with these numbers counts."""
        one = self.runners[runner]
        return (
            not self.over and one.state == "busy" and one.slot == slot and self.slots[slot].attempt == attempt
        )

    def lost(self, runner: int, now: float, raised: bool = False) -> list[Command]:
        """Take note of a runner that died, raised, or failed to restart.

        Args:
            runner: The runner; it is taken for dead.
            now: The time.
            raised: True if its environment raised.
        """
        one = self.runners[runner]
        if one.state in ("gone", "waiting"):
            return []
        # A restart that fails counts against the slot that waits for it.
        slot = self.slots[one.slot] if one.slot is not None else self._home_slot(runner)
        if slot is not None and slot.state in ("asked", "pending"):
            slot.state = "pending"
            slot.losses += 1
            slot.errors += int(raised)
        one.slot = None
        one.fruitless += 1
        failing = slot is not None and (
            slot.errors >= self.policy.max_errors or slot.losses >= self.policy.max_losses
        )
        allowed = self.policy.restart and self.restarts < self.policy.max_restarts
        if not allowed:
            one.state = "gone"
        elif one.fruitless > 1 and self._others(runner):
            one.state, one.since = "waiting", now + self.policy.delay_s
        else:
            # The first restart is made at once, and so is any that all of the work waits for.
            one.state, one.since = "waiting", now
        if failing and slot is not None and not self.over:
            if not self.policy.ignore:
                return self._fail(runner)
            slot.state = "given up"
        gone = all(each.state == "gone" for each in self.runners.values())
        if not self.over and not allowed and not self.policy.ignore and (gone or not self.policy.restart):
            return self._fail(runner)
        return self._go_on(now)

    def _fail(self, runner: int) -> list[Command]:
        self.over = True
        return [Fail(runner)]

    def _home_slot(self, runner: int) -> Slot | None:
        return next((slot for slot in self.slots if slot.home == runner and slot.state == "pending"), None)

    def _others(self, runner: int) -> bool:
        return any(each.state in ("free", "busy") for index, each in self.runners.items() if index != runner)

    def restarted(self, runner: int, now: float) -> list[Command]:
        """Take note of a runner that was made anew."""
        one = self.runners[runner]
        if one.state != "restarting":
            return []
        one.state = "free"
        return self._go_on(now)

    def tick(self, now: float) -> list[Command]:
        """Take note of the time: hung runners are ended, waiting ones restarted."""
        commands: list[Command] = []
        limit = self.policy.timeout_s
        for index, one in self.runners.items():
            if one.state == "busy" and limit is not None and now - one.since >= limit:
                commands.append(Kill(index))
                commands.extend(self.lost(index, now))
                if self.over:
                    return commands
        return commands + self._go_on(now)

    def next_time(self) -> float | None:
        """Return the time of the next tick that changes something; None if there is none."""
        limit = self.policy.timeout_s
        times = [one.since for one in self.runners.values() if one.state == "waiting"]
        if limit is not None:
            times += [one.since + limit for one in self.runners.values() if one.state == "busy"]
        return min(times, default=None)

    def abandon(self) -> None:
        """End the round as it is; runners that are busy are taken for dead."""
        self.over = True
        for one in self.runners.values():
            if one.state == "busy":
                one.state, one.slot = "gone", None

    def _go_on(self, now: float) -> list[Command]:
        commands: list[Command] = []
        for index, one in self.runners.items():
            if one.state == "waiting" and (now >= one.since or not self._others(index)):
                if self.restarts < self.policy.max_restarts:
                    one.state = "restarting"
                    self.restarts += 1
                    commands.append(Restart(index))
                else:
                    one.state = "gone"
        if self.over:
            return commands
        commands += self._assign(now)
        if all(slot.state in ("done", "given up") for slot in self.slots):
            self.over = True
            given_up = [slot for slot in self.slots if slot.state == "given up"]
            whole = not given_up or self.policy.ignore
            commands.append(Finish() if whole else Fail(given_up[0].home))
        return commands

    def _assign(self, now: float) -> list[Command]:
        commands: list[Command] = []
        for number, slot in enumerate(self.slots):
            if slot.state != "pending":
                continue
            home = self.runners[slot.home]
            chosen = slot.home if home.state == "free" else None
            if home.state in ("gone", "waiting"):
                chosen = next(
                    (
                        index
                        for index, one in self.runners.items()
                        if one.state == "free" and self._idle(index)
                    ),
                    None,
                )
                if chosen is None and all(each.state == "gone" for each in self.runners.values()):
                    slot.state = "given up"
                    continue
            if chosen is not None:
                slot.state = "asked"
                slot.attempt += 1
                one = self.runners[chosen]
                one.state, one.slot, one.since = "busy", number, now
                commands.append(Ask(chosen, number, slot.attempt))
        return commands

    def _idle(self, runner: int) -> bool:
        """True if no slot of its own waits for a runner."""
        return not any(slot.home == runner and slot.state == "pending" for slot in self.slots)

    def check(self) -> None:
        """Raise AssertionError if the machine contradicts itself."""
        busy = {one.slot: index for index, one in self.runners.items() if one.state == "busy"}
        assert all(one.slot is None or one.state == "busy" for one in self.runners.values())
        assert len(busy) == sum(one.state == "busy" for one in self.runners.values()), (
            "a slot has two runners"
        )
        if not self.over:
            asked = {number for number, slot in enumerate(self.slots) if slot.state == "asked"}
            assert asked == set(busy), f"asked slots {asked} and busy runners {busy} differ"
            alive = any(one.state != "gone" for one in self.runners.values())
            assert alive, "the round waits for nobody"
        assert self.restarts <= self.policy.max_restarts

    def __repr__(self) -> str:
        slots = " ".join(f"{slot.home}:{slot.state}" for slot in self.slots)
        runners = " ".join(f"{index}:{one.state}" for index, one in self.runners.items())
        return f"Gathering(slots [{slots}], runners [{runners}], {self.restarts} restarts{', over' if self.over else ''})"
