"""Stands for wandb where it is not installed: the calls that Skate makes, written as lines into WANDB_STAND_IN."""

import json
import os


def write(call, **what):
    with open(os.environ["WANDB_STAND_IN"], "a") as file:
        file.write(json.dumps({"call": call, "pid": os.getpid(), **what}) + "\n")


class Artifact:
    def __init__(self, name, type):  # noqa: A002 - as wandb has it
        self.name, self.kind, self.folders = name, type, []

    def add_dir(self, folder):
        self.folders.append(folder)


class Config:
    def update(self, values, allow_val_change=False):
        write("config", values=values)


class Run:
    config = Config()

    def log(self, metrics, step=None):
        if "explode" in metrics:
            raise OSError("the service is gone")
        write("log", metrics=metrics, step=step)

    def log_artifact(self, artifact):
        write("artifact", name=artifact.name, kind=artifact.kind, folders=artifact.folders)

    def finish(self, exit_code=None):
        write("finish", exit_code=exit_code)


def init(**given):
    write("init", given=given)
    return Run()
