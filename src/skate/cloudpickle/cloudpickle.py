"""The package's main module, by the name that programs import it by."""

from __future__ import annotations

from cloudpickle.cloudpickle import *  # noqa: F403
from cloudpickle.cloudpickle import CloudPickler as CloudPickler
from cloudpickle.cloudpickle import Pickler as Pickler
