"""State of one process: refs, remote functions, actor handles; and `ray.client(...)`, which shares the package's
name.
"""

from __future__ import annotations

import sys
import types
from typing import Any


class _Package(types.ModuleType):
    """Makes the package callable, because Ray has a function of this name."""

    def __call__(self, address: str | None = None, _deprecation_warn_enabled: bool = True) -> Any:
        """A builder of a session; see `remote_client.client`."""
        from skate.client.session.client_builder import client  # few programs call it

        return client(address, _deprecation_warn_enabled)


sys.modules[__name__].__class__ = _Package
