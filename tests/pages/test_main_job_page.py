"""The main job's page in a real browser, in front of a tiny model that is served as the main job serves its own."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By

import skate as ray
from skate import serve
from tests.llm import tiny
from tests.pages import browser
from tests.pages.test_retrieval_page import ask, text, wait
from tests.test_main_job import a_free_port

EXAMPLES = Path(__file__).parents[2] / "examples"
QUESTION = "Can you explain what str.upper does?"
pytestmark = pytest.mark.timeout(120)


@serve.deployment(ray_actor_options={"num_cpus": 0})
class Finds:
    """In place of retriever and reranker: one source."""

    async def find(self, question: str) -> list[tuple[Any, ...]]:
        return []

    async def rank(self, question: str, candidates: list[Any]) -> list[Any]:
        text = "The while statement is used for repeated execution."
        return [SimpleNamespace(which=0, title="reference: while", text=text, cosine=0.8, score=1.0)]


@serve.deployment(ray_actor_options={"num_cpus": 0})
class Breaks:
    """A generator that ends with an error in the middle of its answer."""

    def who(self) -> dict[str, str]:
        return {"kind": "model", "name": "broken"}

    async def write(self, question: str, sources: list[Any]) -> AsyncIterator[str]:
        yield "It begins well <i>and</i> "
        raise RuntimeError("the cable was pulled")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, driver: webdriver.Chrome) -> Iterator[str]:
    """Where the page is; at /by-broken and /by-model is the retrieval page, before a generator that fails and the model."""
    folder = tiny.save(
        tmp_path_factory.mktemp("model"), hidden_size=128, num_hidden_layers=6, max_position_embeddings=512
    )
    # A model of random weights would say at any moment that it has ended.
    settings = folder / "generation_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "eos_token_id": 100_000}))
    before = list(sys.path)
    sys.path[:0] = [str(EXAMPLES / name) for name in ("main_job", "retrieval")]
    # Both are found as their programs find them, once their folders are on the path.
    import answer
    import deployments

    ray.init(num_cpus=4, preload=["torch", "deployments"])
    try:
        found = answer.start(str(folder), a_free_port())
        (model,) = [name for name in serve.status().applications["model"].deployments if "LLMServer" in name]
        llm = serve.get_deployment_handle(model, "model")
        for name, writer in (("broken", Breaks.bind()), ("model", deployments.Model.bind(llm, answer.MODEL))):
            finds = Finds.bind()
            serve.run(
                deployments.Pipeline.bind(finds, finds, writer), name=f"by-{name}", route_prefix=f"/by-{name}"
            )
        yield found
    finally:
        sys.path[:] = before
        serve.shutdown()
        ray.shutdown()


def test_a_reader_asks_and_sees_tokens_arrive(driver: webdriver.Chrome, address: str) -> None:
    driver.get(address)
    assert driver.find_element(By.ID, "question").get_attribute("value") == QUESTION
    driver.execute_script(
        "window.seen = []; new MutationObserver(() => seen.push([at('answer').textContent.length, running !== null]))"
        ".observe(at('answer'), {childList: true})"
    )
    ask(driver, QUESTION)
    wait(driver, "running === null && at('status').textContent")
    lengths = [length for length, working in driver.execute_script("return window.seen") if working]
    # A busy browser draws several pieces at once.
    assert len(set(lengths)) >= 3 and lengths == sorted(lengths), "the text grows, piece by piece"
    assert len(text(driver, "answer")) > 30
    assert re.fullmatch(r"First text after \d+ ms, all of it after \d+ ms\.", text(driver, "status"))
    assert not browser.complaints(driver)


def test_an_answer_can_be_stopped(driver: webdriver.Chrome, address: str) -> None:
    driver.get(address)
    driver.execute_script(
        "new MutationObserver(() => at('answer').textContent.length && at('stop').click())"
        ".observe(at('answer'), {childList: true})"
    )
    ask(driver, QUESTION)
    wait(driver, "running === null && at('status').textContent")
    assert text(driver, "status") == "Stopped." and text(driver, "problem") == ""
    assert driver.find_element(By.ID, "ask").is_enabled()
    assert not driver.find_element(By.ID, "stop").is_enabled()


def test_errors_are_shown_in_the_servers_words(driver: webdriver.Chrome, address: str) -> None:
    driver.get(address)
    driver.find_element(By.ID, "question").clear()
    driver.find_element(By.ID, "ask").click()
    assert text(driver, "problem") == "Write a question first."
    driver.execute_script("at('question').value = 'why '.repeat(300)")
    driver.find_element(By.ID, "ask").click()
    wait(driver, "at('problem').textContent.startsWith('It did not')")
    assert "512 tokens" in text(driver, "problem")
    assert driver.find_element(By.ID, "ask").is_enabled()


@pytest.mark.parametrize("width", [1000, 360])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_in_any_light_and_width(
    driver: webdriver.Chrome, address: str, scheme: str, width: int
) -> None:
    browser.in_colours(driver, scheme)
    browser.as_wide_as(driver, width)
    assert browser.hard_to_read(driver) == []
    assert browser.hangs_over(driver) == 0
    assert browser.without_a_name(driver) == []


def test_a_generator_that_fails_is_told_of_below_what_it_said(driver: webdriver.Chrome, address: str) -> None:
    driver.get(f"{address}/by-broken/")
    ask(driver, "while?")
    wait(driver, "at('problem').textContent")
    assert text(driver, "problem") == "There is no answer: the cable was pulled"
    assert text(driver, "answer").strip() == "It begins well <i>and</i>", (
        "text is text, whatever it looks like"
    )
    assert "language model broken" in text(driver, "writer")
    assert len(driver.find_elements(By.CSS_SELECTOR, "#sources li")) == 1


def test_a_language_model_writes_from_sources(driver: webdriver.Chrome, address: str) -> None:
    driver.get(f"{address}/by-model/")
    ask(driver, "while?")
    wait(driver, "running === null && at('status').textContent.startsWith('It took: retrieve ')")
    assert len(text(driver, "answer")) > 20
    assert "Written by the language model documentation-gpt" in text(driver, "writer")
    assert text(driver, "problem") == ""


def test_a_server_that_has_gone_is_told_of(driver: webdriver.Chrome, address: str) -> None:
    driver.get(address)
    serve.shutdown()
    ask(driver, QUESTION)
    wait(driver, "at('problem').textContent")
    assert text(driver, "problem") == "It did not answer: the server cannot be reached."
