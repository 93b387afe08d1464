"""FifoReplayBuffer: a queue of batches under the names of a replay buffer."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from skate.rllib.policy.sample_batch import MultiAgentBatch
from skate.rllib.utils.replay_buffers.replay_buffer import ReplayBuffer, StorageUnit


class FifoReplayBuffer(ReplayBuffer):
    """A queue: each batch is returned once, as it was added, with ones in its column ``weights``.

    Batches in it are in no state and no count.

    Args:
        *args: Taken for compatibility.
        **kwargs: Taken for compatibility.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(1, StorageUnit.FRAGMENTS)
        self._queue: deque[Any] = deque()

    def add(self, batch: Any, **kwargs: Any) -> None:
        """Put a batch at the end of the queue.

        Args:
            batch: The batch.
            **kwargs: Taken for compatibility.
        """
        self._queue.append(batch)

    def sample(self, *args: Any, **kwargs: Any) -> Any:
        """Return the oldest batch; one without steps if there is none.

        Args:
            *args: Taken for compatibility.
            **kwargs: Taken for compatibility.
        """
        if not self._queue:
            return MultiAgentBatch({}, 0)
        batch = self._queue.popleft()
        batch["weights"] = np.ones(len(batch))
        return batch

    def update_priorities(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: a queue has no priorities."""

    def stats(self, debug: bool = False) -> dict[str, Any]:
        """Return nothing.

        Args:
            debug: Taken for compatibility.
        """
        return {}

    def get_state(self) -> dict[str, Any]:
        """Return nothing: the queue is in no checkpoint."""
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        """Do nothing.

        Args:
            state: Taken for compatibility.
        """
