"""Measurements of training: each scenario on one target, in a process of its own, always with two workers.

Times inside a run are taken by rank 0, in the training function. `torchrun` is the same function under bare
`torch.distributed.run`, as far as it has the thing at all.
"""

from __future__ import annotations

import argparse
import importlib
import json
import operator
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.session import INIT

REPORTS = 20
CHECKPOINT_BYTES = 1_000_000
ROWS = 200_000
BATCH = 512
#: What the project asks of itself.
REACH = {
    "fit_again_ms": "≤ 1000",
    "report_ms": "≤ 5",
    "checkpoint_ms": "≥ 5x Ray",
    "ddp_steps_per_s": "≥ 0.98 of torchrun",
    "ddp_middle_steps_per_s": "≥ 0.98 of torchrun",
    "save_held_percent": "≤ 2",
    "stall_percent": "measured",
}


# -- training functions, which run in workers


def nothing() -> None:
    """A process group, and no more."""


def reports(config: dict[str, Any]) -> dict[str, float]:
    """20 reports in a row, after one that is not counted."""
    train = importlib.import_module(f"{config['target']}.train")
    train.report({"begin": 0})
    begin = time.perf_counter()
    for number in range(REPORTS):
        train.report({"number": number})
    return {"report_ms": 1000 * (time.perf_counter() - begin) / REPORTS}


def checkpoints(config: dict[str, Any]) -> dict[str, float]:
    """20 reports with a checkpoint of 1 MB from each rank, after one that is not counted."""
    train = importlib.import_module(f"{config['target']}.train")
    rank = train.get_context().get_world_rank()
    contents = os.urandom(CHECKPOINT_BYTES)
    begin = 0.0
    for number in range(REPORTS + 1):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, f"rank-{rank}").write_bytes(contents)
            train.report({"number": number}, checkpoint=train.Checkpoint.from_directory(folder))
        begin = begin or time.perf_counter()
    return {"checkpoint_ms": 1000 * (time.perf_counter() - begin) / REPORTS}


def model() -> Any:
    """A small network whose gradients take a while to be averaged."""
    from torch import nn

    return nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def middle_model() -> Any:
    """A network of 17 MB."""
    from torch import nn

    return nn.Sequential(
        nn.Linear(64, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10)
    )


def middle_steps(config: dict[str, Any]) -> dict[str, float]:
    """Steps a second of the larger model."""
    return {"ddp_middle_steps_per_s": steps(config, middle_model, 20)["ddp_steps_per_s"]}


def saves(config: dict[str, Any]) -> dict[str, float]:
    """Checkpoints of both ranks, 51 MB each time, in the background: how long the loop is held, in percent of the writing."""
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
    from torch.distributed.checkpoint.state_dict import get_state_dict

    train = importlib.import_module(f"{config['target']}.train")
    trained = importlib.import_module(f"{config['target']}.train.torch").prepare_model(middle_model())
    optimizer = torch.optim.Adam(trained.parameters())
    group = torch.distributed.new_group(backend="gloo")
    stager = DefaultStager(StagingOptions(False, False, True, False))
    rows, wanted = torch.randn(64, 64), torch.randint(0, 10, (64,))
    held, written = [], []
    for number in range(6):
        with tempfile.TemporaryDirectory() as own:
            folders = [own]
            torch.distributed.broadcast_object_list(folders)
            moments = [time.perf_counter()]
            state = dict(zip(("model", "optimizer"), get_state_dict(trained, optimizer), strict=True))
            saving = dcp.async_save(state, checkpoint_id=folders[0], process_group=group, async_stager=stager)
            saving.upload_completion.add_done_callback(lambda _, at=moments: at.append(time.perf_counter()))

            def uploaded(checkpoint: Any, name: str, saving: Any = saving) -> Any:
                saving.upload_completion.result()
                return checkpoint

            train.report(
                {"number": number},
                train.Checkpoint(folders[0]),
                checkpoint_upload_mode=train.CheckpointUploadMode.ASYNC,
                checkpoint_upload_fn=uploaded,
            )
            taken = time.perf_counter() - moments[0]
            while True:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(trained(rows), wanted).backward()
                begin = time.perf_counter()
                saving.staging_completion.result()
                taken += time.perf_counter() - begin
                optimizer.step()
                done = [saving.upload_completion.done()]
                torch.distributed.broadcast_object_list(done)
                if done[0]:
                    break
            saving.upload_completion.result()
            torch.distributed.barrier()  # before the folder goes
        if number:
            held.append(taken)
            written.append(moments[1] - moments[0])
    return {
        "save_held_ms": 1000 * statistics.median(held),
        "save_written_ms": 1000 * statistics.median(written),
        "save_held_percent": 100 * statistics.median(map(operator.truediv, held, written)),
    }


