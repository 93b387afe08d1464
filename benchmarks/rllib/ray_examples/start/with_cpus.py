"""Runs a program on a session of eight CPUs, which it does not ask for itself: ``with_cpus.py PROGRAM ARGUMENTS``."""

from __future__ import annotations

import runpy
import sys

import ray

if __name__ == "__main__":
    ray.init(num_cpus=8)
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
