"""Runs one code block of the mission's documents as ``__main__``, with what its text leaves open filled in.

    skate run stage.py BLOCK [THEN]

The documents start a node of two GPUs first (``ray start --head --num-gpus 2``); here ``init()`` is given
them, and they need not exist. ``texts`` is the reader's own list there. THEN continues in the namespace of the
block.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import ray

ray.init = functools.partial(ray.init, num_cpus=2, num_gpus=2)

texts = [f"text number {i} of a small library about rays" for i in range(42)]

for path in sys.argv[1:]:
    exec(compile(Path(path).read_text(), path, "exec", dont_inherit=True), globals())

ray.shutdown()
