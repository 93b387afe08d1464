"""Themes of random programs, drawn for each run, so that rare features meet in some runs."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Theme:
    """How often programs do each thing: probabilities, except `kinds` and `retries`."""

    streaming: float = 0.1  # a call makes a stream
    large: float = 0.2  # a result goes into shared memory
    passing: float = 0.4  # refs are passed on
    fail: float = 0.12  # a program raises, in its first attempts
    crash: float = 0.04  # it takes its process down
    leave: float = 0.03  # an actor's program ends the actor
    give: float = 0.3  # refs go into the results
    wait: float = 0.12  # an operation of a task waits for a value
    concurrent: float = 0.25  # an actor runs calls side by side
    named: float = 0.3
    restarts: tuple[int, ...] = (0, 0, 1, -1)
    held_cpu: float = 0.3  # an actor holds a part of a CPU
    backpressure: float = 0.0  # a generator waits for its reader
    retries: tuple[int, ...] = (0, 0, 1, 3)
    #: Weights of what drivers do, as factors, by the name of the method that draws it.
    kinds: dict[str, float] = field(default_factory=dict)


MIXED = Theme()
STREAMS = Theme(
    streaming=0.7, large=0.4, fail=0.3, crash=0.15, retries=(1, 3, 3, -1), backpressure=0.4,
    kinds={"_look": 6, "_drop": 2, "_call": 0.5, "_read": 15},
)  # fmt: skip
ACTORS = Theme(
    crash=0.15, leave=0.08, restarts=(1, 3, -1), named=0.5, wait=0.2, held_cpu=0.5, retries=(0, 1, 3), concurrent=0.15,
    kinds={"_call": 5, "_create": 1.5, "_submit": 0.5, "_name": 4, "_kill": 3, "_drop_actor": 2, "_cancel": 3, "_many_calls": 4,
        "_exit": 15},
)  # fmt: skip
SHARING = Theme(
    passing=0.9, give=0.8, wait=0.35, large=0.5, fail=0.05, held_cpu=0.5, concurrent=0.6,
    kinds={"_look": 3, "_drop": 2, "_put": 3},
)  # fmt: skip
FAILING = Theme(
    fail=0.4, crash=0.2, retries=(0, 1, 3, 3, -1), streaming=0.2, passing=0.6, restarts=(0, 1, 1, 3, -1), large=0.6,
    kinds={"_cancel": 8, "_kill": 3},
)  # fmt: skip
GROUPS = Theme(held_cpu=0.6, wait=0.2, kinds={"group_operation": 12, "_submit": 0.5})

BURSTS = Theme(passing=0.6, wait=0.4, fail=0.05, kinds={"_burst": 20, "_cancel": 4, "_submit": 0.5})
CALLS = Theme(
    passing=0.8, named=0.1, held_cpu=0.2, concurrent=0.1,
    kinds={"_call": 6, "_create": 1.5, "_drop_actor": 4, "_cancel": 5, "_kill": 0.3, "_many_calls": 4, "_exit": 6},
)  # fmt: skip
WAITERS = Theme(
    passing=0.9, wait=0.6, concurrent=0.9, held_cpu=0.9, fail=0.03, crash=0.01, leave=0.0,
    kinds={"_many_calls": 15, "_call": 4, "_kill": 0.3, "_drop": 0.3},
)  # fmt: skip
MEMORY = Theme(
    large=0.8, passing=0.8, wait=0.4, give=0.2, fail=0.03, streaming=0.2,
    kinds={"_put": 6, "_look": 8, "_drop": 0.5, "_create": 0.5},
)  # fmt: skip
KEEPERS = Theme(
    large=0.8, passing=0.7, give=0.5, retries=(0, 3, 3, -1), fail=0.03, crash=0.02, held_cpu=0.1,
    kinds={"_look": 5, "_drop": 0.7, "_call": 0.5, "group_operation": 0.2},
)  # fmt: skip

#: The themes of runs; each run draws one.
THEMES = (MIXED, MIXED, STREAMS, ACTORS, SHARING, FAILING, GROUPS, BURSTS, CALLS, WAITERS, MEMORY, KEEPERS)
