"""Folders shared by the ranks of a node: one rank adds the files to a checkpoint."""

from __future__ import annotations

import os
import shutil

from skate.train.collective import broadcast_from_rank_zero
from skate.train.worker.session import current


def is_reporter(path: str) -> bool:
    """True if this rank reports the folder; all ranks must call it, after writing their files.

    Ranks on a node that pass the same path leave it to the first of them; a rank with a different path reports its own.
    """
    shared: str = broadcast_from_rank_zero(path)
    return shared != path or current("report()").place.local_rank == 0


def link_or_copy(source: str, target: str) -> str:
    """Link a file under a second name if the disk supports it, else copy it."""
    try:
        os.link(source, target)
    except OSError:  # a different disk, or one without links
        shutil.copyfile(source, target)
    return target
