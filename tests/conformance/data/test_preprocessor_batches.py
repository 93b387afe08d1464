"""Forms of batches that preprocessors take and give, and columns that hardly vary."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import ray
from ray.air.util.data_batch_conversion import BatchFormat
from ray.data.aggregate import ZeroPercentage
from ray.data.preprocessor import Preprocessor
from ray.data.preprocessors import (
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
    SimpleImputer,
    StandardScaler,
    Tokenizer,
    UniformKBinsDiscretizer,
)

pytestmark = pytest.mark.usefixtures("cluster")

FORMS = ("pandas", "numpy", "arrow")
INPUTS = {
    "pandas": lambda: pd.DataFrame({"a": [1, 2], "b": [3, 4]}),
    "numpy": lambda: {"a": np.array([1, 2]), "b": np.array([3, 4])},
    "arrow": lambda: pa.table({"a": [1, 2], "b": [3, 4]}),
}
TYPES = {"pandas": pd.DataFrame, "numpy": dict, "arrow": pa.Table}
DEFINED = [each for count in (1, 2, 3) for each in itertools.combinations(FORMS, count)]


def own(defined, preferred):
    """A preprocessor of one's own with some of the three methods; it notes the type that it was given."""
    seen = []

    def method(self, batch):
        seen.append(type(batch))
        return batch

    body = {"_is_fittable": False, **{f"_transform_{form}": method for form in defined}}
    if preferred:
        body["preferred_batch_format"] = classmethod(lambda cls: preferred)
    return type("Own", (Preprocessor,), body)(), seen


def used_of(defined, preferred):
    """The method that is used, or None."""
    if len(defined) == 1:
        return defined[0]
    wanted = preferred or "pandas"
    return wanted if wanted in defined else None


@pytest.mark.parametrize("given", FORMS)
@pytest.mark.parametrize("preferred", [None, *FORMS])
@pytest.mark.parametrize("defined", DEFINED, ids="+".join)
def test_the_preferred_method_of_those_defined_gives_the_form(defined, preferred, given):
    preprocessor, seen = own(defined, preferred)
    used = used_of(defined, preferred)
    if used is None:
        with pytest.raises(NotImplementedError):
            preprocessor.transform_batch(INPUTS[given]())
        return
    made = preprocessor.transform_batch(INPUTS[given]())
    assert issubclass(seen[0], TYPES[used])
    assert isinstance(made, pd.DataFrame if used == "arrow" and given == "pandas" else TYPES[used])


def test_the_preferred_format_may_be_a_method_of_the_instance_and_a_batch_format():
    class Own(Preprocessor):
        _is_fittable = False

        def _transform_pandas(self, frame):
            return frame

        def _transform_numpy(self, batch):
            return batch

        def preferred_batch_format(self):
            return BatchFormat.NUMPY

    assert isinstance(Own().transform_batch(pd.DataFrame({"a": [1]})), dict)


def test_a_class_without_any_method_is_refused():
    class Nothing(Preprocessor):
        _is_fittable = False

    with pytest.raises(NotImplementedError, match="None of|defines none of"):
        Nothing().transform_batch(pd.DataFrame({"a": [1]}))


FRAME = {"a": [1.0, 2.0, 4.0], "b": [1.0, 3.0, 2.0], "s": ["x", "y", "x"], "l": [["u", "v"], ["u"], ["v"]]}
GIVES_FRAMES = {
    "Categorizer": lambda: Categorizer(["s"]),
    "Chain": lambda: Chain(StandardScaler(["a"]), Normalizer(["a", "b"])),
    "Concatenator": lambda: Concatenator(["a", "b"]),
    "CustomKBinsDiscretizer": lambda: CustomKBinsDiscretizer(["a"], bins=[0, 1, 2, 5]),
    "FeatureHasher": lambda: FeatureHasher(["a", "b"], num_features=4, output_column="h"),
    "LabelEncoder": lambda: LabelEncoder("s"),
    "MaxAbsScaler": lambda: MaxAbsScaler(["a"]),
    "MinMaxScaler": lambda: MinMaxScaler(["a"]),
    "MultiHotEncoder": lambda: MultiHotEncoder(["l"]),
    "Normalizer": lambda: Normalizer(["a", "b"]),
    "PowerTransformer": lambda: PowerTransformer(["a"], power=2),
    "SimpleImputer": lambda: SimpleImputer(["a"]),
    "UniformKBinsDiscretizer": lambda: UniformKBinsDiscretizer(["a"], bins=2),
}
GIVES_TABLES = {
    "OneHotEncoder": lambda: OneHotEncoder(["s"]),
    "OrdinalEncoder": lambda: OrdinalEncoder(["s"]),
    "StandardScaler": lambda: StandardScaler(["a"]),
}


def frame():
    return pd.DataFrame({name: list(values) for name, values in FRAME.items()})


@pytest.fixture(scope="module")
def fitted():
    """Each preprocessor fitted once."""
    made = {}

    def of(name):
        if name not in made:
            made[name] = (GIVES_FRAMES | GIVES_TABLES)[name]().fit(ray.data.from_pandas(frame()))
        return made[name]

    return of


