"""Was taken out of Ray long ago; importing it says what to use."""

from __future__ import annotations

raise DeprecationWarning(
    "ray.util.horovod has been removed from Ray; use TorchTrainer of ray.train.torch in its place"
)
