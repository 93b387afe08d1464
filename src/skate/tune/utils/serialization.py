"""JSON in which unsupported values are pickled."""

from __future__ import annotations

import json
import types
from typing import Any

_KIND = "CLOUDPICKLE_FALLBACK"


class TuneFunctionEncoder(json.JSONEncoder):
    """Writes functions, and other values that JSON cannot represent, as pickles in hexadecimal text."""

    def default(self, obj: Any) -> Any:
        """Encode a value that JSON cannot represent."""
        if not isinstance(obj, types.FunctionType):
            try:
                return super().default(obj)
            except TypeError:
                pass
        from skate import cloudpickle  # few texts contain such values

        return {"_type": _KIND, "value": cloudpickle.dumps(obj).hex()}


class TuneFunctionDecoder(json.JSONDecoder):
    """Reads the output of `TuneFunctionEncoder`.

    Args:
        args, kwargs: those of `json.JSONDecoder`.
        allow_cloudpickle: True to load pickles. Loading one runs the code in it, so set it only for trusted texts.
    """

    def __init__(self, *args: Any, allow_cloudpickle: bool = False, **kwargs: Any) -> None:
        self._allow_cloudpickle = allow_cloudpickle
        super().__init__(*args, object_hook=self.object_hook, **kwargs)

    def object_hook(self, obj: dict[str, Any]) -> Any:
        """Decode a JSON object.

        Raises:
            ValueError: it is a pickle, and `allow_cloudpickle` is not set.
        """
        if obj.get("_type") != _KIND:
            return obj
        if not self._allow_cloudpickle:
            raise ValueError(
                f"Refusing to deserialize an embedded cloudpickle payload ({_KIND!r}) from JSON: loading it "
                "runs code in the text. If you trust the text, use "
                "TuneFunctionDecoder(allow_cloudpickle=True)"
            )
        from skate import cloudpickle  # imported only if used

        return cloudpickle.loads(bytes.fromhex(obj["value"]))
