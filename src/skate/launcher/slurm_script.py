"""The batch script that runs one program on a cluster of Slurm's machines, as text."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

_SCRIPT = """\
#!/bin/bash
{directives}

set -euo pipefail
{setup}
# Each job has a token of its own. It is in the environment of the job, which other users cannot read.
SKATE_AUTH_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \\n')
export SKATE_AUTH_TOKEN

head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)
# Several jobs may share a machine, so each has a port and a folder of its own.
port=$((20000 + SLURM_JOB_ID % 20000))

exec srun --ntasks-per-node=1 --kill-on-bad-exit=1 \\
    skate symmetric-run --address "$head:$port" --min-nodes "$SLURM_JOB_NUM_NODES" --temp-dir "/tmp/skate-$SLURM_JOB_ID" \\
    {flags} \\
    -- {command}
"""


@dataclass(frozen=True)
class Job:
    """A job of Slurm: amounts are for each machine; None leaves a choice to Slurm.

    Attributes:
        command: runs on the first machine, when all have joined.
        nodes: the number of machines.
        cpus: CPUs.
        gpus: GPUs.
        memory: in Slurm's form, such as "64G".
        time: in Slurm's form, such as "02:00:00".
        setup: shell lines that run first, such as the activation of an environment.
        directives: more lines for `#SBATCH`, such as "--constraint=ib".
    """

    command: Sequence[str]
    nodes: int
    cpus: int
    gpus: int = 0
    memory: str | None = None
    time: str | None = None
    partition: str | None = None
    account: str | None = None
    name: str = "skate"
    setup: Sequence[str] = ()
    directives: Sequence[str] = field(default=())


def script(job: Job) -> str:
    """Return the script for `sbatch`. Raises ValueError for a job that Slurm could not run."""
    _check(job)
    options = {
        "job-name": job.name, "nodes": job.nodes, "ntasks-per-node": 1, "cpus-per-task": job.cpus,
        "gpus-per-node": job.gpus or None, "mem": job.memory, "time": job.time, "partition": job.partition,
        "account": job.account,
    }  # fmt: skip
    lines = [f"#SBATCH --{name}={value}" for name, value in options.items() if value is not None]
    lines += [f"#SBATCH {each}" for each in job.directives]
    return _SCRIPT.format(
        directives="\n".join(lines),
        setup="".join(f"{line}\n" for line in job.setup),
        flags=f"--num-cpus={job.cpus} --num-gpus={job.gpus}",
        command=shlex.join(job.command),
    )


def _check(job: Job) -> None:
    if not job.command:
        raise ValueError("the command is missing: what is to run on the cluster?")
    for name, number, least in (("nodes", job.nodes, 1), ("cpus", job.cpus, 1), ("gpus", job.gpus, 0)):
        if number < least:
            raise ValueError(f"{name}={number}: at least {least} is needed on each machine")
    for name in ("memory", "time", "partition", "account", "name"):
        value = getattr(job, name)
        if value is not None and not re.fullmatch(r"[\w.,:+%@/-]+", value):
            raise ValueError(f"{name}={value!r} cannot stand in an #SBATCH line")
    for line in job.directives:
        if not line.startswith("-") or "\n" in line:
            raise ValueError(f"{line!r} is no option of sbatch; write --name=value")
