"""The examples of training, run as a reader would run them, with settings that are small but learn."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "train"


def run(name: str, *words: str, cwd: Path) -> str:
    """Run an example and return its output; it must succeed."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *words],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        check=False,
    )
    assert done.returncode == 0, f"{name} ended with status {done.returncode}:\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done.stdout


def number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    assert found is not None, text
    return float(found[1])


def needed(*modules: str) -> None:
    for module in modules:
        pytest.importorskip(module)


def test_resnet_reads_digits(tmp_path: Path) -> None:
    needed("torch", "sklearn", "pyarrow")
    assert (
        number(r"^accuracy ([\d.]+)", run("digits_resnet.py", "--epochs", "4", cwd=tmp_path).splitlines()[-1])
        > 0.9
    )


@pytest.mark.long
def test_vit_reads_digits(tmp_path: Path) -> None:
    needed("torch", "sklearn", "transformers")
    assert (
        number(r"^accuracy ([\d.]+)", run("digits_vit.py", "--epochs", "5", cwd=tmp_path).splitlines()[-1])
        > 0.6
    )


def test_gpt_learns_from_nothing(tmp_path: Path) -> None:
    needed("torch", "transformers", "tokenizers")
    text = run("gpt_from_scratch.py", "--steps", "40", cwd=tmp_path)
    assert number(r"unseen text ([\d.]+) \(knowing nothing: 6.93", text) < 6.3
    assert "'The statement" in text


@pytest.mark.long
def test_bert_learns_of_pairs(tmp_path: Path) -> None:
    needed("torch", "transformers", "tokenizers")
    text = run("bert_pairs.py", "--steps", "60", cwd=tmp_path)
    assert number(r"\naccuracy ([\d.]+)", text) > 0.55
    own, whole = (int(each.replace(",", "")) for each in re.findall(r"keeps ([\d,]+) of ([\d,]+)", text)[0])
    assert whole / 2 <= own < whole * 0.52


def test_fsdp2_goes_on_with_more_workers(tmp_path: Path) -> None:
    needed("torch", "sklearn")
    text = run("fsdp2.py", "--epochs", "2", cwd=tmp_path)
    rows = [line.split() for line in text.splitlines()[1:5]]
    assert [(row[0], row[2]) for row in rows] == [("0", "2"), ("1", "2"), ("2", "4"), ("3", "4")]
    assert float(rows[2][1]) > float(rows[0][1]), "it continued from what it had learned"
    assert number(r"\naccuracy ([\d.]+)", text) > 0.75


def test_a_run_goes_on_after_each_crash(tmp_path: Path) -> None:
    needed("pandas")
    text = run("resume_after_crash.py", "--epochs", "10", cwd=tmp_path)
    assert "ended with signal 9" in text
    rows = [line.split() for line in text.splitlines()[-10:]]
    assert [row[:2] for row in rows] == [
        [str(epoch), str(0 if epoch < 4 else 4 if epoch < 8 else 8)] for epoch in range(10)
    ]
    assert float(rows[-1][3]) < 0.001


def test_the_chart_is_drawn(tmp_path: Path) -> None:
    needed("torch", "sklearn", "matplotlib", "pandas")
    text = run("loss_chart.py", "--epochs", "30", "--picture", "loss.png", cwd=tmp_path)
    assert number(r"start, ([\d.]+) at best", text) < number(r"([\d.]+) at the start", text) / 1.5
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert drawn(tmp_path / "loss.png")


def drawn(picture: Path) -> bool:
    """True if lines of matplotlib's first two colors are in the picture."""
    from matplotlib.image import imread  # slow, and only here

    pixels = (imread(picture)[..., :3] * 255).round().astype(int).reshape(-1, 3)
    return all((abs(pixels - color).sum(1) < 12).sum() > 500 for color in ((31, 119, 180), (255, 127, 14)))


def test_every_example_is_in_the_readme_and_run_here() -> None:
    here = Path(__file__).read_text()
    readme = (EXAMPLES / "README.md").read_text()
    for path in EXAMPLES.glob("*.py"):
        assert f"({path.name})" in readme
        assert f'"{path.name}"' in here
