"""Writers by argument: the files of each call; rejected arguments of readers and writers."""

from __future__ import annotations

import pathlib
import re
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import ray
import ray.data
import torch
from plain_values import plain
from ray.data import FileShuffleConfig, SaveMode
from ray.data.datasource import PathPartitionFilter, PathPartitionParser

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


def numbers(n: int = 4, blocks: int | None = 1) -> Any:
    return ray.data.range(n, override_num_blocks=blocks)


def rows(dataset: Any) -> list[Any]:
    return list(dataset.take_all())


def key(found: list[Any]) -> list[Any]:
    return sorted(found, key=repr)


def text(content: str, name: str = "f.txt") -> str:
    return binf(content.encode(), name)


def binf(content: bytes, name: str = "f.bin") -> str:
    path = pathlib.Path(tmp(), name)
    path.write_bytes(content)
    return str(path)


def files(folder: str) -> list[str]:
    """The extensions of the files in a folder."""
    return sorted(path.name.rsplit(".", 1)[-1] for path in pathlib.Path(folder).rglob("*") if path.is_file())


def written(write: Callable[[Any, str], Any], n: int = 4, blocks: int = 1) -> str:
    folder = tmp()
    write(numbers(n, blocks), folder)
    return folder


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


CASES: list[tuple[str, Callable[[], Any], Any]] = [
    (
        "files(written(lambda ds,d: ds.write_parquet(d)))",
        lambda: files(written(lambda ds, d: ds.write_parquet(d))),
        ["parquet"],
    ),
    (
        "rows(ray.data.read_parquet(written(lambda ds,d: ds.write_parquet(d))))",
        lambda: rows(ray.data.read_parquet(written(lambda ds, d: ds.write_parquet(d)))),
        [{"id": 0}, {"id": 1}, {"id": 2}, {"id": 3}],
    ),
    (
        "files(written(lambda ds,d: ds.write_csv(d),4,2))",
        lambda: files(written(lambda ds, d: ds.write_csv(d), 4, 2)),
        ["csv", "csv"],
    ),
    (
        "rows(ray.data.read_csv(written(lambda ds,d: ds.write_csv(d))))",
        lambda: rows(ray.data.read_csv(written(lambda ds, d: ds.write_csv(d)))),
        [{"id": 0}, {"id": 1}, {"id": 2}, {"id": 3}],
    ),
    (
        "files(written(lambda ds,d: ds.write_json(d)))",
        lambda: files(written(lambda ds, d: ds.write_json(d))),
        ["json"],
    ),
    (
        "[p.read_text() for p in pathlib.Path(written(lambda ds,d: ds.write_json(d))).iterdir()]",
        lambda: [p.read_text() for p in pathlib.Path(written(lambda ds, d: ds.write_json(d))).iterdir()],
        ['{"id":0}\n{"id":1}\n{"id":2}\n{"id":3}\n'],
    ),
    (
        "[p.read_text() for p in pathlib.Path(written(lambda ds,d: ds.write_csv(d))).iterdir()]",
        lambda: [p.read_text() for p in pathlib.Path(written(lambda ds, d: ds.write_csv(d))).iterdir()],
        ['"id"\n0\n1\n2\n3\n'],
    ),
    (
        "[p.read_text() for p in pathlib.Path(written(lambda ds,d: ds.write_json(d,orient='record",
        lambda: [
            p.read_text()
            for p in pathlib.Path(
                written(lambda ds, d: ds.write_json(d, orient="records", lines=False))
            ).iterdir()
        ],
        ['[{"id":0},{"id":1},{"id":2},{"id":3}]'],
    ),
    (
        "[p.read_text() for p in pathlib.Path(written(lambda ds,d: ds.write_csv(d,arrow_csv_args_",
        lambda: [
            p.read_text()
            for p in pathlib.Path(
                written(
                    lambda ds, d: ds.write_csv(
                        d,
                        arrow_csv_args_fn=lambda: {
                            "write_options": pyarrow.csv.WriteOptions(include_header=False)
                        },
                    )
                )
            ).iterdir()
        ],
        ["0\n1\n2\n3\n"],
    ),
    (
        "len(files(written(lambda ds,d: ds.write_parquet(d,min_rows_per_file=2),8,8)))",
        lambda: len(files(written(lambda ds, d: ds.write_parquet(d, min_rows_per_file=2), 8, 8))),
        4,
    ),
    (
        "len(files(written(lambda ds,d: ds.write_csv(d,min_rows_per_file=4),8,8)))",
        lambda: len(files(written(lambda ds, d: ds.write_csv(d, min_rows_per_file=4), 8, 8))),
        2,
    ),
    (
        "len(files(written(lambda ds,d: ds.write_parquet(d,num_rows_per_file=4),8,8)))",
        lambda: len(files(written(lambda ds, d: ds.write_parquet(d, num_rows_per_file=4), 8, 8))),
        2,
    ),
    (
        "len(files(written(lambda ds,d: (ds.write_parquet(d),ds.write_parquet(d,mode=SaveMode.IGN",
        lambda: len(
            files(written(lambda ds, d: (ds.write_parquet(d), ds.write_parquet(d, mode=SaveMode.IGNORE))))
        ),
        1,
    ),
    (
        "len(files(written(lambda ds,d: (ds.write_parquet(d),ds.write_parquet(d,mode=SaveMode.APP",
        lambda: len(
            files(written(lambda ds, d: (ds.write_parquet(d), ds.write_parquet(d, mode=SaveMode.APPEND))))
        ),
        2,
    ),
    (
        "len(files(written(lambda ds,d: (ds.write_parquet(d),ds.write_parquet(d,mode=SaveMode.OVE",
        lambda: len(
            files(written(lambda ds, d: (ds.write_parquet(d), ds.write_parquet(d, mode=SaveMode.OVERWRITE))))
        ),
        1,
    ),
    (
        "written(lambda ds,d: ds.write_parquet(d,try_create_dir=False)) is not None",
        lambda: written(lambda ds, d: ds.write_parquet(d, try_create_dir=False)) is not None,
        True,
    ),
    (
        "rows(ray.data.read_numpy(written(lambda ds,d: ray.data.range_tensor(3,shape=(2,)).repart",
        lambda: rows(
            ray.data.read_numpy(
                written(
                    lambda ds, d: (
                        ray.data.range_tensor(3, shape=(2,)).repartition(1).write_numpy(d, column="data")
                    )
                )
            )
        ),
        [
            {"data": ["nd", "int64", [0, 0]]},
            {"data": ["nd", "int64", [1, 1]]},
            {"data": ["nd", "int64", [2, 2]]},
        ],
    ),
    (
        "files(written(lambda ds,d: ray.data.read_images(images(),mode='RGB').write_images(d,colu",
        lambda: files(
            written(lambda ds, d: ray.data.read_images(images(), mode="RGB").write_images(d, column="image"))
        ),
        ["png", "png"],
    ),
    (
        "files(written(lambda ds,d: ray.data.read_images(images(),mode='RGB').write_images(d,colu",
        lambda: files(
            written(
                lambda ds, d: ray.data.read_images(images(), mode="RGB").write_images(
                    d, column="image", file_format="jpeg"
                )
            )
        ),
        ["jpeg", "jpeg"],
    ),
]


