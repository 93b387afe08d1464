"""Catalogs: one of the program's own, and Databricks' Unity Catalog as a small server speaks it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import skate.data
from skate.data import Catalog, CatalogAccessMode, DatabricksUnityCatalog, ReaderFormat, ResolvedSource


class Folders(Catalog):
    """Tables are folders of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.requests: list[Any] = []

    def resolve(
        self, table: str, *, reader: ReaderFormat, mode: CatalogAccessMode = CatalogAccessMode.READ
    ) -> ResolvedSource:
        self.requests.append((table, reader, mode))
        return ResolvedSource(path=str(self.folder / table.replace(".", "/")))


def test_a_catalog_of_ones_own(tmp_path: Path) -> None:
    catalog = Folders(tmp_path)
    skate.data.range(3).write_parquet("main.numbers", catalog=catalog)
    assert skate.data.read_parquet("main.numbers", catalog=catalog).count() == 3
    assert (tmp_path / "main" / "numbers").is_dir()
    assert catalog.requests == [
        ("main.numbers", ReaderFormat.PARQUET, CatalogAccessMode.WRITE),
        ("main.numbers", ReaderFormat.PARQUET, CatalogAccessMode.READ),
    ]


def test_what_is_no_catalog_or_several_tables(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"catalog of read_parquet must be a skate\.data\.Catalog, got str"):
        skate.data.read_parquet("a", catalog="unity")
    with pytest.raises(ValueError, match="one table"):
        skate.data.read_parquet(["a", "b"], catalog=Folders(tmp_path))


class _Answers(BaseHTTPRequestHandler):
    tables: dict[str, dict[str, Any]]

    def do_GET(self) -> None:
        about = self.tables.get(self.path.rsplit("/", 1)[1])
        self._answer(404 if about is None else 200, about or {"message": "no such table"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.posted.append(body)  # type: ignore[attr-defined]
        self._answer(200, {"url": "", "expiration_time": 0})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        if self.headers["Authorization"] != "Bearer secret":
            status, body = 403, {"message": "who are you?"}
        blob = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(blob)))
        self.end_headers()
        self.wfile.write(blob)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def unity(tmp_path: Path) -> Iterator[ThreadingHTTPServer]:
    skate.data.range(4).write_parquet(str(tmp_path / "t"))
    _Answers.tables = {
        "main.a.t": {
            "table_id": "17",
            "storage_location": str(tmp_path / "t"),
            "data_source_format": "PARQUET",
        },
        "main.a.view": {"table_id": "18", "data_source_format": "VIEW"},
    }
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as server:
        server.posted = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_unity(unity: Any) -> None:
    url = f"http://127.0.0.1:{unity.server_address[1]}"
    assert skate.data.read_unity_catalog("main.a.t", url, "secret").count() == 4
    catalog = DatabricksUnityCatalog(url=url, token="secret")
    assert skate.data.read_parquet("main.a.t", catalog=catalog).count() == 4
    assert unity.posted == [{"table_id": "17", "operation": "READ"}] * 2
    assert catalog.infer_format("main.a.view") is None
    with pytest.raises(ValueError, match=r"main\.a\.view is not a Delta, Parquet or Iceberg table"):
        skate.data.read_unity_catalog("main.a.view", url, "secret")
    with pytest.raises(RuntimeError, match="404.*no such table"):
        skate.data.read_unity_catalog("main.a.x", url, "secret")
    with pytest.raises(RuntimeError, match="403"):
        skate.data.read_unity_catalog("main.a.t", url, "wrong")
    iceberg = catalog.resolve("main.a.t", reader=ReaderFormat.ICEBERG)
    assert iceberg.table_identifier == "a.t"
    assert iceberg.catalog_kwargs is not None
    assert iceberg.catalog_kwargs["warehouse"] == "main"


def test_unity_without_access() -> None:
    with pytest.raises(ValueError, match="token="):
        DatabricksUnityCatalog(url="http://x")
    with pytest.raises(RuntimeError, match="cannot be reached"):
        DatabricksUnityCatalog(url="http://127.0.0.1:1", token="t").infer_format("a.b.c")
