"""`DataContext.checkpoint_config`: a pipeline that was cut short continues after what it has written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skate.data
from skate.data import DataContext
from skate.data.checkpoint import Checkpoint, CheckpointBackend, CheckpointConfig, InvalidCheckpointingConfig


class Boom(Exception):
    """Raised on purpose."""


def pipeline(seen: Path, fails_at: int | None) -> Any:
    def work(row: dict[str, Any]) -> dict[str, Any]:
        if row["id"] == fails_at:
            raise Boom
        with (seen / f"{row['id']}").open("a") as file:
            file.write("x")
        return {"id": row["id"], "twice": 2 * row["id"]}

    return skate.data.range(40, override_num_blocks=8).map(work)


@pytest.mark.parametrize("here", [True, False])
def test_what_is_written_is_not_done_again(here: bool, context: DataContext, tmp_path: Path) -> None:
    context.run_small_work_in_driver = here
    seen = tmp_path / "seen"
    seen.mkdir()
    context.checkpoint_config = CheckpointConfig("id", str(tmp_path / "ids"))
    with pytest.raises(Boom):
        pipeline(seen, 33).write_parquet(str(tmp_path / "out"))
    entered = skate.data.read_parquet(str(tmp_path / "ids")).unique("id")
    assert entered
    assert 33 not in entered
    pipeline(seen, None).write_parquet(str(tmp_path / "out"))
    rows = skate.data.read_parquet(str(tmp_path / "out")).sort("id").take_all()
    assert rows == [{"id": number, "twice": 2 * number} for number in range(40)]
    assert {(seen / str(number)).read_text() for number in entered} == {"x"}
    assert not list((tmp_path / "ids").iterdir())


def test_a_task_that_ends_as_the_next_run_begins_is_not_written_twice(
    context: DataContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, out, ids = tmp_path / "seen", tmp_path / "out", tmp_path / "ids"
    seen.mkdir()
    context.checkpoint_config = CheckpointConfig("id", str(ids))
    with pytest.raises(Boom):
        pipeline(seen, 33).write_parquet(str(out))
    (begun,) = ids.glob("*.begun")
    late = f"{begun.stem}_000099"
    begin = Checkpoint.begin

    def begin_late(checkpoint: Checkpoint, datasink: Any) -> None:
        rows = [{"id": number, "twice": 2 * number} for number in (33, 34)]
        pq.write_table(pa.Table.from_pylist(rows), out / f"{late}_000000.parquet")
        pq.write_table(pa.table({"id": [33, 34]}), ids / f"{late}.parquet")
        begin(checkpoint, datasink)

    monkeypatch.setattr(Checkpoint, "begin", begin_late)
    pipeline(seen, None).write_parquet(str(out))
    rows = skate.data.read_parquet(str(out)).sort("id").take_all()
    assert rows == [{"id": number, "twice": 2 * number} for number in range(40)]
    assert not (seen / "33").exists(), "the late task had written it"


def test_it_is_kept_if_that_is_asked_for(context: DataContext, tmp_path: Path) -> None:
    path = str(tmp_path / "ids")
    context.checkpoint_config = {
        "id_column": "id",
        "checkpoint_path": path,
        "delete_checkpoint_on_success": False,
    }
    skate.data.range(5).write_json(str(tmp_path / "out"))
    skate.data.range(7).write_json(str(tmp_path / "out"))
    found = skate.data.read_json(str(tmp_path / "out")).take_all()
    assert sorted(row["id"] for row in found) == list(range(7))


def test_what_cannot_be(context: DataContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_DATA_CHECKPOINT_PATH_BUCKET", raising=False)
    with pytest.raises(InvalidCheckpointingConfig, match="id_column"):
        CheckpointConfig()
    with pytest.raises(InvalidCheckpointingConfig, match="checkpoint_path"):
        CheckpointConfig("id")
    monkeypatch.setenv("RAY_DATA_CHECKPOINT_PATH_BUCKET", "s3://bucket")
    assert CheckpointConfig("id").checkpoint_path == "s3://bucket/ray_data_checkpoint"
    assert CheckpointConfig("id").backend is CheckpointBackend.CLOUD_OBJECT_STORAGE
    with pytest.raises(TypeError, match="checkpoint_config"):
        context.checkpoint_config = 3
    context.checkpoint_config = CheckpointConfig("id", str(tmp_path / "ids"))
    with pytest.raises(ValueError, match="append"):
        skate.data.range(3).write_parquet(str(tmp_path / "out"), mode="overwrite")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="2"):
        skate.data.range(3).union(skate.data.range(3)).write_parquet(str(tmp_path / "out"))
    with pytest.raises(KeyError, match="'id'"):
        skate.data.range(3).rename_columns({"id": "x"}).write_parquet(str(tmp_path / "out"))
