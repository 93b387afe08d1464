"""The workers of one attempt: actors on a placement group, sorted by rank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import skate
from skate.train.backend import Backend, BackendConfig
from skate.train.configs import ScalingConfig
from skate.train.controller import cluster
from skate.train.controller.ranks import places
from skate.train.worker.actor import TrainWorker
from skate.train.worker.session import Place
from skate.util.placement_group import placement_group, remove_placement_group
from skate.util.scheduling_strategies import PlacementGroupSchedulingStrategy

#: Concurrent calls of a worker: the training function, the controller's wait for messages, and other requests.
_CALLS = 5


class WorkerGroup:
    """Running workers; `len()` is their number, positions are ranks."""

    def __init__(self, workers: int, scaling: ScalingConfig, runtime_env: dict[str, Any] | None) -> None:
        self.scaling = scaling
        self.workers: list[Any] = []
        self.places: list[Place] = []
        self.where: list[dict[str, Any]] = []
        self._group: Any = None
        self._backend: tuple[Backend, BackendConfig] | None = None
        try:
            self._start(workers, runtime_env)
        except BaseException:  # Ctrl-C as well: no unknown workers may stay behind
            self.close()
            raise

    def _start(self, workers: int, runtime_env: dict[str, Any] | None) -> None:
        scaling = self.scaling
        bundle = cluster.wanted(scaling)
        given: dict[str, Any] = {}
        if scaling.label_selector is not None:
            labels = scaling.label_selector
            given["bundle_label_selector"] = (
                labels[:workers] if isinstance(labels, list) else [dict(labels) for _ in range(workers)]
            )
        self._group = placement_group([dict(bundle)] * workers, strategy=scaling.placement_strategy, **given)
        options = {**bundle.to_options(), "max_concurrency": _CALLS, "runtime_env": runtime_env}
        remote = skate.remote(TrainWorker)
        made = [
            remote.options(
                **options,
                scheduling_strategy=PlacementGroupSchedulingStrategy(
                    placement_group=self._group, placement_group_bundle_index=index
                ),
            ).remote()
            for index in range(workers)
        ]
        self.workers = made
        where = skate.get([worker.whereabouts.remote() for worker in made])
        order, self.places = places([each["node"] for each in where])
        self.workers = [made[position] for position in order]
        self.where = [where[position] for position in order]

    @property
    def held(self) -> Counter[str]:
        """Return the number of workers by node."""
        return Counter(each["node"] for each in self.where)

    # -- interface of backends

    def __len__(self) -> int:
        return len(self.workers)

    def execute_async(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
        """Call a function in every worker; return refs to the results, by rank."""
        return [worker.execute.remote(func, args, kwargs) for worker in self.workers]

    def execute(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
        """Call a function in every worker; wait and return the results by rank."""
        return list(skate.get(self.execute_async(func, *args, **kwargs)))

    def execute_single_async(self, rank: int, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function in one worker; return a ref to the result."""
        return self.workers[rank].execute.remote(func, args, kwargs)

    def execute_single(self, rank: int, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function in one worker; wait and return the result."""
        return skate.get(self.execute_single_async(rank, func, *args, **kwargs))

    def get_resources_per_worker(self) -> dict[str, float]:
        """The resources of each worker."""
        return dict(self.scaling._resources_per_worker_not_none)

    # -- interface of the controller

    def set_up(self, sessions: Sequence[Any], config: BackendConfig) -> None:
        """Send the workers their part of the run, and set up the framework in them."""
        address, port = self.where[0]["ip"], self.where[0]["port"]
        waits = []
        backend = config.backend_cls()
        visible = shared_gpus(self.where) if backend.share_cuda_visible_devices else {}
        for worker, place, session in zip(self.workers, self.places, sessions, strict=True):
            values = environment(place, address, port)
            gpus = visible.get(self.where[place.world_rank]["node"])
            if gpus:
                values["CUDA_VISIBLE_DEVICES"] = gpus
            waits.append(worker.environ.remote(values))
            waits.append(worker.begin.remote(session))
        skate.get(waits)
        self._backend = (backend, config)
        backend.on_start(self, config)
        backend.on_training_start(self, config)

    def end_well(self) -> None:
        """Shut down the framework after the training functions have returned."""
        if self._backend is not None:
            backend, config = self._backend
            backend.on_shutdown(self, config)

    def close(self) -> None:
        """End all workers, regardless of their state."""
        for worker in self.workers:
            skate.kill(worker)
        self.workers = []
        if self._group is not None:
            remove_placement_group(self._group)
            self._group = None


def environment(place: Place, address: str, port: int) -> dict[str, str]:
    """Return the environment variables that frameworks expect in every worker."""
    return {
        "RANK": str(place.world_rank),
        "WORLD_SIZE": str(place.world_size),
        "LOCAL_RANK": str(place.local_rank),
        "LOCAL_WORLD_SIZE": str(place.local_world_size),
        "NODE_RANK": str(place.node_rank),
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
    }


def shared_gpus(where: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the GPUs of all workers of each node: workers that see each other's GPUs can access them, and
    LOCAL_RANK indexes them."""
    found: dict[str, set[str]] = {}
    for each in where:
        found.setdefault(each["node"], set()).update(map(str, each["gpus"]))
    return {
        node: ",".join(sorted(gpus, key=lambda gpu: (len(gpu), gpu))) for node, gpus in found.items() if gpus
    }
