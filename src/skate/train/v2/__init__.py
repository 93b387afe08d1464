"""Names that Ray defines only here."""

from __future__ import annotations

from skate import lazy_loader

__getattr__ = lazy_loader.getter(globals(), {})
