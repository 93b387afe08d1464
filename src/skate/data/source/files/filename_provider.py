"""The names of written files."""

from __future__ import annotations

from typing import Any


class FilenameProvider:
    """Names output files. Subclasses define `get_filename_for_task`, and return a different name for each task, and
    the same one on a retry. The names of further blocks and of rows follow from that of their task.

    Args:
        dataset_uuid: the beginning of each name.
        file_format: the extension without its dot.
    """

    def __init__(self, dataset_uuid: str | None = None, file_format: str | None = None) -> None:
        self.dataset_uuid = dataset_uuid
        self.file_format = file_format

    def get_filename_for_task(self, write_uuid: str, task_index: int) -> str:
        """Return the name of a task's file: the write's id and the task's number."""
        name = f"{write_uuid}_{task_index:06d}"
        if self.dataset_uuid is not None:
            name = f"{self.dataset_uuid}_{name}"
        return name if self.file_format is None else f"{name}.{self.file_format}"

    def get_filename_for_block(self, block: Any, write_uuid: str, task_index: int, block_index: int) -> str:
        """Return the name of a block's file: the first of a task has the task's name, others also their number."""
        name = self.get_filename_for_task(write_uuid, task_index)
        return _numbered(name, block_index) if block_index else name

    def get_filename_for_row(
        self, row: dict[str, Any], write_uuid: str, task_index: int, block_index: int, row_index: int
    ) -> str:
        """Return the file name for one row: the task's name with the numbers of the block and of the row."""
        return _numbered(self.get_filename_for_task(write_uuid, task_index), block_index, row_index)


def _numbered(name: str, *numbers: int) -> str:
    """Return a name with numbers before its extension."""
    before, dot, extension = name.rpartition(".")
    stem = before if dot else name
    return stem + "".join(f"_{number:06d}" for number in numbers) + (dot + extension if dot else "")
