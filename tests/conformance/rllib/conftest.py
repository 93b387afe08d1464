"""A session for tests that train: one for each module, whose runners and trials share two CPUs."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import ray


@pytest.fixture(scope="module")
def session(own_cluster: None) -> Iterator[None]:
    target = {"address": "local"} if os.environ.get("SKATE_CONFORMANCE_TARGET") == "ray" else {}
    ray.init(num_cpus=2, num_gpus=0, include_dashboard=False, log_to_driver=False, **target)
    yield
    ray.shutdown()
