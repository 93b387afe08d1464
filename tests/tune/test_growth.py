"""Searches in clusters that get nodes while they run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import skate
from skate import tune
from skate.client.session.detached_node import GROWS_LABEL
from skate.cluster_utils import Cluster
from skate.util.state import list_actors
from tests.conformance.waiting import wait_for

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def cluster() -> Iterator[Callable[..., Cluster]]:
    skate.shutdown()
    made: list[Cluster] = []

    def make(**labels: str) -> Cluster:
        head = {"num_cpus": 1, "labels": labels}
        made.append(Cluster(initialize_head=True, head_node_args=head, connect=True))
        return made[0]

    yield make
    skate.shutdown()
    for each in made:
        each.shutdown()


def meeting(folder: Path) -> Callable[[dict[str, Any]], None]:
    """A trainable that waits until two trials run."""

    def meet(config: dict[str, Any]) -> None:
        (folder / f"began-{config['x']}").touch()
        pause = threading.Event()
        while len(list(folder.glob("began-*"))) < 2:
            pause.wait(0.02)
        tune.report({"x": config["x"]})

    return meet


class Search:
    """A search of two trials, in a thread."""

    def __init__(self, folder: Path, cpus: int) -> None:
        self.folder = folder
        self.tuner = tune.Tuner(
            tune.with_resources(meeting(folder), {"CPU": cpus}),
            param_space={"x": tune.grid_search([1, 2])},
            run_config=tune.RunConfig(name="search", storage_path=str(folder / "results"), verbose=0),
        )
        self.results: Any = None
        self.thread = threading.Thread(target=self._fit)
        self.thread.start()

    def _fit(self) -> None:
        self.results = self.tuner.fit()

    def began(self) -> int:
        return len(list(self.folder.glob("began-*")))

    def values(self) -> list[int]:
        self.thread.join()
        return sorted(result.metrics["x"] for result in self.results)


def test_trials_run_on_a_node_that_joins(cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    made = cluster()
    search = Search(tmp_path, cpus=1)
    wait_for(lambda: search.began() == 1, 60, "the first trial runs")
    made.add_node(num_cpus=1)
    assert search.values() == [1, 2]


def test_a_cluster_grows_for_trials(cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    made = cluster(**{GROWS_LABEL: "on"})
    search = Search(tmp_path, cpus=2)

    wait_for(lambda: len(list_actors(filters=[("state", "=", "PENDING_CREATION")])) == 2, 60, "both wait")
    assert search.began() == 0
    made.add_node(num_cpus=4)
    assert search.values() == [1, 2]
