"""Compiled graphs: a step of a pipeline of two actors, with a number and with an array."""

from __future__ import annotations

import importlib
from typing import Any

from benchmarks.measure import calls_per_second
from benchmarks.session import Figures, main, started

ARRAY_BYTES = 1_000_000


def pipeline(target: str, full: bool) -> Figures:
    """Driver, actor, actor, driver: one execution at a time."""
    import numpy as np

    with started(target) as ray:
        dag = importlib.import_module(f"{ray.__name__}.dag")

        @ray.remote
        class Stage:
            def echo(self, value: Any) -> Any:
                return value

        first, second = Stage.remote(), Stage.remote()
        with dag.InputNode() as given:
            graph = second.echo.bind(first.echo.bind(given)).experimental_compile()
        small = calls_per_second(lambda: ray.get(graph.execute(1)))
        array = np.ones(ARRAY_BYTES, dtype=np.uint8)
        large = calls_per_second(lambda: ray.get(graph.execute(array)))
        ordinary = calls_per_second(lambda: ray.get(second.echo.remote(first.echo.remote(1))))
        graph.teardown()
    return {"graph_step": small, "graph_step_array": large, "two_calls": ordinary}


if __name__ == "__main__":
    main(pipeline)
