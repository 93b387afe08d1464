from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

options = dict(scheduling_strategy=PlacementGroupSchedulingStrategy(placement_group=None))
