"""MongoDB, through pymongo."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from skate.data.block import from_rows, rows_of
from skate.data.source.datasink import Datasink, TaskContext
from skate.data.source.datasource import BlockMetadata, Datasource, ReadTask
from skate.installed import require

_ROWS_AT_ONCE = 4096


class MongoDatasource(Datasource):
    """Reads the documents of a collection, or the results of a pipeline; several tasks read ranges of ids."""

    def __init__(
        self,
        uri: str,
        database: str,
        collection: str,
        pipeline: Any = None,
        schema: Any = None,
        **client: Any,
    ) -> None:
        require("pymongo", "read_mongo")
        self._where = (uri, database, collection)
        self._pipeline = list(pipeline or [])
        self._schema = schema
        self._client = client

    def get_name(self) -> str:
        return "Mongo"

    def estimate_inmemory_data_size(self) -> int | None:
        with opened(self._where[0], self._client) as client:
            stats = client[self._where[1]].command("collstats", self._where[2])
            return int(stats["size"])

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        matches: list[list[Any]] = [[]]
        # A pipeline that groups or sorts needs all documents; only one that matches or projects can be divided.
        simple = all(
            set(stage) <= {"$match", "$project", "$addFields", "$set", "$unset"} for stage in self._pipeline
        )
        if parallelism > 1 and simple:
            matches = self._ranges(parallelism)
        return [
            ReadTask(
                _Documents(self._where, self._client, [*match, *self._pipeline], self._schema),
                BlockMetadata(),
                None,
                per_task_row_limit,
            )
            for match in matches
        ]

    def _ranges(self, parallelism: int) -> list[list[Any]]:
        uri, database, collection = self._where
        with opened(uri, self._client) as client:
            stages = [{"$sort": {"_id": 1}}, {"$bucketAuto": {"groupBy": "$_id", "buckets": parallelism}}]
            found = list(client[database][collection].aggregate(stages, allowDiskUse=True))
        cuts = [each["_id"]["min"] for each in found][1:]
        if not cuts:
            return [[]]
        lows, highs = [None, *cuts], [*cuts, None]
        made = []
        for low, high in zip(lows, highs, strict=True):
            bounds = ({"$gte": low} if low is not None else {}) | ({"$lt": high} if high is not None else {})
            made.append([{"$match": {"_id": bounds}}])
        return made


class _Documents:
    def __init__(
        self, where: tuple[str, str, str], client: dict[str, Any], stages: list[Any], schema: Any
    ) -> None:
        self.given = (where, client, stages, schema)

    def __call__(self) -> Iterator[pa.Table]:
        (uri, database, collection), options, stages, schema = self.given
        with opened(uri, options) as client:
            found = iter(client[database][collection].aggregate(stages))
            while some := list(itertools.islice(found, _ROWS_AT_ONCE)):
                table = from_rows([{name: plain(value) for name, value in row.items()} for row in some])
                yield table if schema is None else table.select(schema.names).cast(schema)


class MongoDatasink(Datasink[None]):
    """Inserts rows as documents of a collection."""

    def __init__(self, uri: str, database: str, collection: str) -> None:
        require("pymongo", "write_mongo")
        self._where = (uri, database, collection)

    def get_name(self) -> str:
        return "Mongo"

    def write(self, blocks: Iterable[pa.Table], ctx: TaskContext) -> None:
        uri, database, collection = self._where
        with opened(uri, {}) as client:
            for table in blocks:
                for at in range(0, table.num_rows, _ROWS_AT_ONCE):
                    client[database][collection].insert_many(
                        [
                            {name: listed(value) for name, value in row.items()}
                            for row in rows_of(table.slice(at, _ROWS_AT_ONCE))
                        ]
                    )


def opened(uri: str, options: dict[str, Any]) -> Any:
    """Return a client for a `with` statement."""
    return require("pymongo", "MongoDB").MongoClient(uri, **options)


def plain(value: Any) -> Any:
    """Convert a value of a document for a column: ids become text."""
    if type(value).__name__ == "ObjectId":
        return str(value)
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list) else value


def listed(value: Any) -> Any:
    """Convert a value of a row for a document."""
    return value.tolist() if hasattr(value, "tolist") else value
