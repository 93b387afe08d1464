"""Queries of a Databricks SQL warehouse, by its REST interface for statements: the answer is files, read by tasks."""

from __future__ import annotations

import json
import logging
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from skate.data.block.objects import refuse_pickles
from skate.data.catalog import Credentials
from skate.data.source.datasource import BlockMetadata, Datasource, ReadTask
from skate.data.source.files.file_groups import shared_out

_log = logging.getLogger(__name__)
_TIMEOUT_SECONDS = 60
#: The time between two questions whether a statement has ended.
_POLL_SECONDS = 1.0
_UNAUTHORIZED = 401


class EnvironmentCredentials:
    """The access that environment variables give.

    Raises ValueError if DATABRICKS_TOKEN or DATABRICKS_HOST is missing.
    """

    def __init__(self) -> None:
        self.invalidate()

    def invalidate(self) -> None:
        """Read the variables again."""
        for name in ("DATABRICKS_TOKEN", "DATABRICKS_HOST"):
            if not os.environ.get(name):
                raise ValueError(
                    f"Please set environment variable {name!r} to the {'access token' if 'TOKEN' in name else 'host'} "
                    "of the Databricks workspace, or pass credential_provider="
                )
        self._given = os.environ["DATABRICKS_HOST"], os.environ["DATABRICKS_TOKEN"]

    def get_host(self) -> str:
        """Return the host of the workspace."""
        return self._given[0]

    def get_token(self) -> str:
        """Return the access token."""
        return self._given[1]


class Warehouse:
    """Requests to the statements of a workspace.

    Args:
        credentials: has `get_host()`, `get_token()` and `invalidate()`, which is called once if the token is refused.
    """

    def __init__(self, credentials: Credentials) -> None:
        self.credentials = credentials
        host = str(credentials.get_host())
        self.url = f"{host if '://' in host else f'https://{host}'}".rstrip("/") + "/api/2.0/sql/statements/"

    def ask(self, what: str, body: dict[str, Any] | None = None, again: bool = True) -> dict[str, Any]:
        """Return the answer to a request. Raises RuntimeError with the text of a refusal."""
        request = urllib.request.Request(
            self.url + what,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self.credentials.get_token()}",
                "Content-Type": "application/json",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except urllib.error.HTTPError as error:
            if error.code == _UNAUTHORIZED and again:
                self.credentials.invalidate()
                return self.ask(what, body, again=False)
            text = error.read(2000).decode(errors="replace")
            raise RuntimeError(f"Databricks answered {error.code} to {self.url}{what}: {text}") from None
        except urllib.error.URLError as error:
            raise RuntimeError(f"Databricks cannot be reached at {self.url}: {error.reason}") from None

    def run(self, statement: dict[str, Any]) -> dict[str, Any]:
        """Run a statement to its end and return its last state. Raises RuntimeError if it fails."""
        state = self.ask("", statement)
        number = state["statement_id"]
        try:
            while state["status"]["state"] in ("PENDING", "RUNNING"):
                time.sleep(_POLL_SECONDS)
                state = self.ask(number)
        except KeyboardInterrupt:
            self.ask(f"{number}/cancel", {})
            raise
        if state["status"]["state"] != "SUCCEEDED":
            raise RuntimeError(f"Query {statement['statement']!r} execution failed.\n{state}")
        return state


class DatabricksDatasource(Datasource):
    """Runs a query when it is made; each task reads some of the files of the answer."""

    def __init__(self, statement: dict[str, Any], credentials: Credentials) -> None:
        self._warehouse = Warehouse(credentials)
        asked = {"wait_timeout": "0s", "disposition": "EXTERNAL_LINKS", "format": "ARROW_STREAM"}
        state = self._warehouse.run({**statement, **asked})
        self._statement = state["statement_id"]
        manifest = state["manifest"]
        if manifest.get("truncated"):
            _log.warning(
                f"the answer to {statement['statement']!r} is larger than Databricks returns, and truncated"
            )
        self._chunks = sorted(manifest.get("chunks") or (), key=lambda chunk: chunk["chunk_index"])

    def get_name(self) -> str:
        return "DatabricksUC"

    def estimate_inmemory_data_size(self) -> int | None:
        return int(sum(chunk["byte_count"] for chunk in self._chunks))

    def known_rows(self) -> int | None:
        return int(sum(chunk["row_count"] for chunk in self._chunks))

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        sizes = [chunk["byte_count"] for chunk in self._chunks]
        tasks = [
            ReadTask(
                _Chunks(self._warehouse, self._statement, [chunk["chunk_index"] for chunk in group]),
                BlockMetadata(
                    sum(chunk["row_count"] for chunk in group), sum(chunk["byte_count"] for chunk in group)
                ),
                None,
                per_task_row_limit,
            )
            for group in shared_out(self._chunks, sizes, parallelism)
        ]
        return tasks or [ReadTask(_Chunks(self._warehouse, self._statement, []), BlockMetadata(0, 0))]


class _Chunks:
    def __init__(self, warehouse: Warehouse, statement: str, numbers: Sequence[int]) -> None:
        self.given = (warehouse, statement, list(numbers))

    def __call__(self) -> Iterator[pa.Table]:
        warehouse, statement, numbers = self.given
        if not numbers:
            yield pa.table({})
        for number in numbers:
            answer = warehouse.ask(f"{statement}/result/chunks/{number}")
            link = answer["external_links"][0]["external_link"]
            if not link.startswith(("https://", "http://")):
                raise RuntimeError(
                    f"Databricks answered with a link of another kind than HTTP: {link[:80]!r}"
                )
            # The link is a storage's own, which must not get the token.
            with urllib.request.urlopen(link, timeout=_TIMEOUT_SECONDS) as file:
                table = pa.ipc.open_stream(file.read()).read_all()
            yield refuse_pickles(table, f"the answer of the Databricks warehouse ({statement})")
