"""The user's metrics, with the replica they come from as labels."""

from __future__ import annotations

from skate.serve import context
from skate.util import metrics as plain

DEPLOYMENT_TAG = "deployment"
REPLICA_TAG = "replica"
APPLICATION_TAG = "application"
ROUTE_TAG = "route"
_OWN = (DEPLOYMENT_TAG, REPLICA_TAG, APPLICATION_TAG, ROUTE_TAG)


def _tags(tags: dict[str, str] | None) -> dict[str, str]:
    here = context.current_replica()
    own = {}
    if here is not None:
        own = {"deployment": here.deployment, "replica": here.replica_tag, "application": here.app_name}
        own["route"] = context.request.get().route
    return {**own, **(tags or {})}


def _keys(tag_keys: tuple[str, ...] | None) -> tuple[str, ...]:
    if context.current_replica() is None:
        return tuple(tag_keys or ())
    return (*(tag_keys or ()), *(name for name in _OWN if name not in (tag_keys or ())))


class Counter(plain.Counter):
    """A metric that only increases."""

    def __init__(self, name: str, description: str = "", tag_keys: tuple[str, ...] | None = None) -> None:
        super().__init__(name, description, _keys(tag_keys))

    def inc(self, value: int | float = 1.0, tags: dict[str, str] | None = None) -> None:
        """Increase the counter."""
        super().inc(value, _tags(tags))


class Gauge(plain.Gauge):
    """A metric for a current value."""

    def __init__(self, name: str, description: str = "", tag_keys: tuple[str, ...] | None = None) -> None:
        super().__init__(name, description, _keys(tag_keys))

    def set(self, value: int | float | None, tags: dict[str, str] | None = None) -> None:
        """Set the value."""
        super().set(value, _tags(tags))


class Histogram(plain.Histogram):
    """A metric that counts values by bucket."""

    def __init__(
        self,
        name: str,
        description: str = "",
        boundaries: list[float] | None = None,
        tag_keys: tuple[str, ...] | None = None,
    ) -> None:
        super().__init__(name, description, boundaries, _keys(tag_keys))

    def observe(self, value: int | float, tags: dict[str, str] | None = None) -> None:
        """Record a value."""
        super().observe(value, _tags(tags))
