"""Python's own pickle, by the name that older programs import it by."""

from __future__ import annotations

import pickle
from pickle import Pickler

__all__ = ["Pickler", "pickle"]
