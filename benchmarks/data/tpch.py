"""Queries of TPC-H on Skate beside DuckDB and Polars: in turn, in one process, over Parquet files made by DuckDB's generator.

    python -m benchmarks.data.tpch FOLDER [QUERY ...] [--rounds 7] [--sides SIDE,...] [--generator PYTHON] [--json OUT.json]

`tpch_tables.py` in this folder writes FOLDER, and says what it needs; `--generator` is a Python that has it, for a FOLDER
that does not exist. The queries are those that Data's methods express: 1, 3, 4, 5, 6, 10, 12 and 18. Polars gets the same
steps, DuckDB the text of the query. All answers are compared with the official ones. Each figure is a median of milliseconds
after one round that does not count.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import functools
import io
import json
import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from benchmarks.data.relational import Queries, measure, summary

DAY = datetime.date
#: By name, the aggregation and its column.
Made = dict[str, tuple[str, str | None]]


class Rows(Protocol):
    """Rows of one library, with the steps that the queries consist of."""

    def filter(self, condition: Any) -> Rows: ...

    def made(self, name: str, value: Any) -> Rows: ...

    def join(self, other: Rows, on: Sequence[str], right_on: Sequence[str], semi: bool = False) -> Rows: ...

    def group(self, keys: Sequence[str], made: Made) -> Rows: ...

    def sort(self, by: Sequence[str], down: Sequence[bool]) -> Rows: ...

    def first(self, rows: int) -> Rows: ...

    def table(self, columns: Sequence[str]) -> pa.Table: ...


class OfSkate:
    """Rows of Skate."""

    def __init__(self, ds: Any) -> None:
        self.ds = ds

    def filter(self, condition: Any) -> OfSkate:
        return OfSkate(self.ds.filter(expr=condition))

    def made(self, name: str, value: Any) -> OfSkate:
        return OfSkate(self.ds.with_column(name, value))

    def join(self, other: OfSkate, on: Sequence[str], right_on: Sequence[str], semi: bool = False) -> OfSkate:
        kind = "left_semi" if semi else "inner"
        return OfSkate(self.ds.join(other.ds, kind, 8, on=tuple(on), right_on=tuple(right_on)))

    def group(self, keys: Sequence[str], made: Made) -> OfSkate:
        from skate.data.aggregate import Count, Mean, Sum

        kinds: dict[str, Any] = {"sum": Sum, "mean": Mean, "count": Count}
        found = [kinds[kind](on, alias_name=name) for name, (kind, on) in made.items()]
        return OfSkate(self.ds.groupby(list(keys) or None).aggregate(*found))

    def sort(self, by: Sequence[str], down: Sequence[bool]) -> OfSkate:
        return OfSkate(self.ds.sort(list(by), descending=list(down)))

    def first(self, rows: int) -> OfSkate:
        return OfSkate(self.ds.limit(rows))

    def table(self, columns: Sequence[str]) -> pa.Table:
        return pa.concat_tables(list(self.ds.iter_batches(batch_size=None, batch_format="pyarrow"))).select(
            list(columns)
        )


class OfPolars:
    """Rows of Polars."""

    def __init__(self, lazy: Any) -> None:
        self.lazy = lazy

    def filter(self, condition: Any) -> OfPolars:
        return OfPolars(self.lazy.filter(condition))

    def made(self, name: str, value: Any) -> OfPolars:
        return OfPolars(self.lazy.with_columns(value.alias(name)))

    def join(
        self, other: OfPolars, on: Sequence[str], right_on: Sequence[str], semi: bool = False
    ) -> OfPolars:
        kind = "semi" if semi else "inner"
        return OfPolars(self.lazy.join(other.lazy, left_on=list(on), right_on=list(right_on), how=kind))

    def group(self, keys: Sequence[str], made: Made) -> OfPolars:
        import polars as pl

        found = [
            (pl.len() if on is None else getattr(pl.col(on), kind)()).alias(name)
            for name, (kind, on) in made.items()
        ]
        return OfPolars(self.lazy.group_by(list(keys)).agg(found) if keys else self.lazy.select(found))

    def sort(self, by: Sequence[str], down: Sequence[bool]) -> OfPolars:
        return OfPolars(self.lazy.sort(list(by), descending=list(down)))

    def first(self, rows: int) -> OfPolars:
        return OfPolars(self.lazy.head(rows))

    def table(self, columns: Sequence[str]) -> pa.Table:
        return self.lazy.select(list(columns)).collect(engine="streaming").to_arrow()


class Library(Protocol):
    """The tables, columns and products of decimals of one library."""

    def read(self, name: str) -> Any: ...

    def col(self, name: str) -> Any: ...

    def product(self, left: Any, left_scale: int, right: Any, right_scale: int) -> Any: ...


def price(of: Library) -> Any:
    """The price of an item that was sold."""
    return of.product(of.col("l_extendedprice"), 2, 1 - of.col("l_discount"), 2)


def q1(of: Library) -> pa.Table:
    read, col = of.read, of.col
    found = read("lineitem").filter(col("l_shipdate") <= DAY(1998, 9, 2)).made("price", price(of))
    found = found.made("charge", of.product(col("price"), 4, 1 + col("l_tax"), 2))
    keys = ["l_returnflag", "l_linestatus"]
    made: Made = {
        "sum_qty": ("sum", "l_quantity"),
        "sum_base_price": ("sum", "l_extendedprice"),
        "sum_disc_price": ("sum", "price"),
        "sum_charge": ("sum", "charge"),
        "avg_qty": ("mean", "l_quantity"),
        "avg_price": ("mean", "l_extendedprice"),
        "avg_disc": ("mean", "l_discount"),
        "count_order": ("count", None),
    }
    return found.group(keys, made).sort(keys, [False, False]).table([*keys, *made])


def q3(of: Library) -> pa.Table:
    read, col = of.read, of.col
    customers = read("customer").filter(col("c_mktsegment") == "BUILDING")
    orders = read("orders").filter(col("o_orderdate") < DAY(1995, 3, 15))
    chosen = orders.join(customers, ["o_custkey"], ["c_custkey"], semi=True)
    lines = read("lineitem").filter(col("l_shipdate") > DAY(1995, 3, 15))
    found = lines.join(chosen, ["l_orderkey"], ["o_orderkey"]).made("price", price(of))
    found = found.group(["l_orderkey", "o_orderdate", "o_shippriority"], {"revenue": ("sum", "price")})
    found = found.sort(["revenue", "o_orderdate"], [True, False]).first(10)
    return found.table(["l_orderkey", "revenue", "o_orderdate", "o_shippriority"])


def q4(of: Library) -> pa.Table:
    read, col = of.read, of.col
    when = col("o_orderdate")
    orders = read("orders").filter((when >= DAY(1993, 7, 1)) & (when < DAY(1993, 10, 1)))
    late = read("lineitem").filter(col("l_commitdate") < col("l_receiptdate"))
    found = orders.join(late, ["o_orderkey"], ["l_orderkey"], semi=True)
    found = found.group(["o_orderpriority"], {"order_count": ("count", None)})
    return found.sort(["o_orderpriority"], [False]).table(["o_orderpriority", "order_count"])


def q5(of: Library) -> pa.Table:
    read, col = of.read, of.col
    when = col("o_orderdate")
    regions = read("region").filter(col("r_name") == "ASIA")
    nations = read("nation").join(regions, ["n_regionkey"], ["r_regionkey"], semi=True)
    suppliers = read("supplier").join(nations, ["s_nationkey"], ["n_nationkey"])
    orders = read("orders").filter((when >= DAY(1994, 1, 1)) & (when < DAY(1995, 1, 1)))
    bought = orders.join(read("customer"), ["o_custkey"], ["c_custkey"])
    found = read("lineitem").join(bought, ["l_orderkey"], ["o_orderkey"])
    found = found.join(suppliers, ["l_suppkey", "c_nationkey"], ["s_suppkey", "s_nationkey"])
    found = found.made("price", price(of)).group(["n_name"], {"revenue": ("sum", "price")})
    return found.sort(["revenue"], [True]).table(["n_name", "revenue"])


def q6(of: Library) -> pa.Table:
    read, col = of.read, of.col
    when, discount = col("l_shipdate"), col("l_discount")
    found = read("lineitem").filter(
        (when >= DAY(1994, 1, 1))
        & (when < DAY(1995, 1, 1))
        & (discount >= Decimal("0.05"))
        & (discount <= Decimal("0.07"))
        & (col("l_quantity") < 24)
    )
    found = found.made("price", of.product(col("l_extendedprice"), 2, discount, 2))
    return found.group([], {"revenue": ("sum", "price")}).table(["revenue"])


def q10(of: Library) -> pa.Table:
    read, col = of.read, of.col
    when = col("o_orderdate")
    orders = read("orders").filter((when >= DAY(1993, 10, 1)) & (when < DAY(1994, 1, 1)))
    lines = read("lineitem").filter(col("l_returnflag") == "R")
    found = lines.join(orders, ["l_orderkey"], ["o_orderkey"]).made("price", price(of))
    # A customer's other columns follow from the key, so they are added to the few groups that are left.
    found = found.group(["o_custkey"], {"revenue": ("sum", "price")})
    found = found.sort(["revenue"], [True]).first(20)
    found = found.join(read("customer"), ["o_custkey"], ["c_custkey"])
    found = found.join(read("nation"), ["c_nationkey"], ["n_nationkey"]).sort(["revenue"], [True])
    columns = ["o_custkey", "c_name", "revenue", "c_acctbal", "n_name", "c_address", "c_phone"]
    return found.table([*columns, "c_comment"])


def q12(of: Library) -> pa.Table:
    read, col = of.read, of.col
    arrived, promised = col("l_receiptdate"), col("l_commitdate")
    lines = read("lineitem").filter(
        col("l_shipmode").is_in(["MAIL", "SHIP"])
        & (promised < arrived)
        & (col("l_shipdate") < promised)
        & (arrived >= DAY(1994, 1, 1))
        & (arrived < DAY(1995, 1, 1))
    )
    found = read("orders").join(lines, ["o_orderkey"], ["l_orderkey"])
    found = found.made("high", col("o_orderpriority").is_in(["1-URGENT", "2-HIGH"]))
    found = found.made("low", ~col("high"))
    made: Made = {"high_line_count": ("sum", "high"), "low_line_count": ("sum", "low")}
    return found.group(["l_shipmode"], made).sort(["l_shipmode"], [False]).table(["l_shipmode", *made])


def q18(of: Library) -> pa.Table:
    read, col = of.read, of.col
    sums = read("lineitem").group(["l_orderkey"], {"quantity": ("sum", "l_quantity")})
    orders = read("orders").join(
        sums.filter(col("quantity") > 300), ["o_orderkey"], ["l_orderkey"], semi=True
    )
    found = orders.join(read("customer"), ["o_custkey"], ["c_custkey"])
    found = read("lineitem").join(found, ["l_orderkey"], ["o_orderkey"])
    keys = ["c_name", "o_custkey", "l_orderkey", "o_orderdate", "o_totalprice"]
    found = found.group(keys, {"sum": ("sum", "l_quantity")})
    return found.sort(["o_totalprice", "o_orderdate"], [True, False]).first(100).table([*keys, "sum"])


ALL = {1: q1, 3: q3, 4: q4, 5: q5, 6: q6, 10: q10, 12: q12, 18: q18}


def queries(of: Library) -> Queries:
    """The queries, over the tables of one library."""
    return {f"q{number}": functools.partial(query, of) for number, query in ALL.items()}


class SkateLibrary:
    """Skate, with Polars or without."""

    def __init__(self, folder: Path, staged: bool) -> None:
        from skate.data.expressions import col

        self.folder = folder
        self.staged = staged
        self.col = col

    def read(self, name: str) -> OfSkate:
        import skate as ray

        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.use_relational_engine = self.staged
        return OfSkate(ray.data.read_parquet(str(self.folder / name)))

    def product(self, left: Any, left_scale: int, right: Any, right_scale: int) -> Any:
        """Arrow's products have the digits of both factors, at most 38: so the factors get no more than they need."""
        left, right = left.cast(pa.decimal128(18, left_scale)), right.cast(pa.decimal128(18, right_scale))
        return left * right


