"""The older name of the module `cloudpickle.cloudpickle`."""

from __future__ import annotations

from cloudpickle.cloudpickle import *  # noqa: F403
from cloudpickle.cloudpickle import CloudPickler as CloudPickler
from cloudpickle.cloudpickle import Pickler as Pickler
