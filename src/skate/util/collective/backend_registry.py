"""The backends of groups, by name."""

from __future__ import annotations

from skate.util.collective.collective_group.base_collective_group import BaseGroup


class BackendRegistry:
    """Maps upper-case names to group classes."""

    def __init__(self) -> None:
        self._map: dict[str, type[BaseGroup]] = {}
        self._unchecked: dict[str, type[BaseGroup]] = {}

    def put_if_available(self, name: str, group_cls: type[BaseGroup]) -> None:
        """Register a backend if it can be used here. The check is made when its name is first asked for."""
        self._unchecked[name.upper()] = group_cls

    def _find(self, name: str) -> type[BaseGroup] | None:
        name = name.upper()
        unchecked = self._unchecked.pop(name, None)
        if unchecked is not None and unchecked.check_backend_availability():
            self._map[name] = unchecked
        return self._map.get(name)

    def put(self, name: str, group_cls: type[BaseGroup]) -> None:
        """Register a backend. Raises TypeError for a class that is not a BaseGroup, ValueError for a taken
        name.
        """
        if not (isinstance(group_cls, type) and issubclass(group_cls, BaseGroup)):
            raise TypeError(f"{group_cls} is not a subclass of BaseGroup: inherit from it")
        if self._find(name) is not None:
            raise ValueError(f"Backend {name.upper()} already registered; choose another name")
        self._map[name.upper()] = group_cls

    def get(self, name: str) -> type[BaseGroup]:
        """Return the class of a backend's groups. Raises ValueError for an unknown name."""
        wanted = name.upper()
        found = self._find("GLOO" if wanted == "TORCH_GLOO" else wanted)
        if found is None:
            raise ValueError(
                f"Backend {wanted} not registered; the registered ones are {', '.join(sorted(self._map)) or 'none'}"
            )
        return found

    def __contains__(self, name: str) -> bool:
        return self._find(name) is not None

    def is_available(self, name: str) -> bool:
        """True if the backend is known and can be used in this process."""
        found = self._find(name)
        return found is not None and found.check_backend_availability()


_global_registry = BackendRegistry()


def register_collective_backend(name: str, group_cls: type[BaseGroup]) -> None:
    """Add a backend: from then on `init_collective_group(..., backend=name)` creates a `group_cls` in this process."""
    _global_registry.put(name, group_cls)


def is_registered_collective_backend(name: str) -> bool:
    """True if a backend of this name is registered."""
    return name in _global_registry
