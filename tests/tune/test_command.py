"""The command line: trials and searches as tables, filtered, sorted and written to files."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import skate as ray
from skate import tune
from skate.command import main as skate_main
from skate.tune.command import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("searches")
    ray.init(num_cpus=2)

    def train(config: dict[str, object]) -> None:
        if config["x"] == 4:
            raise ValueError("four")
        tune.report({"loss": 10 - config["x"], "eval": {"kind": f"k{config['x']}"}})  # type: ignore[operator]

    for name, values in (("first", [1, 2, 3, 4]), ("second", [1])):
        tune.Tuner(
            train,
            param_space={"x": tune.grid_search(values)},
            run_config=tune.RunConfig(name=name, storage_path=str(path)),
        ).fit()
    ray.shutdown()
    (path / "other").mkdir()
    yield path


def lines(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    printed = capsys.readouterr().out.splitlines()
    return [line.replace("|", " ").split() for line in printed if line.strip("+-|")]


def test_trials(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list-trials", str(folder / "first")]) == 0
    found = lines(capsys)
    heading = [
        "trial_name",
        "trial_id",
        "status",
        "training_iteration",
        "time_total_s",
        "loss",
        "eval/kind",
        "config/x",
    ]
    assert [word.lower() for word in found[0]] == heading
    assert [row[2] for row in found if row[0].startswith("train_")] == ["TERMINATED"] * 3 + ["ERROR"]


def test_columns_filter_sort_limit(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments_given = ["ls", str(folder / "first"), "--columns", "config/x,loss", "--sort", "loss"]
    assert main([*arguments_given, "--filter", "loss > 7"]) == 0
    assert lines(capsys)[-2:] == [["2", "8"], ["1", "9"]]
    assert main([*arguments_given, "--desc", "True", "--limit", "1"]) == 0
    assert lines(capsys)[-1] == ["1", "9"]
    assert main([*arguments_given[:4], "--filter", "eval/kind == k3"]) == 0
    assert lines(capsys)[-1] == ["3", "7"]
    assert main([*arguments_given[:4], "--filter", "loss > 70"]) == 0
    assert lines(capsys) == [["no", "rows"]]


def test_files(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments_given = [
        "list-trials",
        str(folder / "first"),
        "--columns",
        "config/x,loss",
        "--filter",
        "loss >= 7",
    ]
    assert main([*arguments_given, "-o", str(tmp_path / "out.csv")]) == 0
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert rows[0] == {"config/x": "1", "loss": "9"}
    pandas = pytest.importorskip("pandas")
    assert main([*arguments_given, "-o", str(tmp_path / "out.pkl")]) == 0
    assert pandas.read_pickle(tmp_path / "out.pkl")["loss"].tolist() == [9, 8, 7]
    assert main([*arguments_given, "-o", str(tmp_path / "out.txt")]) == 1
    assert "--output must end in .csv or .pkl, not in .txt" in capsys.readouterr().err


def test_searches(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lsx", str(folder), "--columns", "name,total_trials", "--sort", "name", "--desc"]) == 0
    assert lines(capsys)[-2:] == [["second", "1"], ["first", "4"]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list-trials", "{}/none"], "there is no search at"),
        (["list-trials", "{}/first", "--columns", "los"], "there is no column 'los'; the columns are"),
        (["list-trials", "{}/first", "--sort", "los"], "there is no column 'los'; the columns are"),
        (["list-trials", "{}/first", "--filter", "loss<3"], "--filter must be 'COLUMN OPERATOR VALUE'"),
        (["list-trials", "{}/first", "--filter", "loss < few"], "loss is a number, but 'few' is not"),
        (["list-experiments", "{}/other"], "there are no searches in"),
        (["list-experiments", "{}/none"], "No such file or directory"),
        (["add-note", "{}/none"], "is not a folder"),
    ],
)
def test_plain_errors(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main([word.format(folder) for word in arguments]) == 1
    assert message in capsys.readouterr().err


def test_a_note(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", f"{sys.executable} -c \"import sys; open(sys.argv[1], 'a').write('seen')\"")
    assert skate_main(["tune", "add-note", str(tmp_path), "--filename", "n.txt"]) == 0
    assert (tmp_path / "n.txt").read_text() == "seen"
    monkeypatch.setenv("EDITOR", "/nowhere/editor")
    assert main(["add-note", str(tmp_path)]) == 1


def test_it_is_a_verb_of_skate(folder: Path) -> None:
    arguments_given = [sys.executable, "-m", "skate", "tune", "list-experiments", str(folder)]
    done = subprocess.run(arguments_given, capture_output=True, text=True, timeout=60, check=True)
    assert "second" in done.stdout
