"""The examples, run as a reader would run them; the main job has tests of its own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.test_main_job import a_free_port

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"


def run(name: str, quiet: bool = True, **environment: str) -> list[str]:
    """The lines that an example prints; it has to end well and, if `quiet`, say nothing on stderr."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment},
        check=False,
    )
    assert done.returncode == 0, f"{name} ended with status {done.returncode}:\n{done.stdout}\n{done.stderr}"
    assert not quiet or done.stderr == ""
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def search() -> ModuleType:
    spec = importlib.util.spec_from_file_location("search", EXAMPLES / "search.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_search_indexes_answers_and_checks_itself() -> None:
    lines = run("search.py")
    text = "\n".join(lines)
    assert "indexing shards: 24/24" in text, "without a terminal the progress bar is plain lines"
    assert any(line.startswith("indexed ") and "documents" in line for line in lines)
    assert "tempfile.TemporaryDirectory" in text
    assert "gzip.compress" in text
    assert any(line.startswith("checked: ") for line in lines)
    assert lines[-1].startswith("done in ")


def test_an_index_counts_terms_of_title_and_text(search: ModuleType) -> None:
    index = search.build_index(
        [search.Document("a.Cat", "\n  The cat sat.\nOn a mat."), search.Document("dog", "A dog, a cat.")]
    )
    assert index.postings["cat"] == [(0, 2), (1, 1)]
    assert index.postings["dog"] == [(1, 2)]
    assert index.entries[0] == search.Entry("a.Cat", "The cat sat.", words=6)


def test_rarer_words_weigh_more_and_long_documents_less(search: ModuleType) -> None:
    documents = [
        search.Document("common", "thread"),
        search.Document("rare", "gzip"),
        search.Document("long", "gzip " + " ".join(f"filler{i}" for i in range(200))),
    ]
    answers = search.rank(search.build_index(documents), {"thread": 1.0, "gzip": 2.0}, mean_words=10)
    assert [answer.title for answer in answers] == ["rare", "common", "long"]


def test_every_source_is_in_exactly_one_shard(search: ModuleType) -> None:
    shards = search.cut_into_shards()
    sources = [path for shard in shards for path in shard.sources]
    assert sorted(sources) == search.library_sources()[0]
    assert sum(len(shard.topics) for shard in shards) == len(search.topics.topics)
    sizes = [sum(os.path.getsize(path) for path in shard.sources) for shard in shards]
    # A file is not divided: where one is larger than a fair share, it is a share of its own.
    largest = max(map(os.path.getsize, sources))
    assert max(sizes) <= max(1.2 * min(sizes), largest), f"shards of unequal size keep workers idle: {sizes}"


def test_passages_lose_nothing(search: ModuleType) -> None:
    text = search.topics.topics["for"]
    parts = list(search.passages("topic for", text))
    assert "\n\n".join(part.text for part in parts) == text
    assert len(parts) > 1


def test_actors() -> None:
    assert run("actors.py") == [
        "after deposits: [10, 30, 60]",
        "after a year's salary: 1260",
        "5 paid in by way of the doorman, balance now 1265",
        "refused: ValueError: Ada has 1265, not 1000000",
        "balance: 1265",
    ]


def test_generators() -> None:
    assert run("generators.py") == [
        "primes: [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59]",
        "squares: [0, 1, 4, 9, 16, 25]",
        "thirds: ['MANY LIGHT', 'HANDS WORK', 'MAKE INDEED']",
    ]


def test_resources() -> None:
    has, whole, halves, jobs, ran = run("resources.py")
    assert has == "the node has {'CPU': 4.0, 'GPU': 2.0, 'licence': 1.0}"
    assert whole in ("devices seen by four tasks: ['0', '1']", "devices seen by four tasks: ['0']")
    assert halves.startswith("devices seen by halves: ['0'")
    assert jobs == "jobs that took turns with the one licence: [0, 1, 2, 3, 4]"
    assert ran == "tasks ran ['in the group', 'outside']"


def test_a_pipeline_is_served() -> None:
    assert run("serve/pipeline.py", PORT=str(a_free_port())) == [
        "A skate is a ray that travels light.",
        "A ray is a fish without bones.",
    ]


def test_an_agent_calls_a_tool() -> None:
    *turns, last = run("agent.py", quiet=False, PORT=str(a_free_port()))
    people = {'{"city": "Oslo"}': "724000", '{"city": "Rome"}': "2746000"}
    calls, results = turns[::2], turns[1::2]
    for call, result in zip(calls, results, strict=True):
        assert result == "result: " + people[call.removeprefix("call: population ")]
    assert turns and last == "answered: assistant"


def test_every_example_is_run_and_listed() -> None:
    names = {path.name for path in EXAMPLES.glob("*.py")}
    listed = (EXAMPLES / "README.md").read_text()
    tested = Path(__file__).read_text()
    assert {name for name in names if f"({name})" not in listed or f'"{name}"' not in tested} == set()
