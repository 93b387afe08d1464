"""Joins."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
import ray
import ray.data


def left() -> Any:
    return ray.data.from_arrow(
        pa.table({"id": [1, 2, 2, None, 4], "a": [10, 20, 21, 30, 40], "v": ["p", "q", "r", "s", "t"]})
    )


def right(key: str = "id", value: str = "v") -> Any:
    return ray.data.from_arrow(
        pa.table({key: [2, 2, None, 4, 5], "b": [1, 2, 3, 4, 5], value: ["P", "Q", "R", "S", "T"]})
    )


def rows(ds: Any, *names: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row[name] for name in names) for row in ds.take_all()), key=str)


MATCHES = [(2, 20, 1), (2, 20, 2), (2, 21, 1), (2, 21, 2), (4, 40, 4)]


def ordered(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(found, key=str)


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("inner", MATCHES),
        ("left_outer", [*MATCHES, (1, 10, None), (None, 30, None)]),
        ("right_outer", [*MATCHES, (None, None, 3), (5, None, 5)]),
        ("full_outer", [*MATCHES, (1, 10, None), (None, 30, None), (None, None, 3), (5, None, 5)]),
    ],
)
def test_join(kind: str, wanted: list[tuple[Any, ...]]) -> None:
    found = left().join(right(value="w"), kind, 2)
    assert rows(found, "id", "a", "b") == ordered(wanted)


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("left_semi", [(2, "q"), (2, "r"), (4, "t")]),
        ("right_semi", [(2, "P"), (2, "Q"), (4, "S")]),
        ("left_anti", [(None, "s"), (1, "p")]),
        ("right_anti", [(None, "R"), (5, "T")]),
    ],
)
def test_join_for_one_side_only(kind: str, wanted: list[tuple[Any, ...]]) -> None:
    assert rows(left().join(right(), kind, 2), "id", "v") == ordered(wanted)


def test_the_columns_of_a_join() -> None:
    assert list(left().join(right(value="w"), "inner", 2).take(1)[0]) == ["id", "a", "v", "b", "w"]


def test_the_columns_of_a_right_join() -> None:
    assert list(left().join(right(value="w"), "right_outer", 2).take(1)[0]) == ["a", "v", "id", "b", "w"]


def test_suffixes_for_names_of_both_sides() -> None:
    found = left().join(right(), "inner", 2, left_suffix="_l", right_suffix="_r")
    assert list(found.take(1)[0]) == ["id", "a", "v_l", "b", "v_r"]


def test_a_suffix_for_one_side() -> None:
    found = left().join(right(), "inner", 2, right_suffix="_r")
    assert list(found.take(1)[0]) == ["id", "a", "v", "b", "v_r"]


def test_names_of_both_sides_without_a_suffix() -> None:
    with pytest.raises(ValueError):
        left().join(right(), "inner", 2).take_all()


def test_keys_with_other_names_on_the_right() -> None:
    found = left().join(right("rid", "w"), "inner", 2, on=("id",), right_on=("rid",))
    assert rows(found, "id", "a", "b") == ordered(MATCHES)
    assert "rid" not in found.take(1)[0]


def test_keys_of_a_right_join_have_the_names_of_the_right() -> None:
    found = left().join(right("rid", "w"), "right_outer", 2, on=("id",), right_on=("rid",))
    assert rows(found, "rid", "a", "b") == ordered([*MATCHES, (None, None, 3), (5, None, 5)])


def test_keys_of_a_full_join_are_those_of_either_side() -> None:
    found = left().join(right("rid", "w"), "full_outer", 2, on=("id",), right_on=("rid",))
    assert {row["id"] for row in found.take_all()} == {1, 2, 4, 5, None}


def test_several_keys() -> None:
    one = ray.data.from_items([{"a": at % 2, "b": at % 3, "x": at} for at in range(6)])
    other = ray.data.from_items([{"a": 1, "b": 2, "y": "hit"}])
    assert rows(one.join(other, "inner", 2, on=("a", "b")), "x", "y") == [(5, "hit")]


def test_keys_that_are_strings() -> None:
    one = ray.data.from_items([{"s": "a", "x": 1}, {"s": "b", "x": 2}])
    other = ray.data.from_items([{"s": "b", "y": 3}])
    assert rows(one.join(other, "inner", 2, on=("s",)), "s", "x", "y") == [("b", 2, 3)]


def test_null_keys_meet_nobody() -> None:
    found = left().join(right(value="w"), "inner", 2).take_all()
    assert all(row["id"] is not None for row in found)


def test_a_join_that_finds_nothing() -> None:
    other = ray.data.from_items([{"id": 99, "b": 1}])
    assert left().join(other, "inner", 2).take_all() == []


def test_a_join_with_itself() -> None:
    ds = ray.data.range(10)
    assert ds.join(ds, "inner", 2, on=("id",)).count() == 10


def test_a_join_over_several_blocks() -> None:
    one = ray.data.range(100, override_num_blocks=4)
    other = ray.data.range(100, override_num_blocks=3).filter(lambda row: row["id"] % 3 == 0)
    assert rows(one.join(other, "left_semi", 3, on=("id",)), "id") == ordered(
        [(at,) for at in range(0, 100, 3)]
    )


def test_a_join_can_be_followed_by_more() -> None:
    found = left().join(right(value="w"), "inner", 2).groupby("id").count()
    assert rows(found, "id", "count()") == [(2, 4), (4, 1)]


def test_an_unknown_type_of_join() -> None:
    with pytest.raises(ValueError):
        left().join(right(), "outer", 2)


def test_keys_are_a_tuple() -> None:
    with pytest.raises(ValueError):
        left().join(right(value="w"), "inner", 2, on="id")


def test_an_unknown_key() -> None:
    with pytest.raises(Exception, match="zz"):
        left().join(right(value="w"), "inner", 2, on=("zz",)).take_all()


def test_keys_of_types_that_cannot_be_equal() -> None:
    with pytest.raises(Exception, match="(?i)type"):
        left().join(right(value="w"), "inner", 2, on=("id",), right_on=("w",), right_suffix="_r").take_all()


def test_schemas_can_be_looked_at_before() -> None:
    with pytest.raises((ValueError, TypeError)):
        left().join(
            right(), "inner", 2, on=("id",), right_on=("v",), right_suffix="_r", validate_schemas=True
        )
