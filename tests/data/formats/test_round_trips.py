"""Round trips of each format: random tables with nulls, nested values and arrays."""

from __future__ import annotations

import datetime as dt
import io
import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import skate.data as rd
from skate import crc32c
from skate.data.block import concat
from skate.data.block.objects import PythonObjectType, refuse_pickles
from skate.data.extensions import ArrowPythonObjectType
from skate.data.source.formats import tf_example
from skate.data.source.formats.json_writer import json_lines

quick = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
WORDS = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
INTS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)


def table_of(dataset: Any) -> pa.Table:
    return concat(list(dataset._tables())).combine_chunks()


def tables(*kinds: tuple[str, pa.DataType, Any]) -> st.SearchStrategy[pa.Table]:
    rows = st.lists(st.tuples(*(st.none() | values for _, _, values in kinds)), min_size=1, max_size=20)
    schema = pa.schema([(name, kind) for name, kind, _ in kinds])
    return rows.map(
        lambda found: pa.table([[row[at] for row in found] for at in range(len(kinds))], schema=schema)
    )


PLAIN = tables(
    ("i", pa.int64(), INTS),
    ("f", pa.float64(), FLOATS),
    ("b", pa.bool_(), st.booleans()),
    ("s", pa.string(), WORDS),
)
NESTED = tables(
    ("i", pa.int32(), st.integers(-5, 5)),
    ("l", pa.list_(pa.int64()), st.lists(INTS, max_size=3)),
    (
        "d",
        pa.struct([("x", pa.float64()), ("y", pa.string())]),
        st.fixed_dictionaries({"x": FLOATS, "y": WORDS}),
    ),
    (
        "t",
        pa.timestamp("us"),
        st.datetimes(min_value=dt.datetime(1971, 1, 1), max_value=dt.datetime(2200, 1, 1)),
    ),
)


