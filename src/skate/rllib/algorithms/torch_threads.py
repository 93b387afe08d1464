"""Threads of torch while an algorithm samples and learns in its own process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def torch_threads(config: Any) -> Iterator[None]:
    """Let torch use as many threads within the block as the learner has CPUs, one with `num_cpus_per_learner="auto"`.

    Networks of control tasks are too small for more: on a busy machine, threads that wait for each other take many times
    longer than one.

    Args:
        config: an `AlgorithmConfig`.
    """
    import torch  # optional

    wanted = 1 if config.num_cpus_per_learner == "auto" else max(int(config.num_cpus_per_learner), 1)
    before = torch.get_num_threads()
    if wanted == before:
        yield
        return
    torch.set_num_threads(wanted)
    try:
        yield
    finally:
        torch.set_num_threads(before)
