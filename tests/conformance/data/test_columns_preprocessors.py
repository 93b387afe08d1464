"""Preprocessors: fitting, transforming, and rejected input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import ray
import ray.data
from ray.data.preprocessor import Preprocessor, PreprocessorNotFittedException
from ray.data.preprocessors import (
    Chain,
    Concatenator,
    CountVectorizer,
    CustomKBinsDiscretizer,
    FeatureHasher,
    HashingVectorizer,
    LabelEncoder,
    MaxAbsScaler,
    MinMaxScaler,
    MultiHotEncoder,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    SimpleImputer,
    StandardScaler,
    Tokenizer,
    UniformKBinsDiscretizer,
)

pytestmark = pytest.mark.usefixtures("cluster")
ROOT = np.sqrt(1.5)
FRAME = pd.DataFrame(
    {
        "a": [1.0, 2.0, 3.0, None],
        "b": [-2, 0, 4, 4],
        "c": ["x", "y", "x", None],
        "l": [["p", "q"], ["p"], [], ["r"]],
        "y": ["u", "v", "u", "w"],
        "t": ["hello world hello", "a b", "", "x y z"],
    }
)


def data() -> Any:
    return ray.data.from_pandas(FRAME)


def made(preprocessor: Any, name: str) -> list[Any]:
    fittable = preprocessor.fit_status() != Preprocessor.FitStatus.NOT_FITTABLE
    ds = preprocessor.fit_transform(data()) if fittable else preprocessor.transform(data())
    return [
        value.tolist() if isinstance(value, np.ndarray) else value
        for value in (row[name] for row in ds.take_all())
    ]


@pytest.mark.parametrize(
    ("preprocessor", "name", "expected"),
    [
        (lambda: StandardScaler(["a"]), "a", [-ROOT, 0.0, ROOT, None]),
        (lambda: StandardScaler(["a"], output_columns=["z"]), "z", [-ROOT, 0.0, ROOT, None]),
        (lambda: MinMaxScaler(["b"]), "b", [0.0, 1 / 3, 1.0, 1.0]),
        (lambda: MaxAbsScaler(["b"]), "b", [-0.5, 0.0, 1.0, 1.0]),
        (lambda: Normalizer(["a", "b"]), "b", [-2 / np.sqrt(5), 0.0, 0.8, 1.0]),
        (lambda: PowerTransformer(["b"], power=2), "b", [-np.log(3), 0.0, 12.0, 12.0]),
        (lambda: PowerTransformer(["a"], power=0, method="box-cox"), "a", [0.0, np.log(2), np.log(3), None]),
        (lambda: OrdinalEncoder(["y"]), "y", [0, 1, 0, 2]),
        (lambda: OrdinalEncoder(["l"]), "l", [[0, 1], [0], [], [2]]),
        (lambda: OrdinalEncoder(["l"], encode_lists=False), "l", [2, 1, 0, 3]),
        (lambda: OneHotEncoder(["y"]), "y", [[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]]),
        (lambda: OneHotEncoder(["y"], max_categories={"y": 1}), "y", [[1], [0], [1], [0]]),
        (lambda: MultiHotEncoder(["l"]), "l", [[1, 1, 0], [1, 0, 0], [0, 0, 0], [0, 0, 1]]),
        (lambda: LabelEncoder("y"), "y", [0, 1, 0, 2]),
        (lambda: SimpleImputer(["a"]), "a", [1.0, 2.0, 3.0, 2.0]),
        (lambda: SimpleImputer(["c"], strategy="most_frequent"), "c", ["x", "y", "x", "x"]),
        (lambda: SimpleImputer(["c"], strategy="constant", fill_value="m"), "c", ["x", "y", "x", "m"]),
        (lambda: Tokenizer(["t"]), "t", [["hello", "world", "hello"], ["a", "b"], [""], ["x", "y", "z"]]),
        (lambda: CountVectorizer(["t"], max_features=2), "t", [[2, 1], [0, 0], [0, 0], [0, 0]]),
        (
            lambda: HashingVectorizer(["t"], num_features=4),
            "t",
            [[2, 0, 0, 1], [0, 1, 0, 1], [0, 1, 0, 0], [0, 1, 2, 0]],
        ),
        (lambda: UniformKBinsDiscretizer(["b"], bins=2), "b", [0, 0, 1, 1]),
        (lambda: CustomKBinsDiscretizer(["b"], bins=[-3, 0, 5]), "b", [0, 0, 1, 1]),
        (lambda: Chain(SimpleImputer(["a"]), MinMaxScaler(["a"])), "a", [0.0, 0.5, 1.0, 0.5]),
    ],
)
def test_what_is_made(preprocessor: Any, name: str, expected: list[Any]) -> None:
    for found, wanted in zip(made(preprocessor(), name), expected, strict=True):
        assert found == (
            wanted if wanted is None or isinstance(wanted, (str, list)) else pytest.approx(wanted)
        )


def test_concatenator() -> None:
    made = Concatenator(["b", "a"], dtype=np.float32, output_column_name="o").transform(data())
    batch = made.take_batch(4)
    assert "a" not in batch
    assert (batch["o"].dtype, batch["o"].shape) == (np.float32, (4, 2))


def test_feature_hasher() -> None:
    assert made(FeatureHasher(["a", "b"], num_features=4, output_column="h"), "h")[0] == [0.0, -2.0, 0.0, 1.0]


def test_stats() -> None:
    scaler = StandardScaler(["b"]).fit(data())
    assert scaler.stats_["mean(b)"] == 1.5
    assert OrdinalEncoder(["y"]).fit(data()).stats_ == {"unique_values(y)": {"u": 0, "v": 1, "w": 2}}


def test_status() -> None:
    kinds = Preprocessor.FitStatus
    scaler = StandardScaler(["b"])
    assert scaler.fit_status() == kinds.NOT_FITTED
    assert scaler.fit(data()).fit_status() == kinds.FITTED
    assert Normalizer(["b"]).fit_status() == kinds.NOT_FITTABLE
    assert Chain(Normalizer(["b"]), StandardScaler(["b"])).fit_status() == kinds.NOT_FITTED
    assert Chain().fit_status() == kinds.NOT_FITTABLE


def test_batches() -> None:
    frame = StandardScaler(["b"]).fit(data()).transform_batch(pd.DataFrame({"b": [1, 2]}))
    assert frame["b"].tolist() == pytest.approx([-0.19245, 0.19245], abs=1e-5)


@pytest.mark.parametrize(
    "use", [lambda p: p.transform(data()), lambda p: p.transform_batch(pd.DataFrame({"b": [1]}))]
)
def test_not_fitted(use: Any) -> None:
    with pytest.raises(PreprocessorNotFittedException):
        use(StandardScaler(["b"]))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Normalizer(["a"], norm="l3"),
        lambda: PowerTransformer(["a"], power=1, method="other"),
        lambda: SimpleImputer(["a"], strategy="median"),
        lambda: SimpleImputer(["a"], strategy="constant"),
        lambda: StandardScaler(["a"], output_columns=["x", "y"]),
        lambda: OrdinalEncoder(["c"]).fit(data()),
        lambda: OneHotEncoder(["c"]).fit(data()),
    ],
    ids=range(7),
)
def test_what_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError):
        wrong()


def test_as_bytes() -> None:
    fitted = StandardScaler(["b"]).fit(data())
    assert StandardScaler.deserialize(fitted.serialize()).stats_ == fitted.stats_


def test_labels_come_back() -> None:
    encoder = LabelEncoder("y").fit(data())
    assert [row["y"] for row in encoder.inverse_transform(encoder.transform(data())).take_all()] == list(
        FRAME["y"]
    )


class Doubled(Preprocessor):
    """Learns nothing that it keeps."""

    def _fit(self, ds: Any) -> Preprocessor:
        return self

    def _transform_pandas(self, df: Any) -> Any:
        return df * 2


class Nothing(Preprocessor):
    _is_fittable = False


def test_a_fit_that_keeps_nothing_counts() -> None:
    made = Doubled().fit(ray.data.range(2))
    assert made.fit_status() == Preprocessor.FitStatus.FITTED
    with pytest.raises(ValueError):
        made.transform_batch([1, 2])


def test_a_second_fit_warns() -> None:
    scaler = MinMaxScaler(["id"])
    scaler.fit(ray.data.range(3))
    with pytest.warns(UserWarning, match="All previously fitted state will be overwritten"):
        scaler.fit(ray.data.range(5))
    assert scaler.stats_ == {"min(id)": 0, "max(id)": 4}


def test_a_preprocessor_without_a_transform_is_refused_at_once() -> None:
    with pytest.raises(NotImplementedError):
        Nothing().transform(ray.data.range(2))


def test_output_columns_are_as_many_as_columns() -> None:
    with pytest.raises(ValueError, match=r"The length of columns and output_columns must match\."):
        MinMaxScaler(["a", "b"], output_columns=["c"])


def test_of_equally_frequent_categories_the_first_is_kept() -> None:
    lists = ray.data.from_items([{"l": ["z", "a"]}, {"l": ["a"]}, {"l": ["b"]}])
    encoder = MultiHotEncoder(["l"], max_categories={"l": 2}).fit(lists)
    assert dict(encoder.stats_["unique_values(l)"]) == {"a": 0, "z": 1}
