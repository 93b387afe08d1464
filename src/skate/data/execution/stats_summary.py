"""Statistics of runs as numbers: one record per run, kept for `list_stats_summaries` if enabled."""

from __future__ import annotations

import collections
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skate.data.execution.executor import Executor

#: The number of latest summaries to keep.
_KEPT = 1000
_collected: collections.deque[DatasetStatsSummary] = collections.deque(maxlen=_KEPT)


@dataclass(frozen=True)
class OperatorStatsSummary:
    """Statistics of one operator: rows and bytes produced, seconds of work, pieces of work."""

    operator_name: str
    rows_in: int
    rows_out: int
    bytes_out: int
    blocks: int
    tasks: int
    work_seconds: float


@dataclass(frozen=True)
class DatasetStatsSummary:
    """Statistics of one run.

    Attributes:
        operators_stats: by operator, sources first.
        time_total_s: seconds from its start to its end.
        base_name: the dataset's name.
        text: the output of `Dataset.stats()`.
        parents: empty; earlier operators are part of the same run.
    """

    operators_stats: list[OperatorStatsSummary]
    time_total_s: float
    base_name: str
    text: str
    dataset_uuid: str = ""
    number: int = 0
    parents: list[DatasetStatsSummary] = field(default_factory=list)
    extra_metrics: dict[str, Any] = field(default_factory=dict)

    @property
    def num_rows_per_s(self) -> float:
        """Rows of the result per second."""
        rows = self.operators_stats[-1].rows_out if self.operators_stats else 0
        return rows / self.time_total_s if self.time_total_s else 0.0

    def get_total_wall_time(self) -> float:
        """The seconds from the start to the end of the run."""
        return self.time_total_s

    def get_total_time_all_blocks(self) -> float:
        """The total seconds of work of all pieces."""
        return sum(each.work_seconds for each in self.operators_stats)

    def get_total_cpu_time(self) -> float:
        """The total seconds of work of all pieces, including their waits."""
        return self.get_total_time_all_blocks()

    def runtime_metrics(self) -> str:
        """Return each operator's share of the work, as text."""
        total = self.get_total_time_all_blocks()
        lines = ["Runtime Metrics:"]
        for each in self.operators_stats:
            share = 100 * each.work_seconds / total if total else 0.0
            lines.append(f"* {each.operator_name}: {each.work_seconds:.3f} s ({share:.1f} %)")
        return "\n".join([*lines, f"* Total: {self.time_total_s:.3f} s"])

    def to_string(
        self,
        already_printed: set[str] | None = None,
        include_parent: bool = True,
        add_global_stats: bool = True,
    ) -> str:
        """Return the output of `Dataset.stats()`."""
        return self.text

    def __repr__(self) -> str:
        return f"DatasetStatsSummary({self.base_name}, {self.time_total_s:.3f} s)\n{self.text}"


def summary_of(run: Executor | None, name: str | None, uuid: str = "") -> DatasetStatsSummary:
    """Summarize a run; without a run, return a summary without operators."""
    if run is None:
        return DatasetStatsSummary([], 0.0, name or "Dataset", "", uuid)
    operators = [
        OperatorStatsSummary(
            each.name,
            each.counters.rows_in,
            each.counters.rows_out,
            each.counters.bytes_out,
            len(each.counters.rows_of_blocks),
            each.tasks,
            sum(each.counters.seconds),
        )
        for each in run.topology.operators
    ]
    return DatasetStatsSummary(operators, run.seconds, name or "Dataset", run.report(), uuid)


def collect(run: Executor, name: str | None) -> None:
    """Keep and log the statistics of a run, as its settings require."""
    if run.context.enable_stats_summary_collection:
        _collected.append(summary_of(run, name))
    if run.context.enable_auto_log_stats:
        import logging  # only runs that log need it

        logging.getLogger("skate.data").info("%s", run.report())


def list_stats_summaries() -> list[DatasetStatsSummary]:
    """Return the statistics of this process's runs, latest last, recorded while
    `DataContext.enable_stats_summary_collection` is set.
    """
    return list(_collected)
