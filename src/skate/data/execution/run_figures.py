"""Metrics of runs under Ray's names: by operator, and of the loop. They are only made when the metrics are read."""

from __future__ import annotations

import itertools
import os
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from skate.data.execution import policy
from skate.data.execution.limits import Limits
from skate.data.execution.operators import Running
from skate.data.execution.topology import Topology
from skate.util.metrics import Recent

SECONDS_BOUNDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
BYTES_BOUNDS = tuple(float(1 << power) for power in range(10, 35, 2))
ROWS_BOUNDS = (1.0, 5.0, 10.0, 50.0, 100.0, 500.0, 1e3, 5e3, 1e4, 5e4, 1e5, 5e5, 1e6, 1e7)

Family = tuple[str, str, str, tuple[float, ...], tuple[Any, ...]]
Labels = tuple[tuple[str, str], ...]

_numbers = itertools.count()


class Execution(Protocol):
    """A run, as its metrics see it."""

    label: str
    topology: Topology
    limits: Limits
    pass_seconds: float

    def budgets(self) -> dict[str, float]:
        """Return the amounts of GPUs and memory that an operator may use."""


def label_of(name: str | None) -> str:
    """Return the label of a new run of a dataset; runs of other processes have the same numbers."""
    return f"{name or 'dataset'}_{os.getpid()}_{next(_numbers)}"


def begin(run: Execution) -> RunFigures:
    """Begin the metrics of a run."""
    found = RunFigures(run)
    _runs.add(found)
    return found


class RunFigures:
    """The metrics of one run."""

    def __init__(self, run: Execution) -> None:
        self._dataset = run.label
        self._run: Execution | None = run
        self._began = time.time()
        self._ended = 0.0
        self._lists = [_Lists(operator) for operator in run.topology.operators]
        self._last: list[Family] = []

    def ended(self) -> None:
        """Keep the last values, and nothing else of the run."""
        if self._run is not None:
            self._ended = time.time()
            self._last = list(self._read(self._run)) if _runs.is_read else []
            self._run, self._lists = None, []
            _runs.end(self)

    def families(self) -> Iterable[Family]:
        """Return the metrics with the current values."""
        run = self._run
        return self._last if run is None else self._read(run)

    def _read(self, run: Execution) -> Iterator[Family]:
        share = policy.share_of(run.limits, run.topology)
        for lists in self._lists:
            operator = lists.operator
            labels = (("dataset", self._dataset), ("operator", _name_of(run, operator)))
            for name, (description, value) in _FIGURES.items():
                yield _gauge(name, description, labels, value(operator))
            for name, number in _of_place(run, operator, share).items():
                yield _gauge(name, _PLACE[name], labels, number)
            yield from lists.histograms(labels)
        yield from self._of_run(run)

    def _of_run(self, run: Execution) -> Iterator[Family]:
        labels = (("dataset", self._dataset),)
        operators, limits = run.topology.operators, run.limits
        busy = sum(operator.running * operator.cpus for operator in operators)
        held = sum(policy.held_bytes(operator, run.topology) for operator in operators)
        for name, description, value in (
            ("sched_loop_duration_s", "Seconds of the last pass of the loop, without its wait.", run.pass_seconds),
            ("cluster_cpu_utilization", "Share of the CPUs that the run uses.", busy / limits.cpus),
            ("cluster_object_store_memory_utilization", "Share of its memory that the run uses.", held / limits.budget_bytes),
            ("run_start_time_s", "When the run began, in seconds since 1970.", self._began),
            ("run_end_time_s", "When the run ended; 0 before that.", self._ended),
        ):  # fmt: skip
            yield _gauge(name, description, labels, value)


class _Lists:
    """The histograms of an operator, which take up what its lists have got since they were read last."""

    def __init__(self, operator: Running) -> None:
        self.operator = operator
        counters = operator.counters
        self._histograms = [
            _Histogram("task_completion_time", "Seconds of pieces of work.", counters.seconds, SECONDS_BOUNDS),
            _Histogram("block_completion_time", "Seconds of blocks.", counters.seconds_of_blocks, SECONDS_BOUNDS),
            _Histogram("block_size_bytes", "Bytes of blocks.", counters.bytes_of_blocks, BYTES_BOUNDS),
            _Histogram("block_size_rows", "Rows of blocks.", counters.rows_of_blocks, ROWS_BOUNDS),
        ]  # fmt: skip

    def histograms(self, labels: Labels) -> Iterator[Family]:
        return (each.family(labels) for each in self._histograms)


class _Histogram:
    def __init__(
        self, name: str, description: str, values: Sequence[float], bounds: tuple[float, ...]
    ) -> None:
        self._name = name
        self._description = description
        self._values = values
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._seen = 0
        self._sum = 0.0

    def family(self, labels: Labels) -> Family:
        for value in itertools.islice(self._values, self._seen, None):
            self._counts[bisect_left(self._bounds, value)] += 1
            self._sum += value
            self._seen += 1
        series = ((labels, self._sum, tuple(self._counts), 0.0),)
        return f"data_{self._name}", "histogram", self._description, self._bounds, series


def _families(runs: list[RunFigures]) -> list[Family]:
    """Return the metrics of some runs, one family for each name."""
    found: dict[str, Family] = {}
    for run in runs:
        for family in run.families():
            before = found.get(family[0])
            found[family[0]] = family if before is None else (*before[:4], before[4] + family[4])
    return list(found.values())


_runs = Recent(_families)


def _gauge(name: str, description: str, labels: Labels, value: float) -> Family:
    return f"data_{name}", "gauge", description, (), ((labels, float(value), (), 0.0),)


