"""Queries of a Databricks warehouse, which a small server answers as the vendor's documentation describes."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pyarrow as pa
import pytest

import skate.data
from skate.data.source.systems import databricks

STATEMENTS = "/api/2.0/sql/statements/"
PARTS = [pa.table({"n": [1, 2]}), pa.table({"n": [3]})]


class _Warehouse(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self._is_let_in():
            self.server.asked.append(body)  # type: ignore[attr-defined]
            self._answer({"statement_id": "s1", "status": {"state": "PENDING"}})

    def do_GET(self) -> None:
        if self.path.startswith("/files/"):
            assert "Authorization" not in self.headers
            sink = io.BytesIO()
            part = PARTS[int(self.path.rsplit("/", 1)[1])]
            with pa.ipc.new_stream(sink, part.schema) as writer:
                writer.write_table(part)
            self._send(200, sink.getvalue())
        elif not self._is_let_in():
            return
        elif self.path == STATEMENTS + "s1":
            chunks = [
                {"chunk_index": at, "row_count": part.num_rows, "byte_count": part.nbytes}
                for at, part in reversed(list(enumerate(PARTS)))
            ]
            failed = "wrong" in self.server.asked[-1]["statement"]  # type: ignore[attr-defined]
            chunks = [] if "nothing" in self.server.asked[-1]["statement"] else chunks  # type: ignore[attr-defined]
            self._answer(
                {
                    "statement_id": "s1",
                    "status": {"state": "FAILED" if failed else "SUCCEEDED"},
                    "manifest": {"chunks": chunks},
                }
            )
        else:
            at = self.path.removeprefix(f"{STATEMENTS}s1/result/chunks/")
            host = f"http://127.0.0.1:{self.server.server_address[1]}"
            self._answer({"external_links": [{"external_link": f"{host}/files/{at}"}]})

    def _is_let_in(self) -> bool:
        if self.headers["Authorization"] == "Bearer secret":
            return True
        self._send(401, b"who are you?")
        return False

    def _answer(self, body: dict[str, Any]) -> None:
        self._send(200, json.dumps(body).encode())

    def _send(self, status: int, blob: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(blob)))
        self.end_headers()
        self.wfile.write(blob)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class Credentials:
    def __init__(self, host: str, *tokens: str) -> None:
        self.host = host
        self.tokens = list(tokens)

    def get_host(self) -> str:
        return self.host

    def get_token(self) -> str:
        return self.tokens[0]

    def invalidate(self) -> None:
        self.tokens = self.tokens[1:] or self.tokens


@pytest.fixture
def warehouse(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(databricks, "_POLL_SECONDS", 0)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Warehouse) as server:
        server.asked = []  # type: ignore[attr-defined]
        server.host = f"http://127.0.0.1:{server.server_address[1]}"  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_query_and_a_table(warehouse: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    read = skate.data.read_databricks_tables
    monkeypatch.setenv("DATABRICKS_TOKEN", "secret")
    monkeypatch.setenv("DATABRICKS_HOST", warehouse.host)
    found = read(warehouse_id="w", table="t", catalog="c", schema="s")
    assert [row["n"] for row in found.take_all()] == [1, 2, 3] and found.count() == 3
    assert warehouse.asked[0] | {"statement": "select * from t", "warehouse_id": "w"} == warehouse.asked[0]
    assert (warehouse.asked[0]["catalog"], warehouse.asked[0]["schema"]) == ("c", "s")
    assert read(warehouse_id="w", query="select nothing").take_all() == []
    with pytest.raises(RuntimeError, match="'wrong' execution failed"):
        read(warehouse_id="w", query="wrong")


def test_credentials(warehouse: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    read = skate.data.read_databricks_tables
    renewed = Credentials(warehouse.host, "old", "secret")
    assert read(warehouse_id="w", query="q", credential_provider=renewed).count() == 3
    with pytest.raises(RuntimeError, match="401.*who are you"):
        read(warehouse_id="w", query="q", credential_provider=Credentials(warehouse.host, "old"))
    with pytest.raises(RuntimeError, match="cannot be reached"):
        read(warehouse_id="w", query="q", credential_provider=Credentials("http://127.0.0.1:1", "t"))
    monkeypatch.delenv("DATABRICKS_TOKEN", raising=False)
    with pytest.raises(ValueError, match="'DATABRICKS_TOKEN'"):
        read(warehouse_id="w", query="q")


def test_either_a_query_or_a_table() -> None:
    for given in ({}, {"table": "t", "query": "q"}):
        with pytest.raises(ValueError, match="'query' and 'table'"):
            skate.data.read_databricks_tables(warehouse_id="w", **given)