@pytest.mark.parametrize("name", GIVES_FRAMES)
def test_most_preprocessors_give_frames_for_frames_and_tables(name, fitted):
    assert isinstance(fitted(name).transform_batch(frame()), pd.DataFrame)
    assert isinstance(fitted(name).transform_batch(pa.Table.from_pandas(frame())), pd.DataFrame)


@pytest.mark.parametrize("name", GIVES_TABLES)
def test_some_preprocessors_give_tables_for_all_but_frames(name, fitted):
    assert isinstance(fitted(name).transform_batch(frame()), pd.DataFrame)
    assert isinstance(fitted(name).transform_batch(pa.Table.from_pandas(frame())), pa.Table)
    arrays = {each: np.array(FRAME[each]) for each in ("a", "b", "s")}
    assert isinstance(fitted(name).transform_batch(arrays), pa.Table)


# In Ray, these two lose the values of a frame with an index of its own.
@pytest.mark.parametrize("name", sorted({*GIVES_FRAMES, *GIVES_TABLES} - {"Concatenator", "FeatureHasher"}))
def test_a_frame_keeps_its_index_and_its_other_columns(name, fitted):
    given = frame().assign(o=pd.Categorical(["p", "q", "p"])).set_index(pd.Index([7, 3, 5], name="k"))
    made = fitted(name).transform_batch(given.copy())
    assert made.index.tolist() == [7, 3, 5] and made.index.name == "k"
    assert made["o"].dtype == given["o"].dtype
    plain = fitted(name).transform_batch(given.reset_index(drop=True))
    assert [repr(row) for row in made.to_dict("records")] == [repr(row) for row in plain.to_dict("records")]
    assert made.columns[: len(given.columns)].tolist() == given.columns.tolist()


def test_a_preprocessor_of_ones_own_gets_the_frame_as_it_is():
    class Own(Preprocessor):
        _is_fittable = False

        def _transform_pandas(self, df):
            return df.assign(k=df.index, o=df["o"].dt.days)

        def get_input_columns(self):
            return ["o"]

    assert Own().transform_batch(pa.table({"o": pa.array([1, 2], pa.duration("s"))}))["o"].tolist() == [0, 0]
    given = pd.DataFrame({"o": pd.to_timedelta([1, 2], unit="D")}, index=["x", "y"])
    made = Own().transform_batch(given)
    assert made["k"].tolist() == ["x", "y"] and made["o"].tolist() == [1, 2]


@pytest.mark.parametrize("form", [pd.DataFrame, pa.table])
@pytest.mark.parametrize(
    ("name", "batch"),
    [
        ("LabelEncoder", {"s": ["x", None]}),
        ("OneHotEncoder", {"s": ["x", None]}),
        ("OrdinalEncoder", {"s": ["x", None]}),
        ("MultiHotEncoder", {"l": [["u"], None]}),
    ],
)
def test_encoders_refuse_nulls(name, batch, form, fitted):
    with pytest.raises(ValueError, match="because they contain null values"):
        fitted(name).transform_batch(form(batch))


def test_a_value_unknown_at_fitting_is_nan_in_a_frame(fitted):
    for name in ("OrdinalEncoder", "LabelEncoder"):
        made = fitted(name).transform_batch(pd.DataFrame({"s": ["y", "new"]}))["s"]
        assert made.dtype == np.float64 and made.isna().tolist() == [False, True]


def test_hot_encodings_and_counts_of_tokens_are_lists_in_rows():
    data = ray.data.from_pandas(frame())
    assert [row["s"] for row in OneHotEncoder(["s"]).fit_transform(data).take_all()] == [
        [1, 0],
        [0, 1],
        [1, 0],
    ]
    assert [row["s"] for row in CountVectorizer(["s"]).fit_transform(data).take_all()] == [
        [1, 0],
        [0, 1],
        [1, 0],
    ]
    assert HashingVectorizer(["s"], num_features=1).transform(data).take(1)[0]["s"] == [1]
    assert [row["l"] for row in MultiHotEncoder(["l"]).fit_transform(data).take_all()] == [
        [1, 1],
        [1, 0],
        [0, 1],
    ]


@pytest.mark.parametrize("name", ["Normalizer", "Tokenizer", "StandardScaler"])
def test_stats_are_empty_before_a_fit(name):
    made = {
        "Normalizer": Normalizer(["a"]),
        "Tokenizer": Tokenizer(["s"]),
        "StandardScaler": StandardScaler(["a"]),
    }[name]
    assert made.stats_ == {}
    fits = made.fit_status() != Preprocessor.FitStatus.NOT_FITTABLE
    assert bool(made.fit(ray.data.from_pandas(frame())).stats_) == fits


