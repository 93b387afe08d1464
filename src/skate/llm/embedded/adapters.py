"""LoRA adapters of a model, side by side: loaded when first asked for, the one that was used longest ago goes first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from typing import Any

from skate.installed import require
from skate.llm.adapter_folder import AdapterFolder
from skate.llm.errors import Overloaded

#: What peft calls rows of a batch that go through no adapter.
_NO_ADAPTER = "__base__"


class Adapters:
    """The adapters of one model.

    Args:
        model: without adapters.
        folder: where they lie.
        most: how many are held at once.
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
        """Have an adapter, in place of another if there are as many as can be; `used` are those that must stay."""
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
                    f"all {self._most} adapters that fit are in use; try again, or raise max_loras"
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
        """The argument of the model's call that gives each row its adapter."""
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
    """A name as peft takes it: it becomes part of the names of modules, which have no dots or slashes."""
    return "a_" + name.encode().hex()