def _name_of(run: Execution, operator: Running) -> str:
    """Return the name of an operator with its place in the plan, which tells equal ones apart."""
    return f"{operator.name}_{run.topology.operators.index(operator)}"


def _of_place(run: Execution, operator: Running, share: int) -> dict[str, float]:
    """Return the figures that depend on the operators around."""
    held = policy.held_bytes(operator, run.topology)
    before = [each.outputs for each in run.topology.inputs_of(operator)]
    return {
        "current_bytes": held,
        "object_store_memory_budget": share,
        "max_bytes_to_read": max(0, share - held),
        "cpu_budget": run.limits.cpus,
        **run.budgets(),
        "num_external_inqueue_blocks": sum(len(each.ready) for each in before),
        "num_external_inqueue_bytes": sum(each.ready_bytes for each in before),
    }


_PLACE = {
    "current_bytes": "Bytes of results that are not consumed yet.",
    "object_store_memory_budget": "Bytes of results that the operator may hold.",
    "max_bytes_to_read": "Bytes of results that the operator may hold beside those that it holds.",
    "cpu_budget": "CPUs that the operator may use.",
    "gpu_budget": "GPUs that the operator may use.",
    "memory_budget": "Bytes of memory that the operator's tasks may request.",
    "num_external_inqueue_blocks": "Blocks that the operators before have finished, and that are not taken yet.",
    "num_external_inqueue_bytes": "Bytes of these blocks.",
}


def _queued(operator: Running) -> int:
    """Return the number of blocks that an operator has taken, and not begun."""
    counters = operator.counters
    return max(0, counters.received.blocks - counters.begun.blocks) if operator.inputs else 0


def _late(operator: Running) -> int:
    """Return the number of results that wait for earlier ones."""
    return sum(len(each) for each in list(operator.outputs.waiting.values()))


#: Descriptions and readings of the metrics of an operator, by name.
_FIGURES: dict[str, tuple[str, Callable[[Running], float]]] = {
    "output_rows": ("Rows of results.", lambda op: op.counters.rows_out),
    "output_bytes": ("Bytes of results.", lambda op: op.counters.bytes_out),
    "num_inputs_received": ("Blocks taken.", lambda op: op.counters.received.blocks),
    "bytes_inputs_received": ("Bytes of blocks taken.", lambda op: op.counters.received.bytes),
    "num_task_inputs_processed": ("Inputs of ended tasks.", lambda op: op.counters.processed.blocks),
    "bytes_task_inputs_processed": ("Bytes of those.", lambda op: op.counters.processed.bytes),
    "bytes_inputs_of_submitted_tasks": ("Bytes of inputs of all tasks.", lambda op: op.counters.begun.bytes),
    "num_task_outputs_generated": ("Blocks of results.", lambda op: len(op.counters.rows_of_blocks)),
    "bytes_task_outputs_generated": ("Bytes of results.", lambda op: op.counters.bytes_out),
    "rows_task_outputs_generated": ("Rows of results.", lambda op: op.counters.rows_out),
    "num_outputs_taken": ("Results that have gone on.", lambda op: op.counters.taken.blocks),
    "bytes_outputs_taken": ("Bytes of those.", lambda op: op.counters.taken.bytes),
    "num_tasks_submitted": ("Tasks.", lambda op: op.tasks),
    "num_tasks_running": ("Tasks in progress.", lambda op: op.running),
    "num_tasks_have_outputs": ("Tasks with a result.", lambda op: op.counters.with_results),
    "num_tasks_finished": ("Ended tasks.", lambda op: len(op.counters.seconds)),
    "num_tasks_failed": ("Failed tasks.", lambda op: op.counters.failed),
    "block_generation_time": ("Seconds of work.", lambda op: sum(op.counters.seconds)),
    "block_transform_time_s": ("Seconds of making blocks.", lambda op: sum(op.counters.seconds_of_blocks)),
    "task_output_backpressure_time": (
        "Seconds in which tasks ran, and none of their results was read.",
        lambda op: op.counters.unread_s,
    ),
    "task_submission_backpressure_time": (
        "Seconds in which work was queued, and none could start.",
        lambda op: op.counters.held_back_s,
    ),
    "cpu_usage_cores": ("CPUs of the tasks in progress.", lambda op: op.running * op.cpus),
    "gpu_usage_cores": (
        "GPUs of the tasks in progress.",
        lambda op: op.running * float(op.compute.remote_args.get("num_gpus") or 0),
    ),
    "memory_usage_bytes": (
        "Bytes of memory that the tasks in progress have requested.",
        lambda op: op.running * float(op.compute.remote_args.get("memory") or 0),
    ),
    "obj_store_mem_internal_inqueue": ("Bytes of blocks taken, and not begun.", lambda op: op.queued_bytes),
    "obj_store_mem_internal_inqueue_blocks": ("Number of those.", _queued),
    "obj_store_mem_internal_outqueue": ("Bytes that wait for earlier ones.", lambda op: op.outputs.waiting_bytes),
    "obj_store_mem_internal_outqueue_blocks": ("Number of those.", _late),
    "num_external_outqueue_blocks": ("Results ready for the next operator.", lambda op: len(op.outputs.ready)),
    "num_external_outqueue_bytes": ("Bytes of those.", lambda op: op.outputs.ready_bytes),
    "obj_store_mem_pending_task_inputs": (
        "Bytes of inputs of the tasks in progress.",
        lambda op: op.counters.begun.bytes - op.counters.processed.bytes,
    ),
    "obj_store_mem_freed": ("Bytes of inputs that are done with.", lambda op: op.counters.processed.bytes),
    "freed_bytes": ("Bytes of inputs that are done with.", lambda op: op.counters.processed.bytes),
}  # fmt: skip
