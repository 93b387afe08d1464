"""Custom datasources with column and row pushdown, under Ray's names."""

from __future__ import annotations

import copy
from typing import Any

import pyarrow as pa

import skate.data
from skate.data.datasource import Datasource, ReadTask
from skate.data.expressions import col


class Recording(Datasource):
    """Reads the columns and rows pushed down to it."""

    def __init__(self) -> None:
        self.columns: list[str] | None = None
        self.predicate: Any = None

    def estimate_inmemory_data_size(self) -> int | None:
        return None

    def known_schema(self) -> pa.Schema:
        return pa.schema({"a": pa.int64(), "b": pa.int64(), "told": pa.string()})

    def supports_projection_pushdown(self) -> bool:
        return True

    def apply_projection(self, projection_map: dict[str, str] | None) -> Datasource:
        made = copy.copy(self)
        made.columns = list(projection_map or {})
        return made

    def supports_predicate_pushdown(self) -> bool:
        return True

    def apply_predicate(self, predicate_expr: Any) -> Datasource:
        made = copy.copy(self)
        made.predicate = predicate_expr
        return made

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        table = pa.table({"a": [1, 2, 3], "b": [4, 5, 6], "told": [str(self.columns)] * 3})
        if self.predicate is not None:
            table = table.filter(self.predicate.to_pyarrow())
        return [ReadTask(lambda: [table if self.columns is None else table.select(self.columns)])]


def test_columns_are_told() -> None:
    ds = skate.data.read_datasource(Recording()).select_columns(["a", "told"])
    assert ds.take(1) == [{"a": 1, "told": "['a', 'told']"}]


def test_conditions_are_told() -> None:
    ds = skate.data.read_datasource(Recording()).filter(expr=col("a") > 1)
    assert [row["a"] for row in ds.take_all()] == [2, 3]


def test_one_that_is_not_told_anything() -> None:
    class Deaf(Recording):
        def supports_projection_pushdown(self) -> bool:
            return False

    ds = skate.data.read_datasource(Deaf()).select_columns(["b", "told"])
    assert ds.take(1) == [{"b": 4, "told": "None"}]
    assert Datasource().apply_projection({"a": "a"}) is not None
    assert not Datasource().supports_predicate_pushdown()


def test_defaults_are_those_of_the_settings() -> None:
    from skate.data import defaults

    settings = skate.data.DataContext()
    found = {
        name: getattr(settings, name[8:].lower())
        for name in dir(defaults)
        if name.startswith("DEFAULT_") and hasattr(settings, name[8:].lower())
    }
    found.pop("DEFAULT_MAX_HASH_SHUFFLE_AGGREGATORS")  # None stands for it, as in Ray
    assert len(found) > 40
    for name, value in found.items():
        assert getattr(defaults, name) == (tuple(value) if isinstance(value, list) else value), name
