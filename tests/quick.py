"""The quick tests: `make test ARGS="-m quick"` tries each part of Skate in less than 3 minutes on two cores.

The files below show within seconds that their part works. Every test of them carries the mark `quick`.
"""

from __future__ import annotations

from pathlib import Path

QUICK: dict[str, tuple[str, ...]] = {
    "core": (
        "client",
        "core/test_actors.py",
        "core/test_arena.py",
        "core/test_execution.py",
        "core/test_objects.py",
        "core/test_placement.py",
        "core/test_replay.py",
        "core/test_routes.py",
        "core/test_scheduler.py",
        "core/test_spilling.py",
        "protocol",
        "wire",
        "worker",
    ),
    "programs": (
        "conformance/test_actors.py",
        "conformance/test_cancel.py",
        "conformance/test_cluster.py",
        "conformance/test_errors.py",
        "conformance/test_generators.py",
        "conformance/test_get.py",
        "conformance/test_named_actors.py",
        "conformance/test_placement_groups.py",
        "conformance/test_put.py",
        "conformance/test_tasks.py",
        "conformance/test_wait.py",
        "process/test_sessions.py",
        "process/test_replay.py",
    ),
    "graphs": ("dag/test_graphs.py", "conformance/dag/test_lazy.py"),
    "data": (
        "conformance/data/test_dataset_operations.py",
        "conformance/data/test_engine_transforms.py",
        "conformance/data/test_exchanges_groupby.py",
        "conformance/data/test_formats_files.py",
    ),
    "train": (
        "train/test_machine.py",
        "conformance/train/test_checkpoints.py",
        "conformance/train/test_runs.py",
    ),
    "tune": ("tune/test_machine.py", "conformance/tune/test_results.py", "conformance/tune/test_spaces.py"),
    "serve": (
        "serve/test_asgi.py",
        "serve/test_autoscaler.py",
        "serve/test_machine.py",
        "serve/test_router.py",
        "conformance/serve/test_handles.py",
        "conformance/serve/test_http.py",
        "attack/test_messages.py",
    ),
    "llm": ("llm/test_fair_queue.py", "llm/test_slots.py", "llm/test_detokenizer.py"),
}

_TESTS = Path(__file__).parent
_PATHS = {_TESTS / name for names in QUICK.values() for name in names}


def is_quick(path: Path) -> bool:
    """Return True if the tests of this file are among the quick ones."""
    return path in _PATHS or not _PATHS.isdisjoint(path.parents)
