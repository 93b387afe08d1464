"""The HTTP server beside a session: state, metrics and health, in a process of its own that starts on request.

`skate.dashboard()` starts it, so this module can be called.
"""

from __future__ import annotations

import sys
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from skate.util.state.dashboard_link import Link


class _Callable(ModuleType):
    """This module: `import skate.dashboard.app` and `skate.dashboard()` use the same name."""

    def __call__(self, host: str = "127.0.0.1", port: int | None = None) -> Link:
        """Start the dashboard of the session, and return the link to it.

        Args:
            host: where it listens.
            port: its port; by default 8265, or a free one if that is taken.

        Raises:
            RuntimeError: it could not start.
        """
        from skate.util.state.dashboard_link import link  # only for who asks

        return link(host, port)


sys.modules[__name__].__class__ = _Callable
