"""``skate up``: starts the cluster that a file describes, or brings a running one up to date."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from skate.command.machines.options import config_of, confirmed, parser, report_errors, warn
from skate.launcher import launch, token
from skate.launcher.cluster_config import ClusterConfig

SUMMARY = "start the machines of a cluster file by SSH, or bring them up to date"


def main(arguments: Sequence[str]) -> int:
    """Start the cluster and return 0; 1 if the head or a worker has not started."""
    made = parser("up", SUMMARY)
    made.add_argument(
        "--min-workers", type=int, metavar="N", help="the number of workers to start; default: all"
    )
    made.add_argument("--max-workers", type=int, metavar="N", help="use at most this number of the workers")
    how = made.add_mutually_exclusive_group()
    how.add_argument("--no-restart", action="store_true", help="leave nodes that run as they are")
    how.add_argument("--restart-only", action="store_true", help="copy nothing and run no setup commands")
    made.add_argument("-y", "--yes", action="store_true", help="do not ask")
    made.add_argument(
        "--redirect-command-output", metavar="FILE", help="write the output of commands to a file"
    )
    shells = made.add_mutually_exclusive_group()
    shells.add_argument("--use-login-shells", dest="login", action="store_true", default=True,
                        help="run commands in `bash --login -i`, which reads the profile (default)")  # fmt: skip
    shells.add_argument(
        "--use-normal-shells", dest="login", action="store_false", help="run commands in plain bash"
    )
    given = made.parse_args(list(arguments))

    def act() -> int:
        config = config_of(given)
        workers = len(config.started_workers)
        restarts = "" if given.no_restart else " Nodes that run there restart."
        if not confirmed(
            f"Start {config.name!r} on {config.head} and {workers} workers?{restarts}", given.yes
        ):
            return 1
        steps = launch.Steps(not given.restart_only, not given.no_restart, given.login)
        if given.redirect_command_output is None:
            failed = launch.up(config, steps, launch.print_line)
        else:
            with open(given.redirect_command_output, "a") as file:
                failed = launch.up(config, steps, lambda text: print(text, file=file, flush=True))
        warn(failed, "has not started")
        print(_how_to_go_on(config, given.cluster_config_file, workers - len(failed)))
        return 1 if failed else 0

    return report_errors("up", act)


def _how_to_go_on(config: ClusterConfig, path: str, workers: int) -> str:
    count = len(config.started_workers)
    file = path if Path(path).is_absolute() else f"./{path}"
    return (
        f"Cluster {config.name!r}: the head {config.head} and {workers} of {count} workers are up.\n"
        f"  look at it:      skate exec {file} 'skate status'\n"
        f"  run a program:   skate submit {file} PROGRAM.py\n"
        f"  open a shell:    skate attach {file}\n"
        f"  from here:       SKATE_AUTH_TOKEN_PATH={token.local_path(config.name)}, and in the program "
        f'init("ray://{config.head_login}:{config.port or 6379}")\n'
        f"  end it:          skate down {file}"
    )
