"""An author of programs that lend: values go from their owner to one node and on to another, which keeps them.

Such values live by the order of messages among three nodes: the owner must hear of the last borrower before the one that it
borrowed from lets go.
"""

from __future__ import annotations

from skate.simulation.programs.spec import CPU, Operation, Spec, method
from skate.simulation.programs.wanderer import Wanderer

LENDING = 0.4  # of all operations of a driver


class Lender(Wanderer):
    """Draws programs of which many lend."""

    def driver_operation(self) -> Operation:
        """Something that a driver does next."""
        if self.rng.random() >= LENDING:
            return super().driver_operation()
        kind = self.rng.random()
        if kind < 0.15:
            return ("create", *self.keeper())
        if kind < 0.4:
            return ("call", self.number(), self.read())
        if kind < 0.5:
            return ("get", self.number()) if self.free else ("next", self.number())
        return self.lend()

    def keeper(self) -> tuple[Spec, dict[str, object]]:
        """Return an actor that only keeps what it gets."""
        spec, life = self.actor()
        spec.request, spec.program, spec.concurrent = {}, (), False
        life["concurrent"] = False
        return spec, life

    def read(self) -> Spec:
        """Return a call by which an actor reads a value that it was lent."""
        return method(self.name("read"), (("unstash", self.number()), ("get", -1)), micros=5)

    def lend(self) -> Operation:
        """A new value, which goes to a task and from there to an actor, another task, or back; its owner lets go."""
        rng = self.rng
        nested = rng.random() < 0.3
        way = rng.random()
        put: list[Operation] = [("put", rng.random() < 0.3, ())]
        if nested:
            put += [("put", rng.random() < 0.3, (-1,)), ("drop", -2)]
        if way < 0.6:
            work: tuple[Operation, ...] = (("call", 0, self.keep(nested), (), (0,)),)
        elif way < 0.8:
            work = (("submit", self.borrower((("call", 0, self.keep(nested), (), (0,)),)), (), (0,)),)
        else:
            work = (("give", (0,)),)
        if rng.random() < 0.5:
            work = (*work, ("drop", 0), ("work",))
        borrower = self.borrower(work, returns=1 if way >= 0.8 else 0)
        lent = [*put, ("submit", borrower, (), (-1,))]
        drop = ("drop", -1 - borrower.returns)
        return ("several", (*lent, drop))

    def keep(self, nested: bool) -> Spec:
        """Return a call by which an actor keeps the value that it gets, or what is inside of that."""
        program: tuple[Operation, ...] = (("get", 0), ("stash", -1)) if nested else (("stash", 0),)
        return method(self.name("keep"), program, returns=0, micros=5)

    def borrower(self, program: tuple[Operation, ...], returns: int = 0) -> Spec:
        """Return a task that passes on the value that it gets."""
        request = {"CPU": CPU // 2}
        spec = Spec(
            self.name("borrower"),
            program,
            returns=returns,
            request=request,
            micros=5,
            retries=self.rng.choice((0, 3)),
        )
        self.where(spec)
        return spec
