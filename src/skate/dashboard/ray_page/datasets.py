"""The datasets of a job in Ray's shape, read from the metrics of their runs."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from skate.util import exposition, state

#: Ray's figures of datasets and operators, and whether the current value is one of them beside the greatest.
FIGURES = {
    "ray_data_output_rows": False,
    "ray_data_spilled_bytes": False,
    "ray_data_current_bytes": True,
    "ray_data_cpu_usage_cores": True,
    "ray_data_gpu_usage_cores": True,
    "ray_data_memory_usage_bytes": True,
}
#: Figures of which a dataset has that of its last operator; of others the sum.
OF_THE_LAST = frozenset({"ray_data_output_rows"})
RUNNING, FINISHED = "RUNNING", "FINISHED"

Figures = dict[str, float]
_greatest: dict[tuple[str, str, str], float] = {}
GREATEST_MAX = 10_000


def datasets(request: Request) -> Response:
    """Return the datasets that a job runs, and those that have ended not long ago."""
    job = request.path_params["job_id"]
    try:
        found = _by_dataset(exposition.rows())
    except TimeoutError as error:
        return PlainTextResponse(str(error), 503)
    jobs = {
        str(row.driver_info["pid"]): row.job_id
        for row in state.list_jobs(detail=True, limit=10_000, raise_on_missing_output=False)
        if row.driver_info is not None and row.job_id
    }
    # Data runs in the driver, or in a worker of the only job.
    only = next(iter(jobs.values())) if len(jobs) == 1 else ""
    shown = [
        _dataset(name, operators, job)
        for name, operators in found.items()
        if jobs.get(_pid_of(name), only) == job
    ]
    return JSONResponse({"datasets": sorted(shown, key=lambda each: -each["start_time"])})


def _pid_of(dataset: str) -> str:
    """Return the process of a run, which is in its label, before its number."""
    return dataset.rsplit("_", 2)[-2]


def _by_dataset(rows: list[dict[str, Any]]) -> dict[str, dict[str, Figures]]:
    """Return the figures of runs by dataset and operator; those of a whole run are of the operator ""."""
    found: dict[str, dict[str, Figures]] = {}
    for row in rows:
        if row["kind"] != "gauge" or not row["name"].startswith("data_"):
            continue
        for labels, value, _, _ in row["series"]:
            tags = dict(map(tuple, labels))
            if "dataset" in tags and "split" not in tags:
                operators = found.setdefault(tags["dataset"], {})
                operators.setdefault(tags.get("operator", ""), {})[row["name"]] = value
    return {
        name: operators
        for name, operators in found.items()
        if "data_run_start_time_s" in operators.get("", {})
    }


def _dataset(name: str, operators: dict[str, Figures], job: str) -> dict[str, Any]:
    run = operators[""]
    ended = run.get("data_run_end_time_s", 0.0)
    parts = sorted(
        (_operator(name, key, figures, bool(ended)) for key, figures in operators.items() if key),
        key=lambda each: each["place"],
    )
    for place in parts:
        del place["place"]
    last = parts[-1] if parts else {"progress": 0, "total": 0, "total_rows": 0}
    whole = {
        figure: _totals(figure, [each[figure] for each in parts], has_value)
        for figure, has_value in FIGURES.items()
    }
    return {
        "dataset": name,
        "job_id": job,
        "state": FINISHED if ended else RUNNING,
        "progress": last["progress"],
        "total": last["total"],
        "total_rows": last["total_rows"],
        "start_time": run["data_run_start_time_s"],
        "end_time": ended or None,
        "operators": parts,
        **whole,
    }


def _totals(figure: str, parts: list[Figures], has_value: bool) -> Figures:
    kinds = ("value", "max") if has_value else ("max",)
    if figure in OF_THE_LAST:
        parts = parts[-1:]
    return {kind: sum(part[kind] for part in parts) for kind in kinds}


def _operator(dataset: str, key: str, figures: Figures, has_ended: bool) -> dict[str, Any]:
    """Return an operator of a run. Its name ends with its place."""
    name, _, place = key.rpartition("_")
    done = int(figures.get("data_num_task_outputs_generated", 0))
    queued = int(
        figures.get("data_obj_store_mem_internal_inqueue_blocks", 0)
        + figures.get("data_num_external_inqueue_blocks", 0)
    )
    running = int(figures.get("data_num_tasks_running", 0))
    left = 0 if has_ended else queued + running
    shown: dict[str, Any] = {}
    for figure, has_value in FIGURES.items():
        value = figures.get(figure.removeprefix("ray_"), 0.0)
        greatest = _remember(dataset, key, figure, value)
        shown[figure] = {"value": value, "max": greatest} if has_value else {"max": greatest}
    return {
        "operator": key,
        "name": name,
        "place": int(place) if place.isdecimal() else 0,
        "state": RUNNING if left else FINISHED,
        "progress": done,
        "total": done + left,
        "total_rows": int(figures.get("data_output_rows", 0)),
        "queued_blocks": queued,
        **shown,
    }


def _remember(dataset: str, operator: str, figure: str, value: float) -> float:
    """Return the greatest value that this process has seen."""
    if len(_greatest) >= GREATEST_MAX:
        _greatest.clear()
    key = dataset, operator, figure
    _greatest[key] = max(value, _greatest.get(key, 0.0))
    return _greatest[key]
