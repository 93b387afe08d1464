"""A value that is borrowed through a third node, in a mesh with one link held.

The driver on node 0 puts a value, a task on node 1 passes it on to an actor on node 2, which keeps it; then all others let go.
The link from 2 to 0 is held all the while, so the FREE of node 1 overtakes the HOLD of node 2.
"""

from __future__ import annotations

import random
from typing import Any

from skate.protocol.causality import BINDING
from skate.simulation.nodes.mesh import Mesh
from skate.simulation.processes.process import Process
from skate.simulation.programs.spec import Spec, method

LIFE: dict[str, Any] = {
    "actor_name": "", "namespace": "", "detached": False, "max_restarts": 0, "max_task_retries": 0, "concurrent": False,
    "handle": b"",
}  # fmt: skip
HELD_SECONDS = 3600.0
QUIET_TICKS = 50  # without an event: then a node only polls


def mesh(binding: Any = BINDING, seed: int = 1) -> tuple[Mesh, Process]:
    """Three nodes, and a driver with an actor on the last of them."""
    made = Mesh(random.Random(seed), [1, 1, 1], binding=binding)
    made.healed = True  # all links are quick
    driver = made.nodes[0].driver()
    driver.todo.append(("create", Spec("keeper", request={}, strategy=on(made, 2)), LIFE))
    made.settle()
    return made, driver


def on(made: Mesh, number: int) -> Any:
    return ("node", made.nodes[number].node_id, True, "wait")


def lend(made: Mesh, driver: Process, nested: bool = False, large: bool = False) -> bytes:
    """Have the actor on node 2 borrow a value of node 0 through node 1, with the link from 2 to 0 held; return its id."""
    made.wire(2, 0).held = made.now + HELD_SECONDS
    oid = begin(made, driver, nested, large)
    rest(made)
    assert made.wire(2, 0).items, "the HOLD of node 2 is under way"
    assert not made.nodes[1].core.tasks and not made.nodes[2].core.tasks, "all has been done"
    assert oid in made.nodes[2].core.objects.records and oid not in made.nodes[1].core.objects.records
    return oid


def begin(made: Mesh, driver: Process, nested: bool, large: bool) -> bytes:
    """Have the driver put a value, lend it to a task on node 1 that passes it on, and drop it; return its id."""
    keep = method("keep", (("get", 0), ("stash", -1)) if nested else (("stash", 0),), returns=0)
    wrap = (("put", False, (0,)),) if nested else ()
    borrower = Spec("borrower", (*wrap, ("call", 0, keep, (), (-1,))), returns=0, strategy=on(made, 1))
    driver.todo.append(("put", large))
    while driver.can_act():
        driver.act()
        rest(made)
    (oid,) = [ref._id for ref in driver.frame.refs]
    driver.todo += [("submit", borrower, (), (-1,)), ("drop", 0)]
    return oid


def rest(made: Mesh) -> None:
    """Run until nothing can happen before a held link is released."""
    quiet = 0
    while quiet < QUIET_TICKS and (made.tick() is not None or made.events()):
        quiet += 1
        made.now += 0.01
        while made.events():
            made.step()
            quiet = 0


def lend_and_lose(made: Mesh, driver: Process, large: bool = False) -> None:
    """Lose node 1 while the call by which it lends the value is under way, and let the call arrive when the owner has heard."""
    made.wire(1, 2).held = made.now + HELD_SECONDS
    oid = begin(made, driver, False, large)
    rest(made)
    assert made.wire(1, 2).items, "the call to node 2 is under way"
    made.lose_suffix = lambda wire: None  # type: ignore[method-assign]
    made.wire(0, 2).held = (
        made.now + HELD_SECONDS
    )  # node 2 does not hear of the loss, which would cancel the call
    made.kill(made.nodes[1])
    rest(made)
    assert made.nodes[0].core.objects.get(oid) is None, "its owner has freed it"
    made.wire(1, 2).held = 0.0
    rest(made)
    made.wire(0, 2).held = 0.0
    rest(made)


def read(made: Mesh, driver: Process) -> str:
    """Let everything arrive, have the actor read what it keeps, and return the outcome."""
    made.wire(2, 0).held = 0.0
    made.settle()
    spec = method("read", (("unstash", 0), ("get", -1)))
    driver.todo.append(("call", 0, spec))
    made.settle()
    return next(word for task_id, word in made.outcomes.items() if made.specs[task_id] is spec)


def run_borrowed(seed: int) -> Mesh:
    """One such run; it raises if the value is lost."""
    made, driver = mesh(seed=seed)
    lend(made, driver, nested=seed % 2 > 0, large=seed % 4 > 1)
    outcome = read(made, driver)
    assert outcome == "ok", f"a borrowed value was lost: {outcome!r}"
    return made
