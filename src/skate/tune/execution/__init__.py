"""Running a search: a pure machine decides, the loop starts and stops the processes of trials."""

from __future__ import annotations

from skate import lazy_loader

__getattr__ = lazy_loader.getter(globals(), {})
