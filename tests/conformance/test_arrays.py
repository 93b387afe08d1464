"""Arrays, tables and buffers: the same values on the other side, shared instead of copied, read-only."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import ray

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote
def echo(value):
    return value


ARRAYS = {
    "int8": np.arange(10, dtype=np.int8),
    "uint64": np.array([2**64 - 1], dtype=np.uint64),
    "float16": np.linspace(0, 1, 7, dtype=np.float16),
    "float64": np.linspace(0, 1, 1000),
    "complex128": np.array([1 + 2j]),
    "bool": np.array([True, False]),
    "datetime64": np.array(["2024-02-29"], dtype="datetime64[D]"),
    "fixed-width-text": np.array(["a", "bcd"]),
    "objects": np.array([{"a": 1}, None], dtype=object),
    "structured": np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
    "zero-dimensional": np.array(5.0),
    "empty": np.empty((0, 3)),
    "three-dimensional": np.arange(24).reshape(2, 3, 4),
    "fortran-order": np.asfortranarray(np.arange(12).reshape(3, 4)),
    "strided": np.arange(20)[::3],
    "reversed": np.arange(5)[::-1],
    "transposed": np.arange(6).reshape(2, 3).T,
    "broadcast": np.broadcast_to(np.arange(3), (4, 3)),
    "big-endian": np.arange(4, dtype=">i4"),
    "large": np.arange(300_000),
}


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS.keys())
def test_core_15_array_is_the_same_after_put_and_get(array):
    again = ray.get(ray.put(array))
    assert again.dtype == array.dtype
    assert again.shape == array.shape
    assert np.array_equal(again, array)


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS.keys())
def test_core_15_array_is_the_same_after_going_through_a_task(array):
    again = ray.get(echo.remote(array))
    assert again.dtype == array.dtype
    assert again.shape == array.shape
    assert np.array_equal(again, array)


@pytest.mark.parametrize("size", [10, 300_000])
def test_core_15_fetched_array_is_read_only(size):
    array = ray.get(ray.put(np.zeros(size)))
    assert not array.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


@pytest.mark.parametrize("size", [10, 300_000])
def test_core_15_array_returned_by_a_task_is_read_only(size):
    array = ray.get(ray.remote(lambda: np.zeros(size)).remote())
    assert not array.flags.writeable


@pytest.mark.parametrize("size", [10, 300_000])
def test_core_15_array_argument_is_read_only_in_the_task(size):
    writeable = ray.remote(lambda a: bool(a.flags.writeable))
    assert ray.get(writeable.remote(np.zeros(size))) is False
    assert ray.get(writeable.remote(ray.put(np.zeros(size)))) is False


def test_core_15_array_in_a_container_is_read_only():
    value = ray.get(ray.put({"a": [np.zeros(300_000)]}))
    assert not value["a"][0].flags.writeable


def test_core_15_copy_of_a_fetched_array_is_writeable():
    array = ray.get(ray.put(np.zeros(10))).copy()
    array[0] = 1
    assert array[0] == 1


def test_core_15_array_that_was_put_stays_writeable_here():
    array = np.zeros(300_000)
    ref = ray.put(array)
    array[0] = 1
    assert ray.get(ref)[0] == 0


def test_core_15_fetched_array_does_not_own_its_memory():
    assert not ray.get(ray.put(np.zeros(300_000))).flags.owndata


def test_core_15_two_gets_of_one_array_share_memory():
    ref = ray.put(np.zeros(300_000))
    first, second = ray.get(ref), ray.get(ref)
    assert np.shares_memory(first, second)


def test_core_15_fetched_array_starts_at_a_multiple_of_64_bytes():
    assert ray.get(ray.put(np.zeros(300_000))).ctypes.data % 64 == 0


def test_core_15_several_arrays_in_one_value_stay_apart():
    arrays = ray.get(ray.put([np.full(100_000, i) for i in range(4)]))
    assert [int(a[0]) for a in arrays] == [0, 1, 2, 3]
    assert [int(a[-1]) for a in arrays] == [0, 1, 2, 3]


def test_numpy_scalar_keeps_its_type():
    again = ray.get(echo.remote(np.float32(1.5)))
    assert type(again) is np.float32
    assert again == 1.5


def test_numpy_dtype_and_random_generator():
    dtype, generator = ray.get(echo.remote((np.dtype("f4"), np.random.default_rng(7))))
    assert dtype == np.float32
    assert generator.integers(1000) == np.random.default_rng(7).integers(1000)


def test_masked_array():
    array = np.ma.masked_array([1, 2, 3], mask=[False, True, False])
    again = ray.get(echo.remote(array))
    assert again.sum() == 4


def frame():
    return pd.DataFrame(
        {
            "i": [1, 2, 3],
            "f": [0.5, np.nan, 2.5],
            "s": ["a", None, "ć"],
            "t": pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"]),
            "c": pd.Categorical(["x", "y", "x"]),
        },
        index=[10, 20, 30],
    )


def test_data_frame_is_the_same_after_put_and_get():
    pd.testing.assert_frame_equal(ray.get(ray.put(frame())), frame())


def test_data_frame_is_the_same_after_going_through_a_task():
    pd.testing.assert_frame_equal(ray.get(echo.remote(frame())), frame())


def test_large_data_frame():
    large = pd.DataFrame({f"c{i}": np.arange(50_000) for i in range(5)})
    pd.testing.assert_frame_equal(ray.get(echo.remote(large)), large)


def test_data_frame_can_be_worked_on_in_a_task():
    total = ray.remote(lambda df: int(df.groupby("k")["v"].sum()["a"]))
    assert ray.get(total.remote(pd.DataFrame({"k": ["a", "b", "a"], "v": [1, 2, 3]}))) == 4


def test_series_and_index():
    series = pd.Series([1, 2], index=pd.Index(["a", "b"], name="n"), name="s")
    pd.testing.assert_series_equal(ray.get(echo.remote(series)), series)


def test_arrow_table():
    table = pa.table({"a": [1, 2, None], "b": ["x", "y", "z"], "l": [[1], [], None]})
    assert ray.get(echo.remote(table)).equals(table)


def test_large_arrow_table():
    table = pa.table({"a": np.arange(300_000)})
    assert ray.get(ray.put(table)).equals(table)


def test_slice_of_an_arrow_table():
    table = pa.table({"a": np.arange(10_000)}).slice(100, 5)
    assert ray.get(echo.remote(table))["a"].to_pylist() == [100, 101, 102, 103, 104]


def test_arrow_record_batch_schema_and_scalar():
    batch = pa.record_batch({"a": [1, 2]})
    again, schema = ray.get(echo.remote((batch, batch.schema)))
    assert again.equals(batch)
    assert schema.equals(batch.schema)


def test_object_that_holds_an_array():
    class Sample:
        def __init__(self, x, label):
            self.x, self.label = x, label

    again = ray.get(echo.remote(Sample(np.arange(300_000), "l")))
    assert again.x[-1] == 299_999
    assert again.label == "l"


def test_dictionary_of_arrays_of_many_sizes():
    value = {n: np.arange(n) for n in (0, 1, 7, 64, 1000, 20_000)}
    again = ray.get(echo.remote(value))
    assert all(np.array_equal(again[n], value[n]) for n in value)


def test_array_subclass_keeps_its_class():
    class Tagged(np.ndarray):
        pass

    array = np.arange(3).view(Tagged)
    assert type(ray.get(echo.remote(array))).__name__ == "Tagged"


@pytest.mark.parametrize("length", [1, 7, 10, 100, 1000, 5000, 12_000, 20_000])
def test_array_from_get_begins_at_a_multiple_of_64_bytes(length):
    ref = ray.put(np.arange(length, dtype="float64"))
    assert ray.get(ref).ctypes.data % 64 == 0


@pytest.mark.parametrize("length", [1, 10, 1000, 20_000])
def test_array_from_a_task_begins_at_a_multiple_of_64_bytes(length):
    assert ray.get(echo.remote(np.arange(length, dtype="float64"))).ctypes.data % 64 == 0


@pytest.mark.parametrize("length", [1000, 20_000])
def test_all_arrays_of_a_list_begin_at_multiples_of_64_bytes(length):
    found = ray.get(ray.put([np.full(length, i, dtype="int32") for i in range(4)]))
    assert [each.ctypes.data % 64 for each in found] == [0, 0, 0, 0]
    assert [int(each[-1]) for each in found] == [0, 1, 2, 3]


def test_small_array_from_get_is_read_only_as_a_large_one():
    for length in (10, 100_000):
        array = ray.get(ray.put(np.zeros(length)))
        assert not array.flags.writeable
        with pytest.raises(ValueError):
            array[0] = 1
        copy = array.copy()
        copy[0] = 1
        assert copy[0] == 1
