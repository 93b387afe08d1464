"""Run the engine's decisions by seeds: `python -m skate.simulation --seeds 1000`.

A seed that breaks a rule is printed with the command that replays it. A replay checks everything after every step, so it
may stop earlier than the run that failed, and prints its event log.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback

from skate.simulation.report import KINDS, Report, kind_of, try_seeds
from skate.simulation.runs import OPERATIONS
from skate.simulation.scale import study

CHUNK = 16  # seeds that a process takes at a time


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    """Parse the options."""
    parser = argparse.ArgumentParser(prog="python -m skate.simulation", description=__doc__.split("\n\n")[0])
    parser.add_argument("--seeds", type=int, default=1000, metavar="N", help="number of runs; default: 1000")
    parser.add_argument("--start", type=int, default=0, metavar="N", help="the first seed; default: 0")
    parser.add_argument(
        "--kind",
        choices=(*KINDS, "all"),
        default="all",
        help="one node, several in a star (cluster), in a mesh, or the first two (all)",
    )
    parser.add_argument(
        "--ops", type=int, default=OPERATIONS, metavar="N", help="operations per run; default: %(default)s"
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="number of processes; default: one per CPU",
    )
    parser.add_argument("--replay", type=int, metavar="SEED", help="run this seed and print its events")
    parser.add_argument(
        "--scale",
        action="store_true",
        help="measure how the cost of the core grows with the cluster instead; see --scale --help",
    )
    parser.add_argument("--log", action="store_true", help="print the events of every run")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code: 1 if a seed failed."""
    given = sys.argv[1:] if arguments is None else arguments
    if "--scale" in given:
        return study.main([each for each in given if each != "--scale"])
    options = parsed(given)
    if options.replay is not None:
        return replay(options.replay, options.kind, options.ops)
    seeds = range(options.start, options.start + options.seeds)
    if options.log:
        return max((replay(seed, options.kind, options.ops) for seed in seeds), default=0)
    began = time.perf_counter()
    report = in_processes(seeds, options) if options.jobs > 1 else try_seeds(seeds, options.kind, options.ops)
    # Includes the CPU time of child processes.
    print(report.text(time.perf_counter() - began, sum(os.times()[:4])))
    return 1 if report.failures else 0


def replay(seed: int, kind: str, operations: int) -> int:
    """Run one seed, checked in full after every step, and print its events."""
    log: list[str] = []
    this = kind_of(seed, kind)
    try:
        ran = KINDS[this](seed, log, operations=operations, check_every=1)
    except Exception:  # the error is printed after the events that led to it
        print("\n".join(log), flush=True)
        traceback.print_exc(file=sys.stdout)
        print(f"seed {seed} ({this}) failed after {len(log):,} events")
        return 1
    print("\n".join(log))
    print(f"seed {seed} ({this}): {len(log):,} events, hash {ran.digest.hexdigest()}")
    return 0


def in_processes(seeds: range, options: argparse.Namespace) -> Report:
    """Share the seeds out among processes."""
    import multiprocessing  # only here: most runs need one process

    report = Report()
    chunks = [(seeds[at : at + CHUNK], options.kind, options.ops) for at in range(0, len(seeds), CHUNK)]
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for part in pool.starmap(try_seeds, chunks, chunksize=1):
            report.merge(part)
    return report


if __name__ == "__main__":
    sys.exit(main())
