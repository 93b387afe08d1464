"""Readers by argument: the rows that each call gives."""

from __future__ import annotations

import pathlib
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import ray
import ray.data
from plain_values import plain
from ray.data.datasource import Partitioning, PathPartitionFilter
from ray.data.expressions import col

pytestmark = pytest.mark.usefixtures("cluster")

_folder: list[pathlib.Path] = []


@pytest.fixture(autouse=True)
def in_order(tmp_path: pathlib.Path) -> Iterator[None]:
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    _folder[:] = [tmp_path]
    yield
    _folder.clear()


def tmp() -> str:
    return tempfile.mkdtemp(dir=_folder[0])


def rows(dataset: Any) -> list[Any]:
    return list(dataset.take_all())


def key(found: list[Any]) -> list[Any]:
    return sorted(found, key=repr)


def base(found: list[Any]) -> list[Any]:
    """Rows with the names of their files in the place of paths."""
    return [
        {name: pathlib.Path(value).name if name == "path" else value for name, value in row.items()}
        for row in found
    ]


def text(content: str, name: str = "f.txt") -> str:
    return binf(content.encode(), name)


def binf(content: bytes, name: str = "f.bin") -> str:
    path = pathlib.Path(tmp(), name)
    path.write_bytes(content)
    return str(path)


def files(folder: str) -> list[str]:
    """The extensions of the files in a folder."""
    return sorted(path.name.rsplit(".", 1)[-1] for path in pathlib.Path(folder).rglob("*") if path.is_file())


def tree() -> str:
    """A folder of partitions, with a file of two formats in each."""
    folder = pathlib.Path(_folder[0], "tree")
    for year in (2020, 2021):
        for country in ("de", "us"):
            inner = folder / f"year={year}" / f"country={country}"
            inner.mkdir(parents=True, exist_ok=True)
            (inner / "f.csv").write_text(f"a\n{year}\n")
            pq.write_table(pa.table({"a": [year]}), inner / "f.parquet")
    return str(folder)


def images() -> str:
    image = pytest.importorskip("PIL.Image")
    folder = tmp()
    image.new("RGB", (2, 3), (1, 2, 3)).save(folder + "/0.png")
    image.new("L", (2, 3), 7).save(folder + "/1.png")
    return folder


def npy() -> str:
    folder = tmp()
    np.save(folder + "/a.npy", np.arange(6).reshape(3, 2))
    return folder


