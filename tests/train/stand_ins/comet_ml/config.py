"""Comet's notion of the one experiment of a process."""

from comet_ml import calls


def set_global_experiment(experiment):
    calls.append(("set_global_experiment", experiment))
