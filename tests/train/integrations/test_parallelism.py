"""FSDP2, tensor and pipeline parallelism over the workers of a run: the losses equal those of plain torch."""

from __future__ import annotations

from typing import Any

import pytest

from skate.train.torch import TorchTrainer

torch = pytest.importorskip("torch", reason="the extra skate[train] is not installed")

PRELOAD = [
    "torch",
    "torch.distributed.fsdp",
    "torch.distributed.tensor.parallel",
    "torch.distributed.pipelining",
]
STEPS = 5


def layers() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 8))


def batches() -> Any:
    torch.manual_seed(1)
    return [(torch.randn(8, 8), torch.randn(8, 8)) for _ in range(STEPS)]


def mse(found: Any, wanted: Any) -> Any:
    return torch.nn.functional.mse_loss(found, wanted)


def alone() -> list[float]:
    """The loop in one process, with nothing of ours."""
    model = layers()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for x, y in batches():
        loss = mse(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


@pytest.fixture(scope="module")
def wanted() -> list[float]:
    return alone()


def sharded(config: dict[str, Any]) -> list[float]:
    """Data-parallel by `prepare_model`, each worker with its half of every batch; `accumulate` halves of that in turn."""
    from torch import distributed

    import skate.train as train
    from skate.train.torch import prepare_model

    model = prepare_model(layers(), parallel_strategy=config["strategy"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    rank, pieces = train.get_context().get_world_rank(), config.get("accumulate", 1)
    losses = []
    for x, y in batches():
        parts = [each.chunk(2)[rank].chunk(pieces) for each in (x, y)]
        total = torch.zeros(())
        for part, target in zip(*parts, strict=True):
            loss = mse(model(part), target) / pieces
            loss.backward()
            total += loss.detach()
        optimizer.step()
        optimizer.zero_grad()
        distributed.all_reduce(total)
        losses.append(total.item() / 2)
    return losses


@pytest.mark.parametrize("strategy", ["ddp", "fsdp", "fsdp2"])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_data_parallel(fit: Any, wanted: list[float], strategy: str, accumulate: int) -> None:
    result = fit(TorchTrainer, sharded, {"strategy": strategy, "accumulate": accumulate})
    assert result.return_value == pytest.approx(wanted, abs=1e-6)


def in_columns_and_rows() -> Any:
    """The first layer's columns and the last layer's rows are dealt out; every worker sees the whole batch."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    import skate.train as train

    mesh = init_device_mesh("cpu", (train.get_context().get_world_size(),), mesh_dim_names=("tp",))
    model = parallelize_module(layers(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    held = model[0].weight.to_local().shape[0]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False)
    losses = []
    for x, y in batches():
        loss = mse(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses, held


def test_tensor_parallel(fit: Any, wanted: list[float]) -> None:
    losses, held = fit(TorchTrainer, in_columns_and_rows).return_value
    assert losses == pytest.approx(wanted, abs=1e-6)
    assert held == 8, "a worker holds half of the first layer"


def in_stages(config: dict[str, Any]) -> list[float]:
    """The first layers in one worker, the last in the other, four micro-batches at a time."""
    from torch import distributed
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

    import skate.train as train

    rank = train.get_context().get_world_rank()
    whole = layers()
    part = whole[:2] if rank == 0 else whole[2:]
    stage = PipelineStage(part, rank, 2, torch.device("cpu"))
    kind = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}[config["schedule"]]
    schedule = kind(stage, n_microbatches=4, loss_fn=mse)
    optimizer = torch.optim.AdamW(part.parameters(), lr=1e-2)
    losses = []
    for x, y in batches():
        found: list[Any] = []
        if rank == 0:
            schedule.step(x)
        else:
            schedule.step(target=y, losses=found)
        optimizer.step()
        optimizer.zero_grad()
        mean = torch.stack(found).mean().detach() if found else torch.zeros(())
        distributed.broadcast(mean, src=1)
        losses.append(mean.item())
    return losses


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_pipeline_parallel(fit: Any, wanted: list[float], schedule: str) -> None:
    result = fit(TorchTrainer, in_stages, {"schedule": schedule})
    assert result.return_value == pytest.approx(wanted, abs=1e-6)


def test_nccl_without_gpus_says_what_to_change(fit: Any) -> None:
    from skate.train.torch import TorchConfig

    with pytest.raises(ValueError, match=r'backend="nccl".*leave backend out'):
        fit(TorchTrainer, lambda: None, torch_config=TorchConfig(backend="nccl"))


def test_strategies_that_there_are_not(fit: Any) -> None:
    from skate.train import WorkerGroupError

    with pytest.raises(
        WorkerGroupError, match='must be one of "ddp", "fsdp", "fsdp2", "deepspeed", or None, got .ZeRO'
    ):
        fit(TorchTrainer, sharded, {"strategy": "ZeRO"}, workers=1)


def test_deepspeed_without_its_config_says_where_it_goes(fit: Any) -> None:
    from skate.train import WorkerGroupError

    wanted = r"deepspeed_config=|pip install 'skate\[deepspeed\]'"
    with pytest.raises(WorkerGroupError, match=wanted):
        fit(TorchTrainer, sharded, {"strategy": "deepspeed"}, workers=1)
