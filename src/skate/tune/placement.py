"""Resource requests of trials: one bundle, or several on a placement group."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from skate.air.execution.resources.request import ResourceRequest

_STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")
_LOWER = {"cpu": "CPU", "gpu": "GPU"}


class PlacementGroupFactory(ResourceRequest):
    """The bundles of a trial: the first is the trainable's own, the others are for the actors it starts.

    Args:
        bundles: such as `[{"CPU": 1}, {"CPU": 2, "GPU": 1}]`; with an empty first one the trainable itself
            requests nothing.
        strategy: PACK, SPREAD, STRICT_PACK or STRICT_SPREAD.
        args, kwargs: further arguments of `ray.util.placement_group`.

    Raises:
        ValueError: there is no bundle, or only an empty one; an amount is negative or not a number; or the strategy is unknown.
    """

    #: True if a placement group holds the bundles; otherwise they only count for admission.
    reserves = True

    def __init__(
        self, bundles: list[dict[str, float]], strategy: str = "PACK", *args: Any, **kwargs: Any
    ) -> None:
        if strategy not in _STRATEGIES:
            raise ValueError(f"strategy must be one of {', '.join(_STRATEGIES)}, got {strategy!r}")
        super().__init__(bundles, strategy, *args, **kwargs)

    @staticmethod
    def _checked(bundle: Mapping[str, Any]) -> dict[str, float]:
        return _checked(bundle)

    @property
    def head(self) -> dict[str, float]:
        """The resources of the trainable itself."""
        return {} if self.head_bundle_is_empty else dict(self._bundles[0])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Deprecated: `to_placement_group()`."""
        warnings.warn(
            "Calling PlacementGroupFactory objects is deprecated. Use `to_placement_group()` instead.",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.to_placement_group()

    def __repr__(self) -> str:
        head = ", head_bundle_is_empty=True" if self.head_bundle_is_empty else ""
        return f"PlacementGroupFactory(bundles={self._bundles}, strategy={self._strategy!r}{head})"


class Counted(PlacementGroupFactory):
    """The bundles that the trial itself holds: a trainer starts its workers on its own placement group."""

    reserves = False


def _checked(bundle: Mapping[str, Any]) -> dict[str, float]:
    if not isinstance(bundle, Mapping):
        raise ValueError(f"a bundle must be a dict of resources such as {{'CPU': 1}}, got {bundle!r:.80}")
    found = {}
    for name, amount in bundle.items():
        if isinstance(amount, bool) or not isinstance(amount, (int, float)) or amount < 0:
            raise ValueError(f"the amount of {name} in a bundle must be a number >= 0, not {amount!r}")
        if amount:
            found[_LOWER.get(name, name)] = float(amount)
    return found


def resource_dict_to_pg_factory(spec: Mapping[str, Any] | None = None) -> PlacementGroupFactory:
    """Convert `resources_per_trial={"cpu": 2, "gpu": 1}` and similar; one CPU if nothing is requested.

    Raises:
        ValueError: an amount is negative or not a number.
    """
    given = dict(spec or {"cpu": 1})
    extra = given.pop("custom_resources", None) or {}
    both = sorted(name for name in _LOWER if name in given and _LOWER[name] in given)
    if both:
        raise ValueError(f"{both[0]!r} and {_LOWER[both[0]]!r} are the same resource; set only one of them")
    given.update(extra)
    return PlacementGroupFactory([given or {"CPU": 0}])


Resources = PlacementGroupFactory | Mapping[str, Any] | Callable[[dict[str, Any]], Any] | None


def request_of(resources: Resources, config: dict[str, Any]) -> PlacementGroupFactory:
    """Return the resource request of a trial with a configuration.

    Raises:
        ValueError: the resources are invalid.
    """
    if callable(resources) and not isinstance(resources, PlacementGroupFactory):
        resources = resources(config)
    if isinstance(resources, PlacementGroupFactory):
        return resources
    if resources is None or isinstance(resources, Mapping):
        return resource_dict_to_pg_factory(resources)
    scaling = getattr(resources, "total_resources", None)
    if isinstance(scaling, dict):  # a ScalingConfig
        return Counted([{}, dict(scaling)])
    raise ValueError(
        f"Invalid resource type for `with_resources()`: {type(resources)}. Resources are a dict such as "
        f"{{'cpu': 2, 'gpu': 1}}, "
        "a PlacementGroupFactory, or a function of the configuration that returns one, got "
        f"{type(resources).__name__}: {resources!r:.80}"
    )
