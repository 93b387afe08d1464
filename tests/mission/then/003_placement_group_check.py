ray.init()
group = ray.util.placement_group([{"CPU": 1}])


@ray.remote(num_cpus=1)
def nested():
    return ray.util.get_current_placement_group() is not None


@ray.remote(num_cpus=1)
def training_worker():
    # This task holds the group's only CPU: a nested task that stayed in the group would wait forever.
    return ray.get(nested.options(**options).remote())


inside = PlacementGroupSchedulingStrategy(placement_group=group, placement_group_capture_child_tasks=True)
assert ray.get(training_worker.options(scheduling_strategy=inside).remote(), timeout=60) is False
print("outside the group")
