"""A block on its way through a plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from skate.data import block as blocks
from skate.data.source.datasource import BlockMetadata

if TYPE_CHECKING:
    from skate import ObjectRef


class Bundle:
    """A block, in this process or as a ref, or a range of its rows, with its metadata.

    Attributes: block, rows, bytes, schema, files (that it was read from), at (the row of the block at which the
    range begins, None for the whole block).
    """

    __slots__ = ("block", "rows", "bytes", "schema", "files", "at")

    def __init__(
        self,
        block: pa.Table | ObjectRef[pa.Table],
        rows: int,
        size: int,
        schema: pa.Schema | None,
        files: tuple[str, ...] = (),
        at: int | None = None,
    ) -> None:
        self.block = block
        self.rows = rows
        self.bytes = size
        self.schema = schema
        self.files = files
        self.at = at

    def __reduce__(self) -> Any:
        block = blocks.compact(self.block) if isinstance(self.block, pa.Table) else self.block
        return Bundle, (block, self.rows, self.bytes, self.schema, self.files, self.at)

    @classmethod
    def of(cls, table: pa.Table) -> Bundle:
        """Wrap a block that is in this process."""
        return cls(table, table.num_rows, blocks.size_of(table), table.schema)

    @property
    def here(self) -> bool:
        """True if the block is in this process."""
        return isinstance(self.block, pa.Table)

    def slice(self, at: int, rows: int) -> Bundle:
        """Return a range of the rows, starting at row `at`, without copying."""
        if isinstance(self.block, pa.Table):
            return Bundle.of(self.block.slice(at, rows))
        size = self.bytes * rows // max(1, self.rows)
        return Bundle(self.block, rows, size, self.schema, self.files, (self.at or 0) + at)

    def table(self) -> pa.Table:
        """Return the rows; waits for the block if it is a ref."""
        if isinstance(self.block, pa.Table):
            return self.block
        import skate  # work that runs only in this process needs no session

        table: pa.Table = skate.get(self.block)
        return table if self.at is None else table.slice(self.at, self.rows)

    def parts(self) -> tuple[Any, int | None, int]:
        """Return the arguments for another process: a block or a ref, its first row (None for all), and the number
        of rows.
        """
        return self.block, self.at, self.rows

    def stored(self) -> ObjectRef[pa.Table]:
        """Return a ref to the block that holds the rows, created if necessary; see `at`."""
        if isinstance(self.block, pa.Table):
            import skate  # imported only if used

            self.block = skate.put(blocks.compact(self.block))
        return self.block

    def ref(self) -> ObjectRef[pa.Table]:
        """Return a ref to a block of exactly these rows."""
        if self.at is not None:
            self.block = self.table()
            self.at = None
        return self.stored()

    def __repr__(self) -> str:
        return f"<Bundle {self.rows} rows, {self.bytes} bytes, {'here' if self.here else 'ref'}>"


class BlockEntry(NamedTuple):
    """A ref to a block, with its metadata."""

    ref: ObjectRef[pa.Table]
    metadata: BlockMetadata


class RefBundle:
    """Refs to blocks with the metadata of each, as `iter_internal_ref_bundles` yields them.

    Attributes: blocks (a `BlockEntry` each), schema, owns_blocks.
    """

    def __init__(
        self, blocks: Sequence[tuple[ObjectRef[pa.Table], BlockMetadata]], schema: pa.Schema | None = None
    ) -> None:
        self.blocks = tuple(BlockEntry(*entry) for entry in blocks)
        self.schema = schema
        self.owns_blocks = False

    @classmethod
    def of(cls, bundle: Bundle) -> RefBundle:
        """One block."""
        known = BlockMetadata(bundle.rows, bundle.bytes, input_files=list(bundle.files))
        return cls([(bundle.ref(), known)], bundle.schema)

    @property
    def block_refs(self) -> list[ObjectRef[pa.Table]]:
        """The refs to the blocks."""
        return [ref for ref, _ in self.blocks]

    @property
    def metadata(self) -> list[BlockMetadata]:
        """The metadata of each block."""
        return [known for _, known in self.blocks]

    def num_rows(self) -> int | None:
        """Return the number of rows of all blocks, None if unknown."""
        return sum(known.num_rows or 0 for known in self.metadata)

    def size_bytes(self) -> int:
        """The total size of all blocks in bytes."""
        return sum(known.size_bytes or 0 for known in self.metadata)

    def __repr__(self) -> str:
        return f"RefBundle({len(self.blocks)} blocks, {self.num_rows()} rows, {self.size_bytes()} bytes)"
