"""A run that ends itself with SIGKILL at a phase of its third checkpoint, once; started by test_walk.py, and again to continue.

python walking.py <a folder, or host:port of an S3 server> <folder for marks> <phase> <victim>
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from skate import train
from skate.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from skate.train.data_parallel_trainer import DataParallelTrainer
from skate.train.storage import filesystem as files
from skate.train.storage.journal import Journal
from skate.train.storage.run_folder import MANIFEST, UNFINISHED, RunFolder

THIRD = 3
STEPS = 5


class Reaper:
    """Kills a process at the third time that something happens, unless that was done before."""

    def __init__(self, marks: str, pid: int, name: str) -> None:
        self.mark = Path(marks, name)
        self.pid = pid
        self.times = 0

    def strike(self) -> None:
        """The phase is reached."""
        self.times += 1
        if self.times == THIRD and not self.mark.exists():
            self.now()

    def now(self) -> None:
        """End the process at its current point."""
        self.mark.touch()
        os.kill(self.pid, signal.SIGKILL)
        signal.pause()  # another process: this one ends with it


def before(owner: Any, name: str, strike: Callable[..., None]) -> None:
    """Call `strike` with the arguments, then the function."""
    function = getattr(owner, name)

    def called(*args: Any, **kwargs: Any) -> Any:
        strike(*args)
        return function(*args, **kwargs)

    setattr(owner, name, called)


def after(owner: Any, name: str, strike: Callable[..., None]) -> None:
    """Call the function, then `strike` with the arguments."""
    function = getattr(owner, name)

    def called(*args: Any, **kwargs: Any) -> Any:
        found = function(*args, **kwargs)
        strike(*args)
        return found

    setattr(owner, name, called)


def arm(phase: str, reaper: Reaper, local: bool) -> None:
    """Put the reaper where a phase is reached."""

    def any_time(*args: Any) -> None:
        reaper.strike()

    if phase == "before upload":
        before(RunFolder, "upload", any_time)
    elif phase == "after upload":
        after(RunFolder, "upload", any_time)
    elif phase == "during upload":
        # Three files a checkpoint: the second of the third one's is on its way.
        reaper.times = -4
        if local:
            after(files, "copy_file", any_time)
        else:
            reaper.times = 0
            before(files, "upload", lambda source, target_fs, at: _half(reaper, source, target_fs, at))
    elif phase == "before manifest":
        before(RunFolder, "commit", any_time)
    elif phase == "after manifest":
        after(files, "write_bytes", lambda target_fs, at, contents: at.endswith(MANIFEST) and reaper.strike())
    elif phase == "before journal":
        before(Journal, "append", lambda journal, entry, *rest: "metrics" in entry and reaper.strike())
    elif phase == "after journal":
        after(Journal, "append", lambda journal, entry, *rest: "metrics" in entry and reaper.strike())
    elif phase == "during deletion":
        reaper.times = THIRD - 1
        before(RunFolder, "delete", lambda folder, name: _half_deleted(reaper, folder, name))
    else:
        assert phase == "after deletion", phase
        reaper.times = THIRD - 1
        after(RunFolder, "delete", any_time)


def _half(reaper: Reaper, source: str, target_fs: Any, at: str) -> None:
    if reaper.times == THIRD - 1 and not reaper.mark.exists():
        files.write_bytes(target_fs, f"{at}/step", Path(source, "step").read_bytes())
    reaper.strike()


def _half_deleted(reaper: Reaper, folder: RunFolder, name: str) -> None:
    if reaper.mark.exists():
        return
    if folder.local:
        gone = folder.at(".uploading-.gone-1")
        os.rename(folder.at(name), gone)
        os.unlink(f"{gone}/step")
    else:
        files.write_bytes(folder.filesystem, f"{folder.at(name)}/{UNFINISHED}", b"")
        folder.filesystem.delete_file(f"{folder.at(name)}/{MANIFEST}")
        folder.filesystem.delete_file(f"{folder.at(name)}/step")
    reaper.now()


def loop(config: dict[str, Any]) -> None:
    """Five steps, each with a checkpoint of three files."""
    rank = train.get_context().get_world_rank()
    found = train.get_checkpoint()
    step = 0
    if found is not None:
        with found.as_directory() as folder:
            step = int(Path(folder, "step").read_text()) + 1
    victim, phase = config["victim"], config["phase"]
    if victim == "all" or (victim in ("one", "driver") and rank == 1):
        pid = config["driver"] if victim == "driver" else os.getpid()
        arm(phase, Reaper(config["marks"], pid, f"rank-{rank}"), config["local"])
    if rank == 0:
        with open(f"{config['marks']}/starts", "a") as file:
            file.write(f"{step}\n")
    while step < STEPS:
        with tempfile.TemporaryDirectory() as folder:
            for name in ("step", f"rank-{rank}", f"more-{rank}"):
                Path(folder, name).write_text(str(step))
            train.report({"step": step}, checkpoint=Checkpoint.from_directory(folder))
        step += 1


def main() -> None:
    """Run, and print what there is at the end."""
    place, marks, phase, victim = sys.argv[1:]
    local = os.path.isabs(place)
    given: dict[str, Any] = {"storage_path": place}
    if not local:
        from pyarrow import fs

        filesystem = fs.S3FileSystem(
            access_key="testing",
            secret_key="testing",
            endpoint_override=place,
            scheme="http",
            region="us-east-1",
            allow_bucket_creation=True,
        )
        filesystem.create_dir("bucket")
        given = {"storage_path": "bucket/runs", "storage_filesystem": filesystem}
    if victim == "controller":
        arm(phase, Reaper(marks, os.getpid(), "controller"), local)
    config = {"victim": victim, "phase": phase, "marks": marks, "driver": os.getpid(), "local": local}
    result = DataParallelTrainer(
        loop,
        train_loop_config=config,
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            name="run",
            checkpoint_config=CheckpointConfig(num_to_keep=2),
            failure_config=FailureConfig(max_failures=3),
            **given,
        ),
    ).fit()
    kept = []
    for checkpoint, metrics in result.best_checkpoints or []:
        with checkpoint.as_directory() as folder:
            contents = {name: Path(folder, name).read_text() for name in os.listdir(folder) if name[0] != "."}
        kept.append([os.path.basename(checkpoint.path), metrics["step"], contents])
    folder = RunFolder(given["storage_path"], "run", given.get("storage_filesystem"))
    if local:
        left = sorted(os.listdir(folder.path))
    else:
        selector = fs.FileSelector(folder.path, recursive=True)
        infos = folder.filesystem.get_file_info(selector)
        paths = [info.path[len(folder.path) + 1 :] for info in infos if info.type == fs.FileType.File]
        left = sorted({path for path in paths if "/" not in path} | {path.split("/")[0] for path in paths})
        left += [path for path in paths if path.endswith(UNFINISHED)]
    again = train.Result.from_path(result.path, given.get("storage_filesystem"))
    steps = [row["step"] for row in result.metrics_dataframe.to_dict("records")]
    assert again.metrics == result.metrics and again.checkpoint == result.checkpoint
    events = [
        [entry["event"], entry.get("checkpoint")] for entry in Journal(folder).entries() if "event" in entry
    ]
    print(json.dumps({"kept": kept, "left": left, "steps": steps, "events": events}))


if __name__ == "__main__":
    main()
