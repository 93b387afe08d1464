"""Searches restored elsewhere: another working folder, a moved folder, a storage without renames, a later release."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

import skate
from skate import tune
from skate.tune.journal.journal import ExperimentJournal, all_entries
from skate.tune.tuner import folder_of

STEPS = 4


class Crash(BaseException):
    """Stands for the end of the process."""


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    skate.init(num_cpus=2, num_gpus=0)
    yield
    skate.shutdown()


pytestmark = pytest.mark.usefixtures("session")


def saving(config: dict[str, Any]) -> None:
    first = 0
    checkpoint = tune.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            first = int(Path(folder, "step").read_text()) + 1
    with open(config["ran"], "a") as file:
        file.write(f"{config['x']} {first}\n")
    for step in range(first, STEPS):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "step").write_text(str(step))
            tune.report({"step": step}, checkpoint=tune.Checkpoint.from_directory(folder))
        if step == 1 and config["x"] == 1 and Path(config["ran"] + "-fails").exists():
            raise RuntimeError("asked to")


def search(ran: Path, **run: Any) -> tune.Tuner:
    space = {"x": tune.grid_search([0, 1]), "ran": str(ran)}
    return tune.Tuner(saving, param_space=space, run_config=tune.RunConfig(name="search", verbose=0, **run))


def crashed(monkeypatch: pytest.MonkeyPatch, tuner: tune.Tuner, kind: str, times: int) -> None:
    """Run a search, and end it with the so many-th entry of a kind."""
    append, count = ExperimentJournal.append, [0]

    def crashing(self: ExperimentJournal, entry: dict[str, Any], durable: bool = False) -> None:
        append(self, entry, durable)
        count[0] += entry["e"] == kind
        if count[0] == times:
            raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(ExperimentJournal, "append", crashing)
        with pytest.raises(Crash):
            tuner.fit()


def whole(results: tune.ResultGrid) -> None:
    assert results.errors == []
    assert [result.metrics["step"] for result in results] == [STEPS - 1] * 2
    assert [result.metrics["training_iteration"] for result in results] == [STEPS] * 2


def test_from_another_folder_and_by_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    crashed(monkeypatch, search(tmp_path / "ran", storage_path="here"), "result", 3)
    monkeypatch.chdir(tmp_path / "elsewhere")
    results = tune.Tuner.restore("../here/search", saving).fit()
    whole(results)
    assert Path(results.experiment_path) == tmp_path / "here" / "search"
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_folder_that_was_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crashed(monkeypatch, search(tmp_path / "ran", storage_path=str(tmp_path / "a")), "result", 5)
    shutil.move(tmp_path / "a", tmp_path / "b")
    results = tune.Tuner.restore(str(tmp_path / "b" / "search"), saving).fit()
    whole(results)
    assert all(result.path.startswith(str(tmp_path / "b")) for result in results)
    assert all(result.checkpoint.path.startswith(str(tmp_path / "b")) for result in results)
    assert not (tmp_path / "a").exists()


def test_a_storage_without_renames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller takes a subtree of a disk for an object store: no rename, no append."""
    (tmp_path / "store").mkdir()
    store = fs.SubTreeFileSystem(str(tmp_path / "store"), fs.LocalFileSystem())
    given = {"storage_path": "runs", "storage_filesystem": store}
    crashed(monkeypatch, search(tmp_path / "ran", **given), "end", 1)
    ended = {entry["id"] for entry in all_entries(folder_of("runs/search", store)) if entry["e"] == "end"}
    assert len(ended) == 1, "the end of a trial does not wait for other lines"
    assert tune.Tuner.can_restore("runs/search", store)
    results = tune.Tuner.restore("runs/search", saving, storage_filesystem=store).fit()
    whole(results)
    starts = (tmp_path / "ran").read_text().splitlines()
    first = next(result for result in results if result.metrics["trial_id"] in ended)
    assert starts.count(f"{first.config['x']} 0") == 1 and len(starts) <= 3, (
        "what had ended does not run again"
    )


