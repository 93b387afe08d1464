"""Training runs in Ray's shape, from what runs announce and from their journals."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from skate.dashboard.mask import masked
from skate.dashboard.own_api import train
from skate.dashboard.own_api.readings.plain import number, plain, rows
from skate.util import state
from skate.util.announcements import Announced
from skate.version import RAY_VERSION

RUNNING, FINISHED, ERRORED, ABORTED = "RUNNING", "FINISHED", "ERRORED", "ABORTED"
#: The states of runs that Ray has no word for: the process of the run has gone, and a run that is about to start.
STATES = {"LOST": ABORTED, "STARTED": "INITIALIZING", "": "INITIALIZING"}
TERMINAL = frozenset({FINISHED, ERRORED, ABORTED})
ALIVE, DEAD = "ALIVE", "DEAD"


def runs(request: Request) -> Response:
    """Return all runs, the latest first, each with its attempts, workers and settings."""
    jobs = state.list_jobs(detail=True, limit=10_000, raise_on_missing_output=False)
    by_pid = {int(job.driver_info["pid"]): job for job in jobs if job.driver_info is not None and job.job_id}
    found = [_run(each, by_pid) for each in train.announced()]
    return JSONResponse(masked(request, plain({"train_runs": found})))


def _run(each: Announced, jobs: dict[int, Any]) -> dict[str, object]:
    """Return a run."""
    journal = train.journal_of(each)
    said = train.state_of(each, journal)
    status = STATES.get(said, said)
    failures = journal.failures if journal else []
    ended = each.ended or (journal.last_at if journal is not None and status in TERMINAL else None)
    # A run belongs to the program that has called `fit`, or to the only one that there is.
    job = jobs.get(each.pid) or (next(iter(jobs.values())) if len(jobs) == 1 else None)
    return {
        "id": each.key,
        "name": each.id,
        "job_id": job.job_id if job is not None else "",
        "controller_actor_id": "",  # the controller is no actor: it runs in the program
        "status": status,
        "status_detail": str(failures[-1]["error"]) if failures and status == ERRORED else None,
        "start_time_ns": _nanoseconds(each.began),
        "end_time_ns": _nanoseconds(ended) if ended else None,
        "controller_log_file_path": None,
        "framework_versions": {"ray": RAY_VERSION},
        "run_settings": each.facts.get("settings"),
        "attempts": _attempts(each, journal, status),
        "job_details": _details(job),
    }


def _attempts(each: Announced, journal: train.RunJournal | None, status: str) -> list[dict[str, object]]:
    """Return the attempts, the first one first; the workers are known of the last one only."""
    attempts = journal.attempts if journal is not None else []
    errors = {failure["attempt"]: str(failure["error"]) for failure in journal.failures} if journal else {}
    found: list[dict[str, object]] = []
    for place, attempt in enumerate(attempts):
        is_last = place == len(attempts) - 1
        name, ended = attempt["attempt"], number(attempt["ended"])
        error = errors.get(name)
        if is_last and status not in TERMINAL and ended is None:
            now = RUNNING
        elif is_last and status in TERMINAL and error is None:
            now = status
        else:
            now = ERRORED if error is not None else FINISHED
        began = number(attempt["began"]) or each.began
        workers = _workers(each, now) if is_last else []
        size = int(number(attempt["workers"]) or len(workers))
        found.append(
            {
                "run_id": each.key,
                "attempt_id": f"{each.key}/{name}",
                "status": now,
                "status_detail": error,
                "start_time_ns": _nanoseconds(began),
                "end_time_ns": None if now == RUNNING else _nanoseconds(ended or each.ended or began),
                "resources": [{"resources": _resources(each)}] * size,
                "workers": workers,
            }
        )
    return found


def _workers(each: Announced, status: str) -> list[dict[str, object]]:
    """Return the workers of the last attempt, by rank."""
    nodes: dict[object, int] = {}
    counts: dict[object, int] = defaultdict(int)
    found: list[dict[str, object]] = []
    for rank in rows(each.figures.get("ranks")):
        node = rank.get("node_id")
        found.append(
            {
                "world_rank": rank.get("rank"),
                "local_rank": counts[node],
                "node_rank": nodes.setdefault(node, len(nodes)),
                "actor_id": rank.get("actor_id") or "",
                "node_id": node,
                "node_ip": rank.get("ip") or "",
                "pid": rank.get("pid"),
                "gpu_ids": rank.get("gpu_ids") or [],
                "status": ALIVE if status == RUNNING and each.is_reachable else DEAD,
                "resources": {"resources": _resources(each)},
                "log_file_path": None,
                "processStats": None,
                "gpus": [],
            }
        )
        counts[node] += 1
    return found


def _resources(each: Announced) -> dict[str, object]:
    """Return the resources of a worker."""
    settings = each.facts.get("settings")
    scaling = settings.get("scaling_config", {}) if isinstance(settings, dict) else {}
    asked = scaling.get("resources_per_worker")
    return dict(asked) if asked else {"GPU": 1} if scaling.get("use_gpu") else {"CPU": 1}


def _details(job: Any) -> object:
    """Return the job as Ray's routes about jobs do."""
    if job is None:
        return None
    names = (
        "type", "job_id", "submission_id", "driver_info", "status", "entrypoint", "message", "error_type", "start_time",
        "end_time", "metadata", "runtime_env", "driver_agent_http_address", "driver_node_id", "driver_exit_code",
    )  # fmt: skip
    return {name: getattr(job, name, None) for name in names}


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
