"""A program that uses all libraries: a dataset held back, a run with a late rank, a search, an application and a model."""

from __future__ import annotations

import os
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import skate
import skate.dashboard
from skate import serve, train, tune
from skate.train.trainer import DataParallelTrainer
from skate.tune.schedulers import AsyncHyperBandScheduler
from skate.util.announcements import announce

TOKEN = "the-token-for-everything"
HOSTILE = "<img src=x onerror=document.title='attacked'>"
LOSSES = [2.0, 1.0, 0.5]


class Gate:
    """Lets the pieces of work of a dataset pass once a file exists."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        while not os.path.exists(self.path):
            threading.Event().wait(0.02)
        return batch


def steps(config: dict[str, Any]) -> None:
    """Fail once, report, and leave rank 1 behind until a file exists."""
    rank, failed = train.get_context().get_world_rank(), Path(config["folder"], "failed")
    for step, loss in enumerate(LOSSES):
        if step == 1 and rank == 1 and not failed.exists():
            failed.touch()
            raise ValueError(f"the shard has no column {HOSTILE}")
        made = Path(config["folder"], f"made-{rank}-{step}")
        made.mkdir(exist_ok=True)
        (made / "weights").write_bytes(b"w" * 5000)
        checkpoint = train.Checkpoint.from_directory(str(made)) if step == 1 else None
        train.report({"loss": loss, "accuracy": 1 - loss / 4}, checkpoint=checkpoint)
    Gate(config["gate"])({}) if rank == 1 else None
    train.report({"loss": 0.25, "accuracy": 0.9})


def trial(config: dict[str, Any]) -> None:
    """Report the rate as the loss."""
    if config["rate"] > 3:
        raise ValueError(f"diverged {HOSTILE}")
    for _ in range(4):
        tune.report({"loss": config["rate"] / 10})


@serve.deployment(autoscaling_config={"min_replicas": 1, "max_replicas": 2})
class Shop:
    """Answer with a product."""

    async def __call__(self, request: Any) -> dict[str, Any]:
        if request.query_params.get("n") == "bad":
            raise ValueError("no such product")
        return {"product": request.query_params.get("n", "one")}


class Running(NamedTuple):
    """The program: the link to its page, its folder, and the address of its application."""

    link: Any
    folder: Path
    address: str


@contextmanager
def running(folder: Path) -> Iterator[Running]:
    """Run it with a dashboard."""
    gate = str(folder / "open")
    os.environ["RAY_AUTH_TOKEN"] = TOKEN
    try:
        skate.init(num_cpus=6, object_store_memory=4 * 10**8, log_to_driver=False)
        link = skate.dashboard(port=0)  # type: ignore[operator]
        threads = [
            threading.Thread(target=_dataset, args=(gate,)),
            threading.Thread(target=_run, args=(folder, gate)),
        ]
        for each in threads:
            each.start()
        _search(folder)
        address = _application()
        _model()
        yield Running(link, folder, address)
        Path(gate).touch()
        for each in threads:
            each.join()
        serve.shutdown()
    finally:
        Path(gate).touch()
        skate.shutdown()
        del os.environ["RAY_AUTH_TOKEN"]


def _dataset(gate: str) -> None:
    pool = skate.data.ActorPoolStrategy(size=1)
    dataset = skate.data.range(3000, override_num_blocks=30).map_batches(lambda batch: batch, num_cpus=0.5)
    dataset = dataset.map_batches(
        Gate, fn_constructor_args=(gate,), compute=pool, batch_size=100, num_cpus=0.5
    )
    dataset.set_name(f"features {HOSTILE}")
    dataset.materialize()


def _run(folder: Path, gate: str) -> None:
    run = train.RunConfig(
        name="vision", storage_path=str(folder), failure_config=train.FailureConfig(max_failures=1)
    )
    scaling = train.ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.5})
    config = {"folder": str(folder), "gate": gate}
    DataParallelTrainer(steps, train_loop_config=config, scaling_config=scaling, run_config=run).fit()


def _search(folder: Path) -> None:
    scheduler = AsyncHyperBandScheduler(grace_period=1, max_t=10, reduction_factor=2)
    tune.Tuner(
        tune.with_resources(trial, {"CPU": 1}),
        param_space={"rate": tune.grid_search([1, 2, 3, 4]), "rule": tune.choice(["sgd", "adam"])},
        tune_config=tune.TuneConfig(metric="loss", mode="min", scheduler=scheduler, max_concurrent_trials=1),
        run_config=tune.RunConfig(name="rates", storage_path=str(folder), verbose=0),
    ).fit()


def _application() -> str:
    serve.start(http_options={"host": "127.0.0.1", "port": 0})
    serve.run(Shop.bind(), name="shop", route_prefix="/shop")  # type: ignore[attr-defined]
    address = f"http://127.0.0.1:{serve.status().proxies and _port()}/shop"
    for word in ("one", "two", "bad"):
        try:
            urllib.request.urlopen(f"{address}?n={word}").read()
        except urllib.error.HTTPError:
            assert word == "bad"
    return address


def _port() -> int:
    from skate.serve import rest

    return int(rest.details()["http_options"]["port"])


def _model() -> None:
    """Announce a model, as the server of one does."""
    bounds = {"bounds": [0.01, 0.1, 1.0], "counts": [3.0, 1.0, 0.0, 0.0]}
    requests = {
        "prompt_tokens_total": 900.0,
        "generated_tokens_total": 400.0,
        "requests_running": 2.0,
        "requests_total:ok": 4.0,
    }
    engine = {
        "slots": 8,
        "slots_used": 2,
        "waiting": 1,
        "prompt_tokens_asked": 900,
        "prompt_tokens_cached": 450,
    }
    facts = {"model": "tiny-llama", "engine": "embedded", "weights": "/models/tiny", "max_model_len": 1024}
    announce(
        "llm",
        "tiny-llama",
        facts,
        lambda: {"requests": {**requests, "ttft_engine_seconds": bounds}, "engine": engine},
    )
