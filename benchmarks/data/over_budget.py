"""Relational work over a budget of memory beside DuckDB with the same limit: seconds, and the largest memory.

    python -m benchmarks.data.over_budget [QUERY ...] [--rows 20000000] [--budget-mb 512] [--json OUT.json]

The queries are filter, groupby, distinct, keys, sort and join of `relational.py`. Each runs twice for each side in a process of
its own, and its results are counted and dropped as they come. The memory is the PSS of that process and of those below it; see
`memory.py`. The budget is DuckDB's `memory_limit`; half of it is the size of Skate's object store, as there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.data.memory import STORE_SHARE, Watch
from benchmarks.data.relational import SQL, write
from benchmarks.processes import adopt_orphans

QUERIES = ("filter", "groupby", "distinct", "keys", "sort", "join")
SIDES = ("skate", "ordinary", "duckdb", "polars")


def skate(name: str, folder: Path, budget_mb: int, staged: bool) -> Callable[[], int]:
    """A query on Skate."""
    import skate as ray
    from skate.data.aggregate import Mean, Sum
    from skate.data.expressions import col

    ray.init(num_cpus=2, log_to_driver=False, object_store_memory=int((budget_mb << 20) * STORE_SHARE))
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.use_relational_engine = staged
    rows = ray.data.read_parquet(str(folder / "rows"))
    if name == "distinct":
        return lambda: len(rows.unique("name"))
    keys = ray.data.read_parquet(str(folder / "keys"))
    made = {
        "filter": lambda: rows.filter(expr=(col("name") == "name-7") & (col("value") > 0.5)),
        "groupby": lambda: rows.groupby("group").aggregate(Sum("value"), Mean("value")),
        "keys": lambda: rows.groupby("id").aggregate(Sum("value")),
        "sort": lambda: rows.sort("value"),
        "join": lambda: rows.join(keys, "inner", 16, on=("id",)),
    }[name]()
    return lambda: sum(table.num_rows for table in made._tables())


def duckdb(name: str, folder: Path, budget_mb: int) -> Callable[[], int]:
    """A query on DuckDB."""
    import duckdb

    connection = duckdb.connect()
    connection.sql(f"set memory_limit = '{budget_mb}MiB'")
    connection.sql(f"set temp_directory = '{folder.parent / 'spilled'}'")
    for each in ("rows", "keys"):
        connection.sql(f"select * from '{folder / each}/*.parquet'").create_view(each)
    text = SQL[name].replace("count(*) from rows where", "* from rows where")
    return lambda: sum(batch.num_rows for batch in connection.sql(text).to_arrow_reader(1 << 16))


def polars(name: str, folder: Path) -> Callable[[], int]:
    """A query on Polars, which has no limit."""
    import polars as pl

    rows, keys = (pl.scan_parquet(f"{folder / each}/*.parquet") for each in ("rows", "keys"))
    value = pl.col("value")
    lazy = {
        "filter": rows.filter((pl.col("name") == "name-7") & (value > 0.5)),
        "groupby": rows.group_by("group").agg(value.sum(), value.mean().alias("m")),
        "distinct": rows.select("name").unique(),
        "keys": rows.group_by("id").agg(value.sum()).sort("id"),
        "sort": rows.sort("value"),
        "join": rows.join(keys, on="id"),
    }[name]
    return lambda: sum(piece.height for piece in lazy.collect_batches(engine="streaming"))


def run(name: str, side: str, folder: Path, budget_mb: int) -> dict[str, Any]:
    """Run a query in this process."""
    adopt_orphans()
    if side == "duckdb":
        query = duckdb(name, folder, budget_mb)
    elif side == "polars":
        query = polars(name, folder)
    else:
        query = skate(name, folder, budget_mb, side == "skate")
    watch = Watch(0.02)
    seconds = []
    for _ in range(2):  # the first run loads libraries
        begin = time.perf_counter()
        rows = query()
        seconds.append(round(time.perf_counter() - begin, 2))
    watch.end()
    times = {"first_seconds": seconds[0], "seconds": seconds[1]}
    return {"rows": rows, **times, "peak_mb": watch.peak >> 20, **watch.parts}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure relational work over a budget of memory.")
    parser.add_argument("queries", nargs="*", default=list(QUERIES), metavar="QUERY")
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--budget-mb", type=int, default=512)
    parser.add_argument("--sides", type=lambda text: text.split(","), default=list(SIDES))
    parser.add_argument("--folder", type=Path, help="keep the tables there, or take those that are there")
    parser.add_argument("--json", type=Path, metavar="OUT.json")
    parser.add_argument("--here", action="store_true", help="run one query of one side in this process")
    args = parser.parse_args()
    if args.here:
        print(json.dumps(run(args.queries[0], args.sides[0], args.folder, args.budget_mb)), flush=True)
        return
    results: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        folder = args.folder or Path(scratch) / "tables"
        if not folder.exists():
            write(folder, ["groupby"], args.rows)
        for name in args.queries:
            for side in args.sides:
                options = ["--sides", side, "--folder", str(folder), "--budget-mb", str(args.budget_mb)]
                command = [sys.executable, "-m", "benchmarks.data.over_budget", name, "--here", *options]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
                found = json.loads(lines[-1]) if done.returncode == 0 else {"error": lines[-1][:200]}
                results.setdefault(name, {})[side] = found
                print(name, side, found, flush=True)
    if args.json is not None:
        args.json.write_text(
            json.dumps({"rows": args.rows, "budget_mb": args.budget_mb, **results}, indent=1)
        )


if __name__ == "__main__":
    main()
