"""Trainables with bound parameters: large values shared by all trials, and resource requests."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from skate.tune.placement import PlacementGroupFactory, request_of
from skate.tune.trainable.trainable import Trainable

_RESOURCES = "_tune_resources"


class BoundTrainable:
    """A function with bound values and resources; the function itself is not changed."""

    def __init__(self, function: Callable[..., Any], values: dict[str, Any], resources: Any = None) -> None:
        self.function = function
        self.values = values
        self.resources = resources
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self.__qualname__ = getattr(function, "__qualname__", self.__name__)
        self.__doc__ = getattr(function, "__doc__", None)

    def __call__(self, config: dict[str, Any]) -> Any:
        return self.function(config, **{name: value.get() for name, value in self.values.items()})

    def __repr__(self) -> str:
        return f"<trainable {self.__name__} with {', '.join(self.values) or 'resources'}>"


class Parameter:
    """A value in the object store, read once per process."""

    def __init__(self, value: Any) -> None:
        import skate  # as in `store`

        is_ref = isinstance(value, skate.ObjectRef)  # a ref from the user is not stored again
        self._ref: Any = value if is_ref else None
        self._value = None if is_ref else value
        self._here = not is_ref

    def store(self) -> None:
        """Put the value into the object store if a session runs and it is not stored yet."""
        import skate  # a program may bind parameters before it starts a session

        if self._ref is None:
            if not skate.is_initialized():
                skate.init()
            self._ref = skate.put(self._value)

    def get(self) -> Any:
        """The value."""
        if not self._here:
            import skate  # imported only if used

            self._value, self._here = skate.get(self._ref), True
        return self._value

    def __reduce__(self) -> Any:
        self.store()
        return _from_store, (self._ref,)


def _from_store(ref: Any) -> Parameter:
    found = Parameter(None)
    found._ref, found._here = ref, False
    return found


def with_parameters(trainable: Any, **kwargs: Any) -> Any:
    """Return a trainable that also receives values, which all trials share through the object store.

    A function gets them as keywords beside the configuration, a class as keywords of `setup`.

    Raises:
        ValueError: it is not a trainable, or the function does not accept such a keyword.
    """
    if _is_class(trainable):
        values = {name: Parameter(value) for name, value in kwargs.items()}

        class Inner(trainable):  # type: ignore[misc]  # a class known at run time
            def setup(self, config: dict[str, Any]) -> None:
                super().setup(config, **{name: value.get() for name, value in values.items()})

        Inner.__name__, Inner.__qualname__ = trainable.__name__, trainable.__qualname__
        return Inner
    if not callable(trainable) or inspect.isclass(trainable):
        raise ValueError(
            "`tune.with_parameters() only works with function trainables or classes that inherit from "
            "`tune.Trainable()`. Got type: "
            f"{type(trainable).__name__}: {trainable!r:.80}"
        )
    before = trainable if isinstance(trainable, BoundTrainable) else None
    function = before.function if before else trainable
    held = dict(before.values) if before else {}
    try:
        inspect.signature(function).bind({}, **dict.fromkeys([*held, *kwargs]))
    except TypeError as error:
        name = getattr(function, "__name__", repr(function))
        raise ValueError(
            f"{name}{inspect.signature(function)} cannot be called with the configuration and {', '.join(kwargs)}: {error}"
        ) from None
    except ValueError:  # a builtin reports wrong arguments itself
        pass
    held.update((name, Parameter(value)) for name, value in kwargs.items())
    return BoundTrainable(
        function, held, before.resources if before else getattr(trainable, _RESOURCES, None)
    )


def with_resources(trainable: Any, resources: Any) -> Any:
    """Return a trainable whose trials request resources; the given one is not changed.

    Args:
        trainable: a function, a class, or a trainer.
        resources: such as {"cpu": 2, "gpu": 0.5}, a `PlacementGroupFactory`, a `ScalingConfig`, or a function of the
            configuration.

    Raises:
        ValueError: an argument has the wrong type.
    """
    if callable(resources) and not isinstance(resources, PlacementGroupFactory):
        requested = resources
    else:
        requested = request_of(resources, {})
    if _is_class(trainable):

        class WithResources(trainable):  # type: ignore[misc]  # a class known at run time
            @classmethod
            def default_resource_request(cls, config: dict[str, Any]) -> Any:
                return request_of(requested, config)

        WithResources.__name__, WithResources.__qualname__ = trainable.__name__, trainable.__qualname__
        return WithResources
    if not callable(trainable) or inspect.isclass(trainable):
        raise ValueError(
            "`tune.with_resources() only works with function trainables or classes that inherit from "
            "`tune.Trainable()`. Got type: "
            f"{type(trainable).__name__}: {trainable!r:.80}"
        )
    if isinstance(trainable, BoundTrainable):
        return BoundTrainable(trainable.function, trainable.values, requested)
    return BoundTrainable(trainable, {}, requested)


def _is_class(trainable: Any) -> bool:
    return inspect.isclass(trainable) and issubclass(trainable, Trainable)


def resources_of(trainable: Any, config: dict[str, Any]) -> PlacementGroupFactory | None:
    """Return the resources that a trainable itself requests for its trials, or None."""
    if _is_class(trainable):
        found = trainable.default_resource_request(config)
        return None if found is None else request_of(found, config)
    requested = (
        trainable.resources if isinstance(trainable, BoundTrainable) else getattr(trainable, _RESOURCES, None)
    )
    return None if requested is None else request_of(requested, config)


def name_of(trainable: Any) -> str:
    """Return the name for trials of a trainable."""
    if isinstance(trainable, functools.partial):
        return name_of(trainable.func)
    name = getattr(trainable, "__name__", None) or type(trainable).__name__
    return "lambda" if name == "<lambda>" else str(name)
