"""Files found, opened, shared out and named: what all formats have in common."""

from __future__ import annotations

import bz2
import gzip
import os
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.fs as pafs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import skate.data as rd
from skate.data.context import DataContext
from skate.data.datasource import (
    FileBasedDatasource,
    FileShuffleConfig,
    Partitioning,
    PathPartitionFilter,
    PathPartitionParser,
)
from skate.data.source.files import filesystems, streams
from skate.data.source.files.file_groups import shared_out
from skate.data.source.files.file_list import list_files
from skate.data.source.formats.csv import CSVDatasource

#: A loaded machine draws slowly, which says nothing of the product.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def texts(dataset: Any) -> list[str]:
    return [row["text"] for row in dataset.take_all()]


def make(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name}\n")


def test_paths_may_be_strings_paths_lists_directories_patterns_and_urls(tmp_path: Path) -> None:
    make(tmp_path, "a.txt", "b.txt", "sub/c.txt")
    assert texts(rd.read_text(str(tmp_path / "a.txt"))) == ["a.txt"]
    assert texts(rd.read_text(tmp_path / "a.txt")) == ["a.txt"]
    assert texts(rd.read_text([tmp_path / "b.txt", str(tmp_path / "a.txt")])) == ["b.txt", "a.txt"]
    assert texts(rd.read_text(tmp_path)) == ["a.txt", "b.txt", "sub/c.txt"]
    assert texts(rd.read_text(f"{tmp_path}/*.txt")) == ["a.txt", "b.txt"]
    assert texts(rd.read_text(f"{tmp_path}/**/c.txt")) == ["sub/c.txt"]
    assert texts(rd.read_text(f"file://{tmp_path}/a.txt")) == ["a.txt"]
    assert texts(rd.read_text(f"local://{tmp_path}/a.txt")) == ["a.txt"]


def test_a_name_with_the_signs_of_a_pattern_is_a_name_if_there_is_such_a_file(tmp_path: Path) -> None:
    make(tmp_path, "a[1].txt", "a1.txt")
    assert texts(rd.read_text(tmp_path / "a[1].txt")) == ["a[1].txt"]


def test_directories_hide_names_that_begin_with_a_dot_or_an_underscore(tmp_path: Path) -> None:
    make(tmp_path, "a.txt", "_b.txt", ".c.txt", "_d/e.txt", ".f/g.txt", "_h=1/i.txt", "j/_k.txt")
    assert texts(rd.read_text(tmp_path)) == ["_h=1/i.txt", "a.txt"]
    assert texts(rd.read_text(tmp_path / "_b.txt")) == ["_b.txt"]


def test_what_is_missing_is_named_when_the_dataset_is_made(tmp_path: Path) -> None:
    make(tmp_path, "a.txt")
    with pytest.raises(FileNotFoundError, match="gone.txt"):
        rd.read_text(tmp_path / "gone.txt")
    with pytest.raises(FileNotFoundError, match=r"\*.csv"):
        rd.read_csv(f"{tmp_path}/*.csv")
    assert texts(rd.read_text([tmp_path / "gone.txt", tmp_path / "a.txt"], ignore_missing_paths=True)) == [
        "a.txt"
    ]
    with pytest.raises(ValueError, match="No input files found"):
        rd.read_text(tmp_path / "gone.txt", ignore_missing_paths=True)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="No input files found"):
        rd.read_text(tmp_path / "empty")
    with pytest.raises(ValueError, match="parquet"):
        rd.read_parquet(tmp_path)
    with pytest.raises(ValueError, match="at least one path"):
        rd.read_text([])
    with pytest.raises(ValueError, match="int"):
        rd.read_text(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="NoneType"):
        rd.read_text([None])  # type: ignore[list-item]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_directory_that_may_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    with pytest.raises(PermissionError):
        rd.read_text(tmp_path / "closed")


def test_file_extensions_choose_among_files_in_any_case(tmp_path: Path) -> None:
    make(tmp_path, "a.txt", "b.TXT", "c.log")
    assert texts(rd.read_text(tmp_path, file_extensions=["txt"])) == ["a.txt", "b.TXT"]
    assert texts(rd.read_text([tmp_path / "a.txt", tmp_path / "c.log"], file_extensions=["log"])) == ["c.log"]


