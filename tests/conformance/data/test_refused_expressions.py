"""Rejected expressions and pools, one call per case, with the phrases that programs match."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import ray
import ray.data
from ray.data.datatype import DataType
from ray.data.expressions import col, star

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


CASES: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    (
        "len(numbers())",
        lambda: len(numbers()),
        AttributeError,
        "Use `ds.count()` to compute the length of a distributed Dataset",
    ),
    (
        "iter(numbers())",
        lambda: iter(numbers()),
        TypeError,
        "`Dataset` objects aren't iterable. To iterate records, call `ds.iter_rows()` or `ds.iter_batches()",
    ),
    (
        "numbers(3).to_pandas(limit=2)",
        lambda: numbers(3).to_pandas(limit=2),
        ValueError,
        "the dataset has more than the given limit of 2 rows",
    ),
    (
        "numbers(3).num_blocks()",
        lambda: numbers(3).num_blocks(),
        NotImplementedError,
        "Number of blocks is only available for `MaterializedDataset",
    ),
    (
        "items([1]).materialize().serialize_lineage()",
        lambda: items([1]).materialize().serialize_lineage(),
        ValueError,
        "Lineage-based serialization is not supported for",
    ),
    (
        "numbers(3).join(numbers(3),'nope',2)",
        lambda: numbers(3).join(numbers(3), "nope", 2),
        ValueError,
        "Invalid join type: 'nope'. Supported join types are: inner, left_outer, right_outer, full_outer, lef",
    ),
    (
        "numbers(4).mix(numbers(4),weights=[1])",
        lambda: numbers(4).mix(numbers(4), weights=[1]),
        ValueError,
        "Number of datasets (2) must match number of weights (1)",
    ),
    (
        "numbers(4).mix(numbers(4),weights=[0,1])",
        lambda: numbers(4).mix(numbers(4), weights=[0, 1]),
        ValueError,
        "Weights must be positive. Got weights: [0, 1]",
    ),
    (
        "numbers(10).to_random_access_dataset('nope')",
        lambda: numbers(10).to_random_access_dataset("nope"),
        ValueError,
        "You specified the column 'nope', but there's no such column in the dataset. The dataset has columns:",
    ),
    (
        'numbers().with_column("r", col("i").cast(\'int64\'))',
        lambda: numbers().with_column("r", col("i").cast("int64")),
        TypeError,
        "target_type must be a ray.data.datatype.DataType, got: str",
    ),
    (
        'numbers().with_column("r", col("i").cast(\'nope\'))',
        lambda: numbers().with_column("r", col("i").cast("nope")),
        TypeError,
        "target_type must be a ray.data.datatype.DataType, got: str",
    ),
    (
        'numbers().with_column("r", col("i").cast(DataType(int)))',
        lambda: numbers().with_column("r", col("i").cast(DataType(int))),
        TypeError,
        "Python-type-backed DataType",
    ),
    (
        'numbers().with_column("r", col("i").cast(None))',
        lambda: numbers().with_column("r", col("i").cast(None)),
        TypeError,
        "target_type must be a ray.data.datatype.DataType, got: NoneType",
    ),
    (
        'numbers().with_column("r", col("i").cast(5))',
        lambda: numbers().with_column("r", col("i").cast(5)),
        TypeError,
        "target_type must be a ray.data.datatype.DataType, got: int",
    ),
    (
        "numbers().with_column(\"r\", col(\"s\").str.pad(6,'*','nope'))",
        lambda: numbers().with_column("r", col("s").str.pad(6, "*", "nope")),
        ValueError,
        "side must be 'left', 'right', or 'both",
    ),
    (
        'numbers().with_column("r", col("l").list[\'a\'])',
        lambda: numbers().with_column("r", col("l").list["a"]),
        TypeError,
        "List indices must be integers or slices, not str",
    ),
    (
        'numbers().with_column("r", col("l").list.sort(order=\'nope\'))',
        lambda: numbers().with_column("r", col("l").list.sort(order="nope")),
        ValueError,
        "order must be either 'ascending' or 'descending', got 'nope",
    ),
    (
        'numbers().with_column("r", col("l").list.sort(null_placement=\'nope\'))',
        lambda: numbers().with_column("r", col("l").list.sort(null_placement="nope")),
        ValueError,
        "null_placement must be 'at_start' or 'at_end', got 'nope",
    ),
    (
        'numbers().with_column("r", col("st").struct[1.5])',
        lambda: numbers().with_column("r", col("st").struct[1.5]),
        TypeError,
        "Struct indices must be strings or integers, not float",
    ),
    (
        "numbers().filter(expr='i >')",
        lambda: numbers().filter(expr="i >"),
        ValueError,
        "Invalid syntax in the expression: i >",
    ),
    (
        "numbers().filter(expr='import os')",
        lambda: numbers().filter(expr="import os"),
        ValueError,
        "Invalid syntax in the expression: import os",
    ),
    (
        "numbers().filter(expr='foo(i)')",
        lambda: numbers().filter(expr="foo(i)"),
        ValueError,
        "Unsupported function: foo",
    ),
    (
        "numbers().filter(expr=5)",
        lambda: numbers().filter(expr=5),
        TypeError,
        "Unsupported expression type for conversion: <class 'int'>",
    ),
    (
        "star().to_pyarrow()",
        lambda: star().to_pyarrow(),
        TypeError,
        "Star expressions cannot be converted to PyArrow expressions",
    ),
    (
        "ray.data.range(2).with_columns([1]).take_all()",
        lambda: ray.data.range(2).with_columns([1]).take_all(),
        TypeError,
        "`with_columns` arguments must be mappings from column name to expression, or unnest",
    ),
    (
        "ray.data.range(3).filter(expr=col('id')>0,fn=lambda r: True).take_all()",
        lambda: ray.data.range(3).filter(expr=col("id") > 0, fn=lambda r: True).take_all(),
        ValueError,
        "Exactly one of 'fn' or 'expr' must be provided",
    ),
    (
        "ray.data.range(3).filter().take_all()",
        lambda: ray.data.range(3).filter().take_all(),
        ValueError,
        "Exactly one of 'fn' or 'expr' must be provided",
    ),
    (
        "ray.data.range(3).filter(expr=col('id')>0,fn_args=(1,)).take_all()",
        lambda: ray.data.range(3).filter(expr=col("id") > 0, fn_args=(1,)).take_all(),
        ValueError,
        "when 'expr' is used, 'fn_args/fn_kwargs' or 'fn_constructor_args/fn_constructor_kwargs' cannot be us",
    ),
    (
        "ray.data.range(3).filter(col('id')>0).take_all()",
        lambda: ray.data.range(3).filter(col("id") > 0).take_all(),
        ValueError,
        "fn must be a UserDefinedFunction, but got BinaryExpr instead",
    ),
]


@pytest.mark.parametrize(
    ("call", "kind", "words"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_refused(call: Callable[[], Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=re.escape(words)):
        call()
