"""``tune`` and ``skate tune``: list the searches in a folder and the results of their trials."""

from __future__ import annotations

import argparse
import csv
import operator
import os
import pickle
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from skate.command import broken_pipe
from skate.tune.analysis import ExperimentAnalysis
from skate.tune.metrics import AUTO_KEYS, flat, users
from skate.tune.reporter.status_text import psql

SUMMARY = "list searches and their trials: tune list-trials PATH"
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}
_FIRST = ("trial_name", "trial_id", "status", "training_iteration", "time_total_s")

Rows = list[dict[str, Any]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; return the exit status."""
    given = _parser().parse_args(list(sys.argv[1:] if arguments is None else arguments))
    return broken_pipe.run_quietly(lambda: _run(given))


def _run(given: argparse.Namespace) -> int:
    try:
        given.call(given)
    except BrokenPipeError:
        raise
    except (ValueError, TypeError, KeyError, OSError) as error:
        text = error.args[0] if isinstance(error, KeyError) else error
        print(f"tune {given.verb}: {text}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tune", description=SUMMARY)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for names, call, about, place in (
        (("list-trials", "ls"), _list_trials, "the trials of a search", "experiment_path"),
        (("list-experiments", "lsx"), _list_experiments, "the searches in a folder", "project_path"),
    ):
        made = verbs.add_parser(names[0], aliases=names[1:], help=about, description=f"Lists {about}.")
        made.add_argument("path", metavar=place)
        made.add_argument("--sort", help="columns to sort by, separated by commas")
        made.add_argument(
            "-o", "--output", help="also write to this file: .csv, or .pkl for a pandas DataFrame"
        )
        made.add_argument("--filter", help="rows to show: 'COLUMN OPERATOR VALUE', such as 'loss < 0.5'")
        made.add_argument("--columns", help="columns to show, separated by commas")
        made.add_argument("--limit", type=int, help="the number of rows to show")
        made.add_argument(
            "--desc", type=_truth, nargs="?", const=True, default=False, help="show the largest first"
        )
        made.set_defaults(call=call)
    note = verbs.add_parser(
        "add-note", help="write a note about a search", description="Opens $EDITOR on a note."
    )
    note.add_argument("path")
    note.add_argument("--filename", default="note.txt")
    note.set_defaults(call=_add_note)
    return parser


def _truth(word: str) -> bool:
    if word.lower() not in ("true", "false", "1", "0", "yes", "no"):
        raise argparse.ArgumentTypeError(f"must be true or false, got {word!r}")
    return word.lower() in ("true", "1", "yes")


def _list_trials(given: argparse.Namespace) -> None:
    path = os.path.abspath(os.path.expanduser(given.path))
    rows: Rows = []
    for trial in ExperimentAnalysis(path).trials:
        result = flat({name: value for name, value in trial.last_result.items() if name != "config"})
        about = {"trial_name": str(trial), "trial_id": trial.trial_id, "status": trial.status}
        config = {f"config/{name}": value for name, value in flat(trial.config).items()}
        rows.append({**result, **about, **config, "logdir": trial.relative_logdir})
    if not rows:
        raise ValueError(f"the search at {path} has no trials yet")
    known = list(dict.fromkeys(name for row in rows for name in row))
    metrics = [
        name for name in known if name in users(dict.fromkeys(known)) and not name.startswith("config/")
    ]
    shown = [
        *(name for name in _FIRST if name in known),
        *(name for name in metrics if name not in (*_FIRST, "logdir")),
        *(name for name in known if name.startswith("config/")),
    ]
    _show(rows, [name for name in shown if name not in AUTO_KEYS or name in _FIRST], known, given)


def _list_experiments(given: argparse.Namespace) -> None:
    path = os.path.abspath(os.path.expanduser(given.path))
    rows: Rows = []
    for entry in sorted(os.scandir(path), key=lambda each: each.name):
        if not entry.is_dir():
            continue
        trials = [each for each in os.scandir(entry.path) if each.is_dir() and _is_trial(each.path)]
        states = [name for name in os.listdir(entry.path) if name.startswith("experiment_state-")]
        if not (trials or states):
            continue
        changed = max(os.stat(each).st_mtime for each in [entry.path, *(each.path for each in trials)])
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(changed))
        rows.append({"name": entry.name, "total_trials": len(trials), "last_updated": stamp})
    if not rows:
        raise ValueError(f"there are no searches in {path}: none of its folders has results of trials")
    _show(rows, list(rows[0]), list(rows[0]), given)


def _is_trial(path: str) -> bool:
    return any(os.path.exists(os.path.join(path, name)) for name in ("result.json", "params.json"))


def _show(rows: Rows, columns: list[str], known: list[str], given: argparse.Namespace) -> None:
    """Print the requested rows, and write them to a file if one is named."""
    if given.columns:
        columns = _known(given.columns.split(","), known)
    if given.filter:
        rows = _filtered(rows, given.filter, known)
    for name in reversed(_known(given.sort.split(","), known) if given.sort else []):
        has = [row for row in rows if row.get(name) is not None]
        lacks = [row for row in rows if row.get(name) is None]
        rows = sorted(has, key=lambda row: row[name], reverse=given.desc) + lacks
    rows = rows[: given.limit]
    shown = [{name: row.get(name, "") for name in columns} for row in rows]
    print(psql(columns, [list(row.values()) for row in shown]) if shown else "no rows")
    if given.output:
        _write(given.output, shown, columns)
        print(f"written to {given.output}")


def _known(names: Sequence[str], known: Sequence[str]) -> list[str]:
    for name in names:
        if name not in known:
            raise KeyError(f"there is no column {name!r}; the columns are {', '.join(known)}")
    return list(names)


def _filtered(rows: Rows, text: str, known: Sequence[str]) -> Rows:
    words = shlex.split(text)
    if len(words) != 3 or words[1] not in _COMPARE:
        raise ValueError(
            f"--filter must be 'COLUMN OPERATOR VALUE' with one of {' '.join(_COMPARE)} as operator, "
            f"such as 'loss < 0.5', got {text!r}"
        )
    (name,), compare = _known(words[:1], known), _COMPARE[words[1]]
    found = []
    for row in rows:
        value = row.get(name)
        if value is None:
            continue
        if isinstance(value, bool):
            wanted: Any = _truth(words[2])
        elif isinstance(value, int | float):
            try:
                wanted = float(words[2])
            except ValueError:
                raise ValueError(f"{name} is a number, but {words[2]!r} is not") from None
        else:
            value, wanted = str(value), words[2]
        if compare(value, wanted):
            found.append(row)
    return found


def _write(path: str, rows: Rows, columns: list[str]) -> None:
    kind = os.path.splitext(path)[1].lower()
    if kind == ".csv":
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    elif kind in (".p", ".pkl", ".pickle"):
        import pandas  # in Ray's format

        with open(path, "wb") as pickles:
            pickle.dump(pandas.DataFrame(rows, columns=columns), pickles)
    else:
        raise ValueError(f"--output must end in .csv or .pkl, not in {kind or 'nothing'}: {path}")


def _add_note(given: argparse.Namespace) -> None:
    folder = os.path.expanduser(given.path)
    if not os.path.isdir(folder):
        raise ValueError(f"{folder!r} is not a folder")
    path = os.path.join(folder, given.filename)
    existed = os.path.exists(path)
    editor = os.environ.get("EDITOR", "vi")
    try:
        subprocess.run([*shlex.split(editor), path], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ValueError(f"the editor {editor!r} (set EDITOR to use another) failed: {error}") from error
    print(f"note {'changed' if existed else 'written'}: {path}")
