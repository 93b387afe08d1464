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
        """How the step is called in plans and statistics."""
        return type(self).__name__

    def over(self, *inputs: Operator) -> Operator:
        """The same step over other inputs."""
        return replace(self, inputs=inputs)

    def walk(self) -> Iterator[Operator]:
        """This step and all before it, inputs first, each once."""
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
    """Blocks that are there: `bundles` as the engine hands them on."""

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
    #: Set by rules, for datasources that can do it: columns to read, rows to keep, rows wanted at most.
    columns: tuple[str, ...] | None = None
    predicate: Any = None
    limit: int | None = None

    @property
    def name(self) -> str:
        said = [f"columns={list(self.columns)}"] if self.columns is not None else []
        said += [f"where={self.predicate}"] if self.predicate is not None else []
        said += [f"limit={self.limit}"] if self.limit is not None else []
        return f"Read{self.datasource.get_name()}" + (f"({', '.join(said)})" if said else "")


# -- one block after the other


@dataclass(frozen=True, eq=False)
class MapRows(Operator):
    """A function of a row that gives a row ("map"), rows ("flat_map") or whether to keep it ("filter")."""

    kind: str = "map"
    udf: Any = None
    compute: Compute = field(default_factory=Compute)

    @property
    def name(self) -> str:
        word = {"map": "Map", "flat_map": "FlatMap", "filter": "Filter"}[self.kind]
        return f"{word}({self.udf.name})"


@dataclass(frozen=True, eq=False)
class MapBatches(Operator):
    """A function of a batch that gives a batch, or several."""

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
    """Other columns: `columns` is a sequence of (name, expression); with `keep` all others stay, those named are set or added."""

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
    """Each row with a probability."""

    fraction: float = 1.0
    seeds: Seeds = field(default_factory=lambda: Seeds(None))


@dataclass(frozen=True, eq=False)
class Steps(Operator):
    """Steps that are there already, as `skate.data.steps` has them: each takes an iterator of blocks and gives one."""

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
    """Blocks of so many rows, without moving rows between other blocks than neighbours."""

    rows: int = 1
    strict: bool = False

    @property
    def name(self) -> str:
        return f"StreamingRepartition({self.rows})"


@dataclass(frozen=True, eq=False)
class Write(Operator):
    """Blocks are written; what comes out are the results of the writers."""

    datasink: Any = None
    compute: Compute = field(default_factory=Compute)
    #: Where ids of rows that are written are entered, see `skate.data.checkpoint`; or None.
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


# -- all rows together


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
    """A function of a batch for each group, behind an exchange that gives blocks of whole groups."""

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
