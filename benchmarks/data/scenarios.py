"""Measurements of datasets: each scenario on one target, in a process of its own; figures are milliseconds.

A scenario gives cases. A case is run once (that is the figure "first": libraries load, workers start), then until its median is
steady, and then asked for its answer, which must be the same on every target. `data` is `ray.data` of the target, or None where
bare pyarrow (or NumPy) does the work, as a program without any framework would write it.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.session import INIT

ROWS = 2_000_000
KEYS = 200_000
SMALL_FILES = 10_000
#: Rows in millions, for figures that ask how the time of a row grows.
GROWTH, GROWTH_FULL = (1, 10), (1, 10, 50)
#: What one case may take in all, and what a size that is foretold to take longer is left out for.
SECONDS_MAX = 60.0


class Reach(NamedTuple):
    """The target of a figure: at most so many ms, times faster than Ray, times the bare time; 0 for no target."""

    ms: float = 0
    ray: float = 3
    bare: float = 2


#: By figure; all others are there to be looked at.
REACH = {
    "map_filter_1000": Reach(20, 50, 0),
    "sum_1m": Reach(0, 20, 0),
    **dict.fromkeys(
        ("scan_2m", "filter_2m", "groupby_2m", "sort_2m", "shuffle_2m", "join_2m", "actors_2m", "write_2m"),
        Reach(),
    ),
    "torch_batches_2m": Reach(bare=1.5),
    "small_files_10000": Reach(),
}  # fmt: skip


class Case(NamedTuple):
    """Something to be timed, and what it finds."""

    work: Callable[[], object]
    answer: Callable[[], str]


Cases = dict[str, Case]


def write_files(folder: Path, names: list[str]) -> None:
    """The files that some scenarios read."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    random = np.random.default_rng(1)
    table = pa.table(
        {
            "id": random.permutation(ROWS) % KEYS,
            "group": random.integers(0, 1000, ROWS),
            "value": random.random(ROWS),
            "name": pa.array([f"name-{number}" for number in range(1000)]).take(
                pa.array(random.integers(0, 1000, ROWS))
            ),
        }
    )
    (folder / "rows").mkdir()
    for at in range(8):
        pq.write_table(table.slice(at * ROWS // 8, ROWS // 8), folder / "rows" / f"{at}.parquet")
    pq.write_table(pa.table({"id": np.arange(KEYS), "other": random.random(KEYS)}), folder / "keys.parquet")
    if "small_files" in names:
        (folder / "small").mkdir()
        for at in range(SMALL_FILES):
            pq.write_table(table.slice(at * 100, 100), folder / "small" / f"{at}.parquet")


def timed(work: Callable[[], object], most: int = 7, seconds: float = 10.0) -> tuple[float, float]:
    """Milliseconds of the first run, and the median of those after it."""
    begin = time.perf_counter()
    work()
    first = (time.perf_counter() - begin) * 1000
    found: list[float] = []
    begin = time.perf_counter()
    while len(found) < most:
        start = time.perf_counter()
        work()
        now = time.perf_counter()
        found.append((now - start) * 1000)
        if now - begin > SECONDS_MAX / 2 or (len(found) >= 3 and now - begin > seconds):
            break
    return first, statistics.median(found)


# -- what is the same on every target


def consumed(dataset: Any) -> int:
    """Every row of a dataset, made and counted as tables, without keeping any."""
    return sum(batch.num_rows for batch in tables_of(dataset))


def tables_of(dataset: Any) -> Iterable[Any]:
    """The blocks of a dataset as tables."""
    found: Iterable[Any] = dataset.iter_batches(batch_size=None, batch_format="pyarrow")
    return found


def digest(tables: Iterable[Any], ordered_by: str = "") -> str:
    """The rows, and the sum or the total length of each column; whether they are in order, where they should be."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    whole = pa.concat_tables(
        [each.replace_schema_metadata(None) for each in tables], promote_options="permissive"
    )
    said = [f"{whole.num_rows} rows"]
    for name in sorted(whole.column_names):
        column = whole.column(name)
        text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        said.append(f"{name} {float(pc.sum(pc.utf8_length(column) if text else column).as_py()):.7g}")
    if ordered_by:
        values = whole.column(ordered_by).to_numpy()
        said.append("in order" if bool(np.all(values[1:] >= values[:-1])) else "not in order")
    return ", ".join(said)


def rows_of_parquet(data: Any, files: Path, columns: list[str] | None = None) -> Any:
    """The 2 million rows: a dataset, or a table."""
    if data is not None:
        return data.read_parquet(str(files / "rows"), columns=columns)
    import pyarrow.parquet as pq

    return pq.read_table(files / "rows", columns=columns)


def over_all(
    data: Any, files: Path, bare: Callable[[Any], Any], ours: Callable[[Any], Any], by: str = ""
) -> Case:
    """A case that makes 2 million rows of 2 million rows."""

    def work() -> Any:
        rows = rows_of_parquet(data, files)
        return bare(rows).num_rows if data is None else consumed(ours(rows))

    def answer() -> str:
        rows = rows_of_parquet(data, files)
        return digest([bare(rows)] if data is None else tables_of(ours(rows)), by)

    return Case(work, answer)


# -- the scenarios


def map_filter(data: Any, files: Path, full: bool) -> Cases:
    """1,000 rows through a function and a filter."""

    def work() -> Any:
        if data is None:
            rows = [{"id": at * 2} for at in range(1000)]
            return [row for row in rows if row["id"] % 3 == 0]
        made = data.range(1000).map(lambda row: {"id": row["id"] * 2})
        return made.filter(lambda row: row["id"] % 3 == 0).take_all()

    return {"map_filter_1000": Case(work, lambda: str(sorted(row["id"] for row in work())))}


def total(data: Any, files: Path, full: bool) -> Cases:
    """The sum of a column of a million rows."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    def work() -> Any:
        rows = 1_000_000
        return pc.sum(pa.array(np.arange(rows))).as_py() if data is None else data.range(rows).sum("id")

    return {"sum_1m": Case(work, lambda: str(work()))}


def scan(data: Any, files: Path, full: bool) -> Cases:
    """2 million rows of Parquet."""
    return {"scan_2m": over_all(data, files, lambda table: table, lambda made: made)}


def filtered(data: Any, files: Path, full: bool) -> Cases:
    """2 million rows of Parquet, those kept whose string is one of a thousand."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    def work() -> Any:
        if data is None:
            return pq.read_table(files / "rows", filters=pc.field("name") == "name-7").num_rows
        col = importlib.import_module(f"{data.__name__}.expressions").col
        return rows_of_parquet(data, files).filter(expr=col("name") == "name-7").count()

    return {"filter_2m": Case(work, lambda: str(work()))}


def groupby(data: Any, files: Path, full: bool) -> Cases:
    """Sums of 2 million rows by a thousand keys."""

    def work() -> Any:
        rows = rows_of_parquet(data, files)
        if data is None:
            return rows.group_by("group").aggregate([("value", "sum")]).to_pylist()
        return rows.groupby("group").sum("value").take_all()

    def answer() -> str:
        found = work()
        total = sum(value for row in found for name, value in row.items() if name != "group")
        return f"{len(found)} groups, {sum(row['group'] for row in found)}, {total:.7g}"

    return {"groupby_2m": Case(work, answer)}


def sort(data: Any, files: Path, full: bool) -> Cases:
    """2 million rows in the order of a float."""
    case = over_all(
        data, files, lambda table: table.sort_by("value"), lambda made: made.sort("value"), "value"
    )
    return {"sort_2m": case}


def shuffle(data: Any, files: Path, full: bool) -> Cases:
    """2 million rows in random order."""
    import numpy as np

    def bare(table: Any) -> Any:
        return table.take(np.random.default_rng().permutation(ROWS))

    return {"shuffle_2m": over_all(data, files, bare, lambda made: made.random_shuffle(), "value")}


def join(data: Any, files: Path, full: bool) -> Cases:
    """2 million rows beside 200,000 by their key."""
    import pyarrow.parquet as pq

    def bare(table: Any) -> Any:
        return table.join(pq.read_table(files / "keys.parquet"), "id", join_type="inner")

    def ours(made: Any) -> Any:
        return made.join(data.read_parquet(str(files / "keys.parquet")), "inner", 4, on=("id",))

    return {"join_2m": over_all(data, files, bare, ours)}


def torch_batches(data: Any, files: Path, full: bool) -> Cases:
    """2 million rows as tensors, 4,096 rows at a time."""
    import torch

    def batches() -> Iterable[dict[str, Any]]:
        rows = rows_of_parquet(data, files, ["group", "value"])
        if data is not None:
            yield from rows.iter_torch_batches(batch_size=4096)
            return
        for batch in rows.combine_chunks().to_batches(4096):
            arrays = zip(batch.schema.names, batch.columns, strict=True)
            yield {name: torch.as_tensor(column.to_numpy().copy()) for name, column in arrays}

    def answer() -> str:
        found = [
            (len(batch["value"]), float(batch["value"].sum()), int(batch["group"].sum()))
            for batch in batches()
        ]
        rows, values, groups = (sum(column) for column in zip(*found, strict=True))
        return f"{rows} rows, {values:.7g}, {groups}"

    return {"torch_batches_2m": Case(lambda: sum(len(batch["value"]) for batch in batches()), answer)}


class Doubled:
    """A model, as far as this measurement goes."""

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"value": batch["value"] * 2}


def actors(data: Any, files: Path, full: bool) -> Cases:
    """2 million rows through a class in two actors, which start each time."""
    import pyarrow as pa

    def made() -> Any:
        rows = rows_of_parquet(data, files, ["value"])
        if data is None:
            return pa.table(Doubled()({"value": rows.column("value").to_numpy()}))
        return rows.map_batches(Doubled, compute=data.ActorPoolStrategy(size=2), batch_size=65536)

    if data is None:
        return {"actors_2m": Case(made, lambda: digest([made()]))}
    return {"actors_2m": Case(lambda: consumed(made()), lambda: digest(tables_of(made())))}


def write(data: Any, files: Path, full: bool) -> Cases:
    """2 million rows read and written as Parquet."""
    import shutil

    import pyarrow.parquet as pq

    out = files / f"out-{'arrow' if data is None else data.__name__}"

    def work() -> None:
        shutil.rmtree(out, ignore_errors=True)
        rows = rows_of_parquet(data, files)
        if data is None:
            out.mkdir()
            pq.write_table(rows, out / "all.parquet")
        else:
            rows.write_parquet(str(out))

    def answer() -> str:
        found = digest([pq.read_table(out)])
        shutil.rmtree(out, ignore_errors=True)
        return found

    return {"write_2m": Case(work, answer)}


def small_files(data: Any, files: Path, full: bool) -> Cases:
    """10,000 Parquet files of 100 rows."""
    import pyarrow.dataset as ds

    def tables() -> Iterable[Any]:
        if data is None:
            return [ds.dataset(files / "small").to_table()]
        return tables_of(data.read_parquet(str(files / "small")))

    return {"small_files_10000": Case(lambda: sum(map(len, tables())), lambda: digest(tables()))}


def groups_of(batch: dict[str, Any]) -> dict[str, Any]:
    """Two columns of 8 bytes: 50 million rows are 800 MB."""
    return {"group": batch["id"] % 1000, "value": batch["id"] * 2}


def growth(data: Any, files: Path, full: bool) -> Cases:
    """Rows from 1 to 50 million through a function of batches, then summed by a thousand keys; and shuffled."""
    import numpy as np
    import pyarrow as pa

    def sums(rows: int) -> Any:
        if data is None:
            table = pa.table(groups_of({"id": np.arange(rows)}))
            return table.group_by("group").aggregate([("value", "sum")]).to_pylist()
        return data.range(rows).map_batches(groups_of).groupby("group").sum("value").take_all()

    def sums_answer(rows: int) -> str:
        return str(sum(value for row in sums(rows) for name, value in row.items() if name != "group"))

    def shuffled(rows: int) -> Iterable[Any]:
        if data is None:
            return [pa.table({"id": np.arange(rows)}).take(np.random.default_rng().permutation(rows))]
        return tables_of(data.range(rows).random_shuffle())

    found: Cases = {}
    for millions in GROWTH_FULL if full else GROWTH:
        rows = millions * 1_000_000
        found[f"growth_sums_{millions}m"] = Case(
            functools.partial(sums, rows), functools.partial(sums_answer, rows)
        )
    for millions in GROWTH_FULL if full else GROWTH:
        rows = millions * 1_000_000
        found[f"growth_shuffle_{millions}m"] = Case(
            functools.partial(lambda rows: sum(map(len, shuffled(rows))), rows),
            functools.partial(lambda rows: digest(shuffled(rows), "id"), rows),
        )
    return found


SCENARIOS: dict[str, Callable[[Any, Path, bool], Cases]] = {
    each.__name__: each
    for each in (
        map_filter, total, scan, filtered, groupby, sort, shuffle, join, torch_batches, actors, write, small_files, growth,
    )
}  # fmt: skip


def measure(cases: Cases, most: int) -> dict[str, Any]:
    """The figures of all cases, and their answers as notes; a size that would take too long is left out."""
    figures: dict[str, float] = {}
    notes: dict[str, str] = {}
    for key, case in cases.items():
        family, _, size = key.rpartition("_")
        if family.startswith("growth"):
            before = max(
                (each for each in figures if each.startswith(family) and "/" not in each),
                default="",
                key=_size_of,
            )
            if before and figures[before] / 1000 * _size_of(key) / _size_of(before) > SECONDS_MAX:
                notes[key] = f"left out: {before} took {figures[before] / 1000:.1f} s"
                continue
        figures[f"{key}/first"], figures[key] = timed(case.work, 3 if "growth" in key else most)
        notes[f"answer {key}"] = case.answer()
    return {"figures": figures, "notes": notes}


def _size_of(key: str) -> int:
    return int(key.rpartition("_")[2].rstrip("m"))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("--target", default="skate", choices=("skate", "ray", "arrow"))
    parser.add_argument("--files", type=Path, required=True)
    parser.add_argument("--full", action="store_true")
    args = parser.parse_args()
    data: Any = None
    if args.target != "arrow":
        target = importlib.import_module(args.target)
        data = importlib.import_module(f"{args.target}.data")
        target.init(**INIT)
        context = data.DataContext.get_current()
        context.enable_progress_bars = context.print_on_execution_start = False
    cases = SCENARIOS[args.scenario](data, args.files, args.full)
    print(json.dumps(measure(cases, 3 if args.target == "ray" else 7)), flush=True)
    if data is not None:
        target.shutdown()


if __name__ == "__main__":
    main()
