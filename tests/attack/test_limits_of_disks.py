"""A full disk: each writer raises the system's error, keeps existing data, and leaves no incomplete file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attack.limits import run_under, small_disk

WRITERS = {
    "parquet": "ds.write_parquet(path)",
    "csv": "ds.write_csv(path)",
    "json": "ds.write_json(path)",
    "numpy": "ds.write_numpy(path, column='data')",
    "webdataset": "ds.write_webdataset(path)",
    "tfrecords": "ds.write_tfrecords(path)",
    "images": "images.write_images(path, column='image')",
}
WRITE = """
import errno, os, sys
import numpy as np
disk = os.environ["DISK"]
ray.init(num_cpus=2, num_gpus=0, object_store_memory=100 << 20, log_to_driver=False)
ray.data.DataContext.get_current().enable_progress_bars = False
noise = np.random.default_rng(1)
make = lambda rows: ray.data.from_items(
    [{"__key__": str(i), "data": noise.random(4096) if NUMBERS else noise.bytes(30_000).hex()} for i in range(rows)],
    override_num_blocks=4)
def picture(row):
    return {"image": np.random.default_rng(row["id"]).integers(0, 255, (100, 100, 3), dtype=np.uint8)}
images = ray.data.range(300, override_num_blocks=4).map(picture)
path = disk + "/small"
NUMBERS = "numpy" in WRITER or "images" in WRITER
ds, images_all = make(4), images
images = images.limit(4)
exec(WRITER)
before = {name: os.path.getsize(os.path.join(path, name)) for name in os.listdir(path)}
assert before
path, ds, images = disk + "/large", make(300), images_all
try:
    exec(WRITER)
    raise AssertionError("it had room")
except Exception as error:
    text = f"{type(error).__name__} {error}"
assert "No space left on device" in text, text
left = [os.path.join(where, name) for where, _, names in os.walk(path) for name in names]
print("left", left)
assert before == {name: os.path.getsize(os.path.join(disk, "small", name)) for name in os.listdir(disk + "/small")}
assert ray.data.range(100).sum("id") == 4950
"""


OFTEN = ("parquet", "csv")


@pytest.mark.parametrize(
    "what", [each if each in OFTEN else pytest.param(each, marks=pytest.mark.attack) for each in WRITERS]
)
def test_writer_of_data(what: str, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    output = run_under(
        tmp_path,
        WRITE.replace("WRITER", repr(WRITERS[what])),
        *small_disk(disk, "3m"),
        DISK=str(disk),
    )
    assert "left []" in output, "files that are not whole stay under the target: " + output


CHECKPOINTS = """
import os, tempfile
from skate import train
from skate.train.data_parallel_trainer import DataParallelTrainer
from skate.train import Checkpoint, CheckpointConfig, RunConfig, ScalingConfig
disk = os.environ["DISK"]
ray.init(num_cpus=2, num_gpus=0, object_store_memory=100 << 20, log_to_driver=False)

def loop(config):
    for epoch in range(config["epochs"]):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "model"), "wb") as file:
                file.write(os.urandom(1 << 20))
            train.report({"epoch": epoch}, checkpoint=Checkpoint.from_directory(folder))

def fit(name, epochs):
    return DataParallelTrainer(
        loop,
        train_loop_config={"epochs": epochs},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(storage_path=disk, name=name),
    ).fit()

small = fit("small", 2)
try:
    text = str(fit("large", 50).error)
except Exception as error:
    text = f"{type(error).__name__} {error} {error.__cause__}"
assert "No space left on device" in text, text[:3000]
for where, folders, names in os.walk(disk):
    for name in names:
        if name == "model" and "/.uploading-" not in where:  # what did not fit is cleared by the run that continues
            print("checkpoint of", os.path.getsize(os.path.join(where, name)), "bytes")
import shutil
shutil.rmtree(disk + "/large")
with small.checkpoint.as_directory() as folder:
    assert os.path.getsize(os.path.join(folder, "model")) == 1 << 20
again = fit("again", 1)
assert again.error is None and again.metrics["epoch"] == 0
"""


@pytest.mark.attack
def test_checkpoints_of_train(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    output = run_under(tmp_path, CHECKPOINTS, *small_disk(disk, "7m"), DISK=str(disk))
    sizes = {line for line in output.splitlines() if line.startswith("checkpoint of")}
    assert sizes == {f"checkpoint of {1 << 20} bytes"}, "each checkpoint that is there is whole: " + output


JOURNAL = """
import os
from skate import tune
disk = os.environ["DISK"]
ray.init(num_cpus=2, num_gpus=0, object_store_memory=100 << 20, log_to_driver=False)

def trial(config):
    for step in range(20):
        tune.report({"score": config["x"] + step, "text": os.urandom(20_000).hex()})
    return None

def fit(name, trials):
    return tune.Tuner(
        trial,
        param_space={"x": tune.grid_search(list(range(trials)))},
        run_config=tune.RunConfig(storage_path=disk, name=name, verbose=0),
    ).fit()

try:
    results = fit("large", 8)
    text = " ".join(str(error) for error in results.errors)
except Exception as error:
    text = f"{type(error).__name__} {error}"
assert "No space left on device" in text, text[:3000]
import shutil
shutil.rmtree(disk + "/large")
results = fit("small", 1)
assert not results.errors and results[0].metrics["score"] == 19
"""


@pytest.mark.attack
def test_journal_of_tune(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    run_under(tmp_path, JOURNAL, *small_disk(disk, "3m"), DISK=str(disk))


LOGS = """
import glob, os, subprocess, sys, time
disk = os.environ["DISK"]
node = [sys.executable, "-m", "skate"]
subprocess.run([*node, "start", "--head", "--num-cpus=1", "--log-dir", disk + "/logs"], check=True)
try:
    with open(disk + "/filler", "wb") as file:
        file.write(bytes(3 << 20))
    ray.init("auto", log_to_driver=False)

    @ray.remote
    class Speaker:
        def say(self, first, count):
            for number in range(first, first + count):
                print("line", number, "x" * 80)
            return os.getpid()

    speaker = Speaker.remote()
    pid = ray.get(speaker.say.remote(0, 50_000))  # 4 MB, and the task does not wait for room

    def text():
        (path,) = glob.glob(f"{disk}/logs/worker-*-{pid}.out")
        with open(path) as file:
            return file.read()

    os.unlink(disk + "/filler")
    deadline = time.monotonic() + 60
    number = 50_000
    while f"line {number - 1} " not in text():
        assert time.monotonic() < deadline, text()[-500:]
        ray.get(speaker.say.remote(number, 1))
        number += 1
        time.sleep(0.1)  # so few lines do not fill the disk again
    lines = text().splitlines()
    (note,) = [line for line in lines if not line.startswith("line ")]
    lost = int(note.split()[1])
    assert note == f"[skate: {lost} bytes of this log are lost: No space left on device]", note
    numbers = [int(line.split()[1]) for line in lines if line is not note]
    assert numbers == sorted(set(numbers)) and all(line.endswith("x" * 80) for line in lines if line is not note)
    missing = set(range(number)) - set(numbers)
    assert lost == sum(len(f"line {each} " + "x" * 80) + 1 for each in missing), (lost, len(missing))
    print("lost", len(missing))
finally:
    subprocess.run([*node, "stop"])
"""


def test_log_files_of_a_node(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    folder = tmp_path / "node"
    said = run_under(tmp_path, LOGS, *small_disk(disk, "4m"), DISK=str(disk), SKATE_TMPDIR=str(folder))
    assert "lost " in said
