"""The operators of a plan in order, and the consumer of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from skate.data.execution.operators import Running
from skate.data.relational.stage_operator import RelationalRunning


class Topology:
    """A tree of operators; the output of the last one is the output of the plan."""

    def __init__(self) -> None:
        self.operators: list[Running] = []
        self._targets: dict[int, tuple[Running, int]] = {}
        self._sources: dict[int, list[Running]] = {}

    def add(self, operator: Running, inputs: Sequence[Running] = ()) -> Running:
        """Add an operator after its inputs."""
        self.operators.append(operator)
        self._sources[id(operator)] = list(inputs)
        for number, each in enumerate(inputs):
            self._targets[id(each)] = (operator, number)
        return operator

    @property
    def last(self) -> Running:
        """The operator whose results are the plan's."""
        return self.operators[-1]

    @property
    def is_one_stage(self) -> bool:
        """True if Polars runs the whole plan."""
        return len(self.operators) == 1 and isinstance(self.last, RelationalRunning)

    def target_of(self, operator: Running) -> tuple[Running, int] | None:
        """Return the operator that consumes the results of another and the number of the input; None for the last."""
        return self._targets.get(id(operator))

    def inputs_of(self, operator: Running) -> Sequence[Running]:
        """Return the operators whose results an operator consumes."""
        return self._sources[id(operator)]

    def text(self) -> str:
        """Describe the operators, one per line, the last first, each below the one it feeds."""
        return "\n".join(self._lines(self.last))

    def _lines(self, operator: Running) -> list[str]:
        actors = operator.compute.actors
        kind = "" if actors is None else ", in actors"
        found = [f"{operator.name}{kind}"]
        sources = self._sources[id(operator)]
        for number, each in enumerate(sources):
            inner = self._lines(each)
            bar = "   " if number == len(sources) - 1 else "|  "
            found.append("+- " + inner[0])
            found += [bar + line for line in inner[1:]]
        return found

    def before(self, operator: Running) -> Iterator[Running]:
        """Return all operators upstream of an operator, near ones first."""
        for each in self._sources[id(operator)]:
            yield each
            yield from self.before(each)

    def after(self, operator: Running) -> Iterator[Running]:
        """Return all operators downstream of an operator, near ones first."""
        target = self.target_of(operator)
        while target is not None:
            yield target[0]
            target = self.target_of(target[0])
