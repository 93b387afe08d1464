"""Private names of Ray that other packages import, such as `ray._private.worker.global_worker`, with the same behavior.

    finder.py            the import hook
    prefix.py            the prefix of the modules
    table.py             each module, each name in it, and its location in Skate
    worker.py            `ray._private.worker`: the worker of this process
    state.py             `ray._private.state`: the state of the cluster
    test_kit.py          `ray._common.test_utils`: helpers for tests of programs
    cluster_test_kit.py  `ray._private.test_utils`: helpers for processes, actors and nodes
    functions.py         `ray._common.utils` and `ray._private.utils`
    library_names.py     private names of Ray Data and Ray Train

Each name is imported by a known package. Any other private name raises ImportError or AttributeError.
"""

from __future__ import annotations

import sys

from skate.private_names.finder import Finder

# Workers receive functions that use these modules, and import the modules by name.
if not any(type(each) is Finder for each in sys.meta_path):
    sys.meta_path.append(Finder())
