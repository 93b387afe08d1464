"""Resumable pipelines: a run skips the rows that earlier runs have written.

With `DataContext.get_current().checkpoint_config` set, each write task records the ids of its rows under
`checkpoint_path` once they are written. To resume an interrupted run, run the same program again: it
continues with the rows that are missing. Files of tasks that did not finish are deleted first, so no row is
written twice; datasinks that do not write files may receive the rows of such tasks twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from skate.data.block.names import known
from skate.data.checkpoint_config import CheckpointBackend as CheckpointBackend
from skate.data.checkpoint_config import CheckpointConfig as CheckpointConfig
from skate.data.checkpoint_config import InvalidCheckpointingConfig as InvalidCheckpointingConfig
from skate.data.plan.operators import Operator, Steps
from skate.data.source.datasink import Datasink, SaveMode
from skate.data.source.files.filesystems import resolve
from skate.data.source.files.sink import FileDatasink

#: The task number that follows the id of a write in file names.
_TASK_LETTERS = len("_000000")


class Checkpoint:
    """The record of a pipeline's written rows: files of ids, one per task that has finished writing."""

    def __init__(self, config: CheckpointConfig) -> None:
        self.config = config
        (self.path,), self.filesystem = resolve(config.checkpoint_path, config.filesystem)
        #: Names of the tasks whose files `begin` has kept.
        self._kept: set[str] | None = None

    def written(self) -> pa.Array | None:
        """The ids of the rows written so far; None if there are none."""
        import pyarrow.parquet as pq  # only runs with checkpoints need it

        found = []
        for info in self._files():
            if self._kept is not None and _name_of(info.path) not in self._kept:
                continue  # of a task that outlived its run: its files are deleted
            with self.filesystem.open_input_file(info.path) as file:
                found.append(pq.read_table(file).column(self.config.id_column))
        if not found:
            return None
        return pa.chunked_array([chunk for each in found for chunk in each.chunks]).combine_chunks()

    def _files(self, ending: str = ".parquet") -> list[Any]:
        from pyarrow import fs  # imported only if used

        selector = fs.FileSelector(self.path, allow_not_found=True)
        return [info for info in self.filesystem.get_file_info(selector) if info.path.endswith(ending)]

    def begin(self, datasink: Any) -> None:
        """Delete the files of tasks that earlier runs left incomplete, and record this run.

        Because the record of the earlier run is gone, any of its tasks that still run delete their own files.
        """
        if not isinstance(datasink, FileDatasink) or not datasink.own_names:
            return
        begun = self._files(".begun")
        for info in begun:
            self.filesystem.delete_file(info.path)
        entered = self._kept = {_name_of(info.path) for info in self._files()}
        for info in begun:
            run = _name_of(info.path)
            for path in datasink._all_files():
                name = _name_of(path).lstrip(".")
                if name.startswith(run) and name[: len(run) + _TASK_LETTERS] not in entered:
                    datasink.filesystem.delete_file(path)
        self.filesystem.create_dir(self.path, recursive=True)
        with self.filesystem.open_output_stream(f"{self.path}/{datasink.write_uuid}.begun"):
            pass

    def check(self, datasink: Any) -> None:
        """Raise ValueError for a datasink that commits all rows at the end, or that replaces existing data."""
        own = type(datasink).on_write_complete
        in_files = isinstance(datasink, FileDatasink)
        if own is not Datasink.on_write_complete and not in_files:
            raise ValueError(
                f"{datasink.get_name()} commits all rows at once, so a failed run has written nothing that a "
                "checkpoint could record; set checkpoint_config to None"
            )
        if in_files and datasink.mode not in (SaveMode.APPEND,):
            raise ValueError(
                f"a write with a checkpoint appends to existing files: use mode='append', not {datasink.mode.value!r}"
            )

    def enter(self, ids: pa.ChunkedArray, datasink: Any, name: str, result: Any) -> None:
        """Record the ids that a task has written. The file appears once it is complete."""
        import pyarrow.parquet as pq  # imported only if used

        if isinstance(datasink, FileDatasink) and datasink.own_names and self._is_over(datasink):
            for path in result or ():
                datasink.filesystem.delete_file(path)
            return
        self.filesystem.create_dir(self.path, recursive=True)
        with self.filesystem.open_output_stream(f"{self.path}/.{name}.part") as file:
            pq.write_table(pa.table({self.config.id_column: ids}), file)
        self.filesystem.move(f"{self.path}/.{name}.part", f"{self.path}/{name}.parquet")
        if (
            isinstance(datasink, FileDatasink)
            and datasink.own_names
            and not self._all_exist(datasink, result)
        ):
            # Another run has begun meanwhile, and has deleted them: the record would hide the rows from a third one.
            self.filesystem.delete_file(f"{self.path}/{name}.parquet")

    @staticmethod
    def _all_exist(datasink: FileDatasink, paths: Any) -> bool:
        from pyarrow import fs  # imported only if used

        return all(
            info.type != fs.FileType.NotFound for info in datasink.filesystem.get_file_info([*(paths or ())])
        )

    def _is_over(self, datasink: FileDatasink) -> bool:
        """True if another run has begun since."""
        from pyarrow import fs  # imported only if used

        info = self.filesystem.get_file_info(f"{self.path}/{datasink.write_uuid}.begun")
        return bool(info.type == fs.FileType.NotFound)

    def forget(self) -> None:
        """Delete the record, if the configuration requests it."""
        if self.config.delete_checkpoint_on_success:
            for info in [*self._files(), *self._files(".begun")]:
                self.filesystem.delete_file(info.path)

    def ids_of(self, table: pa.Table) -> pa.ChunkedArray:
        """The ids of a block's rows. Raises KeyError if a step has dropped them."""
        return table.column(known(table.column_names, self.config.id_column))


def _name_of(path: str) -> str:
    """The last part of a path, without its extensions (from the first dot after the first letter)."""
    last = path.rpartition("/")[2]
    return last[:1] + last[1:].partition(".")[0]


class SkipWritten:
    """A step that drops rows whose ids have been written."""

    def __init__(self, checkpoint: Checkpoint, ids: pa.Array) -> None:
        self.checkpoint = checkpoint
        self.ids = ids

    def __call__(self, given: Iterable[pa.Table]) -> Iterator[pa.Table]:
        import pyarrow.compute as pc  # imported only if used

        for table in given:
            column = self.checkpoint.ids_of(table)
            ids = self.ids if self.ids.type == column.type else self.ids.cast(column.type)
            yield table.filter(pc.invert(pc.is_in(column, value_set=ids)))


def check_source(plan: Operator) -> Operator:
    """Return the source of a plan. Raises ValueError if it has several."""
    sources = [each for each in plan.walk() if not each.inputs]
    if len(sources) != 1:
        raise ValueError(
            f"a checkpoint needs a pipeline with one source, but this one has {len(sources)}; set checkpoint_config to None"
        )
    return sources[0]


def skipping(plan: Operator, checkpoint: Checkpoint) -> Operator:
    """Return a plan whose source skips rows already written."""
    ids = checkpoint.written()
    source = check_source(plan)
    if ids is None:
        return plan
    step = Steps((source,), (SkipWritten(checkpoint, ids),), "SkipWritten")

    def behind(operator: Operator) -> Operator:
        if operator is source:
            return step
        return operator.over(*map(behind, operator.inputs))

    return behind(plan)
