"""The scale study runs, and puts its figures where it is told to."""

from __future__ import annotations

from pathlib import Path

import pytest

from skate.simulation.__main__ import main
from skate.simulation.scale import costs
from skate.simulation.scale.study import CHART, FLOODED, PAGE


def test_the_study_prints_its_figures_and_puts_them_into_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(costs, "SECONDS", 0.002)
    monkeypatch.setattr(costs, "WEIGHED", 400)
    (tmp_path / PAGE).write_text("before\n<!-- figures -->\nearlier figures\n<!-- end -->\nafter\n")
    assert main(["--scale", "--nodes", "12", "40", "--tasks", "2000", "--docs", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    page = (tmp_path / PAGE).read_text()
    assert page.startswith("before\n") and page.endswith("\nafter\n") and "earlier figures" not in page
    chart = (tmp_path / CHART).read_text()
    for name in (*costs.FIGURES, *FLOODED):
        (row,) = [line for line in page.splitlines() if line.startswith(f"| {name} |")]
        assert row in printed
        assert all(float(cell.replace(",", "")) > 0 for cell in row.split("|")[2:-1]), row
        assert f">{name}</text>" in chart


def test_a_page_without_a_place_for_the_figures_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "SECONDS", 0.002)
    (tmp_path / PAGE).write_text("nothing to be seen here\n")
    with pytest.raises(SystemExit, match="no place for the figures"):
        main(["--scale", "--nodes", "3", "--only", "node joins", "--tasks", "0", "--docs", str(tmp_path)])
