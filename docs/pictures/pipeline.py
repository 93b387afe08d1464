"""A program whose page is shown in the documentation: tasks that run, wait and fail, and what it announces of itself."""

from __future__ import annotations

import contextlib
import random
import threading
import time

import skate as ray
from skate.util.announcements import announce


def loss_of(batch: list[int]) -> float:
    """Return the loss of a batch, unless it is a bad one."""
    if sum(batch) % 23 == 0:
        raise ValueError(f"the loss is nan for a batch of {sum(batch)}")
    return 1 / sum(batch)


@ray.remote
def tokenize(number: int) -> list[int]:
    """Return tokens."""
    time.sleep(random.uniform(0.05, 0.2))
    return [random.randrange(50_000) for _ in range(4)]


@ray.remote(max_retries=0)
def train_step(batch: list[int]) -> float:
    """Return a loss."""
    print("a batch of", sum(batch))
    time.sleep(random.uniform(0.05, 0.3))
    return loss_of(batch)


@ray.remote(num_cpus=2, max_retries=0)
def evaluate(*losses: float) -> float:
    """Return the mean of losses."""
    time.sleep(random.uniform(0.1, 0.4))
    return sum(losses) / len(losses)


@ray.remote(num_cpus=0, max_retries=0)
def lookup(word: str) -> int:
    """Fail."""
    return {"known": 1}[word]


class Pipeline:
    """The work of the program, in a thread, until `end`."""

    def __init__(self) -> None:
        self.batches = 0
        self._end = threading.Event()
        self.announcement = announce(
            "pipeline",
            "corpus",
            {"source": "corpus.txt", "batch": 4},
            lambda: {"batches": self.batches, "lag_s": 0.2 + random.random() / 4},
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        evaluations = []
        while not self._end.is_set():
            tokens = [tokenize.remote(number) for number in range(4)]
            steps = [train_step.remote(each) for each in tokens]
            evaluations.append(evaluate.remote(*steps))
            self.batches += 4
            if self.batches % 16 == 0:
                lookup.remote("missing")
            if len(evaluations) > 5:
                with contextlib.suppress(ray.exceptions.RayTaskError):
                    ray.get(evaluations.pop(0))

    def end(self) -> None:
        """End the work."""
        self._end.set()
        self._thread.join()
        self.announcement.end()
