"""Folders that the ranks of a node share: one of them brings the files into a checkpoint, not each."""

from __future__ import annotations

import os
import shutil

from skate.train.collective import broadcast_from_rank_zero
from skate.train.worker.session import current


def brings(path: str) -> bool:
    """Whether this rank is the one that reports a folder; all ranks must call it, and have written what is theirs when they do.

    Ranks on a node that name the same path leave it to the first of them; a rank with a path of its own brings that.
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
