"""The rows of the table: what each figure is, which scenario yields it, and what it has to reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

FLAT_WITHIN = 1.5

Values = Mapping[str, "float | None"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One row. A unit that ends in "/s" is a rate, where more is better; of anything else less is better."""

    key: str
    title: str
    unit: str
    scenario: tuple[str, str]
    at_most: float | None = None
    """The most it may be, in its own unit."""
    times_ray: float | None = None
    """How many times better than Ray in the same run."""
    then_times_ray: float | None = None
    """The goal after that one; it is shown and not judged."""
    limit: str | None = None
    """The limit beside it, in the same unit."""
    within: float | None = None
    """How many times worse than the limit it may be."""
    flat: str | None = None
    """The figure at the smallest size of the same growth row, whose cost per item this one should keep."""

    @property
    def is_rate(self) -> bool:
        return self.unit.endswith("/s")

    def better(self, one: float | None, other: float | None) -> float | None:
        """How many times better `one` is than `other`; None where either is missing or zero."""
        if not one or not other:
            return None
        return one / other if self.is_rate else other / one

    def reach(self) -> str:
        """Describe the target; empty without one."""
        asked = []
        if self.at_most is not None:
            asked.append(f"≤ {show(self.at_most, self.unit)}")
        if self.times_ray is not None:
            then = f", then {self.then_times_ray:g}x" if self.then_times_ray else ""
            asked.append(f"≥ {self.times_ray:g}x Ray{then}")
        if self.within is not None:
            share = f"≥ {1 / self.within:.2g} of" if self.within < 1.5 else f"≤ {self.within:g}x"
            asked.append(f"{share} the limit")
        if self.flat is not None:
            asked.append(f"≤ {FLAT_WITHIN:g}x the smallest size")
        return ", ".join(asked)

    def met(self, skate: Values, ray: Values, limits: Values) -> bool | None:
        """True if every target that can be judged is met; None if none can."""
        value = skate.get(self.key)
        if value is None:
            return None
        verdicts = []
        if self.at_most is not None:
            verdicts.append(value <= self.at_most)
        for asked, other in (
            (self.times_ray, ray.get(self.key)),
            (self.within and 1 / self.within, limits.get(self.limit or "")),
            (self.flat and 1 / FLAT_WITHIN, skate.get(self.flat or "")),
        ):
            factor = self.better(value, other)
            if asked and factor is not None:
                verdicts.append(factor >= float(asked))
        return all(verdicts) if verdicts else None


def show(value: float | None, unit: str) -> str:
    """A value with its unit, three digits or so."""
    if value is None:
        return "–"
    if unit == "s" and value < 1:
        value, unit = value * 1000, "ms"
    digits = 0 if value >= 100 or value == int(value) else 1 if value >= 10 else 2
    return f"{value:,.{digits}f} {unit}".rstrip()


CALLS, INSIDE = ("actors", "calls"), ("actors", "from_inside")
GRAPH = ("graphs", "pipeline")
FIRST, MEMORY = ("startup", "first_result"), ("memory", "thirteen_actors")
SPILL = ("spilling", "spill")
SMALL, PUT, READ = ("objects", "small"), ("objects", "put_large"), ("objects", "read_large")

FIGURES = [
    Figure(
        "first_result", "import to first result", "s", FIRST, at_most=0.2, times_ray=15, limit="python_start"
    ),
    Figure(
        "whole_process",
        "import to the end of the process",
        "s",
        FIRST,
        at_most=0.2,
        times_ray=15,
        limit="python_start",
    ),
    Figure("import", "import alone", "s", ("startup", "import_alone"), at_most=0.06),
    Figure("shutdown", "shutdown", "s", ("startup", "shutdown"), at_most=0.1),
    Figure(
        "task_sync",
        "task, synchronous",
        "/s",
        ("tasks", "calls"),
        times_ray=20,
        limit="ping_pong",
        within=1.7,
    ),
    Figure(
        "task_in_flight",
        "tasks, 3,000 in flight",
        "/s",
        ("tasks", "calls"),
        times_ray=15,
        then_times_ray=30,
        limit="frames",
    ),
    Figure("actor_sync", "actor call, synchronous", "/s", CALLS, times_ray=8, limit="ping_pong", within=1.7),
    Figure("actor_in_flight", "actor calls in flight", "/s", CALLS, times_ray=8, limit="frames"),
    Figure("actor_to_actor", "actor to actor, in flight", "/s", INSIDE, times_ray=6, limit="frames"),
    Figure("tasks_from_actor", "tasks from inside an actor", "/s", INSIDE, times_ray=8, limit="frames"),
    Figure(
        "ten_actors",
        "ten actors, created and called",
        "s",
        ("actors", "ten"),
        at_most=0.1,
        times_ray=40,
        limit="ten_forks",
    ),
    Figure("graph_step", "step of a two-stage compiled graph", "/s", GRAPH, limit="ping_pong", within=3),
    Figure("graph_step_array", "the same with 1 MB", "/s", GRAPH),
    Figure("two_calls", "the same by two actor calls", "/s", GRAPH),
    Figure("put_small", "put small", "/s", SMALL, times_ray=50),
    Figure("get_small", "get small", "/s", SMALL, times_ray=20),
    Figure("put_large_fresh", "put 100 MB, fresh pages", "/s", PUT, limit="memcpy_fresh"),
    Figure("put_large_warm", "put 100 MB, warm pages", "/s", PUT, limit="memcpy", within=1 / 0.7),
    Figure("get_large", "get 100 MB, zero-copy", "/s", READ, times_ray=3),
    Figure("task_large", "tasks taking a 100 MB ref", "/s", READ, times_ray=8),
    Figure("wait_drain", "wait on 1,000 refs, one by one", "s", ("waiting", "drain"), times_ray=20),
    Figure("side_processes", "side processes, 13 actors", "", MEMORY, at_most=16),
    Figure("side_memory", "their memory (PSS)", "MB", MEMORY, at_most=120),
    Figure("driver_memory", "the driver's memory (PSS)", "MB", MEMORY),
    Figure("spill_put", "puts of four times the store", "MB/s", SPILL, times_ray=1, limit="disk_write"),
    Figure("spill_get", "each of them got back", "MB/s", SPILL, times_ray=1, limit="disk_read"),
    Figure("spill_peak", "peak memory of the largest process (a store of 268 MB included)", "MB", SPILL),
]


