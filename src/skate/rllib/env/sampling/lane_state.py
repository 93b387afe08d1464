"""The state of lanes as bytes, so that another process can continue their episodes."""

from __future__ import annotations

import io
import pickle
from typing import Any

from skate import cloudpickle

#: How environments that wrap C or C++ code are unpickled: as new ones, made with the same arguments.
_MADE_ANEW = "EzPickle.__setstate__"


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def reducer_override(self, obj: Any) -> Any:
        """Refuse an object that would lose its state without an error."""
        restore = getattr(type(obj), "__setstate__", None)
        if getattr(restore, "__qualname__", "") == _MADE_ANEW:
            raise pickle.PicklingError(f"{type(obj).__name__} is pickled by its arguments, without its state")
        return super().reducer_override(obj)


def packed(state: dict[str, Any]) -> bytes:
    """Return the state of a runner's lanes as bytes.

    Args:
        state: What ``get_lane_state`` returned.

    Raises:
        Exception: Something cannot be pickled, or would be restored without its state, such as environments of Box2D,
            MuJoCo and Atari. Environments may raise any error.
    """
    file = io.BytesIO()
    _Pickler(file).dump(state)
    return file.getvalue()
