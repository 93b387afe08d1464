"""Logical operators as frozen records. A dataset's plan is the last of them, which holds its inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from skate.data.compute import Compute
from skate.data.exchange.seeds import Seeds


@dataclass(frozen=True, eq=False)
class Operator:
    """One step of a plan."""

    inputs: tuple[Operator, ...] = ()

    @property
    def name(self) -> str:
        """The name of the step in plans and statistics."""
        return type(self).__name__

    def over(self, *inputs: Operator) -> Operator:
        """Return the step with other inputs."""
        return replace(self, inputs=inputs)

    def walk(self) -> Iterator[Operator]:
        """Yield this step and all before it, inputs first, each once."""
        seen: set[int] = set()

        def visit(operator: Operator) -> Iterator[Operator]:
            if id(operator) in seen:
                return
            seen.add(id(operator))
            for each in operator.inputs:
                yield from visit(each)
            yield operator

        return visit(self)


# -- sources


@dataclass(frozen=True, eq=False)
class FromBlocks(Operator):
    """Existing blocks, as bundles of the engine."""

    bundles: tuple[Any, ...] = ()
    label: str = "FromBlocks"

    @property
    def name(self) -> str:
        return self.label


@dataclass(frozen=True, eq=False)
class Read(Operator):
    """Blocks that a datasource reads."""

    datasource: Any = None
    parallelism: int = -1
    compute: Compute = field(default_factory=Compute)
    #: Set by rules, for datasources that support them: the columns to read, a filter, and the most rows to read.
    columns: tuple[str, ...] | None = None
    predicate: Any = None
    limit: int | None = None

    @property
    def name(self) -> str:
        parts = [f"columns={list(self.columns)}"] if self.columns is not None else []
        parts += [f"where={self.predicate}"] if self.predicate is not None else []
        parts += [f"limit={self.limit}"] if self.limit is not None else []
        return f"Read{self.datasource.get_name()}" + (f"({', '.join(parts)})" if parts else "")


@dataclass(frozen=True, eq=False)
class Relational(Operator):
    """A part of a plan that Polars runs as a whole; `frame` is that of `skate.data.relational`."""

    frame: Any = None
    label: str = "Relational"

    @property
    def name(self) -> str:
        return self.label


# -- block by block


@dataclass(frozen=True, eq=False)
class MapRows(Operator):
    """A function of a row that returns a row ("map"), several rows ("flat_map") or True to keep it ("filter")."""

    kind: str = "map"
    udf: Any = None
    compute: Compute = field(default_factory=Compute)

    @property
    def name(self) -> str:
        word = {"map": "Map", "flat_map": "FlatMap", "filter": "Filter"}[self.kind]
        return f"{word}({self.udf.name})"


@dataclass(frozen=True, eq=False)
class MapBatches(Operator):
    """A function of a batch that returns one or several batches."""

    udf: Any = None
    batch_size: int | None = None
    batch_format: str | None = "default"
    zero_copy: bool = True
    keeps_count: bool = False
    compute: Compute = field(default_factory=Compute)

    @property
    def name(self) -> str:
        return f"MapBatches({self.udf.name})"


@dataclass(frozen=True, eq=False)
class Filter(Operator):
    """Rows for which an expression is true."""

    predicate: Any = None
    compute: Compute = field(default_factory=Compute)

    @property
    def name(self) -> str:
        return f"Filter({self.predicate})"


@dataclass(frozen=True, eq=False)
class Project(Operator):
    """A projection: `columns` is a sequence of (name, expression). With `keep` the other columns stay, and
    the named ones are set or added."""

    columns: tuple[tuple[str, Any], ...] = ()
    keep: bool = False
    drop: tuple[str, ...] = ()
    renames: tuple[tuple[str, str], ...] = ()
    compute: Compute = field(default_factory=Compute)

    @property
    def name(self) -> str:
        if self.renames:
            return "RenameColumns"
        if self.drop:
            return "DropColumns"
        return "WithColumns" if self.keep else "SelectColumns"


@dataclass(frozen=True, eq=False)
class Sample(Operator):
    """A random sample: each row is kept with a probability."""

    fraction: float = 1.0
    seeds: Seeds = field(default_factory=lambda: Seeds(None))


@dataclass(frozen=True, eq=False)
class Steps(Operator):
    """Existing steps of `skate.data.steps`: each takes an iterator of blocks and returns one."""

    steps: tuple[Any, ...] = ()
    label: str = "Steps"

    @property
    def name(self) -> str:
        return self.label


@dataclass(frozen=True, eq=False)
class Limit(Operator):
    """The first rows."""

    rows: int = 0

    @property
    def name(self) -> str:
        return f"Limit({self.rows})"


@dataclass(frozen=True, eq=False)
class Rebatch(Operator):
    """Blocks of a fixed number of rows; rows move only between neighbouring blocks."""

    rows: int = 1
    strict: bool = False

    @property
    def name(self) -> str:
        return f"StreamingRepartition({self.rows})"


@dataclass(frozen=True, eq=False)
class Write(Operator):
    """Blocks are written; the output is the writers' results."""

    datasink: Any = None
    compute: Compute = field(default_factory=Compute)
    #: Where the ids of written rows are recorded, see `skate.data.checkpoint`; or None.
    checkpoint: Any = None

    @property
    def name(self) -> str:
        return f"Write{self.datasink.get_name()}"


# -- several inputs


@dataclass(frozen=True, eq=False)
class Union(Operator):
    """The rows of all inputs, one input after the other."""


@dataclass(frozen=True, eq=False)
class Zip(Operator):
    """Columns of all inputs side by side."""


@dataclass(frozen=True, eq=False)
class Mix(Operator):
    """Alternates between the rows of all inputs, by weight."""

    weights: tuple[float, ...] = ()
    stop_on_shortest: bool = False


# -- over all rows


@dataclass(frozen=True, eq=False)
class Exchange(Operator):
    """An operation that combines rows of several blocks: `kernel` defines how blocks are split and merged.

    See `skate.data.exchange.kernel`. `partitions` is the number of outputs, or None to derive it from the size.
    """

    kernel: Any = None
    partitions: int | None = None
    compute: Compute = field(default_factory=Compute)

    @property
    def name(self) -> str:
        return str(self.kernel.name)


@dataclass(frozen=True, eq=False)
class MapGroups(Operator):
    """A batch function for each group, after an exchange that returns blocks of whole groups."""

    keys: tuple[str, ...] = ()
    udf: Any = None
    batch_format: str | None = "default"
    zero_copy: bool = True
    compute: Compute = field(default_factory=Compute)

    @property
    def name(self) -> str:
        return f"MapGroups({self.udf.name})"


@dataclass(frozen=True, eq=False)
class RandomizeBlockOrder(Operator):
    """The blocks in random order, their rows as they were."""

    seeds: Seeds = field(default_factory=lambda: Seeds(None))
