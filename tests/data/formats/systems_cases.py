"""Databases and table formats with the installed libraries; errors name the missing ones.

Run by test_in_own_processes.py in a process of its own.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import skate
import skate.data as rd


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    skate.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    skate.shutdown()


def ids(dataset: Any) -> list[int]:
    return sorted(row["id"] for row in dataset.take_all())


class Connect:
    """Opens the same database file in any process."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __call__(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=30)
        connection.create_function("HASHED", 1, int)
        connection.create_function("MOD", 2, lambda a, b: a % b)
        return connection


@pytest.fixture
def connect(tmp_path: Path) -> Connect:
    made = Connect(tmp_path / "x.db")
    connection = made()
    connection.execute("CREATE TABLE t (id INTEGER, name TEXT)")
    connection.commit()
    connection.close()
    return made


def test_sql_rows_are_written_and_read(connect: Connect) -> None:
    rd.range(10, override_num_blocks=2).map(lambda row: {"id": row["id"], "name": f"n{row['id']}"}).write_sql(
        "INSERT INTO t VALUES (?, ?)", connect
    )
    found = rd.read_sql("SELECT * FROM t ORDER BY id", connect).take_all()
    assert found == [{"id": at, "name": f"n{at}"} for at in range(10)]
    assert ids(rd.read_sql("SELECT * FROM t WHERE id > ?", connect, sql_params=(6,))) == [7, 8, 9]
    assert rd.read_sql("SELECT * FROM t WHERE id > 99", connect).count() == 0
    with pytest.raises(sqlite3.OperationalError, match="nope"):
        rd.read_sql("SELECT * FROM nope", connect).take_all()


