"""Each expression of Ray's panels that has data on a real Ray has data on Skate under the same program."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conformance.waiting import wait_for
from tests.process.programs import MARK, SOURCE, marked
from tests.ray_clients.panel_program import TEXT
from tests.ray_clients.panels import Prometheus, expressions, names_in, prometheus
from tests.ray_clients.ray_programs import PYTHON, WITHOUT, environment
from tests.ray_clients.test_on_ray import free_ports

pytestmark = [
    WITHOUT,
    pytest.mark.ray_clients,
    pytest.mark.skipif(
        shutil.which("prometheus") is None, reason="no Prometheus; on Debian: apt-get install prometheus"
    ),
]
TOKEN = "the-token"
ROUNDS = 2
#: On a busy machine, real Ray alone takes minutes to start, run and be read often enough.
ROUNDS_S, TEST_S = 900, 2000
SCRAPES = 20
DOCS = Path(__file__).parents[2] / "docs" / "observe.md"


def without_counterpart() -> set[str]:
    """Return the metrics of which the documentation says that Skate has none."""
    _, _, text = DOCS.read_text().partition("metrics without a counterpart")
    return set(re.findall(r"`((?:ray|autoscaler)_\w+)`", text))


@contextmanager
def running(
    command: list[str], target: str, options: dict[str, object], port: int, folder: Path, env: dict[str, str]
) -> Iterator[Path]:
    """Run the program; yield the file of its output."""
    mark = uuid.uuid4().hex
    work = folder / "work"
    work.mkdir()
    out = folder / "out"
    with open(out, "wb") as file:
        process = subprocess.Popen(
            [*command, json.dumps(options), target, str(port), str(work)],
            env={**env, MARK: mark}, cwd=folder, stdin=subprocess.PIPE, stdout=file, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        yield out
    finally:
        process.kill()
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
        for pid in marked(mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not marked(mark), 30, "the end of the program's processes")


def observe(found: Prometheus, out: Path, texts: list[str]) -> set[str]:
    """Wait until the program has done its rounds, and has been read often enough; return the expressions with data."""

    def is_done() -> bool:
        text = out.read_text(errors="replace")
        assert "Traceback" not in text, text
        return f"round {ROUNDS}\n" in text and found.scrapes() >= SCRAPES

    wait_for(is_done, ROUNDS_S, "the rounds of the program")
    return found.with_data(texts)


def on_ray(texts: list[str]) -> set[str]:
    """Return the expressions that have data on a real Ray."""
    folder = Path(f"/tmp/skate-panels-{os.getpid()}")  # Ray's sockets need a short path
    (folder / "ray").mkdir(parents=True)
    dashboard, metrics, port = free_ports(3)
    options: dict[str, object] = {
        "include_dashboard": True, "dashboard_port": dashboard, "_metrics_export_port": metrics,
        "_temp_dir": str(folder / "ray"),
    }  # fmt: skip
    env = environment(
        RAY_AUTH_MODE="disabled",
        RAY_metrics_report_interval_ms="1000",
        RAY_PROMETHEUS_HOST="http://127.0.0.1:1",
    )
    env.pop("SKATE_TEST_RUN", None)
    targets = folder / "ray" / "prom_metrics_service_discovery.json"
    job = f"{{job_name: ray, file_sd_configs: [{{files: ['{targets}'], refresh_interval: 1s}}]}}"
    try:
        with (
            running([str(PYTHON), "-c", TEXT], "ray", options, port, folder, env) as out,
            prometheus(folder, job) as found,
        ):
            return observe(found, out, texts)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def on_skate(texts: list[str], folder: Path) -> set[str]:
    """Return the expressions that have data on Skate."""
    metrics, port = free_ports(2)
    job = (
        f"{{job_name: skate, static_configs: [{{targets: ['127.0.0.1:{metrics}']}}], "
        f"authorization: {{credentials: {TOKEN}}}}}"
    )
    env = {**os.environ, "PYTHONPATH": SOURCE, "RAY_AUTH_TOKEN": TOKEN}
    options: dict[str, object] = {"_metrics_export_port": metrics}
    with (
        running([sys.executable, "-c", TEXT], "skate", options, port, folder, env) as out,
        prometheus(folder, job) as found,
    ):
        return observe(found, out, texts)


@pytest.mark.timeout(TEST_S)
def test_expressions_of_rays_panels_have_data(tmp_path: Path) -> None:
    texts = expressions(tmp_path)
    assert len(texts) > 200
    here = on_skate(texts, tmp_path)
    there = on_ray(texts)
    excepted = without_counterpart()
    missing = sorted(text for text in there - here if not names_in(text) & excepted)
    print(f"{len(texts)} expressions, {len(there)} have data on Ray, {len(there & here)} of them here")
    assert there, "Ray had no data"
    assert not missing, "\n".join(missing)