class Database:
    """Opens a database with three rows; made where it is first asked for."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path)


def database() -> Database:
    path = pathlib.Path(_folder[0], "x.db")
    opened = sqlite3.connect(path)
    opened.execute("create table m(t text, y int)")
    opened.executemany("insert into m values(?, ?)", [("a", 1), ("b", 2), ("c", 3)])
    opened.commit()
    opened.close()
    return Database(str(path))


CASES: list[tuple[str, Callable[[], Any], Any]] = [
    (
        "rows(ray.data.read_text(text('a\\n\\nb\\n')))",
        lambda: rows(ray.data.read_text(text("a\n\nb\n"))),
        [{"text": "a"}, {"text": "b"}],
    ),
    (
        "rows(ray.data.read_text(text('a\\n\\nb\\n'),drop_empty_lines=False))",
        lambda: rows(ray.data.read_text(text("a\n\nb\n"), drop_empty_lines=False)),
        [{"text": "a"}, {"text": ""}, {"text": "b"}],
    ),
    (
        "rows(ray.data.read_text(binf('é\\n'.encode('latin-1')),encoding='latin-1'))",
        lambda: rows(ray.data.read_text(binf("é\n".encode("latin-1")), encoding="latin-1")),
        [{"text": "é"}],
    ),
    (
        "base(rows(ray.data.read_text(text('a\\n'),include_paths=True)))",
        lambda: base(rows(ray.data.read_text(text("a\n"), include_paths=True))),
        [{"text": "a", "path": "f.txt"}],
    ),
    ("rows(ray.data.read_text(text('')))", lambda: rows(ray.data.read_text(text(""))), []),
    ("ray.data.read_text(text('a\\nb\\n')).count()", lambda: ray.data.read_text(text("a\nb\n")).count(), 2),
    (
        "ray.data.read_text([text('a\\n'),text('b\\n')]).count()",
        lambda: ray.data.read_text([text("a\n"), text("b\n")]).count(),
        2,
    ),
    (
        "ray.data.read_text([text('a\\n'),'/nope/x'],ignore_missing_paths=True).count()",
        lambda: ray.data.read_text([text("a\n"), "/nope/x"], ignore_missing_paths=True).count(),
        1,
    ),
    (
        "base(rows(ray.data.read_binary_files(binf(b'ab'),include_paths=True)))",
        lambda: base(rows(ray.data.read_binary_files(binf(b"ab"), include_paths=True))),
        [{"bytes": "b'ab'", "path": "f.bin"}],
    ),
    (
        "rows(ray.data.read_binary_files(binf(b'ab')))",
        lambda: rows(ray.data.read_binary_files(binf(b"ab"))),
        [{"bytes": "b'ab'"}],
    ),
    (
        "ray.data.read_binary_files(binf(b'')).take_all()",
        lambda: ray.data.read_binary_files(binf(b"")).take_all(),
        [{"bytes": "b''"}],
    ),
    (
        "rows(ray.data.read_csv(text('a,b\\n1,x\\n2,\\n','f.csv')))",
        lambda: rows(ray.data.read_csv(text("a,b\n1,x\n2,\n", "f.csv"))),
        [{"a": 1, "b": "x"}, {"a": 2, "b": ""}],
    ),
    (
        "ray.data.read_csv(text('a,b\\n1,x\\n2,\\n','f.csv')).schema()",
        lambda: ray.data.read_csv(text("a,b\n1,x\n2,\n", "f.csv")).schema(),
        "Column  Type\n------  ----\na       int64\nb       string",
    ),
    (
        "rows(ray.data.read_csv(text('a;b\\n1;x\\n','f.csv'),parse_options=pyarrow.csv.ParseOptions",
        lambda: rows(
            ray.data.read_csv(
                text("a;b\n1;x\n", "f.csv"), parse_options=pyarrow.csv.ParseOptions(delimiter=";")
            )
        ),
        [{"a": 1, "b": "x"}],
    ),
    (
        "rows(ray.data.read_csv(text('1,x\\n','f.csv'),read_options=pyarrow.csv.ReadOptions(column",
        lambda: rows(
            ray.data.read_csv(
                text("1,x\n", "f.csv"), read_options=pyarrow.csv.ReadOptions(column_names=["q", "r"])
            )
        ),
        [{"q": 1, "r": "x"}],
    ),
    (
        "rows(ray.data.read_csv(text('a,b\\n1,x\\n','f.csv'),convert_options=pyarrow.csv.ConvertOpt",
        lambda: rows(
            ray.data.read_csv(
                text("a,b\n1,x\n", "f.csv"), convert_options=pyarrow.csv.ConvertOptions(include_columns=["b"])
            )
        ),
        [{"b": "x"}],
    ),
    (
        "rows(ray.data.read_csv(text('a,b\\n1,x\\n','f.csv'),convert_options=pyarrow.csv.ConvertOpt",
        lambda: rows(
            ray.data.read_csv(
                text("a,b\n1,x\n", "f.csv"),
                convert_options=pyarrow.csv.ConvertOptions(column_types={"a": pa.string()}),
            )
        ),
        [{"a": "1", "b": "x"}],
    ),
    (
        "rows(ray.data.read_csv(text('a,b\\n1\\n2,3\\n','f.csv'),parse_options=pyarrow.csv.ParseOpti",
        lambda: rows(
            ray.data.read_csv(
                text("a,b\n1\n2,3\n", "f.csv"),
                parse_options=pyarrow.csv.ParseOptions(invalid_row_handler=lambda r: "skip"),
            )
        ),
        [{"a": 2, "b": 3}],
    ),
    (
        "rows(ray.data.read_csv(text('a,b\\n','f.csv')))",
        lambda: rows(ray.data.read_csv(text("a,b\n", "f.csv"))),
        [],
    ),
    (
        "base(rows(ray.data.read_csv(text('a\\n1\\n','f.csv'),include_paths=True)))",
        lambda: base(rows(ray.data.read_csv(text("a\n1\n", "f.csv"), include_paths=True))),
        [{"a": 1, "path": "f.csv"}],
    ),
    (
        "key(rows(ray.data.read_csv(tree(),file_extensions=['csv'])))",
        lambda: key(rows(ray.data.read_csv(tree(), file_extensions=["csv"]))),
        [
            {"a": 2020, "year": "2020", "country": "de"},
            {"a": 2020, "year": "2020", "country": "us"},
            {"a": 2021, "year": "2021", "country": "de"},
            {"a": 2021, "year": "2021", "country": "us"},
        ],
    ),
    (
        "key(rows(ray.data.read_csv(tree(),file_extensions=['csv'],partitioning=None)))",
        lambda: key(rows(ray.data.read_csv(tree(), file_extensions=["csv"], partitioning=None))),
        [{"a": 2020}, {"a": 2020}, {"a": 2021}, {"a": 2021}],
    ),
    (
        "key(rows(ray.data.read_csv(tree(),file_extensions=['csv'],partitioning=Partitioning('hiv",
        lambda: key(
            rows(
                ray.data.read_csv(
                    tree(),
                    file_extensions=["csv"],
                    partitioning=Partitioning("hive", field_types={"year": int}),
                )
            )
        ),
        [
            {"a": 2020, "year": 2020, "country": "de"},
            {"a": 2020, "year": 2020, "country": "us"},
            {"a": 2021, "year": 2021, "country": "de"},
            {"a": 2021, "year": 2021, "country": "us"},
        ],
    ),
    (
        "key(rows(ray.data.read_csv(tree(),file_extensions=['csv'],partitioning=Partitioning('hiv",
        lambda: key(
            rows(
                ray.data.read_csv(
                    tree(), file_extensions=["csv"], partitioning=Partitioning("hive", base_dir=tree())
                )
            )
        ),
        [
            {"a": 2020, "year": "2020", "country": "de"},
            {"a": 2020, "year": "2020", "country": "us"},
            {"a": 2021, "year": "2021", "country": "de"},
            {"a": 2021, "year": "2021", "country": "us"},
        ],
    ),
    (
        "key(rows(ray.data.read_csv(tree(),file_extensions=['csv'],partitioning=Partitioning('dir",
        lambda: key(
            rows(
                ray.data.read_csv(
                    tree(),
                    file_extensions=["csv"],
                    partitioning=Partitioning("dir", field_names=["y", "c"], base_dir=tree()),
                )
            )
        ),
        [
            {"a": 2020, "y": "year=2020", "c": "country=de"},
            {"a": 2020, "y": "year=2020", "c": "country=us"},
            {"a": 2021, "y": "year=2021", "c": "country=de"},
            {"a": 2021, "y": "year=2021", "c": "country=us"},
        ],
    ),
    (
        "key(rows(ray.data.read_csv(tree(),file_extensions=['csv'],partition_filter=PathPartition",
        lambda: key(
            rows(
                ray.data.read_csv(
                    tree(),
                    file_extensions=["csv"],
                    partition_filter=PathPartitionFilter.of(lambda d: d["country"] == "us"),
                )
            )
        ),
        [{"a": 2020, "year": "2020", "country": "us"}, {"a": 2021, "year": "2021", "country": "us"}],
    ),
    (
        "key(rows(ray.data.read_parquet(tree())))",
        lambda: key(rows(ray.data.read_parquet(tree()))),
        [
            {"a": 2020, "year": "2020", "country": "de"},
            {"a": 2020, "year": "2020", "country": "us"},
            {"a": 2021, "year": "2021", "country": "de"},
            {"a": 2021, "year": "2021", "country": "us"},
        ],
    ),
    (
        "key(rows(ray.data.read_parquet(tree(),columns=['a'])))",
        lambda: key(rows(ray.data.read_parquet(tree(), columns=["a"]))),
        [{"a": 2020}, {"a": 2020}, {"a": 2021}, {"a": 2021}],
    ),
    (
        "key(rows(ray.data.read_parquet(tree(),columns=['a','year'])))",
        lambda: key(rows(ray.data.read_parquet(tree(), columns=["a", "year"]))),
        [
            {"a": 2020, "year": "2020"},
            {"a": 2020, "year": "2020"},
            {"a": 2021, "year": "2021"},
            {"a": 2021, "year": "2021"},
        ],
    ),
    (
        "key(rows(ray.data.read_parquet(tree(),partitioning=None)))",
        lambda: key(rows(ray.data.read_parquet(tree(), partitioning=None))),
        [{"a": 2020}, {"a": 2020}, {"a": 2021}, {"a": 2021}],
    ),
    (
        "key(base(rows(ray.data.read_parquet(tree(),include_paths=True,columns=['a']))))",
        lambda: key(base(rows(ray.data.read_parquet(tree(), include_paths=True, columns=["a"])))),
        [
            {"a": 2020, "path": "f.parquet"},
            {"a": 2020, "path": "f.parquet"},
            {"a": 2021, "path": "f.parquet"},
            {"a": 2021, "path": "f.parquet"},
        ],
    ),
    (
        "key(rows(ray.data.read_parquet(tree()).filter(expr=col('year')=='2020')))",
        lambda: key(rows(ray.data.read_parquet(tree()).filter(expr=col("year") == "2020"))),
        [{"a": 2020, "year": "2020", "country": "de"}, {"a": 2020, "year": "2020", "country": "us"}],
    ),
    (
        "ray.data.read_parquet(tree()).schema().names",
        lambda: ray.data.read_parquet(tree()).schema().names,
        ["a", "year", "country"],
    ),
    ("ray.data.read_parquet(tree()).count()", lambda: ray.data.read_parquet(tree()).count(), 4),
    (
        "ray.data.read_parquet(tree(),shuffle='files').count()",
        lambda: ray.data.read_parquet(tree(), shuffle="files").count(),
        4,
    ),
    (
        "rows(ray.data.read_json(text('{\"a\":1}\\n{\"a\":2}\\n','f.json')))",
        lambda: rows(ray.data.read_json(text('{"a":1}\n{"a":2}\n', "f.json"))),
        [{"a": 1}, {"a": 2}],
    ),
    (
        "rows(ray.data.read_json(text('[{\"a\":1},{\"a\":2}]','f.json')))",
        lambda: rows(ray.data.read_json(text('[{"a":1},{"a":2}]', "f.json"))),
        [{"a": 1}, {"a": 2}],
    ),
    (
        "rows(ray.data.read_json(text('{\"a\":1}\\n{\"b\":2}\\n','f.jsonl'),lines=True))",
        lambda: rows(ray.data.read_json(text('{"a":1}\n{"b":2}\n', "f.jsonl"), lines=True)),
        [{"a": 1.0, "b": None}, {"a": None, "b": 2.0}],
    ),
    (
        "rows(ray.data.read_json(text('{\"a\":1}\\n{\"a\":2}\\n','f.json'),lines=True))",
        lambda: rows(ray.data.read_json(text('{"a":1}\n{"a":2}\n', "f.json"), lines=True)),
        [{"a": 1}, {"a": 2}],
    ),
    (
        'rows(ray.data.read_json(text(\'{"a":[1,2],"b":{"c":null}}\\n\',\'f.json\')))',
        lambda: rows(ray.data.read_json(text('{"a":[1,2],"b":{"c":null}}\n', "f.json"))),
        [{"a": [1, 2], "b": {"c": None}}],
    ),
    ("rows(ray.data.read_json(text('','f.json')))", lambda: rows(ray.data.read_json(text("", "f.json"))), []),
    (
        "rows(ray.data.read_json(text('{}','f.json')))",
        lambda: rows(ray.data.read_json(text("{}", "f.json"))),
        [],
    ),
    (
        "rows(ray.data.read_json(text('{\"a\":\"2024-01-01T00:00:00\"}\\n','f.json')))",
        lambda: rows(ray.data.read_json(text('{"a":"2024-01-01T00:00:00"}\n', "f.json"))),
        [{"a": "datetime.datetime(2024, 1, 1, 0, 0)"}],
    ),
    (
        "rows(ray.data.read_json(text('{\"a\":1}\\n','f.jsonl')))",
        lambda: rows(ray.data.read_json(text('{"a":1}\n', "f.jsonl"))),
        [{"a": 1}],
    ),
    (
        "base(rows(ray.data.read_json(text('{\"a\":1}\\n','f.json'),include_paths=True)))",
        lambda: base(rows(ray.data.read_json(text('{"a":1}\n', "f.json"), include_paths=True))),
        [{"a": 1, "path": "f.json"}],
    ),
    (
        "rows(ray.data.read_numpy(npy()))",
        lambda: rows(ray.data.read_numpy(npy())),
        [
            {"data": ["nd", "int64", [0, 1]]},
            {"data": ["nd", "int64", [2, 3]]},
            {"data": ["nd", "int64", [4, 5]]},
        ],
    ),
    (
        "rows(ray.data.read_numpy(npy()+'/a.npy'))",
        lambda: rows(ray.data.read_numpy(npy() + "/a.npy")),
        [
            {"data": ["nd", "int64", [0, 1]]},
            {"data": ["nd", "int64", [2, 3]]},
            {"data": ["nd", "int64", [4, 5]]},
        ],
    ),
    (
        "base(rows(ray.data.read_numpy(npy(),include_paths=True)))",
        lambda: base(rows(ray.data.read_numpy(npy(), include_paths=True))),
        [
            {"data": ["nd", "int64", [0, 1]], "path": "a.npy"},
            {"data": ["nd", "int64", [2, 3]], "path": "a.npy"},
            {"data": ["nd", "int64", [4, 5]], "path": "a.npy"},
        ],
    ),
    (
        "[(r['image'].shape,str(r['image'].dtype)) for r in rows(ray.data.read_images(images()))]",
        lambda: [(r["image"].shape, str(r["image"].dtype)) for r in rows(ray.data.read_images(images()))],
        [[[3, 2, 3], "uint8"], [[3, 2], "uint8"]],
    ),
    (
        "[(r['image'].shape) for r in rows(ray.data.read_images(images(),mode='RGB'))]",
        lambda: [(r["image"].shape) for r in rows(ray.data.read_images(images(), mode="RGB"))],
        [[3, 2, 3], [3, 2, 3]],
    ),
    (
        "[(r['image'].shape) for r in rows(ray.data.read_images(images(),mode='L',size=(5,4)))]",
        lambda: [(r["image"].shape) for r in rows(ray.data.read_images(images(), mode="L", size=(5, 4)))],
        [[5, 4], [5, 4]],
    ),
    (
        "[sorted(r) for r in rows(ray.data.read_images(images(),include_paths=True))]",
        lambda: [sorted(r) for r in rows(ray.data.read_images(images(), include_paths=True))],
        [["image", "path"], ["image", "path"]],
    ),
    (
        "rows(ray.data.read_sql('select * from m',database()))",
        lambda: rows(ray.data.read_sql("select * from m", database())),
        [{"t": "a", "y": 1}, {"t": "b", "y": 2}, {"t": "c", "y": 3}],
    ),
    (
        "rows(ray.data.read_sql('select * from m where y > ?',database(),sql_params=(1,)))",
        lambda: rows(ray.data.read_sql("select * from m where y > ?", database(), sql_params=(1,))),
        [{"t": "b", "y": 2}, {"t": "c", "y": 3}],
    ),
    (
        "rows(ray.data.read_sql('select * from m where y > :q',database(),sql_params={'q':2}))",
        lambda: rows(ray.data.read_sql("select * from m where y > :q", database(), sql_params={"q": 2})),
        [{"t": "c", "y": 3}],
    ),
    (
        "rows(ray.data.read_sql('select t from m where y > 10',database()))",
        lambda: rows(ray.data.read_sql("select t from m where y > 10", database())),
        [],
    ),
    (
        "ray.data.read_sql('select count(*) from m',database()).take_all()",
        lambda: ray.data.read_sql("select count(*) from m", database()).take_all(),
        [{"count(*)": 3}],
    ),
]


@pytest.mark.parametrize(("call", "found"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_result_of(call: Callable[[], Any], found: Any) -> None:
    assert plain(call()) == found
