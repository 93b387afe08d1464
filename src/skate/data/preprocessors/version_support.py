"""Preprocessors that serialize their own fields, so that later versions of a class can read the output of
earlier ones."""

from __future__ import annotations

from collections.abc import Callable

from skate.data import preprocessor
from skate.data.preprocessor import Preprocessor
from skate.data.preprocessor import UnknownPreprocessorError as UnknownPreprocessorError


def SerializablePreprocessor(version: int, identifier: str) -> Callable[[type], type]:
    """Decorate a class with `_get_serializable_fields()` and `_set_serializable_fields(fields, version)`.

    Args:
        version: serialized, and passed to `_set_serializable_fields`.
        identifier: a name of the class that stays the same when the class moves.

    Raises TypeError for a class that is not a preprocessor or lacks one of the two methods.
    """

    def register(cls: type) -> type:
        if not issubclass(cls, Preprocessor):
            raise TypeError(
                f"Class {cls.__module__}.{cls.__qualname__} must inherit from SerializablePreprocessorBase "
                f"to use @SerializablePreprocessor"
            )
        for name in ("_get_serializable_fields", "_set_serializable_fields"):
            if not hasattr(cls, name):
                raise TypeError(f"{cls.__qualname__} has no {name}(); @SerializablePreprocessor needs it")
        cls.set_version(version)
        cls.set_preprocessor_class_id(identifier)
        preprocessor.REGISTERED[identifier] = cls
        return cls

    return register
