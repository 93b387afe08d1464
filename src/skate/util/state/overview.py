"""An overview of the session for whoever watches it, as the page does: cheap enough to be asked for each second."""

from __future__ import annotations

from skate.client.state.overview import overview

__all__ = ["overview"]
