"""From a logical plan to running operators: steps that can run in one task become one chain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from skate.data.compute import UNBOUNDED, Compute
from skate.data.context import DataContext, available_cpus
from skate.data.exchange.keyed import GroupStep
from skate.data.execution.exchange_operator import ExchangeRunning
from skate.data.execution.operators import ChainRunning, Running
from skate.data.execution.passing_operators import (
    ExactRunning,
    FromBlocksRunning,
    LimitRunning,
    MixRunning,
    OrderRunning,
    UnionRunning,
    ZipRunning,
)  # fmt: skip
from skate.data.execution.topology import Topology
from skate.data.plan import operators as logical
from skate.data.relational.stage_operator import RelationalRunning
from skate.data.steps.batches import BatchStep
from skate.data.steps.block_size import RebatchStep, SizeStep, SplitStep
from skate.data.steps.columns import FilterStep, ProjectStep, SampleStep
from skate.data.steps.retries import retries_of, retries_of_constructors
from skate.data.steps.rows import RowStep
from skate.data.steps.write import WriteStep

_FUSED = (
    logical.MapRows, logical.MapBatches, logical.Filter, logical.Project, logical.Sample, logical.Write,
    logical.Steps, logical.MapGroups,
)  # fmt: skip

_BLOCK_BYTES_MIN = 1 << 20


class Physical:
    """Builds the operators of one run."""

    def __init__(self, context: DataContext) -> None:
        self.context = context
        self.topology = Topology()
        self._made: dict[int, Running] = {}
        self._users: dict[int, int] = {}
        #: The tasks of reads, which are kept so that no other one gets the same identity.
        self._read_tasks: dict[int, tuple[logical.Read, Sequence[Any]]] = {}

    def build(self, plan: logical.Operator) -> Topology:
        """Build the operators for a plan."""
        for operator in plan.walk():
            for each in operator.inputs:
                self._users[id(each)] = self._users.get(id(each), 0) + 1
        self._operator(plan)
        return self.topology

    def _operator(self, node: logical.Operator) -> Running:
        if isinstance(node, _FUSED):
            return self._chain(node)
        if isinstance(node, logical.Exchange):
            node = _with_steps(node)
        inputs = [self._operator(each) for each in node.inputs]
        return self.topology.add(self._single(node), inputs)

    def _single(self, node: logical.Operator) -> Running:
        context = self.context
        if isinstance(node, logical.Read):
            return self._read(node, [], node.compute)
        if isinstance(node, logical.FromBlocks):
            return FromBlocksRunning(node.name, node.bundles)
        if isinstance(node, logical.Relational):
            return RelationalRunning(node.name, node.frame, self._block_bytes, self._tasks)
        if isinstance(node, logical.Limit):
            return LimitRunning(node.name, node.rows)
        if isinstance(node, logical.Union):
            return UnionRunning(node.name, len(node.inputs))
        if isinstance(node, logical.Zip):
            return ZipRunning(node.name, len(node.inputs))
        if isinstance(node, logical.Mix):
            return MixRunning(node.name, node.weights, node.stop_on_shortest)
        if isinstance(node, logical.RandomizeBlockOrder):
            return OrderRunning(node.name, node.seeds.single())
        if isinstance(node, logical.Rebatch):
            kind = ExactRunning if node.strict else ChainRunning
            return kind(node.name, [RebatchStep(node.rows)], rows_at_least=node.rows)
        if isinstance(node, logical.Exchange):
            return ExchangeRunning(node.name, node.kernel, node.partitions, context, node.compute)
        raise TypeError(f"there is no operator for {node!r}")

    def _chain(self, node: logical.Operator) -> Running:
        """A run of steps that go into one task, with the read before them if there is one."""
        nodes: list[Any] = [node]
        compute: Compute = getattr(node, "compute", None) or Compute()
        rows, size = _least(node)
        while not rows and not size:  # the amount to write is known once it has been made
            before = nodes[-1].inputs[0]
            fusible = isinstance(before, (*_FUSED, logical.Read)) and self._users.get(id(before), 1) == 1
            if not fusible:
                break
            earlier = getattr(before, "compute", None) or Compute()
            merged = _merged(earlier, compute)
            if merged is None:
                break
            compute = merged
            nodes.append(before)
            if isinstance(before, logical.Read):
                break
        nodes.reverse()
        if isinstance(nodes[0], logical.Read) and not self._fills(nodes):
            del nodes[0]
        return self._chained(nodes, compute)

    def _fills(self, nodes: Sequence[Any]) -> bool:
        """True if each read task yields enough rows for the batches of the following steps."""
        rows = _batch_rows(nodes)
        if not rows:
            return True
        tasks = self._tasks(nodes[0])
        return all(_gives(task, rows) for task in tasks[:-1])

    def _chained(self, nodes: Sequence[Any], compute: Compute) -> Running:
        steps: list[Any] = []
        for each in nodes:
            if not isinstance(each, logical.Read):
                steps += each.steps if isinstance(each, logical.Steps) else [self._step(each)]
        if not isinstance(nodes[-1], logical.Write):
            steps.append(SizeStep(self._block_bytes()))
        if isinstance(nodes[0], logical.Read):
            return self.topology.add(self._read(nodes[0], steps, compute, nodes[1:]))
        source = self._operator(nodes[0].inputs[0])
        unit = _rows_together(nodes)
        name = "->".join(each.name for each in nodes)
        rows, size = _least(nodes[-1])
        made = ChainRunning(name, steps, compute=compute, rows_at_least=max(rows, _batch_rows(nodes)))
        made.bytes_at_least = size
        self._spread(made, unit)
        return self.topology.add(made, [source])

    def _read(
        self, node: logical.Read, steps: list[Any], compute: Compute, then: Sequence[logical.Operator] = ()
    ) -> Running:
        tasks = self._tasks(node, compute)
        if not steps:
            steps = [SizeStep(self._block_bytes())]
            if node.parallelism > len(tasks) > 0:
                steps.append(SplitStep(-(-node.parallelism // len(tasks))))
        name = "->".join([node.name, *(each.name for each in then)])
        made = ChainRunning(name, steps, sources=tasks, compute=compute)
        made.apart = bool(getattr(node.datasource, "_APART", False))
        self._spread(made, _rows_together(then))
        return made

    def _spread(self, made: ChainRunning, unit: int) -> None:
        """Choose the number of pieces for small inputs: to feed a pool, or to use workers where a function is slow."""
        if any(isinstance(step, GroupStep) for step in made.steps):
            return  # a block holds whole groups, which must not be cut
        made.unit = unit
        made.spread = _pieces_of(made.compute)
        if not any(getattr(step, "by_place", False) for step in made.steps):
            for step in made.steps:
                if isinstance(step, (RowStep, BatchStep)):
                    step.may_leave = True
                if isinstance(step, RowStep):
                    step.unit = unit

    def _tasks(self, node: logical.Read, compute: Compute | None = None) -> Sequence[Any]:
        found = self._read_tasks.get(id(node))
        if found is None:
            wanted = node.parallelism
            if wanted < 1:
                wanted = blocks_for(node.datasource.bytes_of_work(), self.context)
                if compute is not None and not compute.plain:
                    # Work that requests more than CPUs is worth several tasks
                    wanted = max(wanted, compute.tasks or available_cpus())
            found = self._read_tasks[id(node)] = node, node.datasource.get_read_tasks(wanted, node.limit)
        return found[1]

    def _block_bytes(self) -> int:
        """The most bytes per block: from the settings, or less if the object store is small."""
        import skate  # the session's resources are looked up only if there is a session

        most = self.context.most_bytes
        if not skate.is_initialized():
            return most
        limits = self.context.limits()
        return min(most, max(_BLOCK_BYTES_MIN, limits.budget_bytes // (2 * limits.slots)))

    def _called(self, node: Any) -> Any:
        """Return the step of an operation with a user's function."""
        in_actors = node.compute.actors is not None
        retries = retries_of(self.context, in_actors)
        if in_actors:
            node.udf.retries = retries_of_constructors(self.context)
        if isinstance(node, logical.MapRows):
            return RowStep(node.kind, node.udf, retries)
        if isinstance(node, logical.MapBatches):
            return BatchStep(node.udf, node.batch_size, node.batch_format, node.zero_copy, retries)
        return GroupStep(node.keys, BatchStep(node.udf, None, node.batch_format, node.zero_copy, retries))

    def _step(self, node: Any) -> Any:
        if isinstance(node, (logical.MapRows, logical.MapBatches, logical.MapGroups)):
            return self._called(node)
        if isinstance(node, logical.Filter):
            return FilterStep(node.predicate)
        if isinstance(node, logical.Project):
            return ProjectStep(node)
        if isinstance(node, logical.Sample):
            return SampleStep(node.fraction, node.seeds.of_tasks())
        assert isinstance(node, logical.Write)
        return WriteStep(node.datasink, node.checkpoint)


