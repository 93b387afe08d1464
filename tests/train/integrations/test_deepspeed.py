"""DeepSpeed in two workers through gloo: ZeRO gives the losses of plain torch; checkpoints; loops of both styles."""

from __future__ import annotations

import os
from typing import Any

import pytest

from skate.train import Checkpoint, WorkerGroupError
from skate.train.torch import TorchTrainer

torch = pytest.importorskip("torch", reason="the extra skate[train] is not installed")

PRELOAD = ["torch", "deepspeed"]
pytestmark = [pytest.mark.deepspeed, pytest.mark.timeout(600)]
STEPS = 5


@pytest.fixture(autouse=True)
def installed() -> None:
    pytest.importorskip(
        "deepspeed", reason="the extra skate[deepspeed] is not installed; make test-deepspeed does it"
    )


def layers() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.GELU(), torch.nn.Linear(32, 8))


def batches() -> Any:
    torch.manual_seed(1)
    return [(torch.randn(8, 8), torch.randn(8, 8)) for _ in range(STEPS)]


def mse(found: Any, wanted: Any) -> Any:
    return torch.nn.functional.mse_loss(found, wanted)


@pytest.fixture(scope="module")
def wanted() -> list[float]:
    """The loop in one process, with nothing of ours."""
    model, losses = layers(), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.01)
    for x, y in batches():
        loss = mse(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def config_of(stage: int, **more: Any) -> dict[str, Any]:
    return {"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": stage, **more}}


ADAM = {"optimizer": {"type": "AdamW", "params": {"lr": 1e-2, "weight_decay": 0.01}}}


def mean_over_workers(loss: Any) -> float:
    from torch import distributed

    found = loss.detach().clone().float()
    distributed.all_reduce(found)
    return float(found.item() / distributed.get_world_size())


def in_the_style_of_deepspeed(config: dict[str, Any]) -> list[float]:
    import skate.train as train
    from skate.train.torch import prepare_model

    engine = prepare_model(
        layers(), parallel_strategy="deepspeed", parallel_strategy_kwargs={"config": config["deepspeed"]}
    )
    rank, losses = train.get_context().get_world_rank(), []
    for x, y in batches():
        loss = mse(engine(x.chunk(2)[rank]), y.chunk(2)[rank])
        engine.backward(loss)
        engine.step()
        losses.append(mean_over_workers(loss))
    return losses


OFFLOAD = {"offload_optimizer": {"device": "cpu"}}


@pytest.mark.parametrize("stage", [1, 2, 3])
@pytest.mark.parametrize("offload", [{}, OFFLOAD], ids=["", "offload"])
def test_zero_gives_the_losses_of_torch(
    fit: Any, wanted: list[float], stage: int, offload: dict[str, Any]
) -> None:
    more = {**offload, "offload_param": {"device": "cpu"}} if offload and stage == 3 else offload
    given = {**config_of(stage, **more), **ADAM}
    result = fit(TorchTrainer, in_the_style_of_deepspeed, {"deepspeed": given})
    assert result.return_value == pytest.approx(wanted, abs=1e-5)


def in_the_style_of_torch(config: dict[str, Any]) -> list[float]:
    """A loop that knows nothing of DeepSpeed."""
    import skate.train as train
    from skate.train.torch import prepare_model

    model = prepare_model(layers().to(getattr(torch, config["dtype"])))
    assert type(model).__name__ == "DeepSpeedEngine"
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.01)
    rank, losses = train.get_context().get_world_rank(), []
    for x, y in batches():
        part = [each.chunk(2)[rank].to(getattr(torch, config["dtype"])) for each in (x, y)]
        loss = mse(model(part[0]), part[1])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(mean_over_workers(loss))
    return losses


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_a_loop_of_plain_torch_drives_the_engine(fit: Any, wanted: list[float], stage: int) -> None:
    given = {**config_of(stage), "train_batch_size": "auto", "gradient_accumulation_steps": "auto"}
    result = fit(TorchTrainer, in_the_style_of_torch, {"dtype": "float32"}, deepspeed_config=given)
    assert result.return_value == pytest.approx(wanted, abs=1e-5)


