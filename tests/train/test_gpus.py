"""GPUs of workers, as far as that is seen without any: which ones each worker may see."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import skate
from skate import train
from skate.train import RunConfig, ScalingConfig
from skate.train.backend import Backend, BackendConfig
from skate.train.collective import barrier
from skate.train.controller.group import shared_gpus
from skate.train.data_parallel_trainer import DataParallelTrainer

pytestmark = pytest.mark.timeout(60)


class SharingBackend(Backend):
    """Has the workers of a node see each other's GPUs."""

    share_cuda_visible_devices = True


class Sharing(BackendConfig):
    """The same, as a config."""

    @property
    def backend_cls(self) -> type[Backend]:
        return SharingBackend


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    skate.shutdown()
    skate.init(num_cpus=2, num_gpus=4)
    yield
    skate.shutdown()


def look(config: dict[str, Any]) -> None:
    """Record the GPUs visible to this rank, and its own."""
    rank = train.get_context().get_world_rank()
    own = skate.get_runtime_context().get_accelerator_ids()["GPU"]
    Path(config["at"], str(rank)).write_text(f"{os.environ['CUDA_VISIBLE_DEVICES']} {','.join(own)}")
    barrier()


@pytest.mark.parametrize(
    ("backend", "each", "expected"),
    [
        (Sharing(), 1, ["0,1 0", "0,1 1"]),
        (Sharing(), 2, ["0,1,2,3 0,1", "0,1,2,3 2,3"]),
        (Sharing(), 0.5, ["0 0", "0 0"]),
        (BackendConfig(), 2, ["0,1 0,1", "2,3 2,3"]),
    ],
)
def test_workers_see_the_gpus_of_their_node_if_the_framework_wants_them_to(
    backend: BackendConfig, each: float, expected: list[str], tmp_path: Path
) -> None:
    DataParallelTrainer(
        look,
        train_loop_config={"at": str(tmp_path)},
        backend_config=backend,
        scaling_config=ScalingConfig(
            num_workers=2, use_gpu=True, resources_per_worker={"GPU": each, "CPU": 1}
        ),
        run_config=RunConfig(name="run", storage_path=str(tmp_path)),
    ).fit()
    assert [(tmp_path / str(rank)).read_text() for rank in range(2)] == expected


def test_gpus_are_shared_on_each_node_for_itself() -> None:
    where = [
        {"node": "a", "gpus": ["10"]},
        {"node": "b", "gpus": ["0", "1"]},
        {"node": "a", "gpus": ["2"]},
        {"node": "c", "gpus": []},
    ]
    assert shared_gpus(where) == {"a": "2,10", "b": "0,1"}
