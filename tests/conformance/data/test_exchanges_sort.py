"""Sort, shuffle, repartition."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
import ray
import ray.data


def table() -> Any:
    return ray.data.from_arrow(
        pa.table(
            {
                "k": ["b", "a", None, "a", "b", None],
                "x": [1, 2, 3, None, 5, 6],
                "f": [1.5, float("nan"), None, 2.0, 0.0, 4.0],
            }
        )
    )


def column(ds: Any, name: str) -> list[Any]:
    return [row[name] for row in ds.take_all()]


def blocks(ds: Any, name: str = "id") -> list[list[Any]]:
    refs = ds.to_arrow_refs()
    return [block.column(name).to_pylist() if block.num_columns else [] for block in ray.get(refs)]


def test_sort_ascending() -> None:
    assert column(ray.data.from_items([3, 1, 2]).sort("item"), "item") == [1, 2, 3]


def test_sort_descending() -> None:
    assert column(ray.data.range(5).sort("id", descending=True), "id") == [4, 3, 2, 1, 0]


def test_sort_puts_null_last() -> None:
    assert column(table().sort("x"), "x") == [1, 2, 3, 5, 6, None]


def test_sort_puts_null_last_when_it_goes_down_too() -> None:
    assert column(table().sort("x", descending=True), "x") == [6, 5, 3, 2, 1, None]


def test_sort_puts_nan_before_null() -> None:
    found = column(table().sort("f"), "f")
    assert found[:4] == [0.0, 1.5, 2.0, 4.0]
    assert found[4] != found[4]
    assert found[5] is None


def test_sort_by_two_columns() -> None:
    found = [(row["k"], row["x"]) for row in table().sort(["k", "x"], descending=[True, False]).take_all()]
    assert found == [("b", 1), ("b", 5), ("a", 2), ("a", None), (None, 3), (None, 6)]


def test_sort_by_one_flag_for_all_columns() -> None:
    ds = ray.data.from_items([{"a": 1, "b": 1}, {"a": 2, "b": 1}, {"a": 2, "b": 2}])
    assert column(ds.sort(["a", "b"], descending=True), "b") == [2, 1, 1]


def test_sort_over_several_blocks() -> None:
    items = [(at * 37) % 101 for at in range(101)]
    assert column(ray.data.from_items(items, override_num_blocks=5).sort("item"), "item") == list(range(101))


def test_sort_of_strings_is_by_their_bytes() -> None:
    assert column(ray.data.from_items(["b", "B", "a", "ä", ""]).sort("item"), "item") == [
        "",
        "B",
        "a",
        "b",
        "ä",
    ]


def test_sort_of_nothing() -> None:
    assert ray.data.range(4).filter(lambda row: False).sort("id").take_all() == []


def test_sort_of_an_unknown_column_is_refused() -> None:
    with pytest.raises(ValueError):
        table().sort("zz").take_all()


def test_sort_without_a_key() -> None:
    with pytest.raises(ValueError):
        table().sort(None)


def test_sort_with_too_few_directions() -> None:
    with pytest.raises(ValueError):
        table().sort(["k", "x"], descending=[True])


def test_sort_with_boundaries() -> None:
    assert blocks(ray.data.range(10).sort("id", boundaries=[3, 7])) == [[0, 1, 2], [3, 4, 5, 6], [7, 8, 9]]


def test_sort_with_boundaries_going_down() -> None:
    found = blocks(ray.data.range(10).sort("id", descending=True, boundaries=[3, 7]))
    assert found == [[9, 8, 7], [6, 5, 4, 3], [2, 1, 0]]


def test_sort_keeps_other_columns_beside_their_keys() -> None:
    ds = ray.data.from_items([{"a": at % 5, "b": at} for at in range(20)])
    assert all(row["b"] % 5 == row["a"] for row in ds.sort("a").take_all())


def test_sort_can_be_followed_by_more() -> None:
    ds = ray.data.range(20).sort("id", descending=True).map(lambda row: {"id": row["id"] * 2}).limit(3)
    assert column(ds, "id") == [38, 36, 34]


def test_shuffle_keeps_the_rows() -> None:
    assert sorted(column(ray.data.range(100).random_shuffle(), "id")) == list(range(100))


def test_shuffle_moves_rows() -> None:
    assert column(ray.data.range(100).random_shuffle(seed=5), "id") != list(range(100))


def test_shuffle_with_a_seed_is_the_same_again() -> None:
    ds = ray.data.range(50, override_num_blocks=1)
    assert column(ds.random_shuffle(seed=7), "id") == column(ds.random_shuffle(seed=7), "id")


def test_shuffles_with_other_seeds_differ() -> None:
    ds = ray.data.range(50, override_num_blocks=1)
    assert column(ds.random_shuffle(seed=7), "id") != column(ds.random_shuffle(seed=8), "id")


def test_shuffle_refuses_a_number_of_blocks() -> None:
    with pytest.raises(DeprecationWarning):
        ray.data.range(4).random_shuffle(num_blocks=2)


def test_repartition_to_fewer_blocks() -> None:
    made = ray.data.range(10, override_num_blocks=5).repartition(2).materialize()
    assert made.num_blocks() == 2
    assert sorted(column(made, "id")) == list(range(10))


def test_repartition_to_more_blocks() -> None:
    made = ray.data.range(10, override_num_blocks=1).repartition(5).materialize()
    assert made.num_blocks() == 5
    assert made.count() == 10


def test_repartition_keeps_the_order() -> None:
    assert [value for block in blocks(ray.data.range(10).repartition(3)) for value in block] == list(
        range(10)
    )


def test_repartition_with_shuffle_keeps_the_rows() -> None:
    made = ray.data.range(20).repartition(4, shuffle=True).materialize()
    assert made.num_blocks() == 4
    assert sorted(column(made, "id")) == list(range(20))


def test_repartition_by_keys_brings_equal_keys_together() -> None:
    ds = ray.data.from_items([{"id": at % 6} for at in range(60)])
    found = blocks(ds.repartition(3, keys=["id"]))
    homes = [set(block) for block in found]
    assert len(found) == 3
    assert sum(map(len, homes)) == 6
    assert sum(map(len, found)) == 60


def test_repartition_by_keys_sorted() -> None:
    ds = ray.data.from_items([{"id": (at * 7) % 10} for at in range(10)])
    assert all(block == sorted(block) for block in blocks(ds.repartition(3, keys=["id"], sort=True)))


def test_repartition_by_rows() -> None:
    found = ray.data.range(10, override_num_blocks=1).repartition(target_num_rows_per_block=4, strict=True)
    assert [len(block) for block in blocks(found)] == [4, 4, 2]


def test_repartition_wants_a_size() -> None:
    with pytest.raises(ValueError):
        ray.data.range(4).repartition()


def test_repartition_wants_one_size_only() -> None:
    with pytest.raises(ValueError):
        ray.data.range(4).repartition(2, target_num_rows_per_block=2)


def test_repartition_by_rows_does_not_shuffle() -> None:
    with pytest.raises(ValueError):
        ray.data.range(4).repartition(target_num_rows_per_block=2, shuffle=True)


def test_repartition_to_no_blocks() -> None:
    assert ray.data.range(4).repartition(0).take_all() == []