def test_lists_are_objects_in_a_frame(fitted):
    for name, column in {"MultiHotEncoder": "l", "OneHotEncoder": "s"}.items():
        assert fitted(name).transform_batch(frame())[column].dtype.kind == "O"
    tokens = Tokenizer(["s"]).transform_batch(frame())["s"]
    assert tokens.dtype.kind == "O" and tokens.tolist() == [["x"], ["y"], ["x"]]


@pytest.mark.parametrize("name", ["OneHotEncoder", "OrdinalEncoder"])
def test_a_table_made_from_pandas_gives_a_table_that_pandas_reads(name, fitted):
    given = pa.Table.from_pandas(pd.DataFrame({"s": ["x", "y"], "l": [["u"], ["v"]]}))
    made = fitted(name).transform_batch(given).to_pandas()
    assert [np.asarray(each).tolist() for each in made["s"]] == {
        "OneHotEncoder": [[1, 0], [0, 1]],
        "OrdinalEncoder": [0, 1],
    }[name]


def test_a_frame_made_of_a_table_has_numpys_types(fitted):
    made = fitted("MinMaxScaler").transform_batch(
        pa.table({"a": [1.0, 2.0], "k": [1, None], "l": [["u"], []]})
    )
    assert made.dtypes.map(str).tolist() == ["float64", "float64", "object"]


def test_hashed_whole_numbers_stay_whole():
    hasher = FeatureHasher(["a", "b"], num_features=3, output_column="h")
    for values, kind in (([1, 2], "i"), ([1.0, 2.0], "f")):
        made = hasher.transform_batch(pd.DataFrame({"a": values, "b": values}))
        assert np.stack(made["h"]).dtype.kind == kind


def test_bins_that_are_not_a_number_are_refused():
    with pytest.raises(TypeError):
        UniformKBinsDiscretizer(["a"], bins="3").fit(ray.data.from_pandas(frame()))


def test_an_imputer_adds_a_column_that_is_missing(fitted):
    assert fitted("SimpleImputer").transform_batch(pd.DataFrame({"b": [1, 2]}))["a"].tolist() == [7 / 3] * 2
    constant = SimpleImputer(["n"], strategy="constant", fill_value="?", output_columns=["m"])
    made = constant.transform(ray.data.from_pandas(frame()[["b"]])).to_pandas()
    assert made.columns.tolist() == ["b", "m"] and made["m"].tolist() == ["?"] * 3


NEARLY_CONSTANT = [
    [1.0, 1.0 + 1e-12, 1.0],
    [1.0, 1.0 + 1e-9, 1.0],
    [2.0, 2.0, 2.0],
    [0.0, 0.0, 0.0],
    [1e-12, 2e-12, 3e-12],
]


@pytest.mark.parametrize("values", NEARLY_CONSTANT, ids=str)
@pytest.mark.parametrize("scaler", [StandardScaler, MinMaxScaler])
def test_a_column_that_hardly_varies_becomes_zeros(scaler, values):
    data = pd.DataFrame({"v": values})
    made = scaler(["v"]).fit(ray.data.from_pandas(data)).transform_batch(data)
    assert np.abs(made["v"]).max() < 1e-6


@pytest.mark.parametrize("scaler", [StandardScaler, MinMaxScaler])
def test_a_column_that_varies_a_little_more_is_scaled(scaler):
    data = pd.DataFrame({"v": [1.0, 1.0 + 1e-6, 1.0]})
    made = scaler(["v"]).fit(ray.data.from_pandas(data)).transform_batch(data)
    assert made["v"].max() > 0.9


@pytest.mark.parametrize("ignore_nulls", [True, False])
@pytest.mark.parametrize(
    ("values", "percent"),
    [
        ([None], {True: None, False: 0.0}),
        ([0, None], {True: 100.0, False: 50.0}),
        ([0, 1], {True: 50.0, False: 50.0}),
    ],
)
def test_the_share_of_zeros(values, percent, ignore_nulls):
    data = ray.data.from_items([{"v": value} for value in values])
    assert data.aggregate(ZeroPercentage(on="v", ignore_nulls=ignore_nulls)) == {
        "zero_pct(v)": percent[ignore_nulls]
    }


@pytest.mark.parametrize(
    ("labels", "size", "test"),
    [
        ("AAAAAABBC", 0.3, {"A": 1}),
        ("AABB", 0.5, {"A": 1, "B": 1}),
        ("AAAAABBBBB", 0.25, {"A": 1, "B": 1}),
        ("AAAAABBBBB", 3, {"A": 1, "B": 1}),
        ("ABC", 0.3, {}),
        ("AAAB", 0.5, {"A": 1}),
        ("A" * 20 + "B" * 3 + "C" * 7, 0.33, {"A": 6, "C": 2}),
    ],
)
def test_a_stratified_split_rounds_the_test_rows_of_each_value_down(labels, size, test):
    train, tested = ray.data.from_items([{"l": each} for each in labels]).train_test_split(
        test_size=size, stratify="l"
    )
    found = [row["l"] for row in tested.take_all()]
    assert {each: found.count(each) for each in set(found)} == test
    assert train.count() + len(found) == len(labels)
