"""Datasinks of files, as programs written for Ray import them."""

from __future__ import annotations

from skate.data.source.files.sink import BlockBasedFileDatasink as BlockBasedFileDatasink
from skate.data.source.files.sink import RowBasedFileDatasink as RowBasedFileDatasink
