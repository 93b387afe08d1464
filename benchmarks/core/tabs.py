"""An open page: what a tab of the dashboard costs a program that runs short tasks, and what the profiler's sampler takes.

A process asks what the page asks, at the page's intervals, over one connection. It stands for the server's half of a tab: what a
browser draws takes CPU time elsewhere. The same run has short windows in turn, so that the machine's noise is the same for all:
without a viewer (it is stopped), with the tab closed, with it on Now, and with it on Work.
"""

from __future__ import annotations

import inspect
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from typing import IO, Any

from benchmarks.session import Figures, main, started

IN_FLIGHT = 1_000
ROUNDS, ROUNDS_FULL = 30, 120
#: Two questions of Now fall into a window, and one for the tasks in progress: half as many again as in a page that stays open.
WINDOW_SECONDS = 2.0
VIEWS = ("stopped", "closed", "now", "work")
ANSWERS = 25
SAMPLED_SECONDS = 5.0
DEPTH = 26
NO_COUNTERPART = "Ray's dashboard needs its agents, and has no page without them"

#: Does what a tab does: reads the name of its view from its input, asks, and says how many answers and bytes came.
TAB = """
import http.client, json, select, sys, time, urllib.parse
url, token = sys.argv[1:]
place = urllib.parse.urlsplit(url)
link = http.client.HTTPConnection(place.hostname, place.port)
def ask(path, **params):
    global size, answers
    link.request("GET", path + "?" + urllib.parse.urlencode(params), headers={"Authorization": "Bearer " + token})
    answer = link.getresponse()
    body = answer.read()
    assert answer.status == 200, body
    size, answers = size + len(body), answers + 1
    return json.loads(body)
view, cursor, size, answers, next_now, next_progress = "closed", "", 0, 0, 0.0, 0.0
while True:
    pause = 3600 if view == "closed" else max(0, min(next_now, next_progress if view == "work" else next_now) - time.monotonic())
    if select.select([sys.stdin], [], [], pause)[0]:
        view = sys.stdin.readline().strip()
        if not view:
            break
        if view == "once":
            cursor, view = ask("/api/skate/now", cursor=cursor)["cursor"], "closed"
        print(json.dumps([answers, size]), flush=True)
        now = time.monotonic()
        next_now, next_progress = now, now + 1
        continue
    if time.monotonic() >= next_now:
        cursor = ask("/api/skate/now", cursor=cursor)["cursor"]
        next_now = time.monotonic() + 1
    if view == "work" and time.monotonic() >= next_progress:
        ask("/api/skate/tasks", progress=1, limit=2000)
        next_progress = time.monotonic() + 3
"""


class _Tab:
    """The process in place of a tab, and the viewer behind it.

    Args: facts: those of the viewer.
    """

    def __init__(self, facts: dict[str, Any]) -> None:
        words = [sys.executable, "-c", TAB, facts["url"], facts["token"]]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._viewer = facts["pid"]
        self.answers = self.size = 0

    def show(self, view: str) -> None:
        """Show a view, or none, from now on."""
        os.kill(self._viewer, signal.SIGCONT)
        inward, outward = _pipes(self._process)
        inward.write(("closed" if view == "stopped" else view) + "\n")
        inward.flush()
        self.answers, self.size = json.loads(outward.readline())
        if view == "stopped":
            os.kill(self._viewer, signal.SIGSTOP)

    def viewer_seconds(self) -> float:
        """Return the CPU seconds that the viewer has used."""
        with open(f"/proc/{self._viewer}/stat") as file:
            words = file.read().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        """End the process."""
        os.kill(self._viewer, signal.SIGCONT)
        self._process.kill()
        self._process.communicate()


def _pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    assert process.stdin is not None and process.stdout is not None
    return process.stdin, process.stdout


