"""The client half: grants not counted or given back twice, credit that is not sent, values given up under a reader."""

from __future__ import annotations

from tests.simulation.planted.bug import Bug

CORE = "skate.client.core.client_core:ClientCore."
STREAM = "skate.client.core.stream:Stream."

BUGS = (
    Bug(
        "a client forgets the grant of a ref that escapes",
        CORE + "escape",
        "ref._grants = 1",
        "ref._grants = 0",
    ),
    Bug(
        "a client publishes a value without what is inside",
        CORE + "escape",
        "held = tuple(self.escape(inner) for inner in inside)",
        "held = ()",
    ),
    Bug(
        "a client does not publish the result of a ref that escaped before it",
        CORE + "_fill",
        "if ref._grants and not kept:",
        "if ref._grants and kept > 1:",
    ),
    Bug(
        "a client does not count the grant of a result that its node keeps",
        CORE + "_fill",
        "ref._grants += 1",
        "pass",
    ),
    Bug(
        "a client does not count the grant of a value that it asked for",
        CORE + "_value",
        "ref._grants += 1",
        "pass",
    ),
    Bug(
        "a client keeps a ref pending whose value has come",
        CORE + "_value",
        "self.pending.pop(oid, None)",
        "self.pending.get(oid)",
    ),
    Bug(
        "a client releases a ref twice",
        CORE + "tidy",
        "self.emit((m.FREE, any_id, grants))",
        "self.emit((m.FREE, any_id, grants)); self.emit((m.FREE, any_id, grants))",
    ),
    Bug(
        "a client gives back one of several grants",
        CORE + "tidy",
        "self.emit((m.FREE, any_id, grants))",
        "self.emit((m.FREE, any_id, 1))",
    ),
    Bug(
        "a client counts the grant of a ref that it takes by itself only after it has said so",
        CORE + "_adopt",
        "ref._grants = 1",
        "granted = 1",
        rare=True,
    ),
    Bug(
        "a client does not say that it holds an actor",
        CORE + "hold_actor",
        "self.send(m.Hold(m.HOLD, actor_id))",
        "pass",
    ),
    Bug(
        "a client gives up a value that is being looked at",
        CORE + "_recall",
        "elif ref._views:",
        "elif ref._views and not ref._grants:",
        rare=True,
    ),
    Bug(
        "a client continues to read where a value was",
        CORE + "_recall",
        "if ref._kind == ARENA:",
        "if ref._kind == REMOTE:",
        rare=True,
    ),
    Bug(
        "a client does not give back memory that it will not write",
        CORE + "withdraw",
        "self.send((m.FREE, oid, 0))",
        "pass",
        rare=True,
    ),
    Bug(
        "a reader's credit is never sent",
        STREAM + "take",
        "self.process.send(m.Consumed(m.CONSUMED, self.task_id, self.taken))",
        "pass",
        rare=True,
    ),
    Bug(
        "a generator is not told that its reader is gone",
        STREAM + "abandon",
        "self.process.send(m.Consumed(m.CONSUMED, self.task_id, ALL))",
        "pass",
        rare=True,
    ),
    Bug(
        "the ref of a whole stream that escaped gets no value elsewhere",
        STREAM + "_publish",
        "process.send(m.Publish(m.PUBLISH, whole._id, whole._kind, whole._value, held, False))",
        "pass",
        rare=True,
    ),
)
