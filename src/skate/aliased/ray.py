"""Makes `import ray` mean Skate in a process that `multiprocessing` has spawned: it inherits only `sys.path`."""

import importlib
import sys

from skate import compat

del sys.modules["ray"]
compat.install()
importlib.import_module("ray")  # the import system returns what is under this name now
