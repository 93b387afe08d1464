"""``skate manifest``: prints what Slurm or Kubernetes need to run a cluster."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from skate.command.machines.options import report_errors, words_after
from skate.launcher import kubernetes_manifest, slurm_script

SUMMARY = "print a batch script for Slurm, or manifests for Kubernetes"


def main(arguments: Sequence[str]) -> int:
    """Print the text and return 0; 1 if the options are invalid."""
    own, command = words_after(arguments)
    given = _parser().parse_args(own)

    def act() -> int:
        if given.system == "slurm":
            names = ("nodes", "cpus", "gpus", "memory", "time", "partition", "account", "name", "setup")
            options = {name: getattr(given, name) for name in names}
            print(slurm_script.script(slurm_script.Job(command, **options, directives=given.sbatch)), end="")
            return 0
        if command:
            raise ValueError(
                "a cluster on Kubernetes stays; run programs on it by `kubectl exec`, without `-- COMMAND` here"
            )
        fields = kubernetes_manifest.Cluster.__dataclass_fields__
        cluster = kubernetes_manifest.Cluster(**{name: getattr(given, name) for name in fields})
        print(kubernetes_manifest.text(cluster, given.with_secret), end="")
        return 0

    return report_errors("manifest", act)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="skate manifest", description=SUMMARY, allow_abbrev=False)
    systems = parser.add_subparsers(dest="system", required=True, metavar="slurm | kubernetes")
    _add_slurm(
        systems.add_parser(
            "slurm", help="a script for sbatch", usage="skate manifest slurm [options] -- COMMAND"
        )
    )
    _add_kubernetes(systems.add_parser("kubernetes", help="YAML for kubectl apply"))
    return parser


def _add_slurm(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nodes", type=int, required=True, metavar="N", help="the number of machines")
    parser.add_argument("--cpus", type=int, required=True, metavar="N", help="CPUs of each machine")
    parser.add_argument("--gpus", type=int, default=0, metavar="N", help="GPUs of each machine")
    parser.add_argument("--memory", metavar="SIZE", help="memory of each machine, such as 64G")
    parser.add_argument("--time", metavar="TIME", help="the limit of time, such as 02:00:00")
    parser.add_argument("--partition")
    parser.add_argument("--account")
    parser.add_argument("--name", default="skate", help="the name of the job; default: %(default)s")
    parser.add_argument(
        "--setup", action="append", default=[], metavar="LINE", help="a shell line that runs first"
    )
    parser.add_argument(
        "--sbatch",
        action="append",
        default=[],
        metavar="OPTION",
        help="one more option of sbatch: --sbatch=--constraint=ib",
    )


def _add_kubernetes(parser: argparse.ArgumentParser) -> None:
    defaults = {name: each.default for name, each in kubernetes_manifest.Cluster.__dataclass_fields__.items()}
    parser.add_argument("--name", default="skate", help="the prefix of all names; default: %(default)s")
    parser.add_argument("--image", required=True, help="an image with skate[cluster]")
    for name, what in (("workers", "worker pods"), ("cpus", "CPUs of a worker"), ("gpus", "GPUs of a worker"),
                       ("head-cpus", "CPUs of the head")):  # fmt: skip
        parser.add_argument(
            f"--{name}",
            type=int,
            default=defaults[name.replace("-", "_")],
            metavar="N",
            help=f"{what}; default: %(default)s",
        )
    for name, what in (("memory", "memory of a worker"), ("head-memory", "memory of the head"),
                       ("head-storage", "the volume for the state of the head")):  # fmt: skip
        parser.add_argument(
            f"--{name}",
            default=defaults[name.replace("-", "_")],
            metavar="SIZE",
            help=f"{what}; default: %(default)s",
        )
    parser.add_argument(
        "--storage-class", metavar="NAME", help="the class of that volume; default: that of the cluster"
    )
    parser.add_argument(
        "--state-store",
        metavar="etcd://HOST:2379/CLUSTER",
        help="keep the state of the head in etcd instead, and run a second head that stands by",
    )
    parser.add_argument("--namespace", help="default: that of kubectl")
    parser.add_argument("--with-secret", action="store_true", help="print a new token as well")
