"""Resource requirements are declared with the task; a placement group reserves several as one.

    python examples/resources.py

The GPUs and the licence are not real: a resource is only a counted number, so this runs on any machine.
"""

from __future__ import annotations

import os

import skate as ray
from skate.util.placement_group import placement_group, remove_placement_group
from skate.util.scheduling_strategies import PlacementGroupSchedulingStrategy


@ray.remote(num_gpus=1)
def device() -> str | None:
    """Return the visible GPUs: a task that requested one GPU sees only that one."""
    return os.environ.get("CUDA_VISIBLE_DEVICES")


@ray.remote(num_gpus=0.5)
def half_a_device() -> str | None:
    return os.environ.get("CUDA_VISIBLE_DEVICES")


@ray.remote(resources={"licence": 1})
def licensed(job: int) -> int:
    return job


@ray.remote(num_cpus=1)
def where() -> str:
    return "in the group" if ray.util.get_current_placement_group() else "outside"


def main() -> None:
    with ray.init(num_cpus=4, num_gpus=2, resources={"licence": 1}):
        print(
            "the node has",
            {k: v for k, v in ray.cluster_resources().items() if k in ("CPU", "GPU", "licence")},
        )
        print("devices seen by four tasks:", sorted(set(ray.get([device.remote() for _ in range(4)]))))
        print("devices seen by halves:", sorted(set(ray.get([half_a_device.remote() for _ in range(4)]))))
        print(
            "jobs that took turns with the one licence:", ray.get([licensed.remote(job) for job in range(5)])
        )

        group = placement_group([{"CPU": 1}, {"CPU": 1, "GPU": 1}], strategy="PACK")
        ray.get(group.ready())
        inside = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=0)
        print("tasks ran", ray.get([where.options(scheduling_strategy=inside).remote(), where.remote()]))
        remove_placement_group(group)


if __name__ == "__main__":
    main()
