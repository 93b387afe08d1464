"""Was taken out of Ray long ago; importing it says what to use."""

from __future__ import annotations

raise DeprecationWarning("Ray SGD has been deprecated, and ray.util.sgd is gone; use ray.train in its place")