def test_sql_rows_are_shared_out_by_their_keys(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skate.data.source.systems.sql._ROWS_A_TASK", 2)
    rd.range(10).map(lambda row: {"id": row["id"], "name": "x"}).write_sql(
        "INSERT INTO t VALUES (?, ?)", connect
    )
    dataset = rd.read_sql(
        "SELECT * FROM t", connect, shard_keys=["id"], shard_hash_fn="HASHED", override_num_blocks=4
    )
    assert dataset.materialize().num_blocks() == 4
    assert ids(dataset) == list(range(10))


def test_a_sql_insert_that_fails_leaves_nothing_of_its_task(connect: Connect) -> None:
    with pytest.raises(sqlite3.Error):
        rd.from_arrow(pa.table({"id": [1, 2], "bad": [[1], [2]]})).write_sql(
            "INSERT INTO t VALUES (?, ?)", connect
        )
    assert rd.read_sql("SELECT * FROM t", connect).count() == 0


def test_delta_tables(tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    path = str(tmp_path / "t")
    rd.range(10, override_num_blocks=2).write_delta(path)
    assert ids(rd.read_delta(path)) == list(range(10))
    assert rd.read_delta(path).count() == 10
    frame = pd.DataFrame({"id": [10], "when": pd.to_datetime(["2024-01-01"])})
    rd.from_pandas(frame).write_delta(path)
    assert ids(rd.read_delta(path)) == list(range(11))
    assert ids(rd.read_delta(path, version=0)) == list(range(10))
    found = rd.read_delta(path, columns=["id"], filter=pa.compute.field("id") > 8)
    assert (ids(found), found.columns()) == ([9, 10], ["id"])
    with pytest.raises(ValueError, match="has no columns other"):
        rd.from_items([{"id": 1, "other": 2}]).write_delta(path, schema_mode="error")
    with pytest.raises(ValueError, match="already"):
        rd.range(1).write_delta(path, mode=rd.SaveMode.ERROR)
    rd.range(3).write_delta(path, mode=rd.SaveMode.IGNORE)
    rd.range(3).write_delta(path, mode=rd.SaveMode.OVERWRITE)
    assert ids(rd.read_delta(path)) == [0, 1, 2]


def test_delta_tables_in_partitions(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    path = str(tmp_path / "t")
    rows = [{"id": at, "k": ["a b", "c/d", None][at % 3]} for at in range(6)]
    rd.from_items(rows).write_delta(path, partition_by=["k"])
    assert sorted(rd.read_delta(path).take_all(), key=lambda row: row["id"]) == rows
    table = deltalake.DeltaTable(path)
    assert table.metadata().partition_columns == ["k"]
    rd.from_items([{"id": 6, "k": "e"}]).write_delta(path)  # in the partitions of the table
    rows.append({"id": 6, "k": "e"})
    assert sorted(rd.read_delta(path).take_all(), key=lambda row: row["id"]) == rows
    with pytest.raises(ValueError, match=r"is partitioned by \['k'\], but partition_by=\['id'\] was given"):
        rd.from_items(rows).write_delta(path, partition_by=["id"])
    with pytest.raises(ValueError, match=r"the rows have no columns \['k'\]"):
        rd.range(1).write_delta(path)
    assert rd.read_delta(path).count() == 7


@pytest.fixture
def iceberg(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The options of a catalog with an empty table ns.t of the columns id and s."""
    catalogs = pytest.importorskip("pyiceberg.catalog")
    pytest.importorskip("sqlalchemy")
    given = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
    catalog = catalogs.load_catalog("c", **given)
    catalog.create_namespace("ns")
    catalog.create_table("ns.t", pa.schema([("id", pa.int64()), ("s", pa.string())]))
    yield {"name": "c", **given}
    catalog.engine.dispose()


def rows_of_iceberg(given: dict[str, str]) -> list[dict[str, Any]]:
    rows = rd.read_iceberg(table_identifier="ns.t", catalog_kwargs=given).take_all()
    return sorted(rows, key=lambda row: str(row["id"]))


def test_iceberg_tables(iceberg: dict[str, str]) -> None:
    rd.range(10, override_num_blocks=2).write_iceberg("ns.t", iceberg)
    found = rd.read_iceberg(table_identifier="ns.t", catalog_kwargs=iceberg)
    assert ids(found) == list(range(10))
    assert found.schema().names == ["id", "s"]
    some = rd.read_iceberg(
        table_identifier="ns.t", catalog_kwargs=iceberg, row_filter="id > 7", selected_fields=("id",)
    )
    assert some.take_all() == [{"id": 8}, {"id": 9}]
    rd.range(2).write_iceberg("ns.t", iceberg, mode=rd.SaveMode.OVERWRITE)
    assert ids(rd.read_iceberg(table_identifier="ns.t", catalog_kwargs=iceberg)) == [0, 1]


def test_an_iceberg_table_gets_new_columns(iceberg: dict[str, str]) -> None:
    rd.from_items([{"id": 0, "s": "x"}]).write_iceberg("ns.t", iceberg)
    rd.range(2).map(lambda row: {"id": row["id"] + 1, "f": 0.5}).write_iceberg("ns.t", iceberg)
    assert rows_of_iceberg(iceberg) == [
        {"id": 0, "s": "x", "f": None},
        {"id": 1, "s": None, "f": 0.5},
        {"id": 2, "s": None, "f": 0.5},
    ]


def test_rows_of_an_iceberg_table_are_replaced_by_a_condition(iceberg: dict[str, str]) -> None:
    col = rd.expressions.col
    rd.range(8).write_iceberg("ns.t", iceberg)
    for condition, left in (
        (col("id") >= 7, [0, 1, 2, 3, 4, 5, 6]),
        ((col("id") > 3) & (col("id") != 5), [0, 1, 2, 3, 5]),
        (col("id").is_in([0, 5]) | col("id").is_null(), [1, 2, 3]),
        (~(col("id") <= 2), [1, 2]),
        ("id = 2", [1]),
    ):
        written = rd.from_items([{"id": 100}])
        written.write_iceberg("ns.t", iceberg, mode=rd.SaveMode.OVERWRITE, overwrite_filter=condition)
        found = [row["id"] for row in rows_of_iceberg(iceberg) if row["id"] < 100]
        assert found == left
    with pytest.raises(ValueError, match="cannot be a filter of an Iceberg table"):
        written.write_iceberg("ns.t", iceberg, mode=rd.SaveMode.OVERWRITE, overwrite_filter=col("id") + 1 > 2)


def test_rows_of_an_iceberg_table_are_updated(iceberg: dict[str, str]) -> None:
    upsert = rd.SaveMode.UPSERT
    rd.from_items([{"id": 1, "s": "a"}, {"id": 2, "s": "b"}]).write_iceberg("ns.t", iceberg)
    given = rd.from_items([{"id": 2, "s": "B"}, {"id": 3, "s": "c"}, {"id": None, "s": "n"}])
    given.write_iceberg("ns.t", iceberg, mode=upsert, upsert_kwargs={"join_cols": ["id"]})
    after = [{"id": 1, "s": "a"}, {"id": 2, "s": "B"}, {"id": 3, "s": "c"}, {"id": None, "s": "n"}]
    assert rows_of_iceberg(iceberg) == after
    options = {"join_cols": ["ID", "S"], "case_sensitive": False}
    rd.from_items([{"id": 1, "s": "a"}, {"id": 2, "s": "b"}]).write_iceberg(
        "ns.t", iceberg, mode=upsert, upsert_kwargs=options
    )
    assert [(row["id"], row["s"]) for row in rows_of_iceberg(iceberg)].count((1, "a")) == 1
    assert len(rows_of_iceberg(iceberg)) == 5


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"mode": "upsert"}, "join_cols must be specified"),
        (
            {"mode": "upsert", "upsert_kwargs": {"join_cols": ["zz"]}},
            "the join columns .'zz'. are not in ns.t",
        ),
        ({"mode": "upsert", "upsert_kwargs": {"keys": ["id"]}}, "unknown options .'keys'."),
        ({"upsert_kwargs": {"join_cols": ["id"]}}, "upsert_kwargs can only be specified"),
        ({"overwrite_filter": "id = 1"}, "overwrite_filter can only be specified"),
        ({"overwrite_kwargs": {"branch": "b"}}, "overwrite_kwargs can only be specified"),
    ],
)
def test_options_of_iceberg_are_checked(iceberg: dict[str, str], options: dict[str, Any], text: str) -> None:
    given = {**options, **({"mode": rd.SaveMode(options["mode"])} if "mode" in options else {})}
    with pytest.raises(ValueError, match=text):
        rd.range(2).write_iceberg("ns.t", iceberg, **given)
    assert rows_of_iceberg(iceberg) == []


def test_lance_datasets(tmp_path: Path) -> None:
    pytest.importorskip("lance", reason="pylance is not installed (217 MB; pip install 'skate[lance]')")
    path = str(tmp_path / "t.lance")
    rd.range(10, override_num_blocks=2).write_lance(path, min_rows_per_file=1)
    assert ids(rd.read_lance(path)) == list(range(10))
    assert rd.read_lance(path).count() == 10
    assert ids(rd.read_lance(path, filter="id > 7", columns=["id"])) == [8, 9]
    with pytest.raises(ValueError, match="exists already"):
        rd.range(2).write_lance(path)
    rd.range(2).write_lance(path, mode=rd.SaveMode.APPEND)
    assert rd.read_lance(path).count() == 12
    rd.range(2).write_lance(path, mode=rd.SaveMode.OVERWRITE)
    assert ids(rd.read_lance(path)) == [0, 1]
    assert rd.read_lance(path, version=1).count() == 10


def test_mongo_collections(monkeypatch: pytest.MonkeyPatch) -> None:
    mongomock = pytest.importorskip("mongomock")
    pymongo = pytest.importorskip("pymongo")
    store = mongomock.MongoClient()
    monkeypatch.setattr(type(store), "close", lambda self: None)
    monkeypatch.setattr(pymongo, "MongoClient", lambda uri, **options: store)
    rd.range(5).write_mongo("mongodb://x", "db", "c")
    found = rd.read_mongo(
        "mongodb://x", "db", "c", override_num_blocks=1, pipeline=[{"$match": {"id": {"$gt": 2}}}]
    )
    assert ids(found) == [3, 4]
    assert isinstance(found.take(1)[0]["_id"], str)


def test_hugging_face_datasets() -> None:
    datasets = pytest.importorskip("datasets")
    made = datasets.Dataset.from_dict({"id": [3, 1, 2]})
    assert ids(rd.from_huggingface(made)) == [1, 2, 3]
    assert [row["id"] for row in rd.from_huggingface(made.select([2, 0])).take_all()] == [2, 3]
    assert ids(rd.from_huggingface(made.to_iterable_dataset())) == [1, 2, 3]
    with pytest.raises(ValueError, match="'train'"):
        rd.from_huggingface(datasets.DatasetDict({"train": made}))


def test_sound(tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile")
    wave = np.sin(np.arange(800) / 10).astype(np.float32)
    soundfile.write(tmp_path / "a.wav", np.stack([wave, -wave], axis=1), 8000)
    (row,) = rd.read_audio(tmp_path).take_all()
    assert row["sample_rate"] == 8000
    assert row["amplitude"].shape == (2, 800)
    np.testing.assert_allclose(row["amplitude"][0], wave, atol=1e-3)


def test_video(tmp_path: Path) -> None:
    av = pytest.importorskip("av")
    with av.open(str(tmp_path / "a.mp4"), "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width, stream.height, stream.pix_fmt = 32, 16, "yuv420p"
        for at in range(20):
            picture = av.VideoFrame.from_ndarray(np.full((16, 32, 3), at * 10, np.uint8), format="rgb24")
            container.mux(stream.encode(picture))
        container.mux(stream.encode())
    rows = rd.read_videos(tmp_path, include_timestamps=True).take_all()
    assert [row["frame_index"] for row in rows] == list(range(20))
    assert rows[0]["frame"].shape == (16, 32, 3)
    np.testing.assert_allclose(rows[3]["frame_timestamp"], [0.3, 0.4], atol=1e-6)
    assert rd.read_videos(tmp_path, fps=5).count() == 10
    assert rd.read_videos(tmp_path, resize=(8, 8)).take(1)[0]["frame"].shape == (8, 8, 3)


def test_mcap(tmp_path: Path) -> None:
    writers = pytest.importorskip("mcap.writer")
    with open(tmp_path / "a.mcap", "wb") as file:
        writer = writers.Writer(file)
        writer.start()
        schema = writer.register_schema(name="S", encoding="jsonschema", data=b"{}")
        channels = [
            writer.register_channel(schema_id=schema, topic=topic, message_encoding="json") for topic in "ab"
        ]
        for at in range(6):
            writer.add_message(channels[at % 2], log_time=at, data=b"%d" % at, publish_time=at)
        writer.finish()
    assert [row["data"] for row in rd.read_mcap(tmp_path, topics=["b"]).take_all()] == [b"1", b"3", b"5"]
    assert rd.read_mcap(tmp_path).take(1)[0]["schema_name"] == "S"


@pytest.mark.parametrize(
    ("read", "package"),
    [
        (lambda: rd.read_clickhouse(table="t", dsn="clickhouse://x"), "clickhouse-connect"),
        (lambda: rd.read_snowflake("SELECT 1", {}), "snowflake-connector-python"),
        (lambda: rd.read_kafka("t", bootstrap_servers="x"), "confluent-kafka"),
        (lambda: rd.read_hudi("t"), "hudi"),
        (lambda: rd.read_delta_sharing_tables("x"), "delta-sharing"),
        (lambda: rd.range(1).write_bigquery("p", "d.t"), "google-cloud-bigquery"),
    ],
)
def test_a_library_that_is_missing_is_named(read: Any, package: str) -> None:
    with pytest.raises(ImportError, match=f"pip install {package}"):
        read()


@pytest.mark.parametrize(
    "read",
    [
        lambda: rd.read_zarr("x"),
        lambda: rd.read_lerobot("x"),
        lambda: rd.range(1).write_turbopuffer(),
    ],
)
def test_what_is_not_carried_says_what_to_do_instead(read: Any) -> None:
    with pytest.raises(NotImplementedError, match="read|write|map_batches"):
        read()
