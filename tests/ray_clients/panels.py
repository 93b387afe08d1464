"""The expressions of Ray's panels, read from the installed Ray, and a Prometheus that evaluates them."""

from __future__ import annotations

import json
import math
import re
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.conformance.waiting import wait_for
from tests.ray_clients.ray_programs import python

#: Prints all dashboards of the installed Ray: the expressions of their panels, and the values of variables that show all.
DASHBOARDS = """
import json
from ray.dashboard.modules.metrics import grafana_dashboard_factory as factory

def expressions(panel):
    yield from (target["expr"] for target in panel.get("targets", ()) if target.get("expr"))
    for each in panel.get("panels", ()):
        yield from expressions(each)

found = {}
for name in dir(factory):
    if name.startswith("generate_") and name.endswith("_dashboard"):
        board = json.loads(getattr(factory, name)()[0])
        values = {}
        for each in board["templating"]["list"]:
            words = each["query"].split(",") if isinstance(each.get("query"), str) else []
            values[each["name"]] = each.get("allValue") or "|".join(word.strip() for word in words) or ".*"
        found[name] = [values, [text for panel in board["panels"] for text in expressions(panel)]]
print("\\n" + json.dumps(found))
"""
#: Variables that are spans of time.
SPANS = {"window": "30s", "interval": "30s", "__rate_interval": "30s", "__interval": "30s", "__range": "10m"}
VARIABLE = re.compile(r"\$(?:\{(\w+)[^}]*\}|(\w+))")
CONFIGURATION = """
global: {{scrape_interval: 2s, scrape_timeout: 2s}}
scrape_configs: [{}]
"""


def expressions(folder: Path) -> list[str]:
    """Return all expressions of the panels, with their variables replaced by the values for everything."""
    done = python(DASHBOARDS, folder=folder, variables={})
    found: dict[str, None] = {}
    for values, texts in json.loads(done.stdout.splitlines()[-1]).values():
        for text in texts:
            found.setdefault(_filled(text, {**values, **SPANS}))
    return list(found)


def _filled(text: str, values: dict[str, str]) -> str:
    return VARIABLE.sub(lambda match: values[match[1] or match[2]], text)


def names_in(expression: str) -> set[str]:
    """Return the metrics that an expression reads."""
    without_labels = re.sub(r"\{[^}]*\}", "", expression)
    names = set(re.findall(r"\b(?:ray|autoscaler)_\w+", without_labels))
    return names or set(re.findall(r"ray_\w+", expression))


class Prometheus:
    """A running Prometheus."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"
        self._begin = time.time()

    def ask(self, path: str, **fields: Any) -> Any:
        """Return the data of an answer of its API; None if it does not answer yet."""
        body = urllib.parse.urlencode(fields).encode()
        try:
            with urllib.request.urlopen(f"{self._url}/api/v1/{path}", body, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code == 503:  # it is starting
                return None
            raise AssertionError(f"{fields}: {error.read().decode()}") from None
        except OSError:
            return None

    def scrapes(self) -> int:
        """Return how often each target has been read at least; 0 without targets."""
        found = self.ask("query", query="min(sum_over_time(up[1h]))")
        return int(float(found["result"][0]["value"][1])) if found and found["result"] else 0

    def with_data(self, texts: Iterable[str]) -> set[str]:
        """Return the expressions that had a number at any time so far."""
        return {text for text in texts if self._has_data(text)}

    def _has_data(self, text: str) -> bool:
        found = self.ask("query_range", query=text, start=self._begin, end=time.time(), step="2s")
        return any(
            not math.isnan(float(value)) for series in found["result"] for _, value in series["values"]
        )


@contextmanager
def prometheus(folder: Path, job: str) -> Iterator[Prometheus]:
    """Start Prometheus with one job, in YAML."""
    config = folder / "prometheus.yml"
    config.write_text(CONFIGURATION.format(job))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}",
         f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"],
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        started = Prometheus(port)
        wait_for(lambda: started.ask("query", query="1"), 60, "Prometheus")
        yield started
    finally:
        process.terminate()
        process.wait(30)
