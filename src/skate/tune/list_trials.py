"""The subcommands of ``tune`` as functions: lists of searches and trials, and notes."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from skate.tune import command


def _given(
    path: str,
    sort: Any,
    output: str | None,
    filter_op: str | None,
    info_keys: Any,
    limit: int | None,
    desc: bool,
) -> Namespace:
    names = {"sort": sort, "columns": info_keys}
    joined = {
        name: ",".join(value) if isinstance(value, (list, tuple)) else value for name, value in names.items()
    }
    return Namespace(path=path, output=output, filter=filter_op, limit=limit, desc=desc, **joined)


def list_trials(
    experiment_path: str,
    sort: list[str] | None = None,
    output: str | None = None,
    filter_op: str | None = None,
    info_keys: list[str] | None = None,
    limit: int | None = None,
    desc: bool = False,
) -> None:
    """Print the trials of a search.

    Args:
        experiment_path: the folder of the search.
        sort: columns to sort by.
        output: a file to write to as well, .csv or .pkl.
        filter_op: rows to show, such as "loss < 0.5".
        info_keys: columns to show.
        limit: the number of rows to show.
        desc: True for the largest first.

    Raises:
        ValueError: there is no search, or it has no trials.
        KeyError: there is no such column; the error lists the columns.
    """
    command._list_trials(_given(experiment_path, sort, output, filter_op, info_keys, limit, desc))


def list_experiments(
    project_path: str,
    sort: list[str] | None = None,
    output: str | None = None,
    filter_op: str | None = None,
    info_keys: list[str] | None = None,
    limit: int | None = None,
    desc: bool = False,
) -> None:
    """Print the searches in a folder; arguments and errors are those of `list_trials`."""
    command._list_experiments(_given(project_path, sort, output, filter_op, info_keys, limit, desc))


def add_note(path: str, filename: str = "note.txt") -> None:
    """Open $EDITOR on a note stored with a search.

    Raises:
        ValueError: the path is not a folder, or the editor has failed.
    """
    command._add_note(Namespace(path=path, filename=filename))
