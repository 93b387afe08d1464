"""The main job and the retrieval example on two machines, as their users run them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.namespaces import Network

pytestmark = [pytest.mark.cluster_scene, pytest.mark.timeout(600)]

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_main_job_trains_on_two_machines(network: Callable[..., Network], shared: Path) -> None:
    cluster = Cluster(network(2))
    driver = cluster.up()
    words = ("--address", "auto", "--workers", "3", "--steps", "20", "--files", "40", "--folder", str(shared))
    job = cluster.head.start(sys.executable, str(EXAMPLES / "main_job"), *words)
    text = job.ok(500)
    assert "3 workers, 20 steps" in text and "first token after" in text, job.story()
    assert list((shared / "runs" / "documentation-gpt").glob("checkpoint_*"))
    cluster.down(driver)


def test_retrieval_embeds_and_answers_on_two_machines(network: Callable[..., Network], shared: Path) -> None:
    cluster = Cluster(network(2))
    driver = cluster.up()
    words = ("--address", "auto", "--passages", "300", "--index", str(shared / "index"))
    asked = cluster.head.start(
        sys.executable, str(EXAMPLES / "retrieval"), *words, "--question", "What is argparse?"
    )
    text = asked.ok(400)
    assert "300 passages indexed" in text, asked.story()
    cluster.down(driver)
