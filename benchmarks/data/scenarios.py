"""What is measured of datasets: each scenario on one target, in a process of its own; figures are milliseconds.

A figure is the median of several runs in a process that has its libraries loaded and has run the same once before. Scenarios
take (data, files, full), `data` being `ray.data` of the target, or None where bare pyarrow does the work.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.session import INIT

ROWS = 2_000_000
KEYS = 200_000
SMALL_FILES = 10_000
#: What the project asks of itself.
REACH = {
    "map_filter_1000": "≤ 20 ms, ≥ 50x Ray",
    "sum_1m": "≥ 20x Ray",
    **dict.fromkeys(
        ("scan_filter_2m", "groupby_2m", "sort_2m", "shuffle_2m", "join_2m", "write_2m"),
        "≥ 3x Ray, ≤ 2x arrow",
    ),
    "torch_batches_2m": "≥ 3x Ray",
    "actors_2m": "≥ 3x Ray",
}


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


def milliseconds(work: Callable[[], object], most: int = 7, seconds: float = 10.0) -> float:
    """The median time of a piece of work, after one run that is not counted."""
    work()
    found: list[float] = []
    begin = time.perf_counter()
    while len(found) < 3 or (len(found) < most and time.perf_counter() - begin < seconds):
        start = time.perf_counter()
        work()
        found.append((time.perf_counter() - start) * 1000)
    return statistics.median(found)


def consumed(dataset: Any) -> int:
    """Every row of a dataset, made and counted as tables, without keeping any."""
    return sum(batch.num_rows for batch in dataset.iter_batches(batch_size=None, batch_format="pyarrow"))


def _table(files: Path) -> Any:
    import pyarrow.parquet as pq

    return pq.read_table(files / "rows")


def map_filter(data: Any, files: Path, full: bool) -> dict[str, float]:
    """1,000 rows through a function and a filter."""

    def work() -> Any:
        if data is None:
            rows = [{"id": at * 2} for at in range(1000)]
            return [row for row in rows if row["id"] % 3 == 0]
        made = data.range(1000).map(lambda row: {"id": row["id"] * 2})
        return made.filter(lambda row: row["id"] % 3 == 0).take_all()

    return {"map_filter_1000": milliseconds(work)}


def total(data: Any, files: Path, full: bool) -> dict[str, float]:
    """The sum of a column of a million rows, and of 50 million."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    def work(rows: int) -> Any:
        return pc.sum(pa.array(np.arange(rows))) if data is None else data.range(rows).sum("id")

    found = {"sum_1m": milliseconds(functools.partial(work, 1_000_000))}
    for millions in (10, 50) if full else (10,):
        found[f"sum_{millions}m"] = milliseconds(functools.partial(work, millions * 1_000_000), 3)
    return found


def scan(data: Any, files: Path, full: bool) -> dict[str, float]:
    """2 million rows of Parquet, those kept whose string is one of a thousand."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    def work() -> Any:
        if data is None:
            return pq.read_table(files / "rows", filters=pc.field("name") == "name-7").num_rows
        from importlib import import_module

        col = import_module(f"{data.__name__}.expressions").col
        return data.read_parquet(str(files / "rows")).filter(expr=col("name") == "name-7").count()

    return {"scan_filter_2m": milliseconds(work)}


def groupby(data: Any, files: Path, full: bool) -> dict[str, float]:
    """Sums of 2 million rows by a thousand keys."""

    def work() -> Any:
        if data is None:
            return _table(files).group_by("group").aggregate([("value", "sum")]).num_rows
        return len(data.read_parquet(str(files / "rows")).groupby("group").sum("value").take_all())

    return {"groupby_2m": milliseconds(work)}


def sort(data: Any, files: Path, full: bool) -> dict[str, float]:
    """2 million rows in the order of a float."""

    def work() -> Any:
        if data is None:
            return _table(files).sort_by("value").num_rows
        return consumed(data.read_parquet(str(files / "rows")).sort("value"))

    return {"sort_2m": milliseconds(work)}


def shuffle(data: Any, files: Path, full: bool) -> dict[str, float]:
    """2 million rows in random order."""
    import numpy as np

    def work() -> Any:
        if data is None:
            return _table(files).take(np.random.default_rng().permutation(ROWS)).num_rows
        return consumed(data.read_parquet(str(files / "rows")).random_shuffle())

    return {"shuffle_2m": milliseconds(work)}


def join(data: Any, files: Path, full: bool) -> dict[str, float]:
    """2 million rows beside 200,000 by their key."""
    import pyarrow.parquet as pq

    def work() -> Any:
        if data is None:
            return _table(files).join(pq.read_table(files / "keys.parquet"), "id", join_type="inner").num_rows
        left, right = (data.read_parquet(str(files / name)) for name in ("rows", "keys.parquet"))
        return consumed(left.join(right, "inner", 4, on=("id",)))

    return {"join_2m": milliseconds(work)}


def torch_batches(data: Any, files: Path, full: bool) -> dict[str, float]:
    """2 million rows as tensors, 4,096 rows at a time."""
    import torch

    def work() -> Any:
        if data is None:
            batches = _table(files).select(["group", "value"]).to_batches(4096)
            return [
                [torch.as_tensor(column.to_numpy().copy()) for column in batch.columns] for batch in batches
            ]
        made = data.read_parquet(str(files / "rows"), columns=["group", "value"])
        return sum(len(batch["value"]) for batch in made.iter_torch_batches(batch_size=4096))

    return {"torch_batches_2m": milliseconds(work)}


class Doubled:
    """A model, as far as this measurement goes."""

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"value": batch["value"] * 2}


def actors(data: Any, files: Path, full: bool) -> dict[str, float]:
    """2 million rows through a class in two actors, which start each time."""

    def work() -> Any:
        if data is None:
            return Doubled()({"value": _table(files).column("value").to_numpy()})
        made = data.read_parquet(str(files / "rows"), columns=["value"])
        return consumed(made.map_batches(Doubled, compute=data.ActorPoolStrategy(size=2), batch_size=65536))

    return {"actors_2m": milliseconds(work, 3)}


def write(data: Any, files: Path, full: bool) -> dict[str, float]:
    """2 million rows read and written as Parquet."""
    import shutil

    import pyarrow.parquet as pq

    out = files / f"out-{'arrow' if data is None else data.__name__}"

    def work() -> None:
        shutil.rmtree(out, ignore_errors=True)
        if data is None:
            out.mkdir()
            pq.write_table(_table(files), out / "all.parquet")
        else:
            data.read_parquet(str(files / "rows")).write_parquet(str(out))

    try:
        return {"write_2m": milliseconds(work)}
    finally:
        shutil.rmtree(out, ignore_errors=True)


def small_files(data: Any, files: Path, full: bool) -> dict[str, float]:
    """10,000 Parquet files of 100 rows."""

    def work() -> Any:
        if data is None:
            import pyarrow.dataset as ds

            return ds.dataset(files / "small").to_table().num_rows
        return consumed(data.read_parquet(str(files / "small")))

    return {"small_files_10000": milliseconds(work, 3)}


SCENARIOS: dict[str, Callable[[Any, Path, bool], dict[str, float]]] = {
    each.__name__: each
    for each in (
        map_filter, total, scan, groupby, sort, shuffle, join, torch_batches, actors, write, small_files,
    )
}  # fmt: skip


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
    figures = SCENARIOS[args.scenario](data, args.files, args.full)
    print(json.dumps({"figures": figures, "notes": {}}), flush=True)
    if data is not None:
        target.shutdown()


if __name__ == "__main__":
    main()
