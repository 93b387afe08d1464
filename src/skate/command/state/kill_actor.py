"""``skate kill-actor``: ends an actor by its name."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import skate
from skate.command.session import ADDRESS_HELP, joined
from skate.util import list_named_actors

SUMMARY = "end an actor by its name"


def main(arguments: Sequence[str]) -> int:
    """End the actor and return 0; 1 if there is none of this name, or no session."""
    parser = argparse.ArgumentParser(prog="skate kill-actor", description=SUMMARY)
    parser.add_argument("--address", help=ADDRESS_HELP)
    parser.add_argument("--name", required=True, help="the name of the actor")
    parser.add_argument("--namespace", help="its namespace; by default that of the only actor of this name")
    parser.add_argument(
        "--force", action="store_true", help="kill its process; by default it ends when its calls have ended"
    )
    parser.add_argument("--no-restart", action="store_true", help="(with --force) do not restart it")
    given = parser.parse_args(list(arguments))
    if given.no_restart and not given.force:
        print("WARNING: --no-restart flag is only effective with --force", file=sys.stderr)
    try:
        with joined(given.address):
            actor = skate.get_actor(given.name, namespace=given.namespace or _namespace_of(given.name))
            if given.force:
                skate.kill(actor, no_restart=given.no_restart)
                print(f"Actor killed (force): {given.name}")
            else:
                ended = actor.__ray_terminate__.remote()
                print(f"Requested graceful termination for actor: {given.name}")
                skate.wait([ended])  # a request of a session that has ended is not carried out
    except (OSError, ValueError, RuntimeError) as error:
        print(f"skate kill-actor: {error}", file=sys.stderr)
        return 1
    return 0


def _namespace_of(name: str) -> str | None:
    """Return the namespace of the only actor of a name; None if there is none. Raises ValueError if there are several."""
    found = [each["namespace"] for each in list_named_actors(all_namespaces=True) if each["name"] == name]
    if len(found) > 1:
        raise ValueError(
            f"actors of several namespaces have the name {name!r}: choose one with --namespace, of {', '.join(found)}"
        )
    return found[0] if found else None