class PolarsLibrary:
    """Polars."""

    def __init__(self, folder: Path) -> None:
        import polars as pl

        self.folder = folder
        self.polars = pl
        self.col = pl.col

    def read(self, name: str) -> OfPolars:
        return OfPolars(self.polars.scan_parquet(f"{self.folder / name}/*.parquet"))

    def product(self, left: Any, left_scale: int, right: Any, right_scale: int) -> Any:
        """Polars rounds a product to the larger scale of its factors: so both get the scale of the exact product."""
        kind = self.polars.Decimal(38, left_scale + right_scale)
        return left.cast(kind) * right.cast(kind)


def of_duckdb(folder: Path) -> Queries:
    """The queries on DuckDB."""
    import duckdb

    connection = duckdb.connect()
    for each in folder.iterdir():
        if any(each.glob("*.parquet")):
            connection.sql(f"select * from '{each}/*.parquet'").create_view(each.name)

    def query(number: int) -> Callable[[], Any]:
        text = (folder / "queries" / f"{number}.txt").read_text()
        return lambda: connection.sql(text).to_arrow_table()

    return {f"q{number}": query(number) for number in ALL}


def check(found: pa.Table, answer: str) -> None:
    """Raise ValueError unless a result is the official answer."""
    wanted = list(csv.reader(io.StringIO(answer), delimiter="|"))[1:]
    rows = [list(row.values()) for row in found.to_pylist()]
    if len(rows) != len(wanted):
        raise ValueError(f"{len(rows)} rows, not {len(wanted)}")
    for mine, yours in zip(rows, wanted, strict=True):
        for value, text in zip(mine, yours, strict=True):
            number = isinstance(value, (int, float, Decimal))
            if not (math.isclose(value, float(text), rel_tol=1e-9) if number else str(value) == text):
                raise ValueError(f"{value!r}, not {text}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure queries of TPC-H beside DuckDB and Polars.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("queries", nargs="*", type=int, default=list(ALL), metavar="QUERY")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sides", type=lambda text: text.split(","), default=None, help="only these")
    parser.add_argument("--generator", help="a Python that makes the tables if they are not there")
    parser.add_argument("--json", type=Path, metavar="OUT.json")
    args = parser.parse_args()
    if not args.folder.exists():
        if args.generator is None:
            sys.exit(f"{args.folder} does not exist; make it by tpch_tables.py, or name a --generator")
        script = str(Path(__file__).with_name("tpch_tables.py"))
        subprocess.run([args.generator, script, str(args.folder)], check=True)
    import skate as ray

    ray.init(num_cpus=2, log_to_driver=False)
    made: dict[str, Callable[[], Queries]] = {
        "skate": lambda: queries(SkateLibrary(args.folder, True)),
        "ordinary": lambda: queries(SkateLibrary(args.folder, False)),
        "duckdb": lambda: of_duckdb(args.folder),
        "polars": lambda: queries(PolarsLibrary(args.folder)),
    }
    sides = {name: make() for name, make in made.items() if args.sides is None or name in args.sides}
    results = {}
    for number in args.queries:
        answer = args.folder / "answers" / f"{number}.txt"
        for side, all_queries in sides.items():
            if answer.exists():
                try:
                    check(all_queries[f"q{number}"](), answer.read_text())
                except ValueError as error:
                    sys.exit(f"query {number} on {side}: {error}")
        results[f"q{number}"] = found = measure(f"q{number}", sides, args.rounds)
        print(summary(f"q{number}", found), flush=True)
    ray.shutdown()
    if args.json is not None:
        args.json.write_text(json.dumps({"ms": results}, indent=1))


if __name__ == "__main__":
    main()
