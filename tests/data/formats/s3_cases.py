"""S3, as a server of moto's that speaks it over HTTP: by Arrow's filesystem, by s3fs, and by URL.

Run by test_in_own_processes.py in a process of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pyarrow.fs as pafs
import pytest

import skate
import skate.data as rd

moto_server = pytest.importorskip("moto.server", reason="the S3 tests need moto[server]")
s3fs = pytest.importorskip("s3fs")

KEYS = {"access_key": "testing", "secret_key": "testing"}


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    skate.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    skate.shutdown()


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    _, port = server.get_host_and_port()
    yield f"127.0.0.1:{port}"
    server.stop()


@pytest.fixture(scope="module")
def arrow(endpoint: str) -> pafs.S3FileSystem:
    endpoint_options = {"endpoint_override": endpoint, "scheme": "http", "region": "us-east-1"}
    filesystem = pafs.S3FileSystem(**KEYS, **endpoint_options, allow_bucket_creation=True)
    filesystem.create_dir("bucket")
    return filesystem


def test_arrows_filesystem_writes_and_reads(arrow: pafs.S3FileSystem) -> None:
    rd.range(100, override_num_blocks=4).write_parquet("bucket/p", filesystem=arrow)
    found = rd.read_parquet("bucket/p", filesystem=arrow)
    assert found.count() == 100
    assert [row["id"] for row in found.take_all()] == list(range(100))
    rd.range(4, override_num_blocks=2).write_csv("s3://bucket/c", filesystem=arrow)
    assert [row["id"] for row in rd.read_csv("s3://bucket/c", filesystem=arrow).take_all()] == [0, 1, 2, 3]
    rd.range(2).write_csv("bucket/c", filesystem=arrow, mode=rd.SaveMode.OVERWRITE)
    assert rd.read_csv("bucket/c", filesystem=arrow).count() == 2
    with pytest.raises(FileNotFoundError, match="gone"):
        rd.read_csv("bucket/gone", filesystem=arrow)


def test_many_small_objects_are_fetched_side_by_side_in_order(arrow: pafs.S3FileSystem) -> None:
    for at in range(40):
        with arrow.open_output_stream(f"bucket/many/{at:03}.txt") as file:
            file.write(f"{at}\n".encode())
    found = rd.read_text("bucket/many", filesystem=arrow, include_paths=True).take_all()
    assert [row["text"] for row in found] == [str(at) for at in range(40)]
    assert found[3]["path"] == "bucket/many/003.txt"


def test_urls_carry_what_the_filesystem_needs(endpoint: str, arrow: pafs.S3FileSystem) -> None:
    with arrow.open_output_stream("bucket/a b/x.txt") as file:
        file.write(b"by url\n")
    options = f"endpoint_override={endpoint}&scheme=http&region=us-east-1"
    url = f"s3://testing:testing@bucket/a b/x.txt?{options}"
    assert rd.read_text(url).take_all() == [{"text": "by url"}]


def test_s3fs_writes_and_reads(endpoint: str, arrow: pafs.S3FileSystem) -> None:
    options = {"endpoint_url": f"http://{endpoint}", "skip_instance_cache": True}
    filesystem: Any = s3fs.S3FileSystem(key="testing", secret="testing", **options)
    rd.range(50, override_num_blocks=2).write_parquet("s3://bucket/f", filesystem=filesystem)
    found = rd.read_parquet("s3://bucket/f", filesystem=filesystem)
    assert [row["id"] for row in found.take_all()] == list(range(50))
    rd.range(3).write_json("bucket/j", filesystem=filesystem)
    assert rd.read_json("bucket/j/*.json", filesystem=filesystem).count() == 3


def fail(batch: dict[str, Any]) -> dict[str, Any]:
    raise RuntimeError("no")


def test_a_write_that_fails_leaves_no_object(arrow: pafs.S3FileSystem) -> None:
    with pytest.raises(RuntimeError):
        rd.range(4, override_num_blocks=2).map_batches(fail).write_csv("bucket/failed", filesystem=arrow)
    assert arrow.get_file_info(pafs.FileSelector("bucket/failed", allow_not_found=True, recursive=True)) == []
