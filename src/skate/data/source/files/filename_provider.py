"""The names of written files."""

from __future__ import annotations

from typing import Any


class FilenameProvider:
    """Names output files. Subclasses must return a different name for each task, block and row, and the same one
    on a retry.

    Args:
        dataset_uuid: accepted for compatibility.
        file_format: the extension without its dot.
    """

    def __init__(self, dataset_uuid: str | None = None, file_format: str | None = None) -> None:
        self._dataset_uuid = dataset_uuid
        self._file_format = file_format

    def get_filename_for_block(self, block: Any, write_uuid: str, task_index: int, block_index: int) -> str:
        """Return the name of a block's file: the write's id, the task's number, and the block's number in its task."""
        return self._ending(f"{self.get_filename_for_task(write_uuid, task_index)}_{block_index:06d}")

    def get_filename_for_row(
        self, row: dict[str, Any], write_uuid: str, task_index: int, block_index: int, row_index: int
    ) -> str:
        """Return the file name for one row."""
        task = self.get_filename_for_task(write_uuid, task_index)
        return self._ending(f"{task}_{block_index:06d}_{row_index:06d}")

    def get_filename_for_task(self, write_uuid: str, task_index: int) -> str:
        """Return the prefix of the names of a task's files."""
        return f"{write_uuid}_{task_index:06d}"

    def _ending(self, name: str) -> str:
        return f"{name}.{self._file_format}" if self._file_format else name