def test_brain_floats_with_all_that_the_text_offloads(fit: Any, wanted: list[float]) -> None:
    given = {
        **config_of(
            3,
            offload_optimizer={"device": "cpu", "pin_memory": True},
            offload_param={"device": "cpu", "pin_memory": True},
            overlap_comm=True,
            contiguous_gradients=True,
        ),
        "bf16": {"enabled": True},
        "gradient_clipping": 1.0,
    }
    result = fit(TorchTrainer, in_the_style_of_torch, {"dtype": "bfloat16"}, deepspeed_config=given)
    assert result.return_value == pytest.approx(wanted, abs=0.05)
    assert result.return_value[-1] != result.return_value[0]


def saving(config: dict[str, Any]) -> Any:
    import tempfile

    import skate.train as train
    from skate.train.torch import prepare_model

    engine = prepare_model(
        layers(), parallel_strategy="deepspeed", parallel_strategy_kwargs={"config": {**config_of(3), **ADAM}}
    )
    found = train.get_checkpoint()
    if found is not None:
        with found.as_directory() as folder:
            engine.load_checkpoint(folder)
    rank, losses = train.get_context().get_world_rank(), []
    for x, y in batches()[config["from"] : config["to"]]:
        loss = mse(engine(x.chunk(2)[rank]), y.chunk(2)[rank])
        engine.backward(loss)
        engine.step()
        losses.append(mean_over_workers(loss))
    with tempfile.TemporaryDirectory() as folder:
        engine.save_checkpoint(folder)
        torch.distributed.barrier()
        train.report({"losses": losses}, checkpoint=Checkpoint.from_directory(folder))
    return losses


def test_shards_of_all_ranks_are_one_checkpoint_that_a_run_goes_on_from(
    fit: Any, wanted: list[float]
) -> None:
    first = fit(TorchTrainer, saving, {"from": 0, "to": 3})
    with first.checkpoint.as_directory() as folder:
        (tag,) = [name for name in os.listdir(folder) if name.startswith("global_step")]
        shards = [name for name in os.listdir(os.path.join(folder, tag)) if "optim_states" in name]
    assert len(shards) == 2
    second = fit(TorchTrainer, saving, {"from": 3, "to": 5})
    assert first.return_value + second.return_value == pytest.approx(wanted, abs=1e-5)


def test_an_optimizer_that_has_no_counterpart_is_told(fit: Any) -> None:
    def loop() -> None:
        from skate.train.torch import prepare_model

        model = prepare_model(layers())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        mse(model(torch.ones(4, 8)), torch.ones(4, 8)).backward()
        optimizer.step()

    with pytest.raises(WorkerGroupError, match="AdamW.*not from SGD"):
        fit(TorchTrainer, loop, deepspeed_config=config_of(1))


def test_lightning_with_deepspeed(fit: Any) -> None:
    pytest.importorskip("lightning", reason="the extra skate[lightning] is not installed")

    def loop() -> Any:
        import lightning.pytorch as pl
        from torch.utils.data import DataLoader, TensorDataset

        import skate.train.lightning as ours

        class Module(pl.LightningModule):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.layers = layers()

            def training_step(self, batch: Any, index: int) -> Any:
                loss = mse(self.layers(batch[0]), batch[1])
                self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)
                return loss

            def configure_optimizers(self) -> Any:
                return torch.optim.AdamW(self.parameters(), lr=1e-2)

        x, y = (torch.cat(each) for each in zip(*batches(), strict=True))
        trainer = ours.prepare_trainer(
            pl.Trainer(
                max_epochs=2,
                accelerator="cpu",
                strategy=ours.RayDeepSpeedStrategy(stage=2),
                plugins=[ours.RayLightningEnvironment()],
                callbacks=[ours.RayTrainReportCallback()],
                enable_checkpointing=False,
                enable_progress_bar=False,
                enable_model_summary=False,
                logger=False,
            )
        )
        trainer.fit(Module(), DataLoader(TensorDataset(x, y), batch_size=4))
        return trainer.world_size

    result = fit(TorchTrainer, loop)
    assert result.return_value == 2
    values = list(result.metrics_dataframe["loss"])
    assert values[-1] < values[0]
    with result.checkpoint.as_directory() as folder:
        assert os.path.isdir(os.path.join(folder, "checkpoint.ckpt"))


def test_half_precision_without_a_gpu_says_what_to_change(fit: Any) -> None:
    given = {**config_of(1), **ADAM, "fp16": {"enabled": True}}
    with pytest.raises(WorkerGroupError, match='"fp16": {"enabled": False}'):
        fit(TorchTrainer, in_the_style_of_deepspeed, {"deepspeed": given}, workers=1)
