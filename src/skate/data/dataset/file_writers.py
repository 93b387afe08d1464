"""Writing datasets to files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skate.data.catalog import CatalogAccessMode, ReaderFormat, resolved
from skate.data.dataset.system_writers import SystemWriting
from skate.data.source import formats
from skate.data.source.datasink import Datasink, SaveMode
from skate.data.source.files.filename_provider import FilenameProvider

Options = dict[str, Any] | None


class Writing(SystemWriting):
    """Methods that write datasets to files.

    Each task writes one or more files. Their names hold an id of the write, the number of the task and the
    number of the block within it, so files that are read in order of their names give the rows in order. A
    file appears once it is complete.
    """

    def write_parquet(
        self,
        path: str,
        *,
        partition_cols: list[str] | None = None,
        filesystem: Any = None,
        catalog: Any = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: Options = None,
        filename_provider: FilenameProvider | None = None,
        arrow_parquet_args_fn: Callable[[], dict[str, Any]] | None = None,
        min_rows_per_file: int | None = None,
        max_rows_per_file: int | None = None,
        min_bytes_per_file: int | None = None,
        ray_remote_args: Options = None,
        concurrency: int | None = None,
        num_rows_per_file: int | None = None,
        mode: SaveMode = SaveMode.APPEND,
        **arrow_parquet_args: Any,
    ) -> None:
        """Write Parquet files into a directory.

        Args:
            path: the directory, as path or URL.
            partition_cols: columns whose values become subdirectories, such as `name=value`.
            filesystem: a `pyarrow.fs` or fsspec filesystem; by default derived from the path.
            try_create_dir: create the directory if it does not exist.
            arrow_open_stream_args: keyword arguments for `open_output_stream`.
            filename_provider: names the files.
            arrow_parquet_args_fn: returns writer arguments on the worker, for arguments that cannot be pickled.
            min_rows_per_file, min_bytes_per_file: the least per file, if there is enough data.
            max_rows_per_file: the most rows per file.
            concurrency: the number of concurrent tasks.
            mode: what to do if the directory exists: "append", "overwrite", "ignore", "error" or "create".
            arrow_parquet_args: compression, row_group_size and other arguments of `pyarrow.parquet.ParquetWriter`.

        Raises ValueError if `mode` forbids writing there, and for partition columns that do not exist.
        """
        given = dict(locals())
        self._into_files(
            "parquet_writer",
            "ParquetDatasink",
            given,
            partition_cols=partition_cols,
            arrow_parquet_args_fn=arrow_parquet_args_fn,
            arrow_parquet_args=arrow_parquet_args,
            max_rows_per_file=max_rows_per_file,
            min_bytes_per_file=min_bytes_per_file,
            min_rows_per_file=min_rows_per_file,
        )

    def write_csv(
        self,
        path: str,
        *,
        filesystem: Any = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: Options = None,
        filename_provider: FilenameProvider | None = None,
        arrow_csv_args_fn: Callable[[], dict[str, Any]] | None = None,
        min_rows_per_file: int | None = None,
        ray_remote_args: Options = None,
        concurrency: int | None = None,
        num_rows_per_file: int | None = None,
        mode: SaveMode = SaveMode.APPEND,
        **arrow_csv_args: Any,
    ) -> None:
        """Write CSV files into a directory; see `write_parquet`.

        `arrow_csv_args` are write_options, or single options of `pyarrow.csv.WriteOptions`. Raises ValueError
        for columns that CSV cannot represent.
        """
        given = dict(locals())
        self._into_files(
            "csv_writer",
            "CSVDatasink",
            given,
            arrow_csv_args_fn=arrow_csv_args_fn,
            arrow_csv_args=arrow_csv_args,
            min_rows_per_file=min_rows_per_file,
        )

    def write_json(
        self,
        path: str,
        *,
        filesystem: Any = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: Options = None,
        filename_provider: FilenameProvider | None = None,
        pandas_json_args_fn: Callable[[], dict[str, Any]] | None = None,
        min_rows_per_file: int | None = None,
        ray_remote_args: Options = None,
        concurrency: int | None = None,
        num_rows_per_file: int | None = None,
        mode: SaveMode = SaveMode.APPEND,
        **pandas_json_args: Any,
    ) -> None:
        """Write JSON Lines files into a directory; see `write_parquet`.

        Times are written as ISO 8601, bytes as text or else base64, NaN and infinities as null. With
        `pandas_json_args`, files are written by `DataFrame.to_json`.
        """
        given = dict(locals())
        self._into_files(
            "json_writer",
            "JSONDatasink",
            given,
            pandas_json_args_fn=pandas_json_args_fn,
            pandas_json_args=pandas_json_args,
            min_rows_per_file=min_rows_per_file,
        )

    def write_orc(
        self,
        path: str,
        *,
        filesystem: Any = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: Options = None,
        filename_provider: FilenameProvider | None = None,
        arrow_orc_args_fn: Callable[[], dict[str, Any]] | None = None,
        min_rows_per_file: int | None = None,
        ray_remote_args: Options = None,
        concurrency: int | None = None,
        mode: SaveMode = SaveMode.APPEND,
        **arrow_orc_args: Any,
    ) -> None:
        """Write ORC files into a directory; see `write_parquet`. `arrow_orc_args` are for `pyarrow.orc.ORCWriter`."""
        given = dict(locals())
        self._into_files(
            "orc",
            "ORCDatasink",
            given,
            arrow_orc_args_fn=arrow_orc_args_fn,
            arrow_orc_args=arrow_orc_args,
            min_rows_per_file=min_rows_per_file,
        )

    def write_numpy(
        self,
        path: str,
        *,
        column: str,
        filesystem: Any = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: Options = None,
        filename_provider: FilenameProvider | None = None,
        min_rows_per_file: int | None = None,
        ray_remote_args: Options = None,
        concurrency: int | None = None,
        num_rows_per_file: int | None = None,
        mode: SaveMode = SaveMode.APPEND,
    ) -> None:
        """Write one column as `.npy` files into a directory; see `write_parquet`."""
        given = dict(locals())
        self._into_files(
            "numpy",
            "NumpyDatasink",
            given,
            column=column,
            min_rows_per_file=min_rows_per_file,
        )

    def write_images(
        self,
        path: str,
        column: str,
        file_format: str = "png",
        *,
        filesystem: Any = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: Options = None,
        filename_provider: FilenameProvider | None = None,
        ray_remote_args: Options = None,
        concurrency: int | None = None,
        mode: SaveMode = SaveMode.APPEND,
    ) -> None:
        """Write the arrays of a column as image files into a directory, one file per row; needs Pillow. See
        `write_parquet`."""
        given = dict(locals())
        self._into_files(
            "images",
            "ImageDatasink",
            given,
            column=column,
            file_format=file_format,
        )

    def write_tfrecords(
        self,
        path: str,
        *,
        tf_schema: Any = None,
        filesystem: Any = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: Options = None,
        filename_provider: FilenameProvider | None = None,
        min_rows_per_file: int | None = None,
        ray_remote_args: Options = None,
        concurrency: int | None = None,
        num_rows_per_file: int | None = None,
        mode: SaveMode = SaveMode.APPEND,
    ) -> None:
        """Write TFRecord files of tf.train.Example into a directory, without TensorFlow; see `write_parquet`."""
        given = dict(locals())
        self._into_files(
            "tfrecords",
            "TFRecordDatasink",
            given,
            tf_schema=tf_schema,
            min_rows_per_file=min_rows_per_file,
        )

    def write_webdataset(
        self,
        path: str,
        *,
        filesystem: Any = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: Options = None,
        filename_provider: FilenameProvider | None = None,
        min_rows_per_file: int | None = None,
        ray_remote_args: Options = None,
        encoder: Any = True,
        concurrency: int | None = None,
        num_rows_per_file: int | None = None,
        mode: SaveMode = SaveMode.APPEND,
    ) -> None:
        """Write tar files of samples into a directory; see `write_parquet`.

        Columns are members named after the row's "__key__"; `encoder` is True to encode values by the
        columns' names, None to accept only bytes and text, or a function (or several) of a sample.
        """
        given = dict(locals())
        self._into_files(
            "webdataset",
            "WebDatasetDatasink",
            given,
            encoder=encoder,
            min_rows_per_file=min_rows_per_file,
        )

    def write_datasink(
        self,
        datasink: Datasink[Any],
        *,
        ray_remote_args: Options = None,
        concurrency: int | None = None,
    ) -> None:
        """Write to a custom datasink."""
        self._write(datasink, ray_remote_args, concurrency)

    def _into_files(self, home: str, name: str, given: dict[str, Any], **options: Any) -> None:
        """Write to a file datasink, given all arguments of the calling method."""
        if given.get("catalog") is not None:
            found = resolved(
                "write_parquet",
                given["catalog"],
                given["path"],
                ReaderFormat.PARQUET,
                CatalogAccessMode.WRITE,
            )
            given["path"] = found.path or given["path"]
            given["filesystem"] = given["filesystem"] or found.filesystem
        if given.get("num_rows_per_file") is not None and options.get("min_rows_per_file") is not None:
            raise ValueError(
                "Cannot specify both `num_rows_per_file` and `min_rows_per_file`; num_rows_per_file is the deprecated name"
            )
        if given.get("num_rows_per_file") is not None:
            options["min_rows_per_file"] = given["num_rows_per_file"]
        # The module of a format is loaded when the format is written.
        make = getattr(getattr(formats, home), name)
        sink = make(
            given["path"],
            filesystem=given["filesystem"],
            try_create_dir=given["try_create_dir"],
            open_stream_args=given["arrow_open_stream_args"],
            filename_provider=given["filename_provider"],
            mode=given["mode"],
            **options,
        )
        self._write(sink, given["ray_remote_args"], given["concurrency"])