REFUSED: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    ("ray.data.read_text([])", lambda: ray.data.read_text([]), ValueError, "Must provide at least one path"),
    (
        "ray.data.read_text(['/nope/x'],ignore_missing_paths=True).count()",
        lambda: ray.data.read_text(["/nope/x"], ignore_missing_paths=True).count(),
        ValueError,
        "that do not exist were",
    ),
    (
        "ray.data.read_text(5)",
        lambda: ray.data.read_text(5),
        ValueError,
        "paths must be str, pathlib.Path, or list, got <class 'int'>",
    ),
    (
        "rows(ray.data.read_text(text('a\\n'),file_extensions=['csv']))",
        lambda: rows(ray.data.read_text(text("a\n"), file_extensions=["csv"])),
        ValueError,
        "No input files found to read with the following file extensions: ['csv']. P",
    ),
    (
        "key(rows(ray.data.read_csv(tree(),file_extensions=['csv'],partition_filter=PathPartition",
        lambda: key(
            rows(
                ray.data.read_csv(
                    tree(),
                    file_extensions=["csv"],
                    partition_filter=PathPartitionFilter.of(lambda d: d["country"] == "xx"),
                )
            )
        ),
        ValueError,
        "No input files found to read",
    ),
    (
        "ray.data.read_parquet(tree(),shuffle='nope')",
        lambda: ray.data.read_parquet(tree(), shuffle="nope"),
        ValueError,
        "Invalid value for 'shuffle': nope. Valid values are None, 'files",
    ),
    (
        "ray.data.read_parquet([])",
        lambda: ray.data.read_parquet([]),
        ValueError,
        "Must provide at least one path",
    ),
    (
        "ray.data.read_parquet(tmp()).count()",
        lambda: ray.data.read_parquet(tmp()).count(),
        ValueError,
        "no files found under",
    ),
    (
        "FileShuffleConfig(seed='a')",
        lambda: FileShuffleConfig(seed="a"),
        ValueError,
        "Seed must be an integer or None",
    ),
    (
        "PathPartitionParser.of('dir',field_names=['x','y'],base_dir='/a')('/a/1/f.csv')",
        lambda: PathPartitionParser.of("dir", field_names=["x", "y"], base_dir="/a")("/a/1/f.csv"),
        ValueError,
        "Expected 2 partition value(s) but found 1",
    ),
    (
        "PathPartitionParser.of('hive',field_names=['b'])('/a/b=1/c=x/f.csv')",
        lambda: PathPartitionParser.of("hive", field_names=["b"])("/a/b=1/c=x/f.csv"),
        ValueError,
        "Expected 1 partition value(s) but found 2",
    ),
    (
        "PathPartitionParser.of('dir',base_dir='/a')",
        lambda: PathPartitionParser.of("dir", base_dir="/a"),
        ValueError,
        "Directory partitioning requires a corresponding list of partition key field names",
    ),
    (
        "ray.data.read_images(images(),size=(0,1))",
        lambda: ray.data.read_images(images(), size=(0, 1)),
        ValueError,
        "Expected `size` to contain positive integers, but got (0, 1)",
    ),
    (
        "ray.data.read_images(images(),size=(-1,1))",
        lambda: ray.data.read_images(images(), size=(-1, 1)),
        ValueError,
        "Expected `size` to contain positive integers, but got (-1, 1)",
    ),
    (
        "ray.data.read_images(images(),size=(1,2,3))",
        lambda: ray.data.read_images(images(), size=(1, 2, 3)),
        ValueError,
        "Expected `size` to contain two integers for height and width, but got 3 integers",
    ),
    (
        "numbers().write_csv(5)",
        lambda: numbers().write_csv(5),
        ValueError,
        "paths must be str, pathlib.Path, or list, got <class 'int'>",
    ),
    (
        "ray.data.from_pandas_refs(['x'])",
        lambda: ray.data.from_pandas_refs(["x"]),
        ValueError,
        "Expected list of Ray object refs, got list containing <class 'str'>",
    ),
    (
        "list(numbers().iter_batches(batch_format='nope'))",
        lambda: list(numbers().iter_batches(batch_format="nope")),
        ValueError,
        "The given batch format nope isn't allowed (must be one of",
    ),
    (
        "list(numbers().iter_batches(batch_size=None,local_shuffle_buffer_size=4))",
        lambda: list(numbers().iter_batches(batch_size=None, local_shuffle_buffer_size=4)),
        ValueError,
        "Must specify a batch_size if using a local shuffle",
    ),
    (
        "list(numbers(3,1).iter_torch_batches(batch_size=2,collate_fn=lambda b: b,dtypes=torch.fl",
        lambda: list(
            numbers(3, 1).iter_torch_batches(batch_size=2, collate_fn=lambda b: b, dtypes=torch.float32)
        ),
        ValueError,
        "collate_fn cannot be used with dtypes",
    ),
    (
        "list(numbers(3,1).iter_torch_batches(collate_fn=5))",
        lambda: list(numbers(3, 1).iter_torch_batches(collate_fn=5)),
        ValueError,
        "Unsupported collate function: <class 'int'>",
    ),
    (
        "next(numbers(2).iter_batches())",
        lambda: next(numbers(2).iter_batches()),
        TypeError,
        "object is not an iterator",
    ),
]


@pytest.mark.parametrize(("call", "found"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_result_of(call: Callable[[], Any], found: Any) -> None:
    assert plain(call()) == found


@pytest.mark.parametrize(
    ("call", "kind", "words"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_refused(call: Callable[[], Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=re.escape(words)):
        call()
