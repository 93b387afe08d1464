"""Runs code blocks of the mission's documents that read data: local files stand in for the buckets that the texts name.

skate run data_stage.py BLOCK [THEN]
"""

from __future__ import annotations

import functools
import os
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import ray
import ray.data

ray.init = functools.partial(ray.init, num_cpus=4, num_gpus=2)

folder = Path(tempfile.mkdtemp(prefix="mission-"))
(folder / "instructions").mkdir()
(folder / "training").mkdir()
for part in range(3):
    texts = [f"Explain in plain words what number {100 * part + i} is good for" for i in range(100)]
    pq.write_table(pa.table({"instruction": texts}), folder / "instructions" / f"{part}.parquet")
    rows = {
        "text": [("A LONGER TEXT " if i % 2 else "SHORT ") + str(i) for i in range(100)],
        "label": list(range(100)),
    }
    pq.write_table(pa.table(rows), folder / "training" / f"{part}.parquet")

STAND_INS = {
    "s3://bucket/delta/instruction_pairs/": str(folder / "instructions"),
    "s3://my-bucket/training-data/": str(folder / "training"),
}
_read_parquet = ray.data.read_parquet


def _read_local(path: str, **options: object) -> object:
    return _read_parquet(STAND_INS[path], **options)


ray.data.read_parquet = _read_local


def load_dataset(*name: str) -> dict[str, list[dict[str, object]]]:
    """Stands in for the function of that name in `datasets`."""
    assert name == ("glue", "mrpc")

    def rows(count: int) -> list[dict[str, object]]:
        return [
            {"sentence1": f"sentence {i}", "sentence2": f"other {i}", "label": i % 2, "idx": i}
            for i in range(count)
        ]

    return {"train": rows(40), "validation": rows(10)}


ray.init()
for path in sys.argv[1:]:
    exec(compile(Path(path).read_text(), path, "exec", dont_inherit=True), globals())

ray.shutdown()
for left in sorted(folder.rglob("*"), reverse=True):
    os.rmdir(left) if left.is_dir() else left.unlink()
folder.rmdir()