def _growth(scenario: str, title: str, unit: str, sizes: tuple[int, ...]) -> list[Figure]:
    smallest = f"{scenario}_{sizes[0]}"
    return [
        Figure(
            f"{scenario}_{size}",
            f"{size:,} {title}, each",
            unit,
            ("growth", scenario),
            flat=None if size == sizes[0] else smallest,
        )
        for size in sizes
    ]


SCRAPE, WATCHED = ("watched", "scrape"), ("watched", "tasks")
TAB, ANSWER = ("tabs", "tab"), ("tabs", "answer")
FIGURES += [
    Figure("scrape_wall", "scrape beside 100,000 queued tasks", "s", SCRAPE, at_most=0.02),
    Figure("scrape_cpu", "the node's CPU time for it", "s", SCRAPE, at_most=0.005),
    Figure("scrape_size", "its size", "kB", SCRAPE, at_most=100),
    Figure("list_wall", "list of 10,000 of them over HTTP", "s", SCRAPE),
    Figure("list_cpu", "the node's CPU time for it", "s", SCRAPE),
    Figure("watched_rate", "tasks/s without a viewer over tasks/s with it", "", WATCHED, at_most=1 / 0.98),
    Figure("watched_cpu", "CPU time of a task with a viewer over that without it", "", WATCHED),
    Figure(
        "tab_closed_rate",
        "tasks/s without a viewer over those with one whose page is closed",
        "",
        TAB,
        at_most=1.01,
    ),
    Figure("tab_now_rate", "the same with a tab on Now", "", TAB, at_most=1 / 0.98),
    Figure("tab_work_rate", "the same with a tab on Work", "", TAB, at_most=1 / 0.98),
    Figure("tab_closed_cpu", "CPU time of a task with the page closed over that without a viewer", "", TAB),
    Figure("tab_now_cpu", "the same with a tab on Now", "", TAB, at_most=1.02),
    Figure("tab_work_cpu", "the same with a tab on Work", "", TAB, at_most=1.02),
    Figure(
        "tab_closed_viewer",
        "share of a core that the viewer uses with the page closed",
        "",
        TAB,
        at_most=0.001,
    ),
    Figure("tab_now_viewer", "the same with a tab on Now", "", TAB),
    Figure("tab_work_viewer", "the same with a tab on Work", "", TAB),
    Figure("answer_node", "an answer to Now, once a second: the node's CPU time", "s", ANSWER, at_most=0.01),
    Figure("answer_viewer", "the viewer's CPU time for it", "s", ANSWER),
    Figure("answer_size", "its size", "kB", ANSWER),
    Figure(
        "sampler_share",
        "share of a core that the profiler's sampler uses",
        "",
        ("tabs", "sampler"),
        at_most=0.01,
    ),
    *_growth("queued_tasks", "queued tasks", "µs", (10_000, 100_000, 1_000_000)),
    *_growth("get_many", "refs in one get", "µs", (1_000, 10_000)),
    *_growth("wait_many", "ready refs in one wait", "µs", (1_000, 10_000, 100_000)),
    *_growth("actors", "actors", "ms", (10, 100, 1_000)),
    *_growth("arguments", "refs as arguments", "µs", (1_000, 10_000)),
    *_growth("workers", "CPUs, short tasks in flight", "µs", (1, 2, 4, 16, 64)),
]

LIMITS = {
    "ping_pong": ("one byte there and back, Unix socketpair, two CPUs", "/s"),
    "ping_pong_one_cpu": ("the same on one CPU", "/s"),
    "frames": ("batched msgpack frames, no bookkeeping", "/s"),
    "memcpy": ("memcpy of 100 MB, warm", "/s"),
    "memcpy_fresh": ("memcpy of 100 MB, fresh shared pages", "/s"),
    "python_start": ("python -c pass", "s"),
    "ten_forks": ("ten forks", "s"),
}
