"""Checkpoints of `torch.distributed.checkpoint`, written in the background while training continues."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

import skate
from skate import train
from skate.train import CheckpointUploadMode, RunConfig, ScalingConfig
from skate.train.torch import TorchTrainer, prepare_model

pytestmark = [
    pytest.mark.timeout(180),
    # torch says so although the test asks for exactly that
    pytest.mark.filterwarnings("ignore:torch.distributed is disabled:UserWarning"),
]

SAVES, STEPS = 3, 4


@pytest.fixture
def session() -> Iterator[None]:
    skate.init(num_cpus=2)
    yield
    skate.shutdown()


def parts() -> tuple[Any, Any]:
    """A model and its optimizer."""
    torch.manual_seed(0)
    model = torch.nn.Linear(64, 64)
    return model, torch.optim.Adam(model.parameters(), lr=0.1)


def total(model: Any) -> float:
    return float(sum(parameter.detach().double().abs().sum() for parameter in model.parameters()))


def loop(config: dict[str, Any]) -> None:
    model, _ = parts()
    model = prepare_model(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    # Collectives of a save in the background would meet those of the gradients in a common group.
    saves = torch.distributed.new_group(backend="gloo")
    stager = DefaultStager(StagingOptions(False, False, True, False))
    checkpoint = train.get_checkpoint()
    begins = 0
    if checkpoint is not None:
        state = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))
        dcp.load(state, checkpoint_id=checkpoint.path)
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        begins = config["begins"]
        train.report({"number": -1, "weights": total(model)})
    rows = torch.randn(8, 64)
    saving: Any = None
    for number in range(begins, SAVES):
        state = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))
        folder = str(Path(config["folder"], f"save-{number}"))
        if saving is not None:
            saving.upload_completion.result()  # two saves at once would meet in the group
        saving = dcp.async_save(state, checkpoint_id=folder, process_group=saves, async_stager=stager)

        def written(checkpoint: train.Checkpoint, name: str, saving: Any = saving) -> train.Checkpoint:
            saving.upload_completion.result()
            return checkpoint

        train.report(
            {"number": number, "weights": total(model)},
            train.Checkpoint(folder),
            checkpoint_upload_mode=CheckpointUploadMode.ASYNC,
            checkpoint_upload_fn=written,
        )
        for step in range(STEPS):
            optimizer.zero_grad()
            model(rows).square().mean().backward()
            if not step:
                saving.staging_completion.result()  # the weights may change once they are copied
            optimizer.step()


def loaded(checkpoint: train.Checkpoint) -> float:
    """The weights of a checkpoint, read without a process group."""
    model, optimizer = parts()
    state = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))
    dcp.load(state, checkpoint_id=checkpoint.path, no_dist=True)
    model.load_state_dict(state["model"])
    return total(model)


@pytest.mark.usefixtures("session")
def test_saves_in_the_background_hold_the_weights_of_their_report(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "scaling_config": ScalingConfig(num_workers=2),
        "run_config": RunConfig(name="run", storage_path=str(tmp_path / "runs")),
    }
    result = TorchTrainer(loop, train_loop_config={"folder": str(tmp_path)}, **given).fit()
    assert [metrics["number"] for _, metrics in result.best_checkpoints] == [*range(SAVES)]
    weights = [metrics["weights"] for _, metrics in result.best_checkpoints]
    assert len(set(weights)) == SAVES, "training continues between the saves"
    assert [loaded(checkpoint) for checkpoint, _ in result.best_checkpoints] == pytest.approx(weights)
    # Both ranks have written their own part.
    assert result.checkpoint is not None
    assert len(list(Path(result.checkpoint.path).glob("*.distcp"))) == 2
    again = TorchTrainer(loop, train_loop_config={"folder": str(tmp_path), "begins": SAVES}, **given).fit()
    assert again.metrics is not None
    assert again.metrics["weights"] == pytest.approx(weights[-1])