def test_loggers_of_a_search_that_is_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loggers write locally; their files are uploaded to the search's folder, and a restored search appends to them."""
    (tmp_path / "store").mkdir()
    store = fs.SubTreeFileSystem(str(tmp_path / "store"), fs.LocalFileSystem())
    given = {"storage_path": "runs", "storage_filesystem": store}
    (tmp_path / "ran-fails").touch()
    assert search(tmp_path / "ran", **given).fit().num_errors == 1
    (tmp_path / "ran-fails").unlink()
    results = tune.Tuner.restore("runs/search", saving, resume_errored=True, storage_filesystem=store).fit()
    whole(results)
    for result in results:
        folder = tmp_path / "store" / result.path
        lines = [json.loads(line) for line in (folder / "result.json").read_text().splitlines()]
        assert [line["step"] for line in lines] == list(range(STEPS))
        rows = (folder / "progress.csv").read_text().splitlines()
        assert len(rows) == 1 + STEPS and rows[0].count("step") >= 1
        assert list(folder.glob("events.out.tfevents*")) and (folder / "params.json").exists()
        assert (folder / "error.txt").exists() == (result.config["x"] == 1)
    assert not list(Path(tempfile.gettempdir()).glob("skate-logs-*"))


@pytest.mark.parametrize(
    ("given", "starts", "errors"),
    [
        ({}, ["0"], 1),
        ({"resume_errored": True}, ["0", "2"], 0),
        ({"restart_errored": True}, ["0", "0"], 0),
    ],
    ids=["left", "resumed", "restarted"],
)
def test_trials_that_failed(tmp_path: Path, given: dict[str, bool], starts: list[str], errors: int) -> None:
    ran, mark = tmp_path / "ran", tmp_path / "ran-fails"
    mark.touch()
    assert search(ran, storage_path=str(tmp_path)).fit().num_errors == 1
    mark.unlink()
    results = tune.Tuner.restore(str(tmp_path / "search"), saving, **given).fit()
    assert results.num_errors == errors
    assert [line.split()[1] for line in ran.read_text().splitlines() if line[0] == "1"] == starts
    assert ran.read_text().count("0 0") == 1


def test_trials_that_had_not_ended_may_be_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crashed(monkeypatch, search(tmp_path / "ran", storage_path=str(tmp_path)), "result", 3)
    before = (tmp_path / "ran").read_text()
    path = str(tmp_path / "search")
    results = tune.Tuner.restore(path, saving, resume_unfinished=False).fit()
    assert len(results) == 2 and results.num_errors == 0
    assert (tmp_path / "ran").read_text() == before


def test_what_a_later_release_has_written(tmp_path: Path) -> None:
    results = search(tmp_path / "ran", storage_path=str(tmp_path)).fit()
    [*_, state] = sorted(Path(results.experiment_path).glob("experiment_state-*.json"))
    state.write_text(json.dumps({**json.loads(state.read_text()), "version": 2}))
    with pytest.raises(
        tune.TuneError, match="later release of Skate .its format is 2, this release reads up to 1"
    ):
        tune.Tuner.restore(results.experiment_path, saving).fit()
    saved = Path(results.experiment_path, "tuner.pkl")
    saved.write_bytes(pickle.dumps({**pickle.loads(saved.read_bytes()), "version": 9}))
    with pytest.raises(tune.TuneError, match="its format is 9"):
        tune.Tuner.restore(results.experiment_path, saving)


PROGRAM = """
import os, signal, sys
from pathlib import Path
import skate
from skate import tune

def slow(config):
    tune.report({{"step": 0}})
    if not Path(config["go"]).exists():
        os.kill(config["driver"], signal.SIGINT)
    while not Path(config["go"]).exists():
        tune.report({{"step": 1}})
    tune.report({{"step": 2}})

skate.init(num_cpus=2, num_gpus=0)
folder = {folder!r}
space = {{"go": folder + "/go", "driver": os.getpid()}}
run = tune.RunConfig(name="search", storage_path=folder, verbose=0)
if tune.Tuner.can_restore(folder + "/search"):
    Path(folder, "go").touch()
    [result] = tune.Tuner.restore(folder + "/search", slow).fit()
else:
    [result] = tune.Tuner(slow, param_space=space, run_config=run).fit()
print("last step", result.metrics["step"], result.error)
"""


def test_control_c_leaves_a_search_that_goes_on(tmp_path: Path) -> None:
    program = PROGRAM.format(folder=str(tmp_path))

    def run() -> str:
        found = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env=dict(os.environ),
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )  # fmt: skip
        assert found.returncode == 0, found.stderr
        return found.stdout

    first = run()
    assert "The search was interrupted" in first and str(tmp_path / "search") in first
    assert "last step 2 None" in run()
