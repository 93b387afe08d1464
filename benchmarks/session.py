"""One scenario process: pick a scenario, start the target inside it, print its figures as one JSON line."""

from __future__ import annotations

import argparse
import importlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

INIT = {"num_cpus": 2, "include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}

Figures = dict[str, float | None]
Scenario = Callable[[str, bool], "Figures | tuple[Figures, dict[str, str]]"]


@contextmanager
def started(target: str, **more: Any) -> Iterator[Any]:
    """The target's module after `init`, with the same call for every target; shut down at the end."""
    ray = importlib.import_module(target)
    ray.init(**{**INIT, **more})
    try:
        yield ray
    finally:
        ray.shutdown()


def main(*scenarios: Scenario) -> None:
    """Command line of a family of scenarios: `python -m benchmarks.core.FAMILY SCENARIO --target ray`."""
    known = {scenario.__name__: scenario for scenario in scenarios}
    parser = argparse.ArgumentParser()
    parser.add_argument("scenario", choices=sorted(known))
    parser.add_argument("--target", default="skate", choices=("skate", "ray"))
    parser.add_argument("--full", action="store_true", help="allow the sizes that take minutes")
    args = parser.parse_args()
    result = known[args.scenario](args.target, args.full)
    figures, notes = result if isinstance(result, tuple) else (result, {})
    print(json.dumps({"figures": figures, "notes": notes}), flush=True)
