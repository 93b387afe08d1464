"""The page checks find the faults of a page, and report a missing browser."""

from __future__ import annotations

import shutil

import pytest
from selenium import webdriver

from tests.pages import browser

WRONG = (
    "data:text/html,<body style='background:white'><p style='color:%23aaa'>grey on white</p><p>black on white</p>"
    "<button></button><div style='width:3000px'>wide</div><script>nothing.there</script>"
)


def test_what_is_wrong_with_a_page_is_seen(driver: webdriver.Chrome) -> None:
    driver.get(WRONG)
    assert [text for text, _ in browser.hard_to_read(driver)] == ["grey on white"]
    assert browser.hangs_over(driver) > 1000
    assert browser.without_a_name(driver) == ["<button></button>"]
    assert any("nothing is not defined" in each["message"] for each in browser.complaints(driver))


@pytest.mark.parametrize(("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_without_a_browser_ci_fails_and_a_laptop_skips(
    ci: str, outcome: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(outcome, match="`make browser` installs them"):
        browser.required()
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    browser.required()
