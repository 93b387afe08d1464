"""Headers of pages tell whether all values of a column chunk refer to its dictionary."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skate.data.source.formats.parquet_pages import dictionary_size

FEW = [f"name-{row % 7}" for row in range(5000)]
MANY = [f"text {row}" for row in range(300)]


def sizes(path: Path) -> list[int | None]:
    """Return the size of the dictionary of each column chunk of a file."""
    footer = pq.read_metadata(path)
    file = os.open(path, os.O_RDONLY)
    try:
        groups = [footer.row_group(at) for at in range(footer.num_row_groups)]
        return [
            dictionary_size(file, group.column(at)) for group in groups for at in range(group.num_columns)
        ]
    finally:
        os.close(file)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["none", "snappy", "zstd"])
def test_pages_of_numbers(tmp_path: Path, version: str, codec: str) -> None:
    table = pa.table({"s": [*FEW, None], "v": [*range(5000), None]})
    pq.write_table(
        table, tmp_path / "f", row_group_size=3000, data_page_version=version, compression=codec,
        data_page_size=100, write_batch_size=100, use_dictionary=["s"],
    )  # fmt: skip
    assert sizes(tmp_path / "f") == [7, None, 7, None]


def test_pages_beside_a_dictionary(tmp_path: Path) -> None:
    table = pa.table({"s": [*FEW, *MANY]})
    options: Any = {"data_page_size": 100, "write_batch_size": 100}
    pq.write_table(table, tmp_path / "f", **options)
    assert sizes(tmp_path / "f") == [307]
    pq.write_table(table, tmp_path / "f", dictionary_pagesize_limit=200, **options)
    assert sizes(tmp_path / "f") == [None]


def test_a_file_of_another_writer(tmp_path: Path) -> None:
    polars.DataFrame({"s": FEW}).write_parquet(tmp_path / "f")
    assert sizes(tmp_path / "f") == [7]


def test_headers_that_are_no_headers(tmp_path: Path) -> None:
    pq.write_table(pa.table({"s": FEW}), tmp_path / "f")
    content = (tmp_path / "f").read_bytes()
    column = pq.read_metadata(tmp_path / "f").row_group(0).column(0)
    at, end = column.dictionary_page_offset, column.dictionary_page_offset + column.total_compressed_size
    for wrong in (b"\x00", b"\xff", b"\x19", b"\x15"):
        (tmp_path / "f").write_bytes(content[:at] + wrong * (end - at) + content[end:])
        assert sizes(tmp_path / "f") == [None]
    (tmp_path / "short").write_bytes(content[: at + 3])
    file = os.open(tmp_path / "short", os.O_RDONLY)
    assert dictionary_size(file, column) is None
    os.close(file)