@quick
@given(table=PLAIN | NESTED, blocks=st.integers(1, 3))
def test_parquet_and_orc_give_back_every_value(
    table: pa.Table, blocks: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("t")
    dataset = rd.from_arrow(table, override_num_blocks=blocks)
    dataset.write_parquet(folder / "p")
    found = rd.read_parquet(folder / "p")
    assert found.count() == table.num_rows
    assert table_of(found).equals(table)
    dataset.write_orc(folder / "o")
    read = table_of(rd.read_orc(folder / "o"))
    assert read.cast(table.schema).equals(table)


@quick
@given(table=PLAIN)
def test_json_gives_back_every_value(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("t")
    rd.from_arrow(table).write_json(folder)
    assert table_of(rd.read_json(folder)).to_pylist() == table.to_pylist()


def test_json_lines_have_the_values_as_they_are() -> None:
    table = pa.table(
        {
            "f": pa.array([1.0, 0.1, None, 1e300, float("nan")]),
            "s": ['a"b', "é\n", None, "", "\\"],
            "n": [[1, None], None, [], [2], [3]],
            "b": [b"x", b"\xff", None, b"", b"1"],
            "z": pa.nulls(5),
        }
    )
    text = "".join(json_lines(table).to_pylist())
    read = pd.read_json(io.StringIO(text), lines=True, orient="records")
    assert '"f":1.0,' in text and '"f":null' in text
    assert read["s"].tolist()[:2] == ['a"b', "é\n"]
    assert read["n"].tolist()[0] == [1, None]
    assert read["b"].tolist()[:2] == ["x", "/w=="]


@quick
@given(
    table=tables(
        ("i", pa.int64(), INTS),
        ("f", pa.float64(), FLOATS),
        ("s", pa.string(), st.text("ab,\"' é", min_size=1, max_size=6).map(lambda s: f"x{s}")),
    )
)
def test_csv_gives_back_every_value(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("t")
    rd.from_arrow(table).write_csv(folder)
    options = pa.csv.ConvertOptions(
        column_types=table.schema,
        strings_can_be_null=True,
        null_values=[""],
        quoted_strings_can_be_null=False,
    )
    assert table_of(rd.read_csv(folder, convert_options=options)).equals(table)


@quick
@given(
    table=tables(
        ("i", pa.int64(), INTS),
        ("f", pa.float32(), st.floats(width=32, allow_nan=False)),
        ("s", pa.binary(), st.binary(max_size=9)),
        ("l", pa.list_(pa.int64()), st.lists(INTS, min_size=2, max_size=3)),
    )
)
def test_tfrecords_give_back_every_value(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("t")
    rd.from_arrow(table).write_tfrecords(folder)
    found = table_of(rd.read_tfrecords(folder)).select(table.column_names).to_pylist()
    assert found == table.to_pylist()


def test_tfrecords_of_the_known_bytes() -> None:
    # The record of b"abc", and an Example, as TensorFlow writes them.
    assert crc32c.by_tables(b"123456789") == 0xE3069283
    assert crc32c.crc32c(b"123456789") == 0xE3069283
    assert crc32c.masked(b"") == 0xA282EAD8
    data = tf_example.build({"a": ("int", [1, -1]), "b": ("bytes", [b"x"]), "c": ("float", [0.5])})
    assert tf_example.parse(data) == {"a": ("int", [1, -1]), "b": ("bytes", [b"x"]), "c": ("float", [0.5])}
    unpacked = b"\n\x0b\n\t\n\x01a\x12\x04\x1a\x02\x08\x05"  # one int64, not packed
    assert tf_example.parse(unpacked) == {"a": ("int", [5])}
    with pytest.raises(ValueError, match="not a tf.train.Example"):
        tf_example.parse(b"\n\x7f\n")


def test_tfrecords_that_are_damaged_say_where(tmp_path: Path) -> None:
    rd.from_items([{"a": 1}, {"a": 2}]).write_tfrecords(tmp_path / "t")
    (file,) = (tmp_path / "t").iterdir()
    data = bytearray(file.read_bytes())
    data[-6] ^= 1
    (tmp_path / "bad").write_bytes(data)
    with pytest.raises(ValueError, match="record 1 has a wrong checksum"):
        rd.read_tfrecords(tmp_path / "bad").take_all()
    (tmp_path / "bad").write_bytes(data[:-3])
    with pytest.raises(ValueError, match="cut off in record 1"):
        rd.read_tfrecords(tmp_path / "bad").take_all()
    (tmp_path / "bad").write_bytes(b"what is this file?")
    with pytest.raises(ValueError, match="not a TFRecord file"):
        rd.read_tfrecords(tmp_path / "bad").take_all()


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_arrays_survive_parquet_and_npy(tmp_path: Path, shape: tuple[int, ...]) -> None:
    arrays = np.arange(5 * int(np.prod(shape)), dtype=np.float32).reshape(5, *shape)
    dataset = rd.from_numpy(arrays)
    dataset.write_parquet(tmp_path / "p")
    dataset.write_numpy(tmp_path / "n", column="data")
    for found in (rd.read_parquet(tmp_path / "p"), rd.read_numpy(tmp_path / "n")):
        np.testing.assert_array_equal(np.stack([row["data"] for row in found.take_all()]), arrays)
    with pytest.raises(ValueError, match="no column 'nope'"):
        dataset.write_numpy(tmp_path / "x", column="nope")


def test_ragged_arrays_and_objects_survive_parquet(tmp_path: Path) -> None:
    rows = [{"a": np.ones((at, 2)), "o": {"x", at}} for at in range(1, 4)]
    rd.from_items(rows).write_parquet(tmp_path)
    found = rd.read_parquet(tmp_path).take_all()
    assert [row["o"] for row in found] == [row["o"] for row in rows]
    assert [row["a"].shape for row in found] == [(1, 2), (2, 2), (3, 2)]


class _Runs:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("kind", [PythonObjectType, ArrowPythonObjectType])
def test_files_do_not_run_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any) -> None:
    run = tmp_path / "it_ran"
    pickled = pa.array([None, pickle.dumps(_Runs(run))], pa.large_binary())
    bad = pa.table({"o": pa.ExtensionArray.from_storage(kind(), pickled), "n": [1, 2]})
    (tmp_path / "p").mkdir()
    pq.write_table(bad, tmp_path / "p" / "a.parquet")
    with pytest.raises(ValueError, match=r"a\.parquet has columns of pickled .*'o'.*can execute any code"):
        rd.read_parquet(tmp_path / "p").take_all()
    assert rd.read_parquet(tmp_path / "p", columns=["n"]).count() == 2 and not run.exists()
    within = pa.table({"o": pa.StructArray.from_arrays([bad["o"].combine_chunks()], ["inner"])})
    with pytest.raises(ValueError, match="any code"):
        refuse_pickles(within, "a table")
    monkeypatch.setenv("RAY_DATA_AUTOLOAD_PICKLE_OBJECT_SCALAR", "1")
    assert rd.read_parquet(tmp_path / "p").count() == 2
    refuse_pickles(within, "a table")


def test_images_written_and_read(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (3, 4, 5, 3), dtype=np.uint8)
    rd.from_numpy(pixels).write_images(tmp_path / "i", column="data")
    found = rd.read_images(tmp_path / "i")
    np.testing.assert_array_equal(np.stack([row["image"] for row in found.take_all()]), pixels)
    small = rd.read_images(tmp_path / "i", size=(2, 3), mode="L").take_all()
    assert {row["image"].shape for row in small} == {(2, 3)}
    (tmp_path / "bad.png").write_bytes(b"no image")
    with pytest.raises(ValueError, match=r"bad.png does not decode"):
        rd.read_images(tmp_path / "bad.png").take_all()
    with pytest.raises(ValueError, match="size"):
        rd.read_images(tmp_path / "i", size=(0, 3))


def test_images_of_several_shapes(tmp_path: Path) -> None:
    for at in range(1, 4):
        rd.from_numpy(np.full((1, at, 2, 3), at, np.uint8)).write_images(tmp_path, column="data")
    shapes = sorted(row["image"].shape for row in rd.read_images(tmp_path).take_all())
    assert shapes == [(1, 2, 3), (2, 2, 3), (3, 2, 3)]


def test_webdataset_written_and_read(tmp_path: Path) -> None:
    rows = [
        {
            "__key__": f"d/{at}",
            "txt": f"t{at}",
            "cls": at,
            "json": {"x": at},
            "npy": np.arange(3),
            "bin": b"\0",
        }
        for at in range(3)
    ]
    rd.from_items(rows).write_webdataset(tmp_path)
    (file,) = tmp_path.iterdir()
    with tarfile.open(file) as tar:
        assert "d/0.txt" in tar.getnames()
    found = rd.read_webdataset(tmp_path).take_all()
    assert [(row["__key__"], row["txt"], row["cls"], row["json"], row["bin"]) for row in found] == [
        (f"d/{at}", f"t{at}", at, {"x": at}, b"\0") for at in range(3)
    ]
    assert set(rd.read_webdataset(tmp_path, suffixes=["txt"]).take(1)[0]) == {"__key__", "__url__", "txt"}
    assert rd.read_webdataset(tmp_path, decoder=None).take(1)[0]["cls"] == b"0"
    assert rd.read_webdataset(tmp_path, expand_json=True, suffixes=["json"]).take(1)[0] == {
        "__key__": "d/0",
        "__url__": str(file),
        "x": 0,
    }
    upper = rd.read_webdataset(tmp_path, decoder=lambda sample: {"k": sample["__key__"].upper()}).take_all()
    assert [row["k"] for row in upper] == ["D/0", "D/1", "D/2"]


def test_avro(tmp_path: Path) -> None:
    fastavro = pytest.importorskip("fastavro")
    schema = {
        "type": "record", "name": "r",
        "fields": [{"name": "a", "type": ["null", "long"]}, {"name": "b", "type": {"type": "array", "items": "string"}}],
    }  # fmt: skip
    rows = [{"a": 1, "b": ["x"]}, {"a": None, "b": []}]
    with open(tmp_path / "x.avro", "wb") as file:
        fastavro.writer(file, schema, rows)
    assert rd.read_avro(tmp_path / "x.avro").take_all() == rows


def test_json_in_all_its_forms(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for text, rows in [
        ('[{"a": 1}, {"a": [1, {"b": null}]}]', [{"a": 1}, {"a": [1, {"b": None}]}]),
        ("[]", []),
        ('\ufeff[{"a": 1}]', [{"a": 1}]),
        ('{"a":\n1}', [{"a": 1}]),
        ('{"a": 1}\n\n{"a": 2.5}\n', [{"a": 1.0}, {"a": 2.5}]),
        ('{"a": 1}\n{"a": "x"}\n', [{"a": 1}, {"a": "x"}]),
        ('{"a": 1}\n{"b": 2}', [{"a": 1, "b": None}, {"a": None, "b": 2}]),
        ("", []),
    ]:
        path.write_text(text, encoding="utf-8")
        assert rd.read_json(path).take_all() == rows
    path.write_text("[" + ",".join(f'{{"n": {at}}}' for at in range(30_000)) + "]")
    assert rd.read_json(path).sum("n") == sum(range(30_000))


def test_pandas_json_args_decide_the_form(tmp_path: Path) -> None:
    rd.from_items([{"a": 1}]).write_json(tmp_path, orient="split")
    (file,) = tmp_path.iterdir()
    assert '"columns":["a"]' in file.read_text()


def test_partition_columns_become_directories_and_columns_again(tmp_path: Path) -> None:
    frame = pd.DataFrame({"k": ["a/b", None, "c d", "a/b"], "n": [1, 2, 1, 1], "v": [1.0, 2.0, 3.0, 4.0]})
    rd.from_pandas(frame).write_parquet(tmp_path, partition_cols=["k", "n"])
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "k=__HIVE_DEFAULT_PARTITION__",
        "k=a%2Fb",
        "k=c d",
    ]
    found = rd.read_parquet(tmp_path).take_all()
    assert sorted((str(row["k"]), row["n"], row["v"]) for row in found) == [
        ("None", "2", 2.0), ("a/b", "1", 1.0), ("a/b", "1", 4.0), ("c d", "1", 3.0),
    ]  # fmt: skip
    with pytest.raises(ValueError, match="partition_cols"):
        rd.from_pandas(frame).write_parquet(tmp_path, partition_cols=["x"])


def test_more_partitions_than_files_may_be_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skate.data.source.formats.parquet_writer._OPEN_MAX", 3)
    rd.from_arrow(pa.table({"k": list(range(10)) * 2, "v": range(20)}), override_num_blocks=1).write_parquet(
        tmp_path, partition_cols=["k"]
    )
    assert len(list(tmp_path.iterdir())) == 10
    assert rd.read_parquet(tmp_path).sum("v") == sum(range(20))


def test_rows_of_files_and_row_groups(tmp_path: Path) -> None:
    rd.range(100, override_num_blocks=10).write_parquet(tmp_path / "min", min_rows_per_file=50)
    assert [pq.read_metadata(path).num_rows for path in sorted((tmp_path / "min").iterdir())] == [50, 50]
    rd.range(100, override_num_blocks=1).write_parquet(
        tmp_path / "max", max_rows_per_file=30, row_group_size=10
    )
    found = [pq.read_metadata(path) for path in sorted((tmp_path / "max").iterdir())]
    assert [each.num_rows for each in found] == [30, 30, 30, 10]
    assert [each.num_row_groups for each in found] == [3, 3, 3, 1]
    assert [row["id"] for row in rd.read_parquet(tmp_path / "max").take_all()] == list(range(100))
    with pytest.raises(ValueError, match="min_rows_per_file"):
        rd.range(3).write_csv(tmp_path / "x", min_rows_per_file=0)
    with pytest.raises(ValueError, match="max_rows_per_file"):
        rd.range(3).write_parquet(tmp_path / "x", min_rows_per_file=9, max_rows_per_file=3)
