"""Relational work on Parquet files beside DuckDB, Polars and Daft: in turn, in one process, results as Arrow tables.

    python -m benchmarks.data.relational [QUERY ...] [--rows 2000000] [--rounds 7] [--sides SIDE,...] [--budget-mb N]
        [--folder FOLDER] [--json OUT.json]

The queries are groupby, filter, sort, join, distinct (1,000 texts), distinct_many (about as many texts as rows), keys (a
groupby of as many numbers as rows), text_keys (a groupby of texts), csv_groupby, csv_filter, csv_sort and csv_join (over the
same rows in CSV files). `--rows 20000000` is the large size; `--budget-mb` limits the memory of Skate's blocks and of DuckDB.
Distinct texts are Python lists on all sides. Peers that are not installed are left out: pip install duckdb polars daft.
`ordinary` is Skate without Polars. Each figure is a median of milliseconds after one round that does not count. `tpch.py` has
queries of TPC-H, `over_budget.py` measures memory.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

FILES = 8
Queries = dict[str, Callable[[], Any]]


def write(folder: Path, names: list[str], rows: int) -> None:
    """Write the files that the queries read."""
    random = np.random.default_rng(0)
    if set(names) - {"distinct_many", "text_keys"}:
        columns = {
            "id": random.permutation(rows),
            "group": random.integers(0, 1000, rows),
            "value": random.random(rows),
            "name": np.array([f"name-{number}" for number in range(1000)])[random.integers(0, 1000, rows)],
        }
        table = pa.table(columns)
        _parts(folder / "rows", table)
        ids = np.sort(random.choice(rows, rows // 10, replace=False))
        keys = pa.table({"id": ids, "weight": random.random(len(ids))})
        _parts(folder / "keys", keys, 1)
        if any(name.startswith("csv_") for name in names):
            _parts(folder / "csv_rows", table, writer=pacsv.write_csv, suffix="csv")
            _parts(folder / "csv_keys", keys, 1, pacsv.write_csv, "csv")
    if {"distinct_many", "text_keys"} & set(names):
        numbers = random.integers(0, rows, rows)
        texts = pc.binary_join_element_wise(
            "customer-", pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 9, "0"), ""
        )
        _parts(folder / "texts", pa.table({"customer": texts, "value": random.random(rows)}))


def _parts(
    folder: Path,
    table: pa.Table,
    files: int = FILES,
    writer: Callable[..., Any] = pq.write_table,
    suffix: str = "parquet",
) -> None:
    folder.mkdir(parents=True)
    rows = -(-table.num_rows // files)
    for number in range(files):
        writer(table.slice(number * rows, rows), folder / f"{number}.{suffix}")


def of_skate(folder: Path, staged: bool) -> Queries:
    """The queries on Skate, with Polars or without."""
    import skate as ray
    from skate.data.aggregate import Mean, Sum
    from skate.data.expressions import col

    def read(name: str) -> Any:
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.use_relational_engine = staged
        reader = ray.data.read_csv if name.startswith("csv_") else ray.data.read_parquet
        return reader(str(folder / name))

    def table(ds: Any) -> pa.Table:
        return pa.concat_tables(list(ds.iter_batches(batch_size=None, batch_format="pyarrow")))

    wanted = (col("name") == "name-7") & (col("value") > 0.5)

    def of_rows(mark: str = "") -> Queries:
        def rows() -> Any:
            return read(f"{mark}rows")

        return {
            f"{mark}groupby": lambda: table(rows().groupby("group").aggregate(Sum("value"), Mean("value"))),
            f"{mark}filter": lambda: rows().filter(expr=wanted).count(),
            f"{mark}sort": lambda: table(rows().sort("value")),
            f"{mark}join": lambda: table(rows().join(read(f"{mark}keys"), "inner", 8, on=("id",))),
        }

    return {
        **of_rows(),
        **of_rows("csv_"),
        "distinct": lambda: len(read("rows").unique("name")),
        "keys": lambda: table(read("rows").groupby("id").aggregate(Sum("value"))),
        "distinct_many": lambda: len(read("texts").unique("customer")),
        "text_keys": lambda: table(read("texts").groupby("customer").aggregate(Sum("value"))),
    }


SQL = {
    "groupby": 'select "group", sum(value), avg(value) from rows group by 1',
    "filter": "select count(*) from rows where name = 'name-7' and value > 0.5",
    "sort": "select * from rows order by value",
    "join": "select * from rows join keys using (id)",
    "distinct": "select distinct name from rows",
    "keys": "select id, sum(value) from rows group by 1 order by 1",
    "distinct_many": "select distinct customer from texts",
    "text_keys": "select customer, sum(value) from texts group by 1 order by 1",
}  # fmt: skip
SQL |= {
    f"csv_{name}": SQL[name].replace("rows", "csv_rows").replace("keys", "csv_keys")
    for name in ("groupby", "filter", "sort", "join")
}


def of_duckdb(folder: Path, budget_mb: int | None) -> Queries:
    """The queries on DuckDB."""
    import duckdb

    connection = duckdb.connect()
    if budget_mb is not None:
        connection.sql(f"set memory_limit = '{budget_mb}MB'")
        connection.sql(f"set temp_directory = '{folder.parent / 'spilled'}'")
    for each in folder.iterdir():
        suffix = "csv" if each.name.startswith("csv_") else "parquet"
        connection.sql(f"select * from '{each}/*.{suffix}'").create_view(each.name)

    def query(name: str) -> Callable[[], Any]:
        def run() -> Any:
            found = connection.sql(SQL[name]).to_arrow_table()
            if name.startswith("distinct"):
                return len(found.column(0).to_pylist())
            return found.column(0)[0].as_py() if name.endswith("filter") else found

        return run

    return {name: query(name) for name in SQL}


def _rows_of_polars(read: Callable[[str], Any], table: Callable[[Any], pa.Table], mark: str = "") -> Queries:
    import polars as pl

    value = pl.col("value")
    wanted = (pl.col("name") == "name-7") & (value > 0.5)

    def rows() -> Any:
        return read(f"{mark}rows")

    return {
        f"{mark}groupby": lambda: table(rows().group_by("group").agg(value.sum(), value.mean().alias("m"))),
        f"{mark}filter": lambda: rows().filter(wanted).select(pl.len()).collect(engine="streaming").item(),
        f"{mark}sort": lambda: table(rows().sort("value")),
        f"{mark}join": lambda: table(rows().join(read(f"{mark}keys"), on="id")),
    }


def of_polars(folder: Path) -> Queries:
    """The queries on Polars, by the faster of its two engines for them."""
    import polars as pl

    def read(name: str) -> Any:
        if name.startswith("csv_"):
            return pl.scan_csv(f"{folder / name}/*.csv")
        return pl.scan_parquet(f"{folder / name}/*.parquet")

    def table(lazy: Any) -> pa.Table:
        return lazy.collect(engine="streaming").to_arrow()

    value = pl.col("value")
    return {
        **_rows_of_polars(read, table),
        **_rows_of_polars(read, table, "csv_"),
        "distinct": lambda: len(table(read("rows").select("name").unique()).column(0).to_pylist()),
        "keys": lambda: table(read("rows").group_by("id").agg(value.sum()).sort("id")),
        "distinct_many": lambda: len(table(read("texts").select("customer").unique()).column(0).to_pylist()),
        "text_keys": lambda: table(read("texts").group_by("customer").agg(value.sum()).sort("customer")),
    }


def of_daft(folder: Path) -> Queries:
    """The queries on Daft."""
    import daft

    def read(name: str) -> Any:
        if name.startswith("csv_"):
            return daft.read_csv(f"{folder / name}/*.csv")
        return daft.read_parquet(f"{folder / name}/*.parquet")

    col = daft.col
    wanted = (col("name") == "name-7") & (col("value") > 0.5)
    total = col("value").sum().alias("sum")

    def of_rows(mark: str = "") -> Queries:
        def rows() -> Any:
            return read(f"{mark}rows")

        return {
            f"{mark}groupby": lambda: (
                rows().groupby("group").agg(total, col("value").mean().alias("mean")).to_arrow()
            ),
            f"{mark}filter": lambda: rows().where(wanted).count_rows(),
            f"{mark}sort": lambda: rows().sort("value").to_arrow(),
            f"{mark}join": lambda: rows().join(read(f"{mark}keys"), on="id").to_arrow(),
        }

    return {
        **of_rows(),
        **of_rows("csv_"),
        "distinct": lambda: len(read("rows").select("name").distinct().to_pydict()["name"]),
        "keys": lambda: read("rows").groupby("id").agg(total).sort("id").to_arrow(),
        "distinct_many": lambda: len(read("texts").select("customer").distinct().to_pydict()["customer"]),
        "text_keys": lambda: read("texts").groupby("customer").agg(total).sort("customer").to_arrow(),
    }


def size_of(answer: Any) -> int:
    """The number that must be the same on all sides: the count, or the rows of the table."""
    return int(answer if isinstance(answer, int) else answer.num_rows)


def measure(name: str, sides: dict[str, Queries], rounds: int) -> dict[str, float]:
    """Run a query on all sides in turn, and return the medians."""
    found: dict[str, list[float]] = {side: [] for side, queries in sides.items() if name in queries}
    for number in range(rounds + 1):
        answers = {}
        for side, times in found.items():
            begin = time.perf_counter()
            answers[side] = size_of(sides[side][name]())
            if number:
                times.append((time.perf_counter() - begin) * 1e3)
        if len(set(answers.values())) > 1:
            sys.exit(f"{name}: the answers differ: {answers}")
    return {side: round(statistics.median(times), 1) for side, times in found.items()}


def summary(name: str, found: dict[str, float]) -> str:
    """The medians of a query as a line of text."""
    best = min((value for side, value in found.items() if side not in ("skate", "ordinary")), default=0)
    texts = ", ".join(f"{side} {value:.0f}" for side, value in found.items())
    ratio = f"; skate / best {found['skate'] / best:.2f}" if best and "skate" in found else ""
    return f"{name}: {texts} ms{ratio}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure relational work beside DuckDB, Polars and Daft.")
    parser.add_argument("queries", nargs="*", default=list(SQL), metavar="QUERY")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sides", type=lambda text: text.split(","), help="only these: skate,duckdb")
    parser.add_argument("--budget-mb", type=int, help="memory of Skate's blocks and of DuckDB")
    parser.add_argument("--folder", type=Path, help="keep the tables there, or take those that are there")
    parser.add_argument("--json", type=Path, metavar="OUT.json")
    args = parser.parse_args()
    import skate as ray

    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        folder = args.folder or Path(scratch) / "tables"
        if not folder.exists():
            write(folder, args.queries, args.rows)
        store = {} if args.budget_mb is None else {"object_store_memory": args.budget_mb << 20}
        ray.init(num_cpus=2, log_to_driver=False, **store)
        sides = {"skate": of_skate(folder, True), "ordinary": of_skate(folder, False)}
        for peer, make in (
            ("duckdb", lambda folder: of_duckdb(folder, args.budget_mb)),
            ("polars", of_polars),
            ("daft", of_daft),
        ):
            try:
                print(peer, importlib.import_module(peer).__version__)
            except ImportError:
                print(peer, "is not installed")
            else:
                sides[peer] = make(folder)
        if args.sides is not None:
            sides = {name: queries for name, queries in sides.items() if name in args.sides}
        results = {}
        for name in args.queries:
            results[name] = found = measure(name, sides, args.rounds)
            print(summary(name, found), flush=True)
        ray.shutdown()
    if args.json is not None:
        args.json.write_text(json.dumps({"rows": args.rows, "ms": results}, indent=1))


if __name__ == "__main__":
    main()
