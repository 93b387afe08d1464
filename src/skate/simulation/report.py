"""Summary of many runs: sums over seeds, and the printed text."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from skate.simulation.runs import run_cluster, run_headless, run_mesh, run_node, run_watched

KINDS: dict[str, Callable[..., Any]] = {
    "node": run_node,
    "cluster": run_cluster,
    "mesh": run_mesh,
    "watched": run_watched,
    "headless": run_headless,
}


@dataclass
class Failure:
    """One seed that broke a rule."""

    seed: int
    kind: str
    text: str
    operations: int

    @property
    def command(self) -> str:
        """The command that replays the failure."""
        return f"python -m skate.simulation --replay {self.seed} --kind {self.kind} --ops {self.operations}"

    def __str__(self) -> str:
        return f"seed {self.seed} ({self.kind}): {self.text}\n  replay: {self.command}"


@dataclass
class Report:
    """Sums over runs."""

    seeds: int = 0
    steps: int = 0
    nodes_lost: int = 0
    deepest_queue: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    #: The hash of the event log of each run, by kind and seed.
    digests: dict[tuple[str, int], str] = field(default_factory=dict)

    def add(self, kind: str, seed: int, ran: Any) -> None:
        """Add the results of a run that found no fault."""
        self.seeds += 1
        self.steps += ran.steps
        self.nodes_lost += getattr(ran, "lost", 0)
        self.deepest_queue = max(self.deepest_queue, ran.observer.deepest_queue)
        self.counts.update(ran.observer.counts)
        self.digests[kind, seed] = ran.digest.hexdigest()

    def merge(self, other: Report) -> None:
        """Take in the sums of another."""
        self.seeds += other.seeds
        self.steps += other.steps
        self.nodes_lost += other.nodes_lost
        self.deepest_queue = max(self.deepest_queue, other.deepest_queue)
        self.counts.update(other.counts)
        self.failures += other.failures
        self.digests.update(other.digests)

    @property
    def digest(self) -> str:
        """One hash for all event logs."""
        lines = "".join(f"{kind} {seed} {text}\n" for (kind, seed), text in sorted(self.digests.items()))
        return hashlib.blake2b(lines.encode(), digest_size=16).hexdigest()

    def text(self, seconds: float, cpu_seconds: float) -> str:
        """Format the summary."""
        counts = self.counts
        faults = {name[6:]: number for name, number in counts.items() if name.startswith("fault ")}
        broken = sum(faults.values())
        by_kind = ", ".join(
            f"{name} {number:,}" for name, number in sorted(faults.items(), key=_largest_first)
        )
        lost = ", ".join(f"{counts['lost ' + what]:,} {what}" for what in ("requests", "answers", "results"))
        lines = [
            f"seeds          {self.seeds + len(self.failures):,}, of which {len(self.failures)} failed",
            f"steps          {self.steps:,}",
            f"messages       {counts['messages']:,}, and lost with who sent or awaited them: {lost}",
            f"tasks          {counts['tasks']:,}",
            f"actors         {counts['actors']:,}",
            f"retries        {counts['retries']:,}",
            f"faults         {broken:,}: {by_kind}",
            f"nodes lost     {self.nodes_lost:,}",
            f"deepest queue  {self.deepest_queue:,} tasks at one node",
            f"seconds        {seconds:.1f}, of CPU {cpu_seconds:.1f}; {self.steps / cpu_seconds:,.0f} steps/s of CPU",
            f"event logs     {self.digest}",
        ]
        return "\n".join([*map(str, self.failures), *lines])


def _largest_first(entry: tuple[str, int]) -> tuple[int, str]:
    return -entry[1], entry[0]


def kind_of(seed: int, kind: str) -> str:
    """Return the kind of a seed's run: with "all", four of one kind and four of the other."""
    if kind != "all":
        return kind
    return "cluster" if seed // 4 % 2 else "node"


def try_seeds(seeds: range, kind: str, operations: int) -> Report:
    """Run seeds; those that break a rule are among the failures."""
    report = Report()
    for seed in seeds:
        this = kind_of(seed, kind)
        try:
            report.add(this, seed, KINDS[this](seed, operations=operations))
        except Exception as error:  # report the seed of any error
            report.failures.append(Failure(seed, this, f"{type(error).__name__}: {error}", operations))
    return report
