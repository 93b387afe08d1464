"""LoRA adapters of a model: loaded on first use, with the least recently used one evicted first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from typing import Any

from skate.installed import require
from skate.llm.adapter_folder import AdapterFolder
from skate.llm.errors import Overloaded

#: peft's name for rows of a batch without an adapter.
_NO_ADAPTER = "__base__"


class Adapters:
    """The adapters of one model.

    Args:
        model: the model without adapters.
        folder: the folder of adapters.
        most: the number of adapters held at once.
    """

    def __init__(self, model: Any, folder: AdapterFolder, most: int) -> None:
        self.model = model
        self._folder = folder
        self._most = most
        self._held: OrderedDict[str, None] = OrderedDict()
        self._off = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the loaded adapters."""
        return tuple(self._held)

    def load(self, name: str, used: Collection[str]) -> None:
        """Load an adapter, evicting another if `most` are loaded. Adapters in `used` are not evicted."""
        if name in self._held:
            self._held.move_to_end(name)
            return
        path = self._folder.path(name)
        peft = require("peft", f"the LoRA adapter {name}")
        old = None
        if len(self._held) >= self._most:
            old = next((each for each in self._held if each not in used), None)
            if old is None:
                raise Overloaded(
                    f"all {self._most} places for adapters are in use; try again later, or raise max_loras"
                )
        if isinstance(self.model, peft.PeftModel):
            self.model.load_adapter(path, adapter_name=_key(name), is_trainable=False)
        else:
            self.model = peft.PeftModel.from_pretrained(self.model, path, adapter_name=_key(name)).eval()
        self.model.set_adapter(_key(name))
        if old is not None:
            self.model.delete_adapter(_key(old))
            del self._held[old]
        self.model.eval()
        self._held[name] = None

    def rows(self, names: Sequence[str | None]) -> dict[str, Any]:
        """Return the argument for the model's call that assigns an adapter to each row."""
        if not self._held:
            return {}
        wants = any(name is not None for name in names)
        if wants == self._off:
            if wants:
                self.model.base_model.enable_adapter_layers()
            else:
                self.model.base_model.disable_adapter_layers()
            self._off = not wants
        if not wants:
            return {}
        return {"adapter_names": [_NO_ADAPTER if name is None else _key(name) for name in names]}


def _key(name: str) -> str:
    """Encode a name for peft, which makes it part of module names, where dots and slashes are not allowed."""
    return "a_" + name.encode().hex()
