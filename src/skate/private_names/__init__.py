"""Names of Ray's inside that packages in use rely on, with what they do there: `ray._private.worker.global_worker` and the like.

    finder.py     the import hook
    table.py      the declared table: each module, each name in it, and where it lives here
    worker.py     what `ray._private.worker` holds: the worker of this process
    state.py      what `ray._private.state` tells of the cluster
    testing.py    what tests of programs take from `ray._common.test_utils`
    cluster_testing.py  the same of `ray._private.test_utils`: processes, actors, nodes
    functions.py  what `ray._common.utils` and `ray._private.utils` have
    loading.py    how data pipelines of other packages load theirs

No name is here for its own sake: each is one that a kept package asks for. Whatever else a program asks of Ray's inside is an
ImportError that says so.
"""

from __future__ import annotations

import sys

from skate.private_names.finder import Finder

# Functions that use these modules are sent to workers, which import them by name.
if not any(type(each) is Finder for each in sys.meta_path):
    sys.meta_path.append(Finder())
