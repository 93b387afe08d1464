"""Sources in memory, paths, iterators and options of runs, by argument: the result of each call."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest
import ray
import ray.data
import torch
from plain_values import plain
from ray.data import DataContext, ExecutionOptions, ExecutionResources, FileShuffleConfig
from ray.data.datasource import Partitioning, PathPartitionFilter, PathPartitionParser, RandomIntRowDatasource

pytestmark = pytest.mark.usefixtures("cluster")

_folder: list[pathlib.Path] = []


@pytest.fixture(autouse=True)
def in_order(tmp_path: pathlib.Path) -> Iterator[None]:
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    _folder[:] = [tmp_path]
    yield
    _folder.clear()


def numbers(n: int = 4, blocks: int | None = 1) -> Any:
    return ray.data.range(n, override_num_blocks=blocks)


def rows(dataset: Any) -> list[Any]:
    return list(dataset.take_all())


CASES: list[tuple[str, Callable[[], Any], Any]] = [
    ("FileShuffleConfig().seed", lambda: FileShuffleConfig().seed, None),
    ("FileShuffleConfig(seed=3).seed", lambda: FileShuffleConfig(seed=3).seed, 3),
    ("Partitioning('hive').field_names", lambda: Partitioning("hive").field_names, None),
    ("Partitioning('hive').base_dir", lambda: Partitioning("hive").base_dir, ""),
    (
        "PathPartitionParser.of('hive')('/a/b=1/c=x/f.csv')",
        lambda: PathPartitionParser.of("hive")("/a/b=1/c=x/f.csv"),
        {"b": "1", "c": "x"},
    ),
    (
        "PathPartitionParser.of('hive',base_dir='/a/b=1')('/a/b=1/c=x/f.csv')",
        lambda: PathPartitionParser.of("hive", base_dir="/a/b=1")("/a/b=1/c=x/f.csv"),
        {"c": "x"},
    ),
    (
        "PathPartitionParser.of('dir',field_names=['x','y'],base_dir='/a')('/a/1/2/f.csv')",
        lambda: PathPartitionParser.of("dir", field_names=["x", "y"], base_dir="/a")("/a/1/2/f.csv"),
        {"x": "1", "y": "2"},
    ),
    (
        "PathPartitionParser.of('dir',field_names=['x','y'],base_dir='/a')('/b/1/f.csv')",
        lambda: PathPartitionParser.of("dir", field_names=["x", "y"], base_dir="/a")("/b/1/f.csv"),
        {},
    ),
    (
        "PathPartitionParser.of('dir',field_names=['x',None],base_dir='/a')('/a/1/2/f.csv')",
        lambda: PathPartitionParser.of("dir", field_names=["x", None], base_dir="/a")("/a/1/2/f.csv"),
        {"x": "1"},
    ),
    (
        "PathPartitionParser.of('hive',field_names=['b','c'])('/a/b=1/c=x/f.csv')",
        lambda: PathPartitionParser.of("hive", field_names=["b", "c"])("/a/b=1/c=x/f.csv"),
        {"b": "1", "c": "x"},
    ),
    (
        "PathPartitionParser.of('hive',field_types={'b':int})('/a/b=1/f.csv')",
        lambda: PathPartitionParser.of("hive", field_types={"b": int})("/a/b=1/f.csv"),
        {"b": 1},
    ),
    ("PathPartitionParser.of('hive')('/a/f.csv')", lambda: PathPartitionParser.of("hive")("/a/f.csv"), {}),
    (
        "PathPartitionFilter.of(lambda d:d.get('b')=='1')(['/a/b=1/f','/a/b=2/f'])",
        lambda: PathPartitionFilter.of(lambda d: d.get("b") == "1")(["/a/b=1/f", "/a/b=2/f"]),
        ["/a/b=1/f"],
    ),
    (
        "rows(ray.data.from_pandas(pd.DataFrame({'a':[1,2],'b':['x',None]})))",
        lambda: rows(ray.data.from_pandas(pd.DataFrame({"a": [1, 2], "b": ["x", None]}))),
        [{"a": 1, "b": "x"}, {"a": 2, "b": None}],
    ),
    (
        "ray.data.from_pandas([pd.DataFrame({'a':[1]}),pd.DataFrame({'a':[2]})]).count()",
        lambda: ray.data.from_pandas([pd.DataFrame({"a": [1]}), pd.DataFrame({"a": [2]})]).count(),
        2,
    ),
    (
        "ray.data.from_pandas(pd.DataFrame({'a':[1,2]})).schema()",
        lambda: ray.data.from_pandas(pd.DataFrame({"a": [1, 2]})).schema(),
        "Column  Type\n------  ----\na       int64",
    ),
    (
        "ray.data.from_pandas(pd.DataFrame({'a':[1]},index=[7])).take_all()",
        lambda: ray.data.from_pandas(pd.DataFrame({"a": [1]}, index=[7])).take_all(),
        [{"a": 1}],
    ),
    (
        "rows(ray.data.from_pandas_refs(ray.put(pd.DataFrame({'a':[1]}))))",
        lambda: rows(ray.data.from_pandas_refs(ray.put(pd.DataFrame({"a": [1]})))),
        [{"a": 1}],
    ),
    (
        "rows(ray.data.from_pandas_refs([ray.put(pd.DataFrame({'a':[1]})),ray.put(pd.DataFrame({'",
        lambda: rows(
            ray.data.from_pandas_refs([ray.put(pd.DataFrame({"a": [1]})), ray.put(pd.DataFrame({"a": [2]}))])
        ),
        [{"a": 1}, {"a": 2}],
    ),
    (
        "rows(ray.data.from_arrow(pa.table({'a':[1]})))",
        lambda: rows(ray.data.from_arrow(pa.table({"a": [1]}))),
        [{"a": 1}],
    ),
    (
        "rows(ray.data.from_arrow([pa.table({'a':[1]}),pa.table({'a':[2]})]))",
        lambda: rows(ray.data.from_arrow([pa.table({"a": [1]}), pa.table({"a": [2]})])),
        [{"a": 1}, {"a": 2}],
    ),
    (
        "rows(ray.data.from_arrow_refs(ray.put(pa.table({'a':[1]}))))",
        lambda: rows(ray.data.from_arrow_refs(ray.put(pa.table({"a": [1]})))),
        [{"a": 1}],
    ),
    (
        "rows(ray.data.from_arrow_refs([ray.put(pa.table({'a':[1]}))]*2))",
        lambda: rows(ray.data.from_arrow_refs([ray.put(pa.table({"a": [1]}))] * 2)),
        [{"a": 1}, {"a": 1}],
    ),
    (
        "rows(ray.data.from_numpy(np.arange(3)))",
        lambda: rows(ray.data.from_numpy(np.arange(3))),
        [{"data": 0}, {"data": 1}, {"data": 2}],
    ),
    (
        "rows(ray.data.from_numpy([np.arange(2),np.arange(2)]))",
        lambda: rows(ray.data.from_numpy([np.arange(2), np.arange(2)])),
        [{"data": 0}, {"data": 1}, {"data": 0}, {"data": 1}],
    ),
    (
        "rows(ray.data.from_numpy(np.ones((2,2))))",
        lambda: rows(ray.data.from_numpy(np.ones((2, 2)))),
        [{"data": ["nd", "float64", [1.0, 1.0]]}, {"data": ["nd", "float64", [1.0, 1.0]]}],
    ),
    (
        "rows(ray.data.from_numpy_refs([ray.put(np.arange(2))]))",
        lambda: rows(ray.data.from_numpy_refs([ray.put(np.arange(2))])),
        [{"data": 0}, {"data": 1}],
    ),
    (
        "rows(ray.data.from_blocks([pa.table({'a':[1]}),pd.DataFrame({'a':[2]})]))",
        lambda: rows(ray.data.from_blocks([pa.table({"a": [1]}), pd.DataFrame({"a": [2]})])),
        [{"a": 1}, {"a": 2}],
    ),
    (
        "rows(ray.data.from_torch([1,2,3]))",
        lambda: rows(ray.data.from_torch([1, 2, 3])),
        [{"item": 1}, {"item": 2}, {"item": 3}],
    ),
    (
        "len(rows(ray.data.read_datasource(RandomIntRowDatasource(n=3,num_columns=2))))",
        lambda: len(rows(ray.data.read_datasource(RandomIntRowDatasource(n=3, num_columns=2)))),
        3,
    ),
    (
        "ray.data.read_datasource(RandomIntRowDatasource(n=3,num_columns=2)).schema().names",
        lambda: ray.data.read_datasource(RandomIntRowDatasource(n=3, num_columns=2)).schema().names,
        ["c_0", "c_1"],
    ),
    (
        "[type(b).__name__ for b in numbers(3,1).iter_batches(batch_size=2)]",
        lambda: [type(b).__name__ for b in numbers(3, 1).iter_batches(batch_size=2)],
        ["dict", "dict"],
    ),
    (
        "[plain(b) for b in numbers(3,1).iter_batches(batch_size=2)]",
        lambda: [plain(b) for b in numbers(3, 1).iter_batches(batch_size=2)],
        [{"id": ["nd", "int64", [0, 1]]}, {"id": ["nd", "int64", [2]]}],
    ),
    (
        "[plain(b) for b in numbers(5,2).iter_batches(batch_size=2,drop_last=True)]",
        lambda: [plain(b) for b in numbers(5, 2).iter_batches(batch_size=2, drop_last=True)],
        [{"id": ["nd", "int64", [0, 1]]}, {"id": ["nd", "int64", [2, 3]]}],
    ),
    (
        "[b.num_rows for b in numbers(5,2).iter_batches(batch_size=3,batch_format='pyarrow')]",
        lambda: [b.num_rows for b in numbers(5, 2).iter_batches(batch_size=3, batch_format="pyarrow")],
        [3, 2],
    ),
    (
        "[len(b) for b in numbers(5,2).iter_batches(batch_size=3,batch_format='pandas')]",
        lambda: [len(b) for b in numbers(5, 2).iter_batches(batch_size=3, batch_format="pandas")],
        [3, 2],
    ),
    (
        "len(list(numbers().iter_batches(prefetch_batches=0)))",
        lambda: len(list(numbers().iter_batches(prefetch_batches=0))),
        1,
    ),
    (
        "[{k:(str(v.dtype),v.tolist()) for k,v in b.items()} for b in numbers(3,1).iter_torch_bat",
        lambda: [
            {k: (str(v.dtype), v.tolist()) for k, v in b.items()}
            for b in numbers(3, 1).iter_torch_batches(batch_size=2)
        ],
        [{"id": ["torch.int64", [0, 1]]}, {"id": ["torch.int64", [2]]}],
    ),
    (
        "[{k:(str(v.dtype),v.tolist()) for k,v in b.items()} for b in numbers(3,1).iter_torch_bat",
        lambda: [
            {k: (str(v.dtype), v.tolist()) for k, v in b.items()}
            for b in numbers(3, 1).iter_torch_batches(batch_size=2, dtypes=torch.float32)
        ],
        [{"id": ["torch.float32", [0.0, 1.0]]}, {"id": ["torch.float32", [2.0]]}],
    ),
    (
        "[{k:(str(v.dtype),v.tolist()) for k,v in b.items()} for b in numbers(3,1).iter_torch_bat",
        lambda: [
            {k: (str(v.dtype), v.tolist()) for k, v in b.items()}
            for b in numbers(3, 1).iter_torch_batches(batch_size=2, dtypes={"id": torch.float16})
        ],
        [{"id": ["torch.float16", [0.0, 1.0]]}, {"id": ["torch.float16", [2.0]]}],
    ),
    (
        "[type(b).__name__ for b in numbers(3,1).iter_torch_batches(batch_size=2,collate_fn=lambd",
        lambda: [
            type(b).__name__
            for b in numbers(3, 1).iter_torch_batches(batch_size=2, collate_fn=lambda b: len(b["id"]))
        ],
        ["int", "int"],
    ),
    (
        "[b['id'].tolist() for b in numbers(3,1).iter_torch_batches(drop_last=True,batch_size=2)]",
        lambda: [b["id"].tolist() for b in numbers(3, 1).iter_torch_batches(drop_last=True, batch_size=2)],
        [[0, 1]],
    ),
    (
        "str(next(iter(numbers(3,1).iter_torch_batches(device='cpu')))['id'].device)",
        lambda: str(next(iter(numbers(3, 1).iter_torch_batches(device="cpu")))["id"].device),
        "cpu",
    ),
    (
        "list(numbers(2,1).iterator().iter_rows())",
        lambda: list(numbers(2, 1).iterator().iter_rows()),
        [{"id": 0}, {"id": 1}],
    ),
    (
        "[plain(b) for b in numbers(2,1).iterator().iter_batches()]",
        lambda: [plain(b) for b in numbers(2, 1).iterator().iter_batches()],
        [{"id": ["nd", "int64", [0, 1]]}],
    ),
    ("numbers(2).iterator().schema().names", lambda: numbers(2).iterator().schema().names, ["id"]),
    ("numbers(2).iterator().materialize().count()", lambda: numbers(2).iterator().materialize().count(), 2),
    (
        "iter(numbers(2).iter_batches()) is not None",
        lambda: iter(numbers(2).iter_batches()) is not None,
        True,
    ),
    (
        "ExecutionOptions(resource_limits=ExecutionResources(cpu=2)).resource_limits.cpu",
        lambda: ExecutionOptions(resource_limits=ExecutionResources(cpu=2)).resource_limits.cpu,
        2,
    ),
    (
        "ExecutionResources(cpu=1)==ExecutionResources(cpu=1)",
        lambda: ExecutionResources(cpu=1) == ExecutionResources(cpu=1),
        True,
    ),
    (
        "ExecutionResources(1,0,10).object_store_memory_str()",
        lambda: ExecutionResources(1, 0, 10).object_store_memory_str(),
        "10.0B",
    ),
    (
        "ExecutionResources(cpu=1).add(ExecutionResources(cpu=2)).cpu",
        lambda: ExecutionResources(cpu=1).add(ExecutionResources(cpu=2)).cpu,
        3,
    ),
    (
        "ExecutionResources(cpu=1).subtract(ExecutionResources(cpu=2)).cpu",
        lambda: ExecutionResources(cpu=1).subtract(ExecutionResources(cpu=2)).cpu,
        -1,
    ),
    (
        "ExecutionResources(cpu=1).satisfies_limit(ExecutionResources(cpu=2))",
        lambda: ExecutionResources(cpu=1).satisfies_limit(ExecutionResources(cpu=2)),
        True,
    ),
    ("ExecutionResources(cpu=1).scale(3).cpu", lambda: ExecutionResources(cpu=1).scale(3).cpu, 3),
    (
        "ExecutionResources.for_limits(cpu=3)",
        lambda: ExecutionResources.for_limits(cpu=3),
        "ExecutionResources(cpu=3, gpu=inf, object_store_memory=inf, memory=inf)",
    ),
    (
        "ExecutionResources(cpu=3).max(ExecutionResources(cpu=1)).cpu",
        lambda: ExecutionResources(cpu=3).max(ExecutionResources(cpu=1)).cpu,
        3,
    ),
    (
        "ExecutionResources(cpu=3).min(ExecutionResources(cpu=1)).cpu",
        lambda: ExecutionResources(cpu=3).min(ExecutionResources(cpu=1)).cpu,
        1,
    ),
    ("ExecutionResources(cpu=0).is_zero()", lambda: ExecutionResources(cpu=0).is_zero(), True),
    (
        "ExecutionResources(cpu=1).is_non_negative()",
        lambda: ExecutionResources(cpu=1).is_non_negative(),
        True,
    ),
    ("ExecutionOptions().preserve_order", lambda: ExecutionOptions().preserve_order, False),
    ("ExecutionOptions().verbose_progress", lambda: ExecutionOptions().verbose_progress, True),
    ("ExecutionOptions().actor_locality_enabled", lambda: ExecutionOptions().actor_locality_enabled, True),
    (
        "ExecutionOptions().is_resource_limits_default()",
        lambda: ExecutionOptions().is_resource_limits_default(),
        True,
    ),
    (
        "DataContext.get_current().copy() is DataContext.get_current()",
        lambda: DataContext.get_current().copy() is DataContext.get_current(),
        False,
    ),
    ("DataContext().get_config('x',5)", lambda: DataContext().get_config("x", 5), 5),
]


@pytest.mark.parametrize(("call", "found"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_result_of(call: Callable[[], Any], found: Any) -> None:
    assert plain(call()) == found