def test_default_extensions_leave_what_is_named_alone(tmp_path: Path) -> None:
    (tmp_path / "rows.data").write_text('{"a": 1}\n')
    assert rd.read_json(tmp_path / "rows.data").take_all() == [{"a": 1}]
    with pytest.raises(ValueError, match="No input files"):
        rd.read_json(tmp_path / "rows.data", file_extensions=["json"])


def test_include_paths_and_input_files(tmp_path: Path) -> None:
    make(tmp_path, "a.txt", "b.txt")
    rows = rd.read_text(tmp_path, include_paths=True).take_all()
    assert rows == [{"text": name, "path": str(tmp_path / name)} for name in ("a.txt", "b.txt")]
    assert rd.read_text(tmp_path).input_files() == [str(tmp_path / "a.txt"), str(tmp_path / "b.txt")]


def test_files_are_decompressed_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"gz\n"))
    (tmp_path / "b.txt.bz2").write_bytes(bz2.compress(b"bz2\n"))
    for name, codec in (("c.txt.zst", "zstd"), ("d.txt.br", "brotli"), ("e.txt.lz4", "lz4")):
        with pa.CompressedOutputStream(str(tmp_path / name), codec) as file:
            file.write(name[-2:].encode() + b"\n")
    assert texts(rd.read_text(tmp_path)) == ["gz", "bz2", "st", "br", "z4"]
    (tmp_path / "a.txt.gz").rename(tmp_path / "plain")
    assert texts(rd.read_text(tmp_path / "plain", arrow_open_stream_args={"compression": "gzip"})) == ["gz"]


def test_blocks_follow_bytes_and_may_be_asked_for(tmp_path: Path) -> None:
    make(tmp_path, *(f"{at:02}.txt" for at in range(10)))
    for wanted in (1, 3, 10, 50):
        dataset = rd.read_text(tmp_path, override_num_blocks=wanted)
        assert len(texts(dataset)) == 10
        assert dataset.materialize().num_blocks() == min(wanted, 10)
    with pytest.raises(ValueError, match="override_num_blocks"):
        rd.read_text(tmp_path, override_num_blocks=0)


