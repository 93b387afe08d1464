"""Lightning in two workers: losses of one process, checkpoints that a model can be made of, and a look before the start."""

from __future__ import annotations

import os
from typing import Any

import pytest

from skate.train.torch import TorchTrainer

pytest.importorskip("lightning", reason="the extra skate[lightning] is not installed")

PRELOAD = ["torch", "lightning.pytorch"]


def module_of(torch: Any, pl: Any) -> Any:
    class Line(pl.LightningModule):  # type: ignore[misc]
        """Fits y = 3x - 1."""

        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.layer = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))

        def training_step(self, batch: Any, index: int) -> Any:
            x, y = batch
            loss = ((self.layer(x) - y) ** 2).mean()
            self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    return Line()


def loop(config: dict[str, Any]) -> Any:
    import lightning.pytorch as pl
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    import skate.train as train
    import skate.train.lightning as ours

    x = torch.linspace(-1, 1, 16).reshape(-1, 1)
    loader = DataLoader(TensorDataset(x, 3 * x - 1), batch_size=16 // train.get_context().get_world_size())
    strategy = getattr(ours, config["strategy"])(**config.get("options", {}))
    trainer = pl.Trainer(
        max_epochs=3,
        devices="auto",
        accelerator="cpu",
        strategy=strategy,
        plugins=[ours.RayLightningEnvironment()],
        callbacks=[ours.RayTrainReportCallback()],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        logger=False,
    )
    trainer = ours.prepare_trainer(trainer)
    trainer.fit(module_of(torch, pl), train_dataloaders=loader)
    return trainer.world_size, type(trainer.strategy).__name__


def losses(result: Any) -> list[float]:
    return [float(each) for each in result.metrics_dataframe["loss"]]


def test_ddp_gives_the_losses_of_one_worker(fit: Any) -> None:
    two = fit(TorchTrainer, loop, {"strategy": "RayDDPStrategy"})
    one = fit(TorchTrainer, loop, {"strategy": "RayDDPStrategy"}, workers=1)
    assert two.return_value == (2, "RayDDPStrategy") and one.return_value[0] == 1
    assert losses(two)[-3:] == pytest.approx(losses(one)[-3:], abs=1e-6)
    assert losses(two)[2] < losses(two)[0]
    assert two.metrics["epoch"] == 2 and two.metrics["step"] == 3
    with two.checkpoint.as_directory() as folder:
        import lightning.pytorch as pl
        import torch

        names = [name for name in os.listdir(folder) if not name.startswith(".")]
        assert names == ["checkpoint.ckpt"]
        state = torch.load(os.path.join(folder, "checkpoint.ckpt"), weights_only=False)
        module_of(torch, pl).load_state_dict(state["state_dict"])


@pytest.mark.parametrize("kind", ["full", "sharded"])
def test_fsdp_gives_the_losses_of_ddp(fit: Any, kind: str) -> None:
    import torch

    ddp = losses(fit(TorchTrainer, loop, {"strategy": "RayDDPStrategy"}))
    options = {"state_dict_type": kind}
    result = fit(TorchTrainer, loop, {"strategy": "RayFSDPStrategy", "options": options})
    assert losses(result)[-3:] == pytest.approx(ddp[-3:], abs=1e-6)
    with result.checkpoint.as_directory() as folder:
        path = os.path.join(folder, "checkpoint.ckpt")
        assert os.path.isdir(path) == (kind == "sharded")
        if kind == "full":
            state = torch.load(path, weights_only=False)["state_dict"]
            assert [tuple(each.shape) for each in state.values()] == [(8, 1), (8,), (1, 8), (1,)]
            assert all(each.isfinite().all() for each in state.values())
        else:
            assert len([name for name in os.listdir(path) if name.endswith(".distcp")]) == 2


def test_prepare_trainer_names_what_to_give(fit: Any) -> None:
    def loop() -> list[str]:
        import lightning.pytorch as pl

        import skate.train.lightning as ours

        quiet: dict[str, Any] = {"logger": False, "enable_checkpointing": False, "accelerator": "cpu"}
        messages = []
        for given in ({"strategy": "ddp"}, {"strategy": ours.RayDDPStrategy()}):
            try:
                ours.prepare_trainer(pl.Trainer(**quiet, **given))
            except RuntimeError as error:
                messages.append(str(error))
        return messages

    messages = fit(TorchTrainer, loop, workers=1).return_value
    assert "RayDDPStrategy" in messages[0] and "DDPStrategy" in messages[0]
    assert "RayLightningEnvironment" in messages[1]
