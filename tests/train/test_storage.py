"""A checkpoint is complete or absent after any failure: a walk over every file operation of a report."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from skate.train.checkpoint import Checkpoint
from skate.train.configs import CheckpointConfig
from skate.train.controller.history import History
from skate.train.result import Result
from skate.train.storage.journal import Journal
from skate.train.storage.run_folder import RunFolder
from skate.train.worker.session import Reported


class Crash(BaseException):
    """The machine stops here."""


class Breaker:
    """Lets so many operations on files happen, and breaks at the next."""

    NAMES = ("rename", "replace", "makedirs", "fsync", "fdatasync", "unlink")

    def __init__(self, patch: pytest.MonkeyPatch, after: int) -> None:
        self.left = after
        for name in self.NAMES:
            patch.setattr(os, name, self._counted(getattr(os, name)))
        patch.setattr(shutil, "copyfile", self._counted(shutil.copyfile))
        patch.setattr(shutil, "rmtree", self._counted(shutil.rmtree))

    def _counted(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                raise Crash
            return operation(*args, **kwargs)

        return counted


def source(folder: Path, text: str) -> Checkpoint:
    """A checkpoint of two files."""
    folder.mkdir(parents=True)
    (folder / "a").write_text(text)
    (folder / "deep").mkdir()
    (folder / "deep" / "b").write_text(text)
    return Checkpoint.from_directory(folder)


def report(history: History, at: Path, number: int, ranks: int = 2) -> None:
    """A report of two ranks with a checkpoint, as the workers and the controller do it."""
    name = f"checkpoint_{number}"
    for rank in range(ranks):
        folder = at / f"source-{number}-{rank}"
        made = source(folder, f"{number}")
        (folder / f"rank-{rank}").write_text(str(rank))
        history.folder.upload(made, name)
    history.take([Reported({"n": number}, name) for _ in range(ranks)], 1)


def steps_of(tmp_path: Path) -> int:
    """How many operations two reports take."""
    with pytest.MonkeyPatch.context() as patch:
        breaker = Breaker(patch, 10**6)
        history = History(RunFolder(str(tmp_path / "count"), "run"), CheckpointConfig(num_to_keep=1))
        history.folder.create()
        report(history, tmp_path / "count-sources", 0)
        report(history, tmp_path / "count-sources", 1)
        history.close()
        return 10**6 - breaker.left


def test_a_crash_at_any_operation_leaves_whole_checkpoints(tmp_path: Path) -> None:
    total = steps_of(tmp_path)
    assert total > 15
    seen = set()
    for after in range(total):
        storage = tmp_path / f"run-{after}"
        history = History(RunFolder(str(storage), "run"), CheckpointConfig(num_to_keep=1))
        with pytest.MonkeyPatch.context() as patch:
            Breaker(patch, after)
            try:
                history.folder.create()
                report(history, tmp_path / f"sources-{after}", 0)
                report(history, tmp_path / f"sources-{after}", 1)
            except Crash:
                pass
            history.close()
        again = History(RunFolder(str(storage), "run"), CheckpointConfig(num_to_keep=1))
        again.folder.create()
        again.load()
        latest = again.latest
        seen.add(None if latest is None else latest.path.rsplit("_", 1)[1])
        if latest is not None:
            assert again.last_metrics is not None
            number = latest.path.rsplit("_", 1)[1]
            for name, text in (("a", number), ("deep/b", number), ("rank-0", "0"), ("rank-1", "1")):
                assert Path(latest.path, name).read_text() == text
        left = [entry for entry in os.listdir(storage / "run") if entry.startswith(".") and entry != ".owner"]
        assert left == [], "what was not finished is swept away"
        # The run continues.
        report(again, tmp_path / f"more-{after}", 2)
        assert again.latest is not None and again.latest.path.endswith("checkpoint_2")
        again.close()
    assert seen == {None, "0", "1"}, "the walk has crashed before, between and after the two"


def test_a_torn_line_is_left_out_and_the_next_is_whole(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path), "run")
    folder.create()
    journal = Journal(folder)
    journal.append({"n": 1})
    journal.append({"n": 2}, durable=True)
    journal.close()
    path = tmp_path / "run" / "journal.jsonl"
    path.write_bytes(path.read_bytes()[:-3])
    again = Journal(folder)
    again.append({"n": 3})
    again.close()
    assert [entry["n"] for entry in Journal(folder).entries()] == [1, 3]


def test_a_report_writes_one_line_however_many_there_were(tmp_path: Path) -> None:
    history = History(RunFolder(str(tmp_path), "run"), CheckpointConfig())
    history.folder.create()
    sizes = []
    path = tmp_path / "run" / "journal.jsonl"
    for number in range(300):
        history.take([Reported({"n": number % 10})], 1)
        sizes.append(path.stat().st_size)
    grown = [after - before for before, after in zip(sizes, sizes[1:], strict=False)]
    assert max(grown) - min(grown) < 20
    history.close()


class Remote:
    """A run's folder on a filesystem that is not a disk."""

    def __init__(self, path: Path) -> None:
        from pyarrow import fs

        class Elsewhere(fs.SubTreeFileSystem):
            """A local filesystem that is not recognized as one."""

            type_name = "elsewhere"

        path.mkdir()
        self.filesystem = Elsewhere(str(path), fs.LocalFileSystem())


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Any]:
    pytest.importorskip("pyarrow")
    yield Remote(tmp_path / "elsewhere").filesystem


