"""NumPy's `.npy` files: rows are the first dimension of the array."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from skate.data.block import columns, from_batch
from skate.data.source.files.sink import BlockBasedFileDatasink
from skate.data.source.files.source import FileBasedDatasource


class NumpyDatasource(FileBasedDatasource):
    """Reads arrays into a column "data"; `load_args` are those of `numpy.load`."""

    _COLUMN = "data"
    _FILE_EXTENSIONS = ["npy"]

    def __init__(self, paths: Any, *, load_args: dict[str, Any] | None = None, **files: Any) -> None:
        self._load_args = dict(load_args or {})
        super().__init__(paths, **files)

    def get_name(self) -> str:
        return "Numpy"

    def _read_stream(self, f: pa.NativeFile, path: str) -> Iterator[pa.Table]:
        loaded = np.load(io.BytesIO(f.read()), **self._load_args)
        if not isinstance(loaded, np.ndarray):
            raise ValueError(f"{path} holds several arrays (.npz); read_numpy reads .npy files of one array")
        yield from_batch({self._COLUMN: loaded if loaded.ndim else loaded.reshape(1)})


class NumpyDatasink(BlockBasedFileDatasink):
    """Writes one column of each block as a `.npy` file."""

    def __init__(self, path: str, column: str, **files: Any) -> None:
        self.column = column
        super().__init__(path, file_format="npy", **files)

    def get_name(self) -> str:
        return "Numpy"

    def write_tables(self, tables: Iterable[pa.Table], file: Any) -> None:
        chunks = []
        for table in tables:
            if self.column not in table.column_names:
                raise ValueError(
                    f"there is no column {self.column!r} to write; the columns are {', '.join(table.column_names)}"
                )
            chunks.append(columns.to_numpy(table.column(self.column)))
        buffer = io.BytesIO()
        np.save(buffer, chunks[0] if len(chunks) == 1 else np.concatenate(chunks))
        file.write(buffer.getbuffer())
