"""File formats: one module per format, with its datasource and its datasink."""

from __future__ import annotations

from skate import lazy_loader

#: Modules with a datasink, which those load that write the format.
_PARTS = ("csv_writer", "images", "json_writer", "numpy", "orc", "parquet_writer", "tfrecords", "webdataset")

__getattr__, __dir__, _ = lazy_loader.attach(globals(), {}, _PARTS)
