"""Datasets of tables, arrays and datasets of other libraries."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skate.data.block import columns, concat, from_batch, tensors
from skate.data.block.foreign_tensors import without_foreign
from skate.data.block.objects import refuse_pickles
from skate.data.block.table import from_pandas as table_of_frame
from skate.data.compute import Compute
from skate.data.dataset import Dataset
from skate.data.execution.bundle import Bundle
from skate.data.plan.operators import FromBlocks, Read
from skate.data.readers.read_options import dataset_of
from skate.data.source.adapters import adapted
from skate.data.source.datasource import Datasource
from skate.data.source.ranges import RangeDatasource
from skate.data.source.values import IterableDatasource, MapStyleDatasource, RefsDatasource, as_row
from skate.installed import require


def _of_tables(label: str, tables: Sequence[pa.Table], blocks: int | None = None) -> Dataset:
    """Create a dataset of existing blocks, repartitioned if a number of blocks is given."""
    if blocks is not None:
        if blocks < 1:
            raise ValueError(f"override_num_blocks must be >= 1, got {blocks}")
        whole = concat(tables)
        cuts = [whole.num_rows * at // blocks for at in range(blocks + 1)]
        tables = [whole.slice(low, high - low) for low, high in zip(cuts, cuts[1:], strict=False)]
    made: Any = Dataset
    held = getattr(made, "_materialized", made)
    found: Dataset = held(FromBlocks((), tuple(Bundle.of(table) for table in tables), label))
    return found


def _of_refs(label: str, refs: Any, convert: Callable[[Any], pa.Table]) -> Dataset:
    from skate import ObjectRef  # avoids a cycle: the package's names are looked up here

    given = list(refs) if isinstance(refs, (list, tuple)) else [refs]
    for each in given:
        if not isinstance(each, ObjectRef):
            raise ValueError(
                f"Expected list of Ray object refs, got list containing {type(each)}: {each!r:.80}; ray.put() gives a ref"
            )
    return Dataset(Read(datasource=RefsDatasource(label, given, convert), parallelism=len(given)))


def _listed(given: Any, name: str) -> list[Any]:
    found = list(given) if isinstance(given, (list, tuple)) else [given]
    if not found:
        raise ValueError(f"{name} needs at least one argument")
    return found


def range_tensor(
    n: int,
    *,
    shape: tuple[int, ...] = (1,),
    parallelism: int = -1,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
) -> Dataset:
    """Create a dataset of `n` arrays in a column "data", each filled with its row's number."""
    blocks = parallelism if override_num_blocks is None else override_num_blocks
    source = RangeDatasource(n, "data", tuple(shape))
    return Dataset(Read(datasource=source, parallelism=blocks, compute=Compute(tasks=concurrency)))


def from_pandas(dfs: Any, override_num_blocks: int | None = None) -> Dataset:
    """Create a dataset of one or several DataFrames, one block each; their index is dropped."""
    frames = _listed(dfs, "from_pandas")
    return _of_tables("FromPandas", [_of_frame(frame) for frame in frames], override_num_blocks)


def from_pandas_refs(dfs: Any) -> Dataset:
    """Create a dataset of refs to DataFrames, one block each."""
    return _of_refs("FromPandas", dfs, _of_frame)


def _of_frame(frame: Any) -> pa.Table:
    if not hasattr(frame, "iloc"):
        raise TypeError(f"from_pandas takes DataFrames, got {type(frame).__name__}")
    return table_of_frame(frame.reset_index(drop=True))


def from_arrow(tables: Any, *, override_num_blocks: int | None = None) -> Dataset:
    """Create a dataset of one or several pyarrow Tables (or their bytes as IPC streams), one block each."""
    found = [_of_arrow(table) for table in _listed(tables, "from_arrow")]
    return _of_tables("FromArrow", found, override_num_blocks)


def from_arrow_refs(tables: Any) -> Dataset:
    """Create a dataset of refs to pyarrow Tables, one block each."""
    return _of_refs("FromArrow", tables, _of_arrow)


def _of_arrow(table: Any) -> pa.Table:
    if isinstance(table, bytes):
        return pa.ipc.open_stream(table).read_all()
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if isinstance(table, pa.Table):
        return without_foreign(table)
    if hasattr(table, "__arrow_c_stream__"):
        return pa.table(table)
    raise TypeError(f"from_arrow takes pyarrow Tables, got {type(table).__name__}")


def from_numpy(ndarrays: Any) -> Dataset:
    """Create a dataset of arrays in a column "data": one row per entry of the first dimension, one block per array."""
    arrays = [ndarrays] if isinstance(ndarrays, np.ndarray) else _listed(ndarrays, "from_numpy")
    return _of_tables("FromNumpy", [_of_array(array) for array in arrays])


def from_numpy_refs(ndarrays: Any) -> Dataset:
    """Create a dataset of refs to arrays, one block each; see `from_numpy`."""
    return _of_refs("FromNumpy", ndarrays, _of_array)


def _of_array(array: Any) -> pa.Table:
    values = np.asarray(array)
    if not values.ndim:
        raise ValueError("from_numpy takes arrays whose first dimension counts rows, got a single number")
    return from_batch({"data": values})


def from_blocks(blocks: Sequence[Any]) -> Dataset:
    """Create a dataset of blocks: pyarrow Tables, DataFrames, dicts of columns."""
    return _of_tables("FromBlocks", [from_batch(block) for block in blocks])


