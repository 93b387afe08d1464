"""Images: decoded and encoded by Pillow."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from skate.data.block import from_batch
from skate.data.source.files.file_list import Listed
from skate.data.source.files.sink import RowBasedFileDatasink
from skate.data.source.files.source import FileBasedDatasource
from skate.installed import require

_SAMPLED = 4


class ImageDatasource(FileBasedDatasource):
    """Reads images as arrays of (height, width[, channels]) into a column "image".

    Args:
        size: (height, width) to scale all images to.
        mode: the Pillow mode to convert all images to, such as "RGB" or "L".

    Raises ValueError for invalid sizes, and for a file that does not decode.
    """

    _APART = True

    _FILE_EXTENSIONS = ["png", "jpg", "jpeg", "tif", "tiff", "bmp", "gif"]

    def __init__(
        self, paths: Any, *, size: tuple[int, int] | None = None, mode: str | None = None, **files: Any
    ) -> None:
        require("PIL.Image", "read_images", "pillow")
        if size is not None and len(size) != 2:
            raise ValueError(
                f"Expected `size` to contain two integers for height and width, but got {len(size)} integers: {size}"
            )
        if size is not None and min(size) <= 0:
            raise ValueError(f"Expected `size` to contain positive integers, but got {size}")
        self._size = size
        self._mode = mode
        self._bytes_each: float | None = None
        super().__init__(paths, **files)

    def get_name(self) -> str:
        return "Image"

    def _bytes_of(self, file: Listed) -> int:
        if self._bytes_each is None:
            self._bytes_each = self._sampled()
        if self._size is not None:
            return int(self._bytes_each)
        return int(self._bytes_each * (file.size or 1 << 16))

    def _sampled(self) -> float:
        """Return the bytes in memory: per image if all are scaled, else per byte of a file, estimated from
        some of the files."""
        image = require("PIL.Image", "read_images", "pillow")
        if self._size is not None:
            channels = len(image.new(self._mode, (1, 1)).getbands()) if self._mode else 3
            return float(self._size[0] * self._size[1] * channels)
        found = [1.0]
        for file in self._files[:_SAMPLED]:
            try:
                with self._open_input_source(self._filesystem, file.path) as f:
                    head = image.open(io.BytesIO(f.read(file.size or 1 << 20)))
            except Exception:  # any error of Pillow: reading the file will report it
                continue
            channels = len(image.new(self._mode, (1, 1)).getbands()) if self._mode else len(head.getbands())
            found.append(head.width * head.height * channels / max(1, file.size or 1))
        return max(found)

    def _read_stream(self, f: pa.NativeFile, path: str) -> Iterator[pa.Table]:
        image = require("PIL.Image", "read_images", "pillow")
        try:
            with image.open(io.BytesIO(f.read())) as opened:
                made = (
                    opened
                    if self._size is None
                    else opened.resize(self._size[::-1], image.Resampling.BILINEAR)
                )
                if self._mode is not None:
                    made = made.convert(self._mode)
                array = np.array(made)
        except Exception as error:  # Pillow raises many types for bytes that are not an image
            if isinstance(error, ImportError):
                raise
            raise ValueError(f"{path} does not decode as an image: {error}") from error
        yield from_batch({"image": array[np.newaxis]})


class ImageDatasink(RowBasedFileDatasink):
    """Writes one column of arrays as image files, one per row."""

    def __init__(self, path: str, column: str, file_format: str, **files: Any) -> None:
        require("PIL.Image", "write_images", "pillow")
        self.column = column
        super().__init__(path, file_format=file_format, **files)

    def get_name(self) -> str:
        return "Image"

    def write_row_to_file(self, row: dict[str, Any], file: Any) -> None:
        image = require("PIL.Image", "write_images", "pillow")
        if self.column not in row:
            raise ValueError(f"there is no column {self.column!r} to write; the columns are {', '.join(row)}")
        array = np.asarray(row[self.column])
        if array.ndim == 3 and array.shape[2] == 1:
            array = array[:, :, 0]
        buffer = io.BytesIO()
        kind = {"jpg": "jpeg", "tif": "tiff"}.get(self.file_format or "png", self.file_format)
        image.fromarray(array).save(buffer, format=kind)
        file.write(buffer.getvalue())
