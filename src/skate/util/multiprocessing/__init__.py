"""A process pool with the interface of `multiprocessing.Pool`, on actors.

pool.py      Pool: the interface
dispatch.py  assignment of chunks of calls to actors
actor.py     the actor that runs them
results.py   AsyncResult and the iterators of imap
"""

from __future__ import annotations

from multiprocessing import JoinableQueue, TimeoutError

from skate.util.multiprocessing.pool import Pool

__all__ = ["JoinableQueue", "Pool", "TimeoutError"]
