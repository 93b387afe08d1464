"""Errors in files are reported with the file, and the row or line."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import skate.data as rd


def test_a_csv_row_with_too_many_values_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n1,2,3\n4,5\n")
    with pytest.raises(ValueError, match=r"a\.csv: CSV parse error: Row #3: Expected 2 columns, got 3"):
        rd.read_csv(tmp_path / "a.csv").take_all()
    options = pacsv.ParseOptions(invalid_row_handler=skip)
    assert rd.read_csv(tmp_path / "a.csv", parse_options=options).take_all() == [
        {"a": 1, "b": 2},
        {"a": 4, "b": 5},
    ]


def test_a_row_is_named_in_a_file_that_is_parsed_while_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n" + "1,2\n" * 20_000 + "1,2,3\n")
    with pytest.raises(ValueError, match=r"a\.csv: CSV parse error: Row #20002: Expected 2 columns, got 3"):
        rd.read_csv(tmp_path / "a.csv").take_all()
    (tmp_path / "blank.csv").write_text("\n" * 70_000)
    assert rd.read_csv(tmp_path / "blank.csv").take_all() == []


def skip(row: object) -> str:
    return "skip"


def test_a_csv_value_of_another_type_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\n1\nx\n")
    options = pacsv.ConvertOptions(column_types={"a": pa.int64()})
    with pytest.raises(ValueError, match=r"a\.csv.*Row #3.*'x'"):
        rd.read_csv(tmp_path / "a.csv", convert_options=options).take_all()
    missing = pacsv.ConvertOptions(include_columns=["b"])
    with pytest.raises(ValueError, match=r"a\.csv has no column 'b'"):
        rd.read_csv(tmp_path / "a.csv", convert_options=missing).take_all()
    with pytest.raises(TypeError, match="sep"):
        rd.read_csv(tmp_path / "a.csv", sep=";")
    with pytest.raises(TypeError, match="ParseOptions"):
        rd.read_csv(tmp_path / "a.csv", parse_options={})


def test_a_json_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n\n{"a": }\n')
    with pytest.raises(ValueError, match=r"a\.jsonl, line 3: Expecting value"):
        rd.read_json(tmp_path / "a.jsonl").take_all()
    (tmp_path / "b.json").write_text('[{"a": 1}, {"a": }]')
    with pytest.raises(ValueError, match=r"b\.json, element 1: Expecting value"):
        rd.read_json(tmp_path / "b.json").take_all()
    (tmp_path / "b.json").write_text('[{"a": 1}, 5]')
    with pytest.raises(ValueError, match=r"b\.json, element 1: a row must be a JSON object, got int"):
        rd.read_json(tmp_path / "b.json").take_all()
    (tmp_path / "b.json").write_text('[{"a": 1}, {"a"')
    with pytest.raises(ValueError, match=r"b\.json, element 1"):
        rd.read_json(tmp_path / "b.json").take_all()


def test_a_file_that_is_no_parquet_is_named_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"no parquet" * 10)
    with pytest.raises(pa.ArrowInvalid, match=r"a\.parquet: Parquet magic bytes"):
        rd.read_parquet(tmp_path / "a.parquet")


def test_a_parquet_file_damaged_inside_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": list(range(1000))}), tmp_path / "a.parquet", compression="zstd")
    data = bytearray((tmp_path / "a.parquet").read_bytes())
    data[60:1200] = bytes(len(data[60:1200]))
    (tmp_path / "a.parquet").write_bytes(data)
    with pytest.raises((OSError, ValueError), match=r"a\.parquet"):
        rd.read_parquet(tmp_path / "a.parquet").take_all()


def test_parquet_files_whose_types_cannot_be_one(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": [{"x": 1}]}), tmp_path / "2.parquet")
    with pytest.raises(ValueError, match=r"column 'a' is struct.* in .*2\.parquet and int64 in .*1\.parquet"):
        rd.read_parquet(tmp_path)


def test_parquet_files_whose_columns_differ_are_read_together(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1], "b": ["x"]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": [2.5], "c": [True]}), tmp_path / "2.parquet")
    rows = [{"a": 1.0, "b": "x", "c": None}, {"a": 2.5, "b": None, "c": True}]
    assert [{**dict.fromkeys("abc"), **row} for row in rd.read_parquet(tmp_path).take_all()] == rows
    assert rd.read_parquet(tmp_path, columns=["b", "a"]).take_all() == [
        {"b": "x", "a": 1.0},
        {"b": None, "a": 2.5},
    ]
    kept = rd.read_parquet(tmp_path, filter=pa.compute.field("c"))
    assert kept.take_all() == [rows[1]]


def test_unknown_columns_are_answered_with_near_ones(tmp_path: Path) -> None:
    pq.write_table(pa.table({"price": [1], "name": ["x"]}), tmp_path / "1.parquet")
    with pytest.raises(ValueError, match="no column 'prize'.*did you mean 'price'"):
        rd.read_parquet(tmp_path, columns=["prize"])
    with pytest.raises(TypeError, match="list of names"):
        rd.read_parquet(tmp_path, columns="price")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no argument 'colums'"):
        rd.read_parquet(tmp_path, colums=["price"])


def test_text_that_is_not_in_its_encoding(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"caf\xe9\n")
    with pytest.raises(ValueError, match=r"a\.txt"):
        rd.read_text(tmp_path / "a.txt").take_all()
    assert rd.read_text(tmp_path / "a.txt", encoding="latin-1").take_all() == [{"text": "café"}]
    (tmp_path / "a.txt").write_text("é\nz", encoding="utf-16")
    assert [row["text"] for row in rd.read_text(tmp_path / "a.txt", encoding="utf-16").take_all()] == [
        "é",
        "z",
    ]


def test_npz_and_pickles_are_refused(tmp_path: Path) -> None:
    import numpy as np

    np.savez(tmp_path / "a.npz", x=np.arange(3))
    with pytest.raises(ValueError, match=r"\.npz"):
        rd.read_numpy(tmp_path / "a.npz").take_all()
    np.save(tmp_path / "a.npy", np.array([{1}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="allow_pickle"):
        rd.read_numpy(tmp_path / "a.npy").take_all()


def test_files_with_types_that_cannot_be_one_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").write_text("x,y\nfoo,3\n")
    with pytest.raises(ValueError, match=r"column 'x' is int64 in \S*a\.csv and string in \S*b\.csv"):
        rd.read_csv(str(tmp_path)).take_all()