def test_an_object_store_has_a_checkpoint_once_its_manifest_is_there(elsewhere: Any, tmp_path: Path) -> None:
    folder = RunFolder("runs", "run", elsewhere)
    folder.create()
    assert not folder.local
    history = History(folder, CheckpointConfig(num_to_keep=1))
    report(history, tmp_path, 0)
    folder.upload(source(tmp_path / "half", "half"), "checkpoint_1")
    history.close()
    again = History(RunFolder("runs", "run", elsewhere), CheckpointConfig(num_to_keep=1))
    assert again.load()
    assert not (tmp_path / "elsewhere/runs/run/checkpoint_1").exists()
    latest = again.latest
    assert latest is not None and latest.path == "runs/run/checkpoint_0"
    with latest.as_directory() as copy:
        assert Path(copy, "deep", "b").read_text() == "0"
        kept = copy
    assert not os.path.exists(kept)
    report(again, tmp_path, 3)
    assert not again.folder.is_complete("checkpoint_0")
    again.close()
    assert [e["n"] for e in (x["metrics"] for x in again.journal.entries() if x["event"] == "report")] == [
        0,
        3,
    ]


def test_a_run_s_result_is_read_from_its_folder(tmp_path: Path) -> None:
    history = History(RunFolder(str(tmp_path), "run"), CheckpointConfig())
    history.folder.create()
    report(history, tmp_path / "s", 0)
    report(history, tmp_path / "s", 1)
    history.take([Reported({"n": 9})], 1)
    history.close()
    found = Result.from_path(tmp_path / "run")
    assert found.metrics == {"n": 9}
    assert found.checkpoint == Checkpoint(tmp_path / "run" / "checkpoint_1")
    assert found.best_checkpoints is not None and [m["n"] for _, m in found.best_checkpoints] == [0, 1]
    assert list(found.metrics_dataframe["n"]) == [0, 1, 9]  # type: ignore[index]
    best = found.get_best_checkpoint("n", "min")
    assert best is not None and best.path.endswith("checkpoint_0")
    with pytest.raises(ValueError, match=r"Invalid metric name loss!.*: n"):
        found.get_best_checkpoint("loss", "min")
    with pytest.raises(
        RuntimeError, match="Failed to restore the Result object: the folder .* has no journal"
    ):
        Result.from_path(tmp_path)


def test_who_reads_a_result_disturbs_no_upload(tmp_path: Path) -> None:
    history = History(RunFolder(str(tmp_path), "run"), CheckpointConfig())
    history.folder.create()
    report(history, tmp_path / "s", 0)
    history.folder.upload(source(tmp_path / "part", "part"), "checkpoint_1")
    found = Result.from_path(tmp_path / "run")
    assert found.metrics == {"n": 0}
    history.take([Reported({"n": 1}, "checkpoint_1")], 1)
    assert history.latest is not None
    assert Path(history.latest.path, "a").read_text() == "part"
    history.close()


