"""Operations of datasets, by argument: the result of each call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import ray
import ray.data
from plain_values import plain
from ray.data.aggregate import (
    Std,
)

pytestmark = pytest.mark.usefixtures("cluster")


def numbers(n: int = 10, blocks: int | None = None) -> Any:
    return ray.data.range(n, override_num_blocks=blocks)


def items(values: Any) -> Any:
    return ray.data.from_items(values)


def rows(dataset: Any) -> list[Any]:
    return list(dataset.take_all())


def ids(dataset: Any) -> list[int]:
    return [row["id"] for row in dataset.take_all()]


def groups() -> Any:
    values = [("a", 1, "x"), ("b", 2, "y"), ("a", 3, None), ("b", None, "x"), ("c", 5, "z")]
    return ray.data.from_items([{"k": k, "v": v, "s": s} for k, v, s in values])


def nulls() -> Any:
    return ray.data.from_items([{"v": None}, {"v": None}])


def blocks(dataset: Any) -> list[int]:
    return [table.num_rows for table in ray.get(dataset.materialize().to_arrow_refs())]


@pytest.fixture(autouse=True)
def in_order() -> None:
    ray.data.DataContext.get_current().execution_options.preserve_order = True


CASES: list[tuple[str, Callable[[], Any], Any]] = [
    ("rows(items([{'a':1},{'a':2}]))", lambda: rows(items([{"a": 1}, {"a": 2}])), [{"a": 1}, {"a": 2}]),
    ("rows(items([1,2]))", lambda: rows(items([1, 2])), [{"item": 1}, {"item": 2}]),
    ("rows(items([]))", lambda: rows(items([])), []),
    ("rows(items([[1,2],[3]]))", lambda: rows(items([[1, 2], [3]])), [{"item": [1, 2]}, {"item": [3]}]),
    ("rows(items([None,1]))", lambda: rows(items([None, 1])), [{"item": None}, {"item": 1}]),
    ("rows(items(np.arange(3)))", lambda: rows(items(np.arange(3))), [{"item": 0}, {"item": 1}, {"item": 2}]),
    ("rows(ray.data.range(-1))", lambda: rows(ray.data.range(-1)), []),
    ("rows(ray.data.range(0))", lambda: rows(ray.data.range(0)), []),
    (
        "ray.data.range(3).schema()",
        lambda: ray.data.range(3).schema(),
        "Column  Type\n------  ----\nid      int64",
    ),
    (
        "rows(ray.data.range_tensor(2,shape=(2,)))",
        lambda: rows(ray.data.range_tensor(2, shape=(2,))),
        [{"data": ["nd", "int64", [0, 0]]}, {"data": ["nd", "int64", [1, 1]]}],
    ),
    ("numbers().count()", lambda: numbers().count(), 10),
    ("items([]).count()", lambda: items([]).count(), 0),
    ("Std('v').name", lambda: Std("v").name, "std(v)"),
    ("blocks(numbers(10,5).repartition(2))", lambda: blocks(numbers(10, 5).repartition(2)), [5, 5]),
    ("blocks(numbers(10,2).repartition(5))", lambda: blocks(numbers(10, 2).repartition(5)), [2, 2, 2, 2, 2]),
    (
        "blocks(numbers(10,2).repartition(5,shuffle=True))",
        lambda: blocks(numbers(10, 2).repartition(5, shuffle=True)),
        [2, 2, 2, 2, 2],
    ),
    ("sum(blocks(numbers(10,2).repartition(20)))", lambda: sum(blocks(numbers(10, 2).repartition(20))), 10),
    ("len(blocks(numbers(3,1).repartition(5)))", lambda: len(blocks(numbers(3, 1).repartition(5))), 5),
    (
        "blocks(numbers(10,2).repartition(target_num_rows_per_block=3))",
        lambda: blocks(numbers(10, 2).repartition(target_num_rows_per_block=3)),
        [3, 2, 3, 2],
    ),
    (
        "blocks(numbers(10,2).repartition(target_num_rows_per_block=5,strict=True))",
        lambda: blocks(numbers(10, 2).repartition(target_num_rows_per_block=5, strict=True)),
        [5, 5],
    ),
    (
        "blocks(numbers(10,1).repartition(target_num_rows_per_block=4,strict=True))",
        lambda: blocks(numbers(10, 1).repartition(target_num_rows_per_block=4, strict=True)),
        [4, 4, 2],
    ),
    (
        "numbers().repartition(2,keys=['id']).count()",
        lambda: numbers().repartition(2, keys=["id"]).count(),
        10,
    ),
    (
        "numbers().repartition(2,shuffle=True,keys=['id']).count()",
        lambda: numbers().repartition(2, shuffle=True, keys=["id"]).count(),
        10,
    ),
    ("numbers().repartition(2,sort=True).count()", lambda: numbers().repartition(2, sort=True).count(), 10),
    ("[d.count() for d in numbers().split(3)]", lambda: [d.count() for d in numbers().split(3)], [4, 4, 2]),
    (
        "[d.count() for d in numbers().split(3,equal=True)]",
        lambda: [d.count() for d in numbers().split(3, equal=True)],
        [3, 3, 3],
    ),
    (
        "[d.count() for d in numbers().split_at_indices([2,5])]",
        lambda: [d.count() for d in numbers().split_at_indices([2, 5])],
        [2, 3, 5],
    ),
    (
        "[d.count() for d in numbers().split_at_indices([2,20])]",
        lambda: [d.count() for d in numbers().split_at_indices([2, 20])],
        [2, 8, 0],
    ),
    (
        "[ids(d) for d in numbers().split_at_indices([0,5])]",
        lambda: [ids(d) for d in numbers().split_at_indices([0, 5])],
        [[], [0, 1, 2, 3, 4], [5, 6, 7, 8, 9]],
    ),
    (
        "[d.count() for d in numbers().split_proportionately([.2,.5])]",
        lambda: [d.count() for d in numbers().split_proportionately([0.2, 0.5])],
        [2, 5, 3],
    ),
    (
        "[d.count() for d in numbers().train_test_split(.3)]",
        lambda: [d.count() for d in numbers().train_test_split(0.3)],
        [7, 3],
    ),
    (
        "[d.count() for d in numbers().train_test_split(3)]",
        lambda: [d.count() for d in numbers().train_test_split(3)],
        [7, 3],
    ),
    (
        "[ids(d) for d in numbers().train_test_split(.3)]",
        lambda: [ids(d) for d in numbers().train_test_split(0.3)],
        [[0, 1, 2, 3, 4, 5, 6], [7, 8, 9]],
    ),
    ("numbers().random_sample(1.).count()", lambda: numbers().random_sample(1.0).count(), 10),
    (
        "sorted(ids(numbers().random_shuffle()))",
        lambda: sorted(ids(numbers().random_shuffle())),
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    ),
    ("ids(numbers().limit(3))", lambda: ids(numbers().limit(3)), [0, 1, 2]),
    ("ids(numbers().limit(0))", lambda: ids(numbers().limit(0)), []),
    ("ids(numbers().limit(-1))", lambda: ids(numbers().limit(-1)), []),
    ("ids(numbers().limit(20))", lambda: ids(numbers().limit(20)), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ("numbers().limit(3).limit(2).count()", lambda: numbers().limit(3).limit(2).count(), 2),
    ("numbers().take(3)", lambda: numbers().take(3), [{"id": 0}, {"id": 1}, {"id": 2}]),
    ("numbers().take(0)", lambda: numbers().take(0), []),
    ("numbers().take(-1)", lambda: numbers().take(-1), []),
    (
        "numbers().take_all(limit=20)",
        lambda: numbers().take_all(limit=20),
        [
            {"id": 0},
            {"id": 1},
            {"id": 2},
            {"id": 3},
            {"id": 4},
            {"id": 5},
            {"id": 6},
            {"id": 7},
            {"id": 8},
            {"id": 9},
        ],
    ),
    ("numbers().take_batch(3)", lambda: numbers().take_batch(3), {"id": ["nd", "int64", [0, 1, 2]]}),
    (
        "numbers().take_batch(20)",
        lambda: numbers().take_batch(20),
        {"id": ["nd", "int64", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]]},
    ),
    (
        "rows(numbers(2).zip(numbers(2)))",
        lambda: rows(numbers(2).zip(numbers(2))),
        [{"id": 0, "id_1": 0}, {"id": 1, "id_1": 1}],
    ),
    (
        "rows(numbers(2).zip(numbers(2),numbers(2)))",
        lambda: rows(numbers(2).zip(numbers(2), numbers(2))),
        [{"id": 0, "id_1": 0, "id_2": 0}, {"id": 1, "id_1": 1, "id_2": 1}],
    ),
    (
        "rows(numbers(5,5).zip(numbers(5,1)))",
        lambda: rows(numbers(5, 5).zip(numbers(5, 1))),
        [
            {"id": 0, "id_1": 0},
            {"id": 1, "id_1": 1},
            {"id": 2, "id_1": 2},
            {"id": 3, "id_1": 3},
            {"id": 4, "id_1": 4},
        ],
    ),
    ("numbers().columns()", lambda: numbers().columns(), ["id"]),
    ("numbers().schema().names", lambda: numbers().schema().names, ["id"]),
    ("numbers().schema().types", lambda: numbers().schema().types, ["DataType(int64)"]),
    (
        "ray.data.range(3).map(lambda r:{'x':1}).columns()",
        lambda: ray.data.range(3).map(lambda r: {"x": 1}).columns(),
        ["x"],
    ),
    (
        "ray.data.range(3).map(lambda r:{'x':1}).columns(fetch_if_missing=False)",
        lambda: ray.data.range(3).map(lambda r: {"x": 1}).columns(fetch_if_missing=False),
        None,
    ),
    (
        "ray.data.range(3).map(lambda r:{'x':1}).schema(fetch_if_missing=False)",
        lambda: ray.data.range(3).map(lambda r: {"x": 1}).schema(fetch_if_missing=False),
        None,
    ),
    (
        "rows(numbers(2).add_column('x',lambda d:d['id']*2))",
        lambda: rows(numbers(2).add_column("x", lambda d: d["id"] * 2)),
        [{"id": 0, "x": 0}, {"id": 1, "x": 2}],
    ),
    (
        "rows(numbers(2).add_column('id',lambda d:d['id']*2))",
        lambda: rows(numbers(2).add_column("id", lambda d: d["id"] * 2)),
        [{"id": 0}, {"id": 2}],
    ),
    (
        "rows(numbers(2).add_column('x',lambda d:pc.add(d['id'],1),batch_format='pyarrow'))",
        lambda: rows(numbers(2).add_column("x", lambda d: pc.add(d["id"], 1), batch_format="pyarrow")),
        [{"id": 0, "x": 1}, {"id": 1, "x": 2}],
    ),
    (
        "rows(numbers(2).add_column('x',lambda d:d['id']+1,batch_format='numpy'))",
        lambda: rows(numbers(2).add_column("x", lambda d: d["id"] + 1, batch_format="numpy")),
        [{"id": 0, "x": 1}, {"id": 1, "x": 2}],
    ),
    (
        "rows(numbers(2).add_column('x',lambda d:5))",
        lambda: rows(numbers(2).add_column("x", lambda d: 5)),
        [{"id": 0, "x": 5}, {"id": 1, "x": 5}],
    ),
    ("rows(numbers(2).drop_columns(['id']))", lambda: rows(numbers(2).drop_columns(["id"])), []),
    ("rows(numbers(2).drop_columns([]))", lambda: rows(numbers(2).drop_columns([])), [{"id": 0}, {"id": 1}]),
    (
        "rows(numbers(2).select_columns('id'))",
        lambda: rows(numbers(2).select_columns("id")),
        [{"id": 0}, {"id": 1}],
    ),
    (
        "rows(numbers(2).rename_columns({'id':'x'}))",
        lambda: rows(numbers(2).rename_columns({"id": "x"})),
        [{"x": 0}, {"x": 1}],
    ),
    (
        "rows(numbers(2).rename_columns(['x']))",
        lambda: rows(numbers(2).rename_columns(["x"])),
        [{"x": 0}, {"x": 1}],
    ),
    (
        "rows(numbers(2).rename_columns({'id':'id'}))",
        lambda: rows(numbers(2).rename_columns({"id": "id"})),
        [{"id": 0}, {"id": 1}],
    ),
    (
        "rows(numbers(2).map(lambda r:{'a':r['id']}))",
        lambda: rows(numbers(2).map(lambda r: {"a": r["id"]})),
        [{"a": 0}, {"a": 1}],
    ),
    (
        "rows(numbers(2).map(lambda r,a:{'x':a},fn_args=[3]))",
        lambda: rows(numbers(2).map(lambda r, a: {"x": a}, fn_args=[3])),
        [{"x": 3}, {"x": 3}],
    ),
    (
        "rows(numbers(2).map(lambda r,a=1:{'x':a},fn_kwargs={'a':3}))",
        lambda: rows(numbers(2).map(lambda r, a=1: {"x": a}, fn_kwargs={"a": 3})),
        [{"x": 3}, {"x": 3}],
    ),
    (
        "rows(numbers(2).map(lambda r:r,concurrency=1,compute=ray.data.TaskPoolStrategy(1)))",
        lambda: rows(numbers(2).map(lambda r: r, concurrency=1, compute=ray.data.TaskPoolStrategy(1))),
        [{"id": 0}, {"id": 1}],
    ),
    (
        "rows(numbers(2).flat_map(lambda r:[r,r]))",
        lambda: rows(numbers(2).flat_map(lambda r: [r, r])),
        [{"id": 0}, {"id": 0}, {"id": 1}, {"id": 1}],
    ),
    ("rows(numbers(2).flat_map(lambda r:[]))", lambda: rows(numbers(2).flat_map(lambda r: [])), []),
    (
        "rows(numbers(4).map_batches(lambda b:{'n':[len(b['id'])]},batch_size=2))",
        lambda: rows(numbers(4).map_batches(lambda b: {"n": [len(b["id"])]}, batch_size=2)),
        [{"n": 2}, {"n": 2}],
    ),
    (
        "rows(numbers(4,1).map_batches(lambda b:{'n':[len(b['id'])]},batch_size=3))",
        lambda: rows(numbers(4, 1).map_batches(lambda b: {"n": [len(b["id"])]}, batch_size=3)),
        [{"n": 3}, {"n": 1}],
    ),
    (
        "rows(numbers(4,2).map_batches(lambda b:{'n':[len(b['id'])]},batch_size=None))",
        lambda: rows(numbers(4, 2).map_batches(lambda b: {"n": [len(b["id"])]}, batch_size=None)),
        [{"n": 2}, {"n": 2}],
    ),
    (
        "rows(numbers(2,1).map_batches(lambda b:b.assign(x=1),batch_format='pandas'))",
        lambda: rows(numbers(2, 1).map_batches(lambda b: b.assign(x=1), batch_format="pandas")),
        [{"id": 0, "x": 1}, {"id": 1, "x": 1}],
    ),
    (
        "rows(numbers(2,1).map_batches(lambda b:b.append_column('x',pa.array([1,2])),batch_format",
        lambda: rows(
            numbers(2, 1).map_batches(
                lambda b: b.append_column("x", pa.array([1, 2])), batch_format="pyarrow"
            )
        ),
        [{"id": 0, "x": 1}, {"id": 1, "x": 2}],
    ),
    (
        "rows(numbers(2,1).map_batches(lambda b:{}))",
        lambda: rows(numbers(2, 1).map_batches(lambda b: {})),
        [],
    ),
    (
        "ray.data.ActorPoolStrategy(size=2)==ray.data.ActorPoolStrategy(size=2)",
        lambda: ray.data.ActorPoolStrategy(size=2) == ray.data.ActorPoolStrategy(size=2),
        True,
    ),
    (
        "ray.data.TaskPoolStrategy(2)==ray.data.TaskPoolStrategy(2)",
        lambda: ray.data.TaskPoolStrategy(2) == ray.data.TaskPoolStrategy(2),
        True,
    ),
    ("bool(numbers())", lambda: bool(numbers()), True),
    ("list(numbers().iter_rows())[:2]", lambda: list(numbers().iter_rows())[:2], [{"id": 0}, {"id": 1}]),
    ("numbers().show(0)", lambda: numbers().show(0), None),
    (
        "numbers(3,1).to_numpy_refs()[0] is not None",
        lambda: numbers(3, 1).to_numpy_refs()[0] is not None,
        True,
    ),
    (
        "ray.get(numbers(3,1).to_numpy_refs()[0])",
        lambda: ray.get(numbers(3, 1).to_numpy_refs()[0]),
        {"id": ["nd", "int64", [0, 1, 2]]},
    ),
    (
        "ray.get(numbers(3,1).to_numpy_refs(column='id')[0])",
        lambda: ray.get(numbers(3, 1).to_numpy_refs(column="id")[0]),
        ["nd", "int64", [0, 1, 2]],
    ),
    ("numbers(3).size_bytes()", lambda: numbers(3).size_bytes(), 24),
    (
        "ray.data.range_tensor(3,shape=(4,)).size_bytes()",
        lambda: ray.data.range_tensor(3, shape=(4,)).size_bytes(),
        96,
    ),
    ("numbers(3).input_files()", lambda: numbers(3).input_files(), []),
    ("numbers(3).name", lambda: numbers(3).name, None),
    ("numbers(3).has_serializable_lineage()", lambda: numbers(3).has_serializable_lineage(), True),
    ("items([1]).has_serializable_lineage()", lambda: items([1]).has_serializable_lineage(), False),
    (
        "ids(ray.data.Dataset.deserialize_lineage(numbers(3).serialize_lineage()))",
        lambda: ids(ray.data.Dataset.deserialize_lineage(numbers(3).serialize_lineage())),
        [0, 1, 2],
    ),
    (
        "type(numbers(3).materialize()).__name__",
        lambda: type(numbers(3).materialize()).__name__,
        "MaterializedDataset",
    ),
    ("type(numbers(3)).__name__", lambda: type(numbers(3)).__name__, "Dataset"),
    ("numbers(3).context is not None", lambda: numbers(3).context is not None, True),
    (
        "numbers(3).join(numbers(3),'inner',2,on=('id',)).count()",
        lambda: numbers(3).join(numbers(3), "inner", 2, on=("id",)).count(),
        3,
    ),
    ("numbers(3).mix(numbers(3)).count()", lambda: numbers(3).mix(numbers(3)).count(), 6),
    (
        "numbers(4).mix(numbers(4),weights=[1,3]).count()",
        lambda: numbers(4).mix(numbers(4), weights=[1, 3]).count(),
        8,
    ),
]


@pytest.mark.parametrize(("call", "found"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_result_of(call: Callable[[], Any], found: Any) -> None:
    assert plain(call()) == found
