"""Tune: many trials of a trainable; unpromising ones are ended early, and the best result is reported.

The layout of the package, in the order in which a search uses it:

tuner.py, tune.py   the functions that a user calls; configs.py the user's settings
space/              the search space, and its variants
search/             the source of configurations
experiment/         an experiment, and its trials
execution/          the machine that decides, the loop that starts and stops processes
schedulers/         which trials continue; stopper/ when they end
trainable/          the code in the process of a trial
journal/            the record from which a search is resumed
logger/, reporting/ output for people
analysis.py, result_grid.py   the results

Names are resolved on first use; a search library is imported only when its searcher is created.
"""

from __future__ import annotations

from skate import lazy_loader

_HOMES = {
    "skate.tune.analysis": ("ExperimentAnalysis",),
    "skate.tune.callback": ("Callback",),
    "skate.tune.configs": (
        "CheckpointConfig",
        "FailureConfig",
        "ResumeConfig",
        "RunConfig",
        "SyncConfig",
        "TuneConfig",
    ),
    "skate.tune.error": ("TuneError",),
    "skate.tune.experiment.experiment": ("Experiment",),
    "skate.tune.placement": ("PlacementGroupFactory",),
    "skate.tune.progress_reporter": ("CLIReporter", "JupyterNotebookReporter", "ProgressReporter"),
    "skate.tune.registry": ("register_env", "register_trainable"),
    "skate.tune.result": ("Result",),
    "skate.tune.result_grid": ("ResultGrid",),
    "skate.tune.schedulers.factory": ("create_scheduler",),
    "skate.tune.search.factory": ("create_searcher",),
    "skate.tune.space.functions": (
        "choice",
        "grid_search",
        "lograndint",
        "loguniform",
        "qlograndint",
        "qloguniform",
        "qrandint",
        "qrandn",
        "quniform",
        "randint",
        "randn",
        "sample_from",
        "uniform",
    ),
    "skate.tune.stopper.stopper": ("Stopper",),
    "skate.tune.trainable.bound_parameters": ("with_parameters", "with_resources"),
    "skate.tune.trainable.session": ("TuneContext", "get_checkpoint", "get_context", "report"),
    "skate.tune.trainable.trainable": ("Trainable",),
    "skate.tune.tune": ("run", "run_experiments"),
    "skate.tune.tuner": ("Tuner",),
    "skate.train.checkpoint": ("Checkpoint",),
}
_PARTS = frozenset(
    [
        "analysis",
        "listing",
        "callback",
        "context",
        "error",
        "experiment",
        "integration",
        "logger",
        "progress_reporter",
        "registry",
        "result",
        "result_grid",
        "schedulers",
        "search",
        "stopper",
        "syncer",
        "trainable",
        "tuner",
        "tune_config",
        "utils",
    ]
)

__getattr__, __dir__, __all__ = lazy_loader.attach(globals(), _HOMES, _PARTS)
