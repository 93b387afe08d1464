"""The same seed gives the same losses as bare torchrun; and every row of the data is seen once an epoch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import skate
from skate import train
from skate.train import RunConfig, ScalingConfig

pytest.importorskip("torch")

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("session")]

PROGRAM = Path(__file__).parent / "torchrun_programs.py"
NAMES = ("ddp", "fsdp2", "accumulation")


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    skate.shutdown()
    skate.init(num_cpus=2, preload=["torch"])
    yield
    skate.shutdown()


@pytest.fixture(scope="module")
def by_torchrun(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[float]]:
    """The losses of each training under torchrun."""
    losses = tmp_path_factory.mktemp("torchrun") / "losses"
    command = ["-W", "ignore", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [sys.executable, *command, str(PROGRAM), str(losses)],
        capture_output=True,
        text=True,
        timeout=100,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, list[float]] = json.loads(losses.read_text())
    return found


def fit(function: Any, tmp_path: Path, config: Any = None, **given: Any) -> train.Result:
    from skate.train.torch import TorchTrainer

    return TorchTrainer(
        function,
        train_loop_config=config,
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="run", storage_path=str(tmp_path)),
        **given,
    ).fit()


@pytest.fixture(scope="module")
def by_trainer(tmp_path_factory: pytest.TempPathFactory, session: None) -> dict[str, list[float]]:
    """The losses of each training in a TorchTrainer, in one run."""

    def loop(config: dict[str, Any]) -> dict[str, list[float]]:
        from torchrun_programs import prepared

        return {name: prepared(name) for name in config["names"]}

    found: dict[str, list[float]] = fit(
        loop, tmp_path_factory.mktemp("trainer"), {"names": NAMES}
    ).return_value
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_loss_curve_is_that_of_torchrun(
    name: str, by_torchrun: dict[str, list[float]], by_trainer: dict[str, list[float]]
) -> None:
    expected, found = by_torchrun[name], by_trainer[name]
    assert len(expected) == len(found) > 10
    assert found == pytest.approx(expected, abs=1e-6)
    assert expected[-1] != pytest.approx(expected[0], abs=1e-3), "something was learnt"


def test_strategies_agree(by_trainer: dict[str, list[float]]) -> None:
    assert by_trainer["ddp"] == pytest.approx(by_trainer["fsdp2"], abs=1e-5)


def rows_by_sampler(config: dict[str, Any]) -> Any:
    """The rows of each rank, by epoch, gathered by rank 0."""
    import torch
    from torch import distributed
    from torch.utils.data import DataLoader, TensorDataset

    from skate.train.torch import prepare_data_loader

    data = TensorDataset(torch.arange(config["rows"]))
    loader = prepare_data_loader(DataLoader(data, batch_size=5, shuffle=config["shuffle"]))
    epochs = []
    for epoch in range(2):
        loader.sampler.set_epoch(epoch)
        own = [int(row) for (batch,) in loader for row in batch]
        ranks: list[Any] = [None] * distributed.get_world_size()
        distributed.all_gather_object(ranks, own)
        epochs.append(ranks)
    return epochs


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("rows", [40, 41])
def test_sampler_shards_cover_each_row_once(rows: int, shuffle: bool, tmp_path: Path) -> None:
    epochs = fit(rows_by_sampler, tmp_path, {"rows": rows, "shuffle": shuffle}).return_value
    for ranks in epochs:
        seen = Counter(row for own in ranks for row in own)
        assert set(seen) == set(range(rows))
        assert sum(seen.values()) == rows + rows % 2, "as many on each rank: at most one row is seen twice"
        assert len(ranks[0]) == len(ranks[1])
    assert (epochs[0] != epochs[1]) is shuffle, "each epoch has an order of its own, if there is one"


@pytest.mark.parametrize("blocks", [1, 7])
def test_shards_of_data_cover_each_row_once(blocks: int, tmp_path: Path) -> None:
    import skate.data as data

    def loop() -> Any:
        from torch import distributed

        shard = train.get_dataset_shard("train")
        epochs = []
        for _ in range(2):
            own = [int(each) for batch in shard.iter_batches(batch_size=8) for each in batch["id"]]
            whole = [row["id"] for row in train.get_dataset_shard("whole").iter_rows()]
            ranks: list[Any] = [None] * distributed.get_world_size()
            distributed.all_gather_object(ranks, (own, whole))
            epochs.append(ranks)
        return epochs

    epochs = fit(
        loop,
        tmp_path,
        datasets={"train": data.range(50, override_num_blocks=blocks), "whole": data.range(9)},
        dataset_config=train.DataConfig(datasets_to_split=["train"]),
    ).return_value
    for ranks in epochs:
        assert sorted(row for own, _ in ranks for row in own) == list(range(50))
        assert [len(own) for own, _ in ranks] == [25, 25]
        assert [sorted(whole) for _, whole in ranks] == [list(range(9))] * 2