def test_a_large_file_of_lines_is_cut_for_several_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skate.data.source.files.source._PIECE_BYTES_MIN", 64)
    lines = [f"{at:05}" + "x" * (at % 37) for at in range(300)]
    (tmp_path / "a.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "a.csv").write_text("n,t\n" + "".join(f"{at},{line}\n" for at, line in enumerate(lines)))
    (tmp_path / "a.jsonl").write_text(
        "".join(f'{{"n": {at}, "t": "{line}"}}\n' for at, line in enumerate(lines))
    )
    (tmp_path / "a.json").write_text("[" + ",".join(f'{{"n": {at}}}' for at in range(300)) + "]")
    expected = [{"n": at, "t": line} for at, line in enumerate(lines)]
    for wanted in (1, 2, 7, 40):
        assert texts(rd.read_text(tmp_path / "a.txt", override_num_blocks=wanted)) == lines
        assert rd.read_csv(tmp_path / "a.csv", override_num_blocks=wanted).take_all() == expected
        assert rd.read_json(tmp_path / "a.jsonl", override_num_blocks=wanted).take_all() == expected
        assert rd.read_json(tmp_path / "a.json", override_num_blocks=wanted).count() == 300
    datasource = CSVDatasource(tmp_path / "a.csv")
    for whole in (32 << 20, 0):  # pieces are read at once, or stream
        monkeypatch.setattr("skate.data.source.formats.csv._WHOLE", whole)
        tasks = datasource.get_read_tasks(20)
        assert len(tasks) > 9
        assert [row for task in tasks for table in task() for row in table.to_pylist()] == expected
    source = rd.read_text(tmp_path / "a.txt", override_num_blocks=7)
    assert source.materialize().num_blocks() > 3


@patient
@given(
    st.lists(st.binary(max_size=12).map(lambda b: b.replace(b"\n", b"")), max_size=30),
    st.integers(1, 9),
    st.booleans(),
)
def test_pieces_of_lines_are_the_lines(lines: list[bytes], pieces: int, ended: bool) -> None:
    data = b"\n".join(lines) + (b"\n" if ended else b"")
    cuts = [len(data) * at // pieces for at in range(pieces + 1)]
    found = b""
    for low, high in zip(cuts, cuts[1:], strict=False):
        with pa.BufferReader(data) as file:
            part = b"".join(streams.lines_of_range(file, low, high, 5))
        found += part
    assert found == data


@patient
@given(st.lists(st.integers(0, 1000), max_size=40), st.integers(1, 50))
def test_sharing_out_keeps_order_and_leaves_no_group_empty(sizes: list[int], parts: int) -> None:
    groups = shared_out(list(range(len(sizes))), sizes, parts)
    assert [item for group in groups for item in group] == list(range(len(sizes)))
    assert all(groups)
    assert len(groups) <= parts
    if len(sizes) >= parts and sizes:
        assert (
            len(groups) == parts or sum(sizes) == 0 or parts > len(sizes) or max(sizes) * parts > sum(sizes)
        )


def test_shuffled_files_are_the_same_for_a_seed_and_others_each_epoch(tmp_path: Path) -> None:
    make(tmp_path, *(f"{at:02}.txt" for at in range(20)))
    once = texts(rd.read_text(tmp_path, shuffle=FileShuffleConfig(seed=5)))
    assert once != sorted(once)
    assert sorted(once) == sorted(path.name for path in tmp_path.iterdir())
    again = rd.read_text(tmp_path, shuffle=FileShuffleConfig(seed=5))
    assert texts(again) == once
    assert texts(again) != once
    fixed = rd.read_text(tmp_path, shuffle=FileShuffleConfig(seed=5, reseed_after_execution=False))
    assert texts(fixed) == texts(fixed)
    assert sorted(texts(rd.read_text(tmp_path, shuffle="files"))) == sorted(once)
    with pytest.raises(ValueError, match="shuffle"):
        rd.read_text(tmp_path, shuffle="rows")


# -- partitions


def test_partitions_of_both_styles_become_columns(tmp_path: Path) -> None:
    make(tmp_path, "y=2020/m=1/a.txt", "y=2021/m=%2F/b.txt", "y=__HIVE_DEFAULT_PARTITION__/m=3/c.txt")
    rows = rd.read_text(tmp_path, partitioning=Partitioning("hive", field_types={"y": int})).take_all()
    assert [(row["y"], row["m"]) for row in rows] == [(2020, "1"), (2021, "/"), (None, "3")]
    make(tmp_path / "plain", "2020/de/a.txt", "2021/fr/b.txt")
    plain = Partitioning(
        "dir", base_dir=str(tmp_path / "plain"), field_names=["y", "lang"], field_types={"y": int}
    )
    rows = rd.read_text(tmp_path / "plain", partitioning=plain).take_all()
    assert [(row["y"], row["lang"]) for row in rows] == [(2020, "de"), (2021, "fr")]


def test_partition_filters_leave_files_out(tmp_path: Path) -> None:
    make(tmp_path, "y=2020/a.txt", "y=2021/b.txt")
    late = PathPartitionFilter.of(lambda values: values["y"] == "2021")
    assert texts(rd.read_text(tmp_path, partition_filter=late)) == ["y=2021/b.txt"]
    never = PathPartitionFilter.of(lambda values: False)
    with pytest.raises(ValueError, match="partition_filter"):
        rd.read_text(tmp_path, partition_filter=never)
    assert late.parser("/x/y=1/z=2/f") == {"y": "1", "z": "2"}
    assert late(["/y=2021/a", "/y=2020/a"]) == ["/y=2021/a"]


def test_partitionings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="'hive' or 'dir'"):
        Partitioning("other")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="field_names"):
        Partitioning("dir")  # type: ignore[arg-type]
    parser = PathPartitionParser.of("dir", base_dir="/data", field_names=["a", "b"])  # type: ignore[arg-type]
    assert parser("/data/1/2/f.txt") == {"a": "1", "b": "2"}
    assert parser("/elsewhere/1/2/f.txt") == {}
    with pytest.raises(ValueError, match="found 1"):
        parser("/data/1/f.txt")
    with pytest.raises(ValueError, match="not of type int"):
        PathPartitionParser.of("hive", field_types={"y": int})("/y=x/f")  # type: ignore[arg-type]