def test_a_checkpoint_that_the_journal_does_not_know_is_taken_in(tmp_path: Path) -> None:
    history = History(RunFolder(str(tmp_path), "run"), CheckpointConfig())
    history.folder.create()
    report(history, tmp_path / "s", 0)
    history.folder.upload(source(tmp_path / "more", "more"), "checkpoint_1")
    history.folder.commit("checkpoint_1", {"metrics": {"n": 1}, "index": 1, "attempt": 1})
    history.folder.upload(source(tmp_path / "old", "old"), "strange")
    history.folder.commit("strange", {"metrics": {"n": 7}, "index": 0, "attempt": 1})
    history.close()
    again = History(RunFolder(str(tmp_path), "run"), CheckpointConfig())
    again.load()
    assert again.last_metrics == {"n": 1} and [each.name for each in again.kept] == [
        "checkpoint_0",
        "checkpoint_1",
    ], "one that is older than the journal's end is somebody else's"
    again.close()
    assert [entry.get("recovered") for entry in again.journal.entries()] == [None, True]


def test_a_deletion_that_was_cut_is_done_again(tmp_path: Path) -> None:
    history = History(RunFolder(str(tmp_path), "run"), CheckpointConfig())
    history.folder.create()
    report(history, tmp_path / "s", 0)
    report(history, tmp_path / "s", 1)
    history.journal.append({"event": "deleted", "checkpoint": "checkpoint_0"})
    history.close()
    again = History(RunFolder(str(tmp_path), "run"), CheckpointConfig())
    again.load()
    assert [each.name for each in again.kept] == ["checkpoint_1"]
    assert not (tmp_path / "run" / "checkpoint_0").exists()
    again.close()


def test_a_name_that_is_taken_on_an_object_store_is_never_half_the_new_one(
    elsewhere: Any, tmp_path: Path
) -> None:
    folder = RunFolder("runs", "run", elsewhere)
    folder.create()
    assert folder.free_name("mine", "1") == "mine"
    folder.upload(source(tmp_path / "first", "first"), "mine")
    folder.commit("mine", {})
    assert folder.free_name("mine", "2") == "mine_2"
    here = RunFolder(str(tmp_path), "here")
    here.create()
    here.upload(source(tmp_path / "a", "a"), "mine")
    here.commit("mine", {})
    assert here.free_name("mine", "2") == "mine", "a disk gives the place its name by one rename"


def test_sweeping_leaves_what_is_whole(elsewhere: Any, tmp_path: Path) -> None:
    for folder in (RunFolder("runs", "run", elsewhere), RunFolder(str(tmp_path), "here")):
        folder.create()
        folder.upload(source(tmp_path / f"{folder.name}-whole", "whole"), "whole")
        folder.commit("whole", {})
        folder.upload(source(tmp_path / f"{folder.name}-half", "half"), "half")
        folder.sweep()
        assert folder.is_complete("whole") and not folder.is_complete("half")
        assert folder.recover().keys() == {"whole"}


def test_names_of_a_checkpoint_must_agree(tmp_path: Path) -> None:
    history = History(RunFolder(str(tmp_path), "run"), CheckpointConfig())
    history.folder.create()
    with pytest.raises(ValueError, match="same on all ranks"):
        history.take([Reported({}, "a"), Reported({}, "b")], 1)


def test_metadata_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    checkpoint = source(tmp_path / "c", "x")
    assert checkpoint.get_metadata() == {}
    checkpoint.set_metadata({"a": 1})
    checkpoint.update_metadata({"b": 2})
    assert checkpoint.get_metadata() == {"a": 1, "b": 2}
    with pytest.raises(TypeError):
        checkpoint.set_metadata({"a": object()})
    assert checkpoint.get_metadata() == {"a": 1, "b": 2}
    assert sorted(os.listdir(tmp_path / "c")) == [".metadata.json", "a", "deep"]


def test_what_is_no_checkpoint_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="never written"):
        Checkpoint.from_directory(tmp_path / "none").to_directory()
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="folder of its own"):
        Checkpoint.from_directory(tmp_path / "file")
    gone = Checkpoint(tmp_path / "gone")
    with pytest.raises(FileNotFoundError, match="gone"), gone.as_directory():
        pass
    with pytest.raises(TypeError, match="as_directory"):
        os.fspath(gone)
