"""Preprocessors against scikit-learn, pandas and plain arithmetic, over several blocks."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import skate.data
from skate.data.block.names import UnknownColumn
from skate.data.preprocessor import Preprocessor, PreprocessorNotFittedException
from skate.data.preprocessors import (
    Categorizer,
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
    RobustScaler,
    SimpleImputer,
    StandardScaler,
    Tokenizer,
    TorchVisionPreprocessor,
    UniformKBinsDiscretizer,
)

sklearn = pytest.importorskip("sklearn.preprocessing")
Status = Preprocessor.FitStatus


def rows_to(data: list[dict[str, Any]], blocks: int = 3) -> Any:
    return skate.data.from_items(data, override_num_blocks=blocks)


def numbers(rows: int = 50, seed: int = 1) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    return pd.DataFrame(
        {"a": draw.normal(3, 2, rows), "b": draw.integers(-9, 9, rows), "c": np.exp(draw.normal(size=rows))}
    )


def dataset(frame: pd.DataFrame) -> Any:
    return rows_to(frame.to_dict("records"))


def column(ds: Any, name: str) -> list[Any]:
    return [
        value.tolist() if isinstance(value, np.ndarray) else value
        for value in (row[name] for row in ds.take_all())
    ]


SMALL = [
    {"a": 1.0, "b": -2, "c": "x", "l": ["p", "q"], "y": "u", "t": "hello world hello"},
    {"a": 2.0, "b": 0, "c": "y", "l": ["p"], "y": "v", "t": "a b"},
    {"a": 3.0, "b": 4, "c": "x", "l": [], "y": "u", "t": ""},
    {"a": None, "b": 4, "c": None, "l": ["r"], "y": "w", "t": "x y z"},
]
small = rows_to(SMALL, 2)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (StandardScaler, "StandardScaler"),
        (MinMaxScaler, "MinMaxScaler"),
        (MaxAbsScaler, "MaxAbsScaler"),
        (RobustScaler, "RobustScaler"),
    ],
)
def test_scalers_are_scikit_learns(ours: Any, theirs: str) -> None:
    frame = numbers()
    made = ours(["a", "b", "c"]).fit_transform(dataset(frame)).to_pandas()
    expected = getattr(sklearn, theirs)().fit_transform(frame)
    np.testing.assert_allclose(made[["a", "b", "c"]].to_numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("scaler", [StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler])
def test_scalers_with_nothing_to_scale(scaler: Any) -> None:
    nulls = scaler(["a"]).fit_transform(rows_to([{"a": None, "k": 0}, {"a": None, "k": 0}]))
    assert column(nulls, "a") == [None, None]
    same = scaler(["k"]).fit_transform(rows_to([{"k": 0}, {"k": 0}]))
    assert column(same, "k") == [0.0, 0.0]
    with pytest.raises(TypeError, match="column 'c' must contain numbers"):
        scaler(["c"]).fit(small)


def test_stats_and_nulls_of_a_scaler() -> None:
    scaler = StandardScaler(["a"], output_columns=["z"]).fit(small)
    assert scaler.stats_["mean(a)"] == 2.0
    assert scaler.stats_["std(a)"] == pytest.approx(np.std([1, 2, 3]))
    made = scaler.transform(small)
    assert column(made, "a") == [1.0, 2.0, 3.0, None]
    assert column(made, "z")[3] is None
    assert (scaler.get_input_columns(), scaler.get_output_columns()) == (["a"], ["z"])
    with pytest.raises(ValueError, match="between 0 and 1"):
        RobustScaler(["a"], quantile_range=(25, 75))


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_normalizer(norm: str) -> None:
    frame = numbers()
    made = Normalizer(["a", "b", "c"], norm).transform(dataset(frame)).to_pandas()
    np.testing.assert_allclose(
        made[["a", "b", "c"]].to_numpy(), sklearn.Normalizer(norm=norm).fit_transform(frame)
    )
    assert column(Normalizer(["a", "b"]).transform(small), "a")[3] is None
    with pytest.raises(ValueError, match="norm must be one of"):
        Normalizer(["a"], "l3")


@pytest.mark.parametrize(
    ("method", "power"), [("yeo-johnson", p) for p in (-1, 0, 0.5, 2, 3)] + [("box-cox", p) for p in (0, 2)]
)
def test_power_transformer(method: str, power: float) -> None:
    from scipy import stats

    frame = numbers()
    name = "c" if method == "box-cox" else "a"
    made = column(PowerTransformer([name], power, method).transform(dataset(frame)), name)
    theirs = stats.boxcox(frame[name], power) if method == "box-cox" else stats.yeojohnson(frame[name], power)
    np.testing.assert_allclose(made, theirs)
    with pytest.raises(ValueError, match="method must be one of"):
        PowerTransformer(["a"], 1, "other")


def test_ordinal_encoder() -> None:
    assert column(OrdinalEncoder(["y"]).fit_transform(small), "y") == [0, 1, 0, 2]
    assert column(OrdinalEncoder(["l"]).fit_transform(small), "l") == [[0, 1], [0], [], [2]]
    whole = OrdinalEncoder(["l"], encode_lists=False).fit(small)
    assert whole.stats_["unique_values(l)"] == {(): 0, ("p",): 1, ("p", "q"): 2, ("r",): 3}
    assert column(whole.transform(small), "l") == [2, 1, 0, 3]
    fitted = OrdinalEncoder(["y"]).fit(small)
    assert fitted.transform_batch(pa.table({"y": ["w", "new"]}))["y"].to_pylist() == [2, None]
    assert fitted.transform_batch(pa.table({"y": [1, 2]}))["y"].to_pylist() == [None, None]
    with pytest.raises(ValueError, match="has nulls"):
        OrdinalEncoder(["c"]).fit(small)
    with pytest.raises(ValueError, match="no order"):
        OrdinalEncoder(["m"]).fit(rows_to([{"m": 1}, {"m": "a"}], 1))


def test_ordinal_encoder_is_scikit_learns() -> None:
    frame = pd.DataFrame({"x": np.random.default_rng(0).choice(list("dacb"), 100)})
    made = column(OrdinalEncoder(["x"]).fit_transform(dataset(frame)), "x")
    assert made == sklearn.OrdinalEncoder().fit_transform(frame).ravel().tolist()


def test_one_hot_and_multi_hot_encoder() -> None:
    assert column(OneHotEncoder(["y"]).fit_transform(small), "y") == [
        [1, 0, 0],
        [0, 1, 0],
        [1, 0, 0],
        [0, 0, 1],
    ]
    most = OneHotEncoder(["y"], max_categories={"y": 1}).fit(small)
    assert most.stats_ == {"unique_values(y)": {"u": 0}}
    assert column(most.transform(small), "y") == [[1], [0], [1], [0]]
    assert column(MultiHotEncoder(["l"]).fit_transform(small), "l") == [
        [1, 1, 0],
        [1, 0, 0],
        [0, 0, 0],
        [0, 0, 1],
    ]
    twice = rows_to([{"l": ["p", "p"]}, {"l": []}])
    assert column(MultiHotEncoder(["l"]).fit_transform(twice), "l") == [[2], [0]]
    unknown = OneHotEncoder(["y"]).fit(small).transform_batch({"y": np.array(["new", "v"])})
    assert unknown["y"].to_pylist() == [[0, 0, 0], [0, 1, 0]]
    with pytest.raises(ValueError, match="not one of the columns"):
        OneHotEncoder(["y"], max_categories={"z": 1}).fit(small)


def test_label_encoder_and_back() -> None:
    encoder = LabelEncoder("y", output_column="n").fit(small)
    made = encoder.transform(small)
    assert column(made, "n") == [0, 1, 0, 2]
    again = LabelEncoder("y").fit(small)
    assert column(again.inverse_transform(again.transform(small)), "y") == ["u", "v", "u", "w"]
    with pytest.raises(PreprocessorNotFittedException):
        LabelEncoder("y").inverse_transform(small)


def test_categorizer() -> None:
    made = Categorizer(["c", "y"], dtypes={"y": pd.CategoricalDtype(["w", "v"], ordered=True)}).fit_transform(
        small
    )
    frame = made.to_pandas()
    assert list(frame["c"].cat.categories) == ["x", "y"]
    assert frame["y"].cat.ordered
    assert column(made, "y") == [None, "v", None, "w"]


def test_simple_imputer() -> None:
    assert column(SimpleImputer(["a"]).fit_transform(small), "a") == [1.0, 2.0, 3.0, 2.0]
    assert column(SimpleImputer(["c"], "most_frequent").fit_transform(small), "c") == ["x", "y", "x", "x"]
    constant = SimpleImputer(["c"], "constant", "m", output_columns=["d"])
    assert constant.fit_status() is Status.NOT_FITTABLE
    assert column(constant.transform(small), "d") == ["x", "y", "x", "m"]
    whole = rows_to([{"n": 1}, {"n": 2}, {"n": None}])
    assert column(SimpleImputer(["n"]).fit_transform(whole), "n") == [1.0, 2.0, 1.5]
    nan = SimpleImputer(["n"], "constant", 0)._transformed(pa.table({"n": [1.0, float("nan"), None]}))
    assert nan["n"].to_pylist() == [1.0, 0.0, 0.0]
    for wrong in ({"strategy": "median"}, {"strategy": "constant"}):
        with pytest.raises(ValueError, match="strategy"):
            SimpleImputer(["a"], **wrong)
    with pytest.raises(TypeError, match="cannot be filled into column 'a'"):
        SimpleImputer(["a"], "constant", "text")._transformed(pa.table({"a": [None, 1.0]}))


def test_concatenator() -> None:
    made = Concatenator(["b", "a"], dtype=np.float32).transform(small)
    assert made.columns() == ["c", "l", "y", "t", "concat_out"]
    batch = made.take_batch(4)["concat_out"]
    assert (batch.dtype, batch.shape) == (np.float32, (4, 2))
    assert batch[0].tolist() == [-2.0, 1.0]
    assert np.isnan(batch[3][1])
    table = pa.table({"x": [1, 2]}).append_column("v", pa.array([[1, 2], [3, 4]]))
    flat = Concatenator(["x", "v"], "o", flatten=True)._transformed(table)
    assert flat["o"].to_pylist() == [[1, 1, 2], [2, 3, 4]]
    with pytest.raises(ValueError, match="flatten=True"):
        Concatenator(["x", "v"])._transformed(table)
    with pytest.raises(UnknownColumn, match="did you mean 'x'"):
        Concatenator(["x", "xx"], raise_if_missing=True)._transformed(table)
    assert Concatenator(["x", "zz"])._transformed(table)["concat_out"].to_pylist() == [[1], [2]]


def test_text() -> None:
    assert column(Tokenizer(["t"]).transform(small), "t") == [
        ["hello", "world", "hello"],
        ["a", "b"],
        [""],
        ["x", "y", "z"],
    ]
    assert column(Tokenizer(["y"], lambda text: [text, text]).transform(small), "y")[0] == ["u", "u"]
    counted = CountVectorizer(["t"], max_features=2).fit(small)
    assert counted.stats_ == {"token_counts(t)": {"hello": 2, "world": 1}}
    assert column(counted.transform(small), "t") == [[2, 1], [0, 0], [0, 0], [0, 0]]
    hashed = column(HashingVectorizer(["t"], 4).transform(small), "t")
    assert hashed == [[2, 0, 0, 1], [0, 1, 0, 1], [0, 1, 0, 0], [0, 1, 2, 0]]


def test_feature_hasher() -> None:
    made = column(FeatureHasher(["a", "b"], 4, "h").transform(small), "h")
    assert made[0] == [0.0, -2.0, 0.0, 1.0]
    with pytest.raises(ValueError, match="num_features"):
        FeatureHasher(["a"], 0, "h")


@pytest.mark.parametrize("right", [True, False])
def test_uniform_bins_are_pandas(right: bool) -> None:
    frame = numbers()
    made = UniformKBinsDiscretizer(["a", "b"], {"a": 5, "b": 3}, right=right).fit_transform(dataset(frame))
    assert column(made, "a") == pd.cut(frame["a"], 5, labels=False, right=right).tolist()
    assert column(made, "b") == pd.cut(frame["b"], 3, labels=False, right=right).tolist()


def test_custom_bins() -> None:
    assert column(CustomKBinsDiscretizer(["b"], [-3, 0, 5]).transform(small), "b") == [0, 0, 1, 1]
    assert column(CustomKBinsDiscretizer(["b"], [0, 3, 5], right=False).transform(small), "b") == [
        None,
        0,
        1,
        1,
    ]
    named = {"b": pd.CategoricalDtype(["lo", "hi"], ordered=True)}
    assert column(CustomKBinsDiscretizer(["b"], [-3, 0, 5], dtypes=named).transform(small), "b") == [
        "lo",
        "lo",
        "hi",
        "hi",
    ]
    spans = pd.IntervalIndex.from_tuples([(-3, 0), (3, 5)])
    assert column(CustomKBinsDiscretizer(["b"], {"b": spans}).transform(small), "b") == [0, 0, 1, 1]
    with pytest.raises(ValueError, match="none for column 'b'"):
        CustomKBinsDiscretizer(["b"], {"a": [0, 1]})


@pytest.mark.parametrize("batched", [True, False])
def test_torch_vision(batched: bool) -> None:
    torch = pytest.importorskip("torch")

    def halved(image: Any) -> Any:
        return torch.as_tensor(image).float() / 2

    images = rows_to([{"image": np.full((2, 2), i, np.uint8)} for i in range(4)])
    made = TorchVisionPreprocessor(["image"], halved, ["half"], batched).transform(images)
    assert made.take_batch(4)["half"].dtype == np.float32
    assert column(made, "half")[3] == [[1.5, 1.5], [1.5, 1.5]]


def test_chain() -> None:
    chain = Chain(SimpleImputer(["a"]), StandardScaler(["a"]), Concatenator(["a", "b"]))
    assert chain.fit_status() is Status.NOT_FITTED
    made = column(chain.fit_transform(small), "concat_out")
    assert chain.fit_status() is Status.FITTED
    filled = np.array([1.0, 2.0, 3.0, 2.0])
    np.testing.assert_allclose([row[0] for row in made], (filled - 2) / filled.std())
    partial = Chain(chain.preprocessors[0], StandardScaler(["b"]))
    assert partial.fit_status() is Status.PARTIALLY_FITTED
    with pytest.raises(PreprocessorNotFittedException, match="has not been fitted"):
        partial.transform(small)
    assert Chain(Normalizer(["a"])).fit_status() is Status.NOT_FITTABLE
    assert chain.get_input_columns() == ["a", "b"]
    assert repr(Chain(StandardScaler(["a"]))) == "Chain(StandardScaler(columns=['a'], output_columns=['a']))"
    with pytest.raises(TypeError, match="a Chain takes preprocessors"):
        Chain(StandardScaler)


def test_status_and_errors() -> None:
    scaler = StandardScaler(["a"])
    assert scaler.fit_status() is Status.NOT_FITTED
    for wrong in (lambda: scaler.transform(small), lambda: scaler.transform_batch({"a": np.array([1.0])})):
        with pytest.raises(PreprocessorNotFittedException, match=r"StandardScaler\(columns=\['a'\]"):
            wrong()
    with pytest.raises(UnknownColumn, match="did you mean 'a'"):
        StandardScaler(["aa"]).fit(small)
    with pytest.raises(ValueError, match="must match"):
        StandardScaler(["a"], output_columns=["x", "y"])
    with pytest.raises(TypeError, match="list of names"):
        StandardScaler("a")
    assert Normalizer(["a"]).fit(small).fit_status() is Status.NOT_FITTABLE


def test_a_batch_has_the_form_that_the_preprocessor_works_in() -> None:
    batches = (pd.DataFrame({"b": [1, 4]}), {"b": np.array([1, 4])}, pa.table({"b": [1, 4]}))
    scaler = MinMaxScaler(["b"]).fit(small)
    for batch in batches:
        frame = scaler.transform_batch(batch)
        assert isinstance(frame, pd.DataFrame)
        assert frame["b"].tolist() == [0.5, 1.0]
    standard = StandardScaler(["b"]).fit(small)
    forms = [type(standard.transform_batch(batch)) for batch in batches]
    assert issubclass(forms[0], pd.DataFrame) and forms[1:] == [pa.Table, pa.Table]


def test_as_bytes() -> None:
    fitted = OrdinalEncoder(["y"]).fit(small)
    for again in (Preprocessor.deserialize(fitted.serialize()), pickle.loads(pickle.dumps(fitted))):
        assert again.stats_ == fitted.stats_
        assert repr(again) == repr(fitted)
    for wrong in (b"junk", b""):
        with pytest.raises(ValueError, match="Failed to deserialize preprocessor"):
            Preprocessor.deserialize(wrong)


def test_preprocessors_of_ones_own() -> None:
    class Largest(Preprocessor):
        def _fit(self, ds: Any) -> Preprocessor:
            self.largest_ = ds.max("b")
            return self

        def _transform_pandas(self, df: Any) -> Any:
            return df.assign(b=df["b"] / self.largest_)

    class Double(Preprocessor):
        _is_fittable = False

        def _transform_numpy(self, np_data: Any) -> Any:
            return {"b": np_data["b"] * 2}

    assert column(Largest().fit_transform(small), "b") == [-0.5, 0.0, 1.0, 1.0]
    assert column(Double().transform(small), "b") == [-4, 0, 8, 8]
    with pytest.raises(NotImplementedError, match="must define _fit"):
        Preprocessor().fit(small)
    with pytest.raises(PreprocessorNotFittedException):
        Largest().transform(small)