def from_torch(dataset: Any, local_read: bool = False) -> Dataset:
    """Create a dataset of the items of a torch dataset: a dict is a row, any other item becomes {"item": value}.

    A map-style dataset is read by several tasks, an iterable one by one task; with `local_read` on this machine.
    """
    is_stream = _is_stream(dataset)
    if hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__") and not local_read and not is_stream:
        return Dataset(Read(datasource=MapStyleDatasource("Torch", dataset, _item)))
    rows = dataset if hasattr(dataset, "__iter__") else _Indexed(dataset)
    return Dataset(Read(datasource=IterableDatasource("Torch", rows, _item, local_read), parallelism=1))


def _is_stream(dataset: Any) -> bool:
    """True for an `IterableDataset`: it inherits `__getitem__`, which raises."""
    torch_data = sys.modules.get("torch.utils.data")
    return torch_data is not None and isinstance(dataset, torch_data.IterableDataset)


class _Indexed:
    """Iterates over a collection that is accessed by index."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __iter__(self) -> Any:
        return (self.rows[at] for at in range(len(self.rows)))


def _item(value: Any) -> dict[str, Any]:
    return {"item": value}


class SeveralDatasets(DeprecationWarning, ValueError):
    """A Hugging Face DatasetDict was given instead of one dataset of it."""


def from_huggingface(
    dataset: Any,
    parallelism: int = -1,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
) -> Dataset:
    """Create a dataset from a Hugging Face `Dataset` (its table unchanged) or `IterableDataset` (read as a stream
    by one task).

    Raises SeveralDatasets for a DatasetDict.
    """
    blocks = parallelism if override_num_blocks is None else override_num_blocks
    if isinstance(dataset, dict):
        names = ", ".join(map(repr, dataset))
        first = next(iter(dataset), "train")
        raise SeveralDatasets(
            f"You provided a Hugging Face DatasetDict with the splits {names}; pass one of them, such as dataset[{first!r}]"
        )
    if hasattr(dataset, "with_format") and hasattr(dataset, "num_rows"):
        table = refuse_pickles(dataset.with_format("arrow")[:], "the dataset of Hugging Face")
        return _of_tables(
            "FromHuggingFace", [table.replace_schema_metadata(None)], None if blocks < 1 else blocks
        )
    if hasattr(dataset, "__iter__"):
        source = IterableDatasource("HuggingFace", dataset, as_row)
        return Dataset(Read(datasource=source, parallelism=1, compute=Compute(tasks=concurrency)))
    raise TypeError(f"`dataset` must be a `datasets.Dataset` or IterableDataset, but got {type(dataset)}")


def from_tf(dataset: Any) -> Dataset:
    """Create a dataset of the items of a tf.data.Dataset, which is read immediately in this process and must
    fit into memory."""
    rows = [as_row(row) for row in dataset.as_numpy_iterator()]
    if not rows:
        raise ValueError("from_tf() got an empty dataset")
    made = {name: columns.from_values([row[name] for row in rows]) for name in rows[0]}
    return _of_tables("FromTF", [pa.table(made)])


def from_dask(df: Any) -> Dataset:
    """Create a dataset of a Dask DataFrame, one block per partition; the partitions are computed in this process."""
    dask = require("dask", "from_dask")
    frames = dask.compute(*df.to_delayed())
    return _of_tables("FromDask", [_of_frame(frame) for frame in frames])


def from_modin(df: Any) -> Dataset:
    """Create a dataset of a Modin DataFrame."""
    to_pandas = getattr(df, "modin", df)
    frame = to_pandas.to_pandas() if hasattr(to_pandas, "to_pandas") else df._to_pandas()
    return _of_tables("FromModin", [_of_frame(frame)])


def from_mars(df: Any) -> Dataset:
    """Create a dataset of a Mars DataFrame, which is fetched to this process."""
    return _of_tables("FromMars", [_of_frame(df.to_pandas() if hasattr(df, "to_pandas") else df.fetch())])


def from_daft(df: Any) -> Dataset:
    """Create a dataset of a Daft DataFrame, which is computed in this process."""
    return _of_tables("FromDaft", [_plain_types(df.to_arrow())])


def from_spark(df: Any, *, parallelism: int | None = None, override_num_blocks: int | None = None) -> Dataset:
    """Create a dataset of a Spark DataFrame, which is collected to this process through Arrow."""
    blocks = override_num_blocks if override_num_blocks is not None else parallelism
    if hasattr(df, "toArrow"):  # Spark 4
        return _of_tables("FromSpark", [df.toArrow()], blocks)
    return _of_tables("FromSpark", [_of_frame(df.toPandas())], blocks)


def _plain_types(table: pa.Table) -> pa.Table:
    """Return a table without types that only another library knows."""
    for at, field in enumerate(table.schema):
        if isinstance(field.type, pa.BaseExtensionType) and not tensors.is_tensor(field.type):
            chunks = [chunk.storage for chunk in table.column(at).chunks]
            table = table.set_column(at, field.name, pa.chunked_array(chunks, field.type.storage_type))
    return table


def read_datasource(
    datasource: Datasource,
    *,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    concurrency: int | None = None,
    compute: Any = None,
    override_num_blocks: int | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: list[dict[str, Any]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    ray_remote_args: dict[str, Any] | None = None,
    **read_args: Any,
) -> Dataset:
    """Create a dataset read by a custom datasource; `read_args` are for datasources with the older interface,
    which have a reader."""
    given = dict(locals())
    if concurrency is None and compute is not None:
        given["concurrency"] = getattr(compute, "size", None)
    return dataset_of(adapted(datasource, read_args), given)
