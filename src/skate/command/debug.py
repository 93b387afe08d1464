"""``skate debug``: attaches to a breakpoint in a task or an actor."""

from __future__ import annotations

import argparse
import os
import select
import socket
import sys
from collections.abc import Sequence

from skate.client import debugger

SUMMARY = "attach Python's debugger to a task or an actor that waits at a breakpoint"
HELP = """\
Lists the places at which your tasks and actors on this machine wait: at breakpoint(), at
ray.util.rpdb.set_trace(), or, with RAY_DEBUG_POST_MORTEM=1 in the environment of the program, at an
error. Attaches to one of them. The commands are those of pdb; c, q and the end of this command let
the task continue."""


def main(arguments: Sequence[str]) -> int:
    """Attach to a breakpoint and return 0; 1 if there is none."""
    parser = argparse.ArgumentParser(
        prog="skate debug", description=HELP, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pid", type=int, help="attach to the breakpoint of this process")
    parser.add_argument("--list", action="store_true", help="print the breakpoints and end")
    parser.add_argument("--address", help=argparse.SUPPRESS)  # breakpoints are found without a node
    parser.add_argument("-v", "--verbose", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(list(arguments))
    found = [each for each in debugger.waiting() if given.pid in (None, each.pid)]
    if given.list or len(found) > 1:
        for number, each in enumerate(found):
            print(f"{number}: pid {each.pid}  {each.place}", flush=True)
        if given.list:
            return 0
    if not found:
        of = "" if given.pid is None else f" of process {given.pid}"
        print(f"skate debug: no breakpoint{of} waits on this machine", file=sys.stderr)
        return 1
    chosen = found[0] if len(found) == 1 else _chosen(found)
    return 1 if chosen is None else _relay(chosen)


def _chosen(found: Sequence[debugger.Breakpoint]) -> debugger.Breakpoint | None:
    print("Attach to number: ", end="", flush=True)
    answer = sys.stdin.readline().strip()
    if not answer.isdigit() or int(answer) >= len(found):
        print(f"skate debug: {answer!r} is none of 0 to {len(found) - 1}", file=sys.stderr)
        return None
    return found[int(answer)]


def _relay(chosen: debugger.Breakpoint) -> int:
    """Pass lines of the terminal to the debugger and its output to the terminal, until either ends."""
    print(f"attached to pid {chosen.pid} at {chosen.place}", flush=True)
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(f"\0{chosen.name}")
        except ConnectionRefusedError:
            print("skate debug: the breakpoint waits no more", file=sys.stderr)
            return 1
        sources = [connection.fileno(), sys.stdin.fileno()]
        while True:
            ready, _, _ = select.select(sources, [], [])
            if connection.fileno() in ready:
                try:
                    data = connection.recv(1 << 16)
                except ConnectionResetError:
                    return 0
                if not data:
                    return 0
                sys.stdout.buffer.write(data)
                sys.stdout.flush()
            elif sys.stdin.fileno() in ready:
                line = os.read(sys.stdin.fileno(), 1 << 16)
                if line:
                    connection.sendall(line)
                else:
                    connection.shutdown(socket.SHUT_WR)
                    sources.pop()
