"""The bytes behind a column of URIs."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from skate.data.block.names import known
from skate.data.datatype import DataType
from skate.data.expressions.tree import Expr
from skate.data.steps.place import Place

_THREADS = 16


class DownloadExpr(Expr):
    """The contents of the files that a column names; null where a file cannot be read."""

    data_type = DataType(pa.binary())
    kind_of_expression = "Download"
    _own = ("uri_column_name", "filesystem")

    def __init__(self, uri_column_name: str, filesystem: Any = None) -> None:
        self.uri_column_name = uri_column_name
        self.filesystem = filesystem

    def evaluate(self, table: pa.Table, place: Place | None = None) -> Any:
        uris = table.column(known(table.column_names, self.uri_column_name)).to_pylist()
        if not uris:
            return pa.array([], pa.binary())
        with ThreadPoolExecutor(min(_THREADS, len(uris)), "skate-download") as threads:
            found = list(threads.map(self._read, uris))
        failed = [error for _, error in found if error is not None]
        if failed:
            warnings.warn(f"{len(failed)} of {len(uris)} downloads failed; the first: {failed[0]}")
        return pa.array([content for content, _ in found], pa.binary())

    def _read(self, uri: str | None) -> tuple[bytes | None, OSError | None]:
        if uri is None:
            return None, None
        try:
            with self._open(uri) as stream:
                return stream.read(), None
        except OSError as error:
            return None, error

    def _open(self, uri: str) -> Any:
        if self.filesystem is not None:
            path = uri.split("://", 1)[-1]
            if hasattr(self.filesystem, "open_input_stream"):
                return self.filesystem.open_input_stream(path)
            return self.filesystem.open(path, "rb")
        if "://" not in uri:
            return open(uri, "rb")
        from pyarrow import fs  # takes 20 ms, and only downloads need it

        try:
            system, path = fs.FileSystem.from_uri(uri)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            import fsspec  # for http and the many schemes that Arrow lacks

            return fsspec.open(uri, "rb").open()
        return system.open_input_stream(path)

    def __repr__(self) -> str:
        return f"download({self.uri_column_name!r})"


def download(uri_column_name: str, *, filesystem: Any = None) -> DownloadExpr:
    """Return the contents of the files named by a column of URIs or paths; null, with a warning, for failed reads."""
    return DownloadExpr(uri_column_name, filesystem)
