"""A block on its way through a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skate.data import block as blocks

if TYPE_CHECKING:
    from skate import ObjectRef


class Bundle:
    """A block, in this process or as a ref to one, with what is known of it."""

    __slots__ = ("block", "rows", "bytes", "schema", "files")

    def __init__(
        self,
        block: pa.Table | ObjectRef[pa.Table],
        rows: int,
        size: int,
        schema: pa.Schema | None,
        files: tuple[str, ...] = (),
    ) -> None:
        self.block = block
        self.rows = rows
        self.bytes = size
        self.schema = schema
        self.files = files

    @classmethod
    def of(cls, table: pa.Table) -> Bundle:
        """A block that is here."""
        return cls(table, table.num_rows, blocks.size_of(table), table.schema)

    @property
    def here(self) -> bool:
        """True if the block is in this process."""
        return isinstance(self.block, pa.Table)

    def table(self) -> pa.Table:
        """The block itself; waits for it if it is a ref."""
        if isinstance(self.block, pa.Table):
            return self.block
        import skate  # what runs in this process alone needs no session

        return skate.get(self.block)

    def ref(self) -> Any:
        """A ref to the block, made if there is none."""
        if isinstance(self.block, pa.Table):
            import skate  # as above

            self.block = skate.put(blocks.compact(self.block))
        return self.block

    def __repr__(self) -> str:
        return f"<Bundle {self.rows} rows, {self.bytes} bytes, {'here' if self.here else 'ref'}>"
