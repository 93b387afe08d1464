"""Bundles of resources that are requested together, and the resources acquired for a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skate.resources import Resources


class ResourceRequest:
    """Bundles that are needed at the same time.

    Args:
        bundles: such as `[{"CPU": 1}, {"CPU": 2, "GPU": 1}]`; amounts of 0 are dropped. If the first bundle is empty,
            the first task or actor requests nothing.
        strategy: PACK, SPREAD, STRICT_PACK or STRICT_SPREAD.
        args, kwargs: further arguments of `ray.util.placement_group`.

    Raises:
        ValueError: there is no bundle, or only an empty one.
        RuntimeError: `placement_group` takes no such arguments.
    """

    def __init__(
        self, bundles: list[dict[str, float]], strategy: str = "PACK", *args: Any, **kwargs: Any
    ) -> None:
        if not bundles:
            raise ValueError(
                "Cannot initialize a ResourceRequest with zero bundles: pass at least one bundle, such as "
                "[{'CPU': 1}]"
            )
        found = [self._checked(bundle) for bundle in bundles]
        self._head_bundle_is_empty = not found[0]
        self._bundles = found[1:] if self._head_bundle_is_empty else found
        if not self._bundles:
            raise ValueError(
                "Cannot initialize a ResourceRequest with an empty head and zero worker bundles: nothing "
                f"is requested; got {bundles!r:.200}"
            )
        self._strategy = strategy
        self._options = _options(args, kwargs)
        self._total = Resources.total(self._bundles)

    @staticmethod
    def _checked(bundle: Mapping[str, Any]) -> dict[str, float]:
        return {name: float(amount) for name, amount in bundle.items() if amount != 0}

    @property
    def head_bundle_is_empty(self) -> bool:
        """True if the first bundle, for the starting process, requests nothing."""
        return self._head_bundle_is_empty

    @property
    def head_cpus(self) -> float:
        """The number of CPUs of the first bundle."""
        return 0.0 if self._head_bundle_is_empty else self._bundles[0].get("CPU", 0.0)

    @property
    def bundles(self) -> list[dict[str, float]]:
        """The nonempty bundles."""
        return [dict(bundle) for bundle in self._bundles]

    @property
    def required_resources(self) -> dict[str, float]:
        """The sum over all bundles."""
        return dict(self._total)

    @property
    def total(self) -> Resources:
        """The sum over all bundles; immutable."""
        return self._total

    @property
    def strategy(self) -> str:
        """The placement strategy of the bundles."""
        return self._strategy

    def to_placement_group(self) -> Any:
        """Create a placement group for the bundles."""
        from skate.util.placement_group import placement_group  # few requests become placement groups

        return placement_group(self.bundles, self._strategy, **self._options)

    def _key(self) -> tuple[Any, ...]:
        return (self._bundles, self._strategy, self._options, self._head_bundle_is_empty)

    def __eq__(self, other: object) -> bool:
        return self is other or isinstance(other, ResourceRequest) and self._key() == other._key()

    def __hash__(self) -> int:
        bundles = tuple(tuple(sorted(bundle.items())) for bundle in self._bundles)
        return hash((bundles, self._strategy, self._head_bundle_is_empty))

    def __repr__(self) -> str:
        return (
            f"<ResourceRequest (bundles={self._bundles}, strategy={self._strategy!r}, "
            f"head_bundle_is_empty={self._head_bundle_is_empty})>"
        )


#: The arguments of `placement_group` after bundles and strategy, in order.
_FURTHER = ("name", "lifetime", "_soft_target_node_id", "bundle_label_selector", "topology_strategy")


def _options(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Bind arguments to their names, so that equal requests compare equal."""
    given = dict(zip(_FURTHER, args, strict=False)) | kwargs
    if len(args) > len(_FURTHER) or not given.keys() <= set(_FURTHER):
        raise RuntimeError(
            "Invalid definition for resource request. Please check that you passed valid arguments to the ResourceRequest "
            f"object: placement_group takes {', '.join(_FURTHER)}; got {args!r:.80} and {sorted(kwargs)}"
        )
    return {name: value for name, value in given.items() if value not in (None, "")}


@dataclass
class AcquiredResources:
    """Resources acquired for a request."""

    resource_request: ResourceRequest

    def annotate_remote_entities(self, entities: list[Any]) -> list[Any]:
        """Bind remote functions and actor classes to the resources, the first to the first bundle and so on.

        Raises:
            RuntimeError: there are more of them than bundles.
        """
        request = self.resource_request
        bundles = [*([{}] if request.head_bundle_is_empty else []), *request.bundles]
        if len(entities) > len(bundles):
            raise RuntimeError(
                f"The number of callables to annotate ({len(entities)}) cannot exceed the number of available bundles "
                f"({len(bundles)})."
            )
        # An entity that requests nothing shares the first bundle.
        shift = int(request.head_bundle_is_empty)
        return [
            self._annotate_remote_entity(entity, bundle, max(index - shift, 0))
            for index, (entity, bundle) in enumerate(zip(entities, bundles, strict=False))
        ]

    def _annotate_remote_entity(self, entity: Any, bundle: dict[str, float], bundle_index: int) -> Any:
        raise NotImplementedError


def options_of(bundle: dict[str, float]) -> dict[str, Any]:
    """Return the options of a task or an actor that uses a whole bundle."""
    rest = dict(bundle)
    return {
        "num_cpus": rest.pop("CPU", 0),
        "num_gpus": rest.pop("GPU", 0),
        "memory": rest.pop("memory", 0) or None,
        "resources": rest,
    }
