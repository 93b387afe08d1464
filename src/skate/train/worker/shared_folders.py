"""Folders shared by the ranks of a node: one rank adds the files to a checkpoint."""

from __future__ import annotations

import os
import shutil

from skate.train.collective import broadcast_from_rank_zero
from skate.train.worker.session import current


def brings(path: str) -> bool:
    """True if this rank reports the folder; all ranks must call it, after writing their files.

    Ranks on a node that pass the same path leave it to the first of them; a rank with a path of its own reports that.
    """
    shared: str = broadcast_from_rank_zero(path)
    return shared != path or current("report()").place.local_rank == 0


def link_or_copy(source: str, target: str) -> str:
    """A file under a second name where the disk can do that, else a copy."""
    try:
        os.link(source, target)
    except OSError:  # another disk, or one without links
        shutil.copyfile(source, target)
    return target
