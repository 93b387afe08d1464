"""Write the tables, queries and answers of TPC-H, made by DuckDB's own generator.

    python -m venv /tmp/generator
    /tmp/generator/bin/pip install duckdb==1.5.5 duckdb-extension-tpch==1.5.5
    /tmp/generator/bin/python benchmarks/data/tpch_tables.py FOLDER [--scale 1]

The generator is an extension that DuckDB loads; it checks its signature. Without a network it comes from the package, which has
none for DuckDB 2 so far, so it runs in an environment of its own and needs nothing else.
"""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path
from typing import Any

#: The rows of a row group.
ROWS = 1 << 18
_PACKAGE = "duckdb_extension_tpch"


def generator(connection: Any) -> None:
    """Load the generator. Raises SystemExit if there is none."""
    import duckdb

    found = importlib.util.find_spec(_PACKAGE)
    if found is not None and found.origin is not None:
        for path in Path(found.origin).parent.rglob("tpch.duckdb_extension"):
            if path.parent.name == f"v{duckdb.__version__}":
                connection.execute(f"load '{path}'")
                return
    try:
        connection.execute("install tpch")
        connection.execute("load tpch")
    except duckdb.Error as error:
        raise SystemExit(
            f"DuckDB {duckdb.__version__} has no generator of TPC-H here: {error}\nInstall duckdb==1.5.5 and "
            "duckdb-extension-tpch==1.5.5 in an environment of their own, and run this file there."
        ) from error


def write(folder: Path, scale: float) -> None:
    """Write one file for each table, and the text of each query and its answer."""
    import duckdb

    connection = duckdb.connect()
    generator(connection)
    connection.execute(f"call dbgen(sf = {scale})")
    for (name,) in connection.execute("select table_name from duckdb_tables()").fetchall():
        (folder / name).mkdir(parents=True)
        connection.execute(f"copy {name} to '{folder / name}/0.parquet' (row_group_size {ROWS})")
    texts = {"queries": "select query_nr, query from tpch_queries()"}
    texts["answers"] = f"select query_nr, answer from tpch_answers() where scale_factor = {scale}"
    for kind, query in texts.items():
        (folder / kind).mkdir()
        for number, text in connection.execute(query).fetchall():
            (folder / kind / f"{number}.txt").write_text(text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the tables of TPC-H.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scale", type=float, default=1)
    args = parser.parse_args()
    write(args.folder, args.scale)