def tab(target: str, full: bool) -> Figures | tuple[Figures, dict[str, str]]:
    """Tasks per second without a viewer over those with a tab, and CPU time of a task with one over that without."""
    keys = [f"tab_{view}_{what}" for view in VIEWS[1:] for what in ("rate", "cpu", "viewer")]
    if target == "ray":
        return dict.fromkeys(keys), dict.fromkeys(keys, NO_COUNTERPART)
    with started(target) as ray:
        from skate.client.session import dashboard_process

        @ray.remote
        def nothing() -> None:
            return None

        def window() -> tuple[float, float, float]:
            """Return tasks a second, CPU seconds of this process (it has the node) a task, and of the viewer a second."""
            count, begin, cpu, viewer = 0, time.perf_counter(), time.process_time(), page.viewer_seconds()
            while time.perf_counter() - begin < WINDOW_SECONDS:
                ray.get([nothing.remote() for _ in range(IN_FLIGHT)])
                count += IN_FLIGHT
            wall = time.perf_counter() - begin
            used = page.viewer_seconds() - viewer
            return count / wall, (time.process_time() - cpu) / count, used / wall

        facts = dashboard_process.start(dashboard_process.DashboardPlace("127.0.0.1", 0))
        assert facts is not None
        page, order = _Tab(facts), random.Random(1)
        found: dict[str, list[tuple[float, float, float]]] = {view: [] for view in VIEWS}
        try:
            page.show("now")
            window()
            for _ in range(ROUNDS_FULL if full else ROUNDS):
                for view in order.sample(VIEWS, len(VIEWS)):
                    page.show(view)
                    found[view].append(window())
        finally:
            page.close()
    return _ratios(found)


def _ratios(found: dict[str, list[tuple[float, float, float]]]) -> Figures:
    """Return medians over the rounds: each view against "stopped" of the same round."""
    figures: Figures = {}
    for view in VIEWS[1:]:
        pairs = list(zip(found["stopped"], found[view], strict=True))
        figures[f"tab_{view}_rate"] = statistics.median(bare[0] / seen[0] for bare, seen in pairs)
        figures[f"tab_{view}_cpu"] = statistics.median(seen[1] / bare[1] for bare, seen in pairs)
        figures[f"tab_{view}_viewer"] = statistics.median(seen[2] for _, seen in pairs)
    return figures


def answer(target: str, full: bool) -> Figures | tuple[Figures, dict[str, str]]:
    """CPU seconds of the node, and of the viewer, for one answer to Now after a busy half second: 2,000 of the ended tasks."""
    names = ("answer_node", "answer_viewer", "answer_size")
    if target == "ray":
        return dict.fromkeys(names), dict.fromkeys(names, NO_COUNTERPART)
    with started(target) as ray:
        from skate.client.session import dashboard_process

        @ray.remote
        def nothing() -> None:
            return None

        facts = dashboard_process.start(dashboard_process.DashboardPlace("127.0.0.1", 0))
        assert facts is not None
        page, found, node = _Tab(facts), [], []
        try:
            for _ in range(ANSWERS):
                page.show("closed")
                begun = time.perf_counter()
                while time.perf_counter() - begun < 0.5:
                    ray.get([nothing.remote() for _ in range(IN_FLIGHT)])
                cpu, seconds, size = time.process_time(), page.viewer_seconds(), page.size
                page.show("once")
                node.append(time.process_time() - cpu)
                found.append((page.viewer_seconds() - seconds, page.size - size))
        finally:
            page.close()
    return {
        "answer_node": statistics.median(node),
        "answer_viewer": statistics.mean(seconds for seconds, _ in found[1:]),  # its clock has ticks of 10 ms
        "answer_size": statistics.median(size for _, size in found) / 1e3,
    }


def sampler(target: str, full: bool) -> Figures | tuple[Figures, dict[str, str]]:
    """CPU seconds of the sampler's thread per second at its default rate, beside a thread that calculates 26 frames deep."""
    if target == "ray":
        return {"sampler_share": None}, {"sampler_share": "Ray runs py-spy, a process outside"}
    from skate.client.profiler.sampler import sample
    from skate.util.profiling import take

    rate = inspect.signature(take).parameters["rate"].default
    done = threading.Event()

    def calculate(depth: int) -> int:
        if depth:
            return calculate(depth - 1)
        turns = 0
        while not done.is_set():
            turns += sum(range(100))
        return turns

    busy = threading.Thread(target=calculate, args=(DEPTH,))
    busy.start()
    try:
        begun, cpu = time.perf_counter(), time.thread_time()
        samples = sample(SAMPLED_SECONDS, rate, False, lambda: False)
        share = (time.thread_time() - cpu) / (time.perf_counter() - begun)
    finally:
        done.set()
        busy.join()
    assert samples.looks, "the sampler has not looked at any stack"
    return {"sampler_share": share}


if __name__ == "__main__":
    main(tab, answer, sampler)