def steps(config: dict[str, Any], model: Callable[[], Any] = model, count: int = 100) -> dict[str, float]:
    """Steps a second of a model that is trained by both ranks, its data in memory."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(1)
    if config["target"] == "torchrun":
        trained = DistributedDataParallel(model())
    else:
        trained = importlib.import_module(f"{config['target']}.train.torch").prepare_model(model())
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.01)
    rows, wanted = torch.randn(64, 64), torch.randint(0, 10, (64,))
    rates = []
    for _ in range(8):
        begin = time.perf_counter()
        for _ in range(count):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(trained(rows), wanted).backward()
            optimizer.step()
        rates.append(count / (time.perf_counter() - begin))
    return {"ddp_steps_per_s": statistics.median(rates[1:])}


def prepared_rows(batch: Any) -> Any:
    """The preprocessing: what comes out is what the model takes."""
    import numpy as np

    base = batch["id"].astype("float32")[:, None] * np.arange(1, 65, dtype="float32")
    return {"rows": np.sin(base), "wanted": batch["id"] % 10}


def fed(config: dict[str, Any]) -> dict[str, float]:
    """An epoch over a dataset; the share of it in which rank 0 waited for a batch."""
    import torch

    train = importlib.import_module(f"{config['target']}.train")
    trained = importlib.import_module(f"{config['target']}.train.torch").prepare_model(model())
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.01)
    shard = train.get_dataset_shard("train")
    waited = rows = 0.0
    begin = time.perf_counter()
    batches = iter(shard.iter_torch_batches(batch_size=BATCH, drop_last=True))
    first = 0.0
    while True:
        asked = time.perf_counter()
        batch = next(batches, None)
        if batch is None:
            break
        now = time.perf_counter()
        if rows:
            waited += now - asked
        else:
            first, begin = now - begin, now
        rows += len(batch["wanted"])
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(trained(batch["rows"]), batch["wanted"].long()).backward()
        optimizer.step()
    spent = time.perf_counter() - begin
    return {
        "first_batch_ms": 1000 * first,
        "fed_rows_per_s": rows / spent,
        "stall_percent": 100 * waited / spent,
    }


# -- scenarios


def trained(target: str, function: Callable[..., Any], cpus: float = 1, **given: Any) -> Any:
    """One run of two workers."""
    train = importlib.import_module(f"{target}.train")
    with tempfile.TemporaryDirectory() as folder:
        return (
            importlib.import_module(f"{target}.train.torch")
            .TorchTrainer(
                function,
                train_loop_config={"target": target},
                scaling_config=train.ScalingConfig(num_workers=2, resources_per_worker={"CPU": cpus}),
                run_config=train.RunConfig(name="run", storage_path=folder),
                **given,
            )
            .fit()
            .return_value
        )


def under_torchrun(name: str) -> dict[str, float]:
    """The same function in two processes of torchrun; what rank 0 has printed."""
    launch = ["-W", "ignore", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    begin = time.perf_counter()
    done = subprocess.run(
        [
            sys.executable,
            *launch,
            "-m",
            "benchmarks.train.scenarios",
            name,
            "--target",
            "torchrun",
            "--inside",
        ],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    if name == "fit":
        return {"fit_ms": 1000 * (time.perf_counter() - begin)}
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def fit(target: str) -> dict[str, float]:
    """A run of two workers that do nothing: the first of a program, and another one."""
    begin = time.perf_counter()
    trained(target, nothing)
    first = time.perf_counter() - begin
    begin = time.perf_counter()
    trained(target, nothing)
    return {"fit_ms": 1000 * first, "fit_again_ms": 1000 * (time.perf_counter() - begin)}


def report(target: str) -> dict[str, float]:
    """Reports of metrics alone."""
    found: dict[str, float] = trained(target, reports)
    return found


def checkpoint(target: str) -> dict[str, float]:
    """Reports with checkpoints."""
    found: dict[str, float] = trained(target, checkpoints)
    return found


def ddp(target: str) -> dict[str, float]:
    """Steps of a model on both ranks."""
    found: dict[str, float] = trained(target, steps)
    return found


def ddp_middle(target: str) -> dict[str, float]:
    """Steps of a larger model on both ranks."""
    found: dict[str, float] = trained(target, middle_steps)
    return found


def background(target: str) -> dict[str, float]:
    """Distributed checkpoints that are written while training continues."""
    found: dict[str, float] = trained(target, saves)
    return found


def data(target: str) -> dict[str, float]:
    """Training that is fed by a dataset with preprocessing; half of the CPUs are left for it."""
    library = importlib.import_module(f"{target}.data")
    context = library.DataContext.get_current()
    context.enable_progress_bars = False
    rows = library.range(ROWS, override_num_blocks=16).map_batches(prepared_rows, batch_size=None)
    found: dict[str, float] = trained(target, fed, cpus=0.5, datasets={"train": rows})
    return found


SCENARIOS = {each.__name__: each for each in (fit, report, checkpoint, ddp, ddp_middle, background, data)}
#: What torchrun has too, by scenario.
BARE: dict[str, Callable[[dict[str, Any]], Any]] = {
    "fit": lambda config: {},
    "ddp": steps,
    "ddp_middle": middle_steps,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("--target", default="skate", choices=("skate", "ray", "torchrun"))
    parser.add_argument("--inside", action="store_true", help="this is one of the processes of torchrun")
    args = parser.parse_args()
    if args.inside:
        from torch import distributed

        distributed.init_process_group("gloo")
        found = BARE[args.scenario]({"target": "torchrun"})
        if distributed.get_rank() == 0:
            print(json.dumps(found), flush=True)
        distributed.destroy_process_group()
        return
    if args.target == "torchrun":
        figures = under_torchrun(args.scenario) if args.scenario in BARE else {}
    else:
        target = importlib.import_module(args.target)
        target.init(**INIT)
        figures = SCENARIOS[args.scenario](args.target)
        target.shutdown()
    print(json.dumps({"figures": figures, "notes": {}}), flush=True)


if __name__ == "__main__":
    main()
