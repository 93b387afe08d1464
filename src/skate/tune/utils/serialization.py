"""JSON in which what JSON cannot hold is pickled."""

from __future__ import annotations

import json
import types
from typing import Any

_KIND = "CLOUDPICKLE_FALLBACK"


class TuneFunctionEncoder(json.JSONEncoder):
    """Writes functions, and other values that JSON has no form for, as pickles in hexadecimal text."""

    def default(self, obj: Any) -> Any:
        """The form of a value that JSON has none for."""
        if not isinstance(obj, types.FunctionType):
            try:
                return super().default(obj)
            except TypeError:
                pass
        import cloudpickle  # few texts hold such values

        return {"_type": _KIND, "value": cloudpickle.dumps(obj).hex()}


class TuneFunctionDecoder(json.JSONDecoder):
    """Reads what `TuneFunctionEncoder` has written.

    Args:
        args, kwargs: those of `json.JSONDecoder`.
        allow_cloudpickle: whether pickles are loaded. Loading one runs code that is in it, so say it of texts of your own only.
    """

    def __init__(self, *args: Any, allow_cloudpickle: bool = False, **kwargs: Any) -> None:
        self._allow_cloudpickle = allow_cloudpickle
        super().__init__(*args, object_hook=self.object_hook, **kwargs)

    def object_hook(self, obj: dict[str, Any]) -> Any:
        """The value of a JSON object.

        Raises:
            ValueError: it is a pickle, and those are not loaded.
        """
        if obj.get("_type") != _KIND:
            return obj
        if not self._allow_cloudpickle:
            raise ValueError(
                f"Refusing to deserialize an embedded cloudpickle payload ({_KIND!r}) from JSON: loading it runs code that is in "
                "the text. If the text is your own, say TuneFunctionDecoder(allow_cloudpickle=True)"
            )
        import cloudpickle  # as above

        return cloudpickle.loads(bytes.fromhex(obj["value"]))