def blocks_for(size: int | None, context: DataContext) -> int:
    """Return the number of blocks for data of a size in bytes: enough for all CPUs, none tiny, none too large."""
    cpus = available_cpus()
    if size is None:
        return context.read_op_min_num_blocks
    fewest = max(1, -(-size // context.most_bytes))
    most = max(1, size // context.target_min_block_size)
    return int(max(fewest, min(most, 4 * cpus)))


def _least(node: Any) -> tuple[int, int]:
    """Return the least rows and bytes for each task of a write."""
    if not isinstance(node, logical.Write):
        return 0, 0
    rows, size = (getattr(node.datasink, f"min_{what}_per_write", None) for what in ("rows", "bytes"))
    return int(rows or 0), int(size or 0)


def _batch_rows(nodes: Sequence[Any]) -> int:
    """Return the largest batch size of the steps; 0 if none has one."""
    return max((each.batch_size or 0 for each in nodes if isinstance(each, logical.MapBatches)), default=0)


def _rows_together(nodes: Sequence[Any]) -> int:
    """Return the row count at whose multiples work can be cut without changing the batches that any step sees."""
    return math.lcm(*(each.batch_size or 1 for each in nodes if isinstance(each, logical.MapBatches)))


def _pieces_of(compute: Compute) -> int:
    """Return the least number of pieces of work: two for each actor or task that may run concurrently."""
    if compute.actors is not None:
        fewest, most, first = compute.actors
        return 2 * (most if most < UNBOUNDED else max(first, fewest))
    return 2 * (compute.tasks or available_cpus())


def _gives(task: Any, rows: int) -> bool:
    """True if a read task yields at least `rows` rows, or much data if the number is unknown."""
    known = getattr(getattr(task, "metadata", None), "num_rows", None)
    return bool(known >= rows) if known is not None else (getattr(task, "bytes", 0) or 0) >= _BLOCK_BYTES_MIN


def _with_steps(node: logical.Exchange) -> logical.Operator:
    """Build an exchange; its inputs end with the steps that its kernel runs where blocks are made."""
    inputs = list(node.inputs)
    for source, each in enumerate(inputs):
        steps = tuple(node.kernel.steps(source))
        if steps:
            inputs[source] = logical.Steps((each,), steps, f"Before{node.name}")
    return node.over(*inputs)


def _merged(before: Compute, after: Compute) -> Compute | None:
    """Return how two consecutive operations run as one, or None if they cannot."""
    if before.actors is not None:
        return None
    if before.alike(after):
        return after
    if after.actors is not None:
        return None
    if before == Compute():
        return after
    if after == Compute():
        return before
    return None
