"""A search that is ended at any entry of its journal continues as if nothing had been: nothing is lost, nothing runs twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import skate
from skate import tune
from skate.tune.journal.journal import ExperimentJournal, all_entries
from skate.tune.tuner import folder_of

STEPS = 3
TRIALS = 2


class Crash(BaseException):
    """Stands for the end of the process."""


def trainable(config: dict[str, Any]) -> None:
    import tempfile

    context = tune.get_context()
    with open(config["ran"], "a") as file:
        file.write(f"{context.get_trial_id()}\n")
    first, total = 0, 0.0
    checkpoint = tune.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            first, total = eval(Path(folder, "state").read_text())
    for step in range(first, STEPS):
        total += config["x"]
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "state").write_text(repr((step + 1, total)))
            tune.report({"total": total, "step": step}, checkpoint=tune.Checkpoint.from_directory(folder))


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    skate.init(num_cpus=2, num_gpus=0)
    yield
    skate.shutdown()


def tuner(folder: Path, **more: Any) -> tune.Tuner:
    space = {"x": tune.uniform(1, 2), "ran": str(folder / "ran")}
    return tune.Tuner(
        trainable,
        param_space=space,
        tune_config=tune.TuneConfig(metric="total", mode="max", num_samples=TRIALS, **more),
        run_config=tune.RunConfig(
            name="search",
            storage_path=str(folder),
            verbose=0,
            checkpoint_config=tune.CheckpointConfig(num_to_keep=2),
        ),
    )


def crash_at(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    count = [0]
    append = ExperimentJournal.append

    def crashing(self: ExperimentJournal, entry: dict[str, Any], durable: bool = False) -> None:
        append(self, entry, durable)
        if count[0] == step:
            raise Crash
        count[0] += 1

    monkeypatch.setattr(ExperimentJournal, "append", crashing)


def check(folder: Path, results: tune.ResultGrid, finished_before: set[str]) -> None:
    assert [result.error for result in results] == [None] * TRIALS
    assert len({result.config["x"] for result in results}) == TRIALS
    for result in results:
        assert result.metrics["step"] == STEPS - 1
        assert result.metrics["total"] == pytest.approx(STEPS * result.config["x"])
        assert result.metrics["training_iteration"] == STEPS
        with result.checkpoint.as_directory() as at:
            assert eval(Path(at, "state").read_text())[0] == STEPS
    starts = Counter((folder / "ran").read_text().split())
    assert set(starts) == {result.metrics["trial_id"] for result in results}, "no trial is made twice"
    assert all(starts[trial] == 1 for trial in finished_before), "what had ended does not run again"


def ended(folder: Path) -> set[str]:
    entries = all_entries(folder_of(folder / "search"))
    return {entry["id"] for entry in entries if entry["e"] == "end"}


@pytest.mark.timeout(400)
@pytest.mark.usefixtures("session")
def test_every_entry(tmp_path: Path) -> None:
    """With real processes; `test_crash_walks` has the steps in between, without."""
    step = 0
    while True:
        folder = tmp_path / str(step)
        folder.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            crash_at(patch, step)
            try:
                tuner(folder).fit()
                break
            except Crash:
                pass
        finished = ended(folder)
        (folder / "ran").touch()
        results = tune.Tuner.restore(str(folder / "search"), trainable).fit()
        check(folder, results, finished)
        step += 1
    assert step >= TRIALS * (STEPS + 3), "the walk has come to the end of the journal"


PROGRAM = """
    import os, signal, sys
    sys.path.insert(0, {tests!r})
    import test_crashes as here
    from pathlib import Path
    from skate.tune.journal.journal import ExperimentJournal
    append, count = ExperimentJournal.append, [0]
    def killing(self, entry, durable=False):
        append(self, entry, durable)
        count[0] += 1
        if count[0] == {step}:
            os.kill(os.getpid(), signal.SIGKILL)
    ExperimentJournal.append = killing
    here.skate.init(num_cpus=2, num_gpus=0)
    here.tuner(Path({folder!r})).fit()
"""


@pytest.mark.parametrize("step", [1, 5, 9, 12])
@pytest.mark.usefixtures("session")
def test_killed(tmp_path: Path, step: int) -> None:
    program = textwrap.dedent(PROGRAM).format(
        tests=str(Path(__file__).parent), step=step, folder=str(tmp_path)
    )
    found = subprocess.run([sys.executable, "-c", program], timeout=60, env=dict(os.environ))
    assert found.returncode == -signal.SIGKILL
    finished = ended(tmp_path)
    (tmp_path / "ran").touch()
    results = tune.Tuner.restore(str(tmp_path / "search"), trainable).fit()
    check(tmp_path, results, finished)


@pytest.mark.usefixtures("session")
def test_a_cut_line_is_left_out(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        crash_at(patch, 9)
        with pytest.raises(Crash):
            tuner(tmp_path).fit()
    [journal] = (tmp_path / "search").glob("journal-*/journal.jsonl")
    journal.write_bytes(journal.read_bytes()[:-7])
    finished = ended(tmp_path)
    check(tmp_path, tune.Tuner.restore(str(tmp_path / "search"), trainable).fit(), finished)


@pytest.mark.usefixtures("session")
def test_a_snapshot_in_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skate.tune.journal.journal.ENTRIES", 5)
    for step in (6, 11):
        folder = tmp_path / str(step)
        folder.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            crash_at(patch, step)
            with pytest.raises(Crash):
                tuner(folder).fit()
        finished = ended(folder)
        results = tune.Tuner.restore(str(folder / "search"), trainable).fit()
        check(folder, results, finished)


@pytest.mark.usefixtures("session")
def test_optuna_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    from skate.tune.search.optuna import OptunaSearch

    def search(folder: Path) -> tune.Tuner:
        return tuner(folder, search_alg=OptunaSearch(seed=3), max_concurrent_trials=1)

    (tmp_path / "whole").mkdir()
    expected = [result.config["x"] for result in search(tmp_path / "whole").fit()]
    for step in (2, 9):
        folder = tmp_path / str(step)
        folder.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            crash_at(patch, step)
            with pytest.raises(Crash):
                search(folder).fit()
        results = tune.Tuner.restore(str(folder / "search"), trainable).fit()
        assert [result.config["x"] for result in results] == expected