# -- filesystems


def test_filesystems_of_fsspec_by_url_by_object_and_inside_arrows(tmp_path: Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/bucket/a.txt", b"in memory\n")
    memory.pipe_file("/bucket/b.txt", b"too\n")
    try:
        assert texts(rd.read_text("memory://bucket/a.txt")) == ["in memory"]
        assert texts(rd.read_text("memory://bucket")) == ["in memory", "too"]
        assert texts(rd.read_text("/bucket/a.txt", filesystem=memory)) == ["in memory"]
        assert texts(rd.read_text("/bucket", filesystem=pafs.PyFileSystem(pafs.FSSpecHandler(memory)))) == [
            "in memory",
            "too",
        ]
        rd.range(10).write_parquet("memory://bucket/out")
        assert rd.read_parquet("memory://bucket/out").sum("id") == 45
    finally:
        memory.rm("/bucket", recursive=True)
    local = fsspec.filesystem("file")
    make(tmp_path, "a.txt")
    assert texts(rd.read_text(str(tmp_path), filesystem=local)) == ["a.txt"]
    assert texts(
        rd.read_text("a.txt", filesystem=pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem()))
    ) == ["a.txt"]


def test_urls_that_cannot_be_read_say_why() -> None:
    with pytest.raises(ValueError, match="nosuch://"):
        rd.read_text("nosuch://a")
    with pytest.raises(ValueError, match="several filesystems"):
        rd.read_text(["/a", "memory://b"])
    with pytest.raises(TypeError, match="filesystem"):
        rd.read_text("a", filesystem="s3")


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("s3://bucket/a b/c.parquet", "bucket/a b/c.parquet"),
        ("s3://key:secret@bucket/a?region=eu-west-1&scheme=http", "bucket/a"),
        ("gs://bucket/x/", "bucket/x"),
        ("hdfs://host:8020/a/b", "/a/b"),
    ],
)
def test_urls_become_paths(url: str, path: str) -> None:
    assert filesystems._without_scheme(url) == path


# -- errors that pass


class Flaky(FileBasedDatasource):
    """Fails once after its first block."""

    failures = 0

    def _read_stream(self, f: Any, path: str) -> Any:
        lines = f.read().decode().split()
        for at, line in enumerate(lines):
            if at == 1 and Flaky.failures:
                Flaky.failures -= 1
                raise OSError("AWS Error SLOW_DOWN during GetObject")
            yield pa.table({"text": [line]})


def test_errors_that_pass_are_tried_again_without_repeating_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[int] = []
    monkeypatch.setattr(streams, "_pause", waits.append)
    (tmp_path / "a.txt").write_text("1 2 3")
    Flaky.failures = 2
    assert texts(rd.read_datasource(Flaky(str(tmp_path)))) == ["1", "2", "3"]
    assert waits == [1, 2]
    Flaky.failures = 99
    with pytest.raises(OSError, match="SLOW_DOWN"):
        texts(rd.read_datasource(Flaky(str(tmp_path))))
    assert len(waits) == 2 + streams.ATTEMPTS - 1
    Flaky.failures = 1
    context = DataContext.get_current().copy()
    context.retried_io_errors = []
    with DataContext.current(context), pytest.raises(OSError, match="a.txt"):
        texts(rd.read_datasource(Flaky(str(tmp_path))))


def test_listing_many_small_files_is_quick_and_ordered(tmp_path: Path) -> None:
    for at in range(10_000):
        (tmp_path / f"{at:05}.txt").write_bytes(b"%d\n" % at)
    dataset = rd.read_text(tmp_path)
    assert texts(dataset) == [str(at) for at in range(10_000)]
    assert dataset.materialize().num_blocks() <= 64
    files = list_files([str(tmp_path)], pafs.LocalFileSystem())
    assert [each.size for each in files[:2]] == [2, 2]
    assert rd.read_text([str(tmp_path / f"{at:05}.txt") for at in range(500)]).count() == 500
