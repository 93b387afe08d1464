"""Raw files: one row per file."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from skate.data.source.files.source import FileBasedDatasource


class BinaryDatasource(FileBasedDatasource):
    """Reads the bytes of each file into a column "bytes"."""

    def get_name(self) -> str:
        return "Binary"

    def _read_stream(self, f: pa.NativeFile, path: str) -> Iterator[pa.Table]:
        data = f.read()
        kind = pa.binary() if len(data) < 1 << 30 else pa.large_binary()
        yield pa.table({"bytes": pa.array([data], kind)})
