"""Runs a Serve block of the mission's documents as ``__main__``, as `stage.py` does others.

The node has two GPUs that need not exist. What the block asks of the network is kept to this machine: any address becomes
127.0.0.1 and the port a free one, which `address` tells.
"""

from __future__ import annotations

import functools
import socket
import sys
from pathlib import Path
from typing import Any

import ray
from ray import serve

ray.init(num_cpus=4, num_gpus=2)

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{free.getsockname()[1]}"

asked: dict[str, Any] = {}
_run = serve.run


@functools.wraps(_run)
def run_here(app: Any, *, host: str, port: int, **options: Any) -> Any:
    asked.update(host=host, port=port)
    return _run(app, host="127.0.0.1", port=int(address.rpartition(":")[2]), **options)


serve.run = run_here

for path in sys.argv[1:]:
    exec(compile(Path(path).read_text(), path, "exec", dont_inherit=True), globals())

serve.shutdown()
ray.shutdown()
