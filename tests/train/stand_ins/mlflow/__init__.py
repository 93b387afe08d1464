"""Stands for mlflow where it is not installed: the calls that Skate makes, written as lines into MLFLOW_STAND_IN."""

import json
import os
import types

_uris = {"tracking": "file:stand-in", "registry": "file:stand-in"}
_experiments = {"0": "Default"}
_active = None


def write(call, **what):
    with open(os.environ["MLFLOW_STAND_IN"], "a") as file:
        file.write(json.dumps({"call": call, **what}) + "\n")


def set_tracking_uri(uri):
    _uris["tracking"] = uri


def set_registry_uri(uri):
    _uris["registry"] = uri


def get_tracking_uri():
    return _uris["tracking"]


def get_registry_uri():
    return _uris["registry"]


def get_experiment(experiment_id):
    from mlflow.exceptions import MlflowException

    if experiment_id not in _experiments:
        raise MlflowException(f"no experiment {experiment_id}")
    return types.SimpleNamespace(experiment_id=experiment_id)


def get_experiment_by_name(name):
    found = [key for key, value in _experiments.items() if value == name]
    return types.SimpleNamespace(experiment_id=found[0]) if found else None


def create_experiment(name, artifact_location=None, tags=None):
    key = str(len(_experiments))
    _experiments[key] = name
    write("create_experiment", name=name)
    return key


def active_run():
    return _active


def start_run(run_id=None, experiment_id=None, run_name=None, tags=None):
    global _active
    _active = types.SimpleNamespace(info=types.SimpleNamespace(run_id="active"))
    write("start_run", experiment=experiment_id, name=run_name, tags=tags, pid=os.getpid())
    return _active


def log_param(key, value):
    write("log_param", key=key, value=value)


def log_metric(key, value, step=None):
    write("log_metric", key=key, value=value, step=step)
