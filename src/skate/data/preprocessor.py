"""Base of all preprocessors: fitted on a dataset, then applied to datasets and to batches."""

from __future__ import annotations

import base64
import enum
import pickle
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa

from skate import cloudpickle
from skate.data import block as blocks
from skate.data.block.names import known

if TYPE_CHECKING:
    from skate.data.dataset import Dataset

Made = TypeVar("Made", bound="Preprocessor")

#: Classes that serialize their own fields, by registered identifier.
REGISTERED: dict[str, type[Preprocessor]] = {}


class SerializationFormat(enum.Enum):
    """The serialized form of a preprocessor: bytes that begin with `MAGIC_CLOUDPICKLE`, or text, from older
    releases of Ray."""

    CLOUDPICKLE = "cloudpickle"
    PICKLE = "pickle"


class UnknownPreprocessorError(ValueError):
    """The serialized preprocessor has a class that this program has not registered."""

    def __init__(self, preprocessor_type: str) -> None:
        self.preprocessor_type = preprocessor_type
        super().__init__(f"Unknown preprocessor type: {preprocessor_type}")


_FITTED_BEFORE = (
    "`fit` has already been called on the preprocessor (or at least one contained preprocessors if this is a chain). "
    "All previously fitted state will be overwritten!"
)


class PreprocessorNotFittedException(RuntimeError):
    """A preprocessor was used to transform data before it was fitted."""


class Preprocessor:
    """Learns from a dataset with `fit`, then transforms datasets (`transform`) and batches (`transform_batch`).

    Subclasses define `_fit(dataset)`, which returns self, and one of `_transform_arrow(table)`,
    `_transform_pandas(frame)` and `_transform_numpy(dict of arrays)`; those without a fit set `_is_fittable =
    False`. `_fit` stores its results in attributes whose names end with an underscore.
    """

    class FitStatus(str, enum.Enum):
        """The state of a preprocessor: nothing to fit, not fitted, or fitted."""

        NOT_FITTABLE = "NOT_FITTABLE"
        NOT_FITTED = "NOT_FITTED"
        PARTIALLY_FITTED = "PARTIALLY_FITTED"
        FITTED = "FITTED"

    SerializationFormat = SerializationFormat
    MAGIC_CLOUDPICKLE = b"CPKL:"
    SERIALIZER_FORMAT_VERSION = 1
    _version: ClassVar[int] = 1
    _class_id: ClassVar[str] = ""

    _is_fittable = True
    #: The format that `transform_batch` returns if it differs from the method's.
    _result_form: ClassVar[str] = ""
    #: The arguments that `repr` shows, in order.
    _shown: ClassVar[tuple[str, ...]] = ()

    #: What the preprocessor has learnt; empty before `fit`.
    stats_: dict[str, Any]

    def __new__(cls: type[Made], *args: Any, **kwargs: Any) -> Made:
        made = super().__new__(cls)
        made.stats_ = {}
        return made

    def fit_status(self) -> FitStatus:
        """The state of the preprocessor: nothing to fit, not fitted, or fitted."""
        if not self._is_fittable:
            return self.FitStatus.NOT_FITTABLE
        is_fitted = self.__dict__.get("_fitted", False) or self._check_has_fitted_state()
        return self.FitStatus.FITTED if is_fitted else self.FitStatus.NOT_FITTED

    def _check_has_fitted_state(self) -> bool:
        return any(
            name.endswith("_")
            and not name.startswith("_")
            and value is not None
            and (value or name != "stats_")
            for name, value in vars(self).items()
        )

    def has_stats(self) -> bool:
        """True if the preprocessor is fitted."""
        return self._check_has_fitted_state()

    def fit(self, ds: Dataset) -> Preprocessor:
        """Fit to a dataset, which runs. Returns self; an earlier fit is discarded, with a warning."""
        if self._is_fittable:
            if self.fit_status() in (self.FitStatus.FITTED, self.FitStatus.PARTIALLY_FITTED):
                warnings.warn(_FITTED_BEFORE, stacklevel=2)
            for name in self.get_input_columns():
                self._known(ds, name)
            self._fit(ds)
            self._fitted = True
        return self

    def _known(self, ds: Dataset, name: str) -> None:
        present = ds.columns()
        if present is not None:
            known(present, name)

    def fit_transform(
        self,
        ds: Dataset,
        *,
        transform_num_cpus: float | None = None,
        transform_memory: float | None = None,
        transform_batch_size: int | None = None,
        transform_concurrency: int | None = None,
    ) -> Dataset:
        """Fit to a dataset and transform it; options as for `transform`."""
        self.fit(ds)
        return self.transform(
            ds,
            batch_size=transform_batch_size,
            num_cpus=transform_num_cpus,
            memory=transform_memory,
            concurrency=transform_concurrency,
        )

    def transform(
        self,
        ds: Dataset,
        *,
        batch_size: int | None = None,
        num_cpus: float | None = None,
        memory: float | None = None,
        concurrency: int | None = None,
    ) -> Dataset:
        """Return the transformed dataset, which runs when its result is requested. Raises
        PreprocessorNotFittedException."""
        self._need_fit("transform")
        self._form()  # raises if there is nothing to call
        step = _Transform(self)
        return ds.map_batches(
            step,
            batch_format="pyarrow",
            batch_size=batch_size,
            num_cpus=num_cpus,
            memory=memory,
            concurrency=concurrency,
        )

    def transform_batch(self, data: Any) -> Any:
        """Transform one batch: a DataFrame, a Table or a dict of arrays.

        The result has the preprocessor's own format, as in Ray: a DataFrame from `_transform_pandas`, a dict of arrays
        from `_transform_numpy`, a Table from `_transform_arrow` (a DataFrame if that was given). Raises
        PreprocessorNotFittedException.
        """
        self._need_fit("transform_batch")
        if not isinstance(data, (pd.DataFrame, pa.Table, dict, np.ndarray)):
            raise ValueError(
                f"`transform_batch` takes a DataFrame, a pyarrow Table, an array or a dict of arrays, got {type(data).__name__}"
            )
        form = self._form()
        if form == "pandas":
            return self._transform_pandas(data if isinstance(data, pd.DataFrame) else _in_numpy_types(data))
        if form == "numpy" and isinstance(data, dict):
            return self._transform_numpy(data)
        wanted = self._result_form or form
        if wanted == "arrow":
            wanted = "pandas" if isinstance(data, pd.DataFrame) else "pyarrow"
        if wanted == "pandas":
            return self._transformed_frame(data if isinstance(data, pd.DataFrame) else _in_numpy_types(data))
        table = blocks.from_batch(data)
        if b"pandas" in (table.schema.metadata or {}):
            # What pandas noted of the types does not hold for the result.
            table = table.replace_schema_metadata()
        made = self._transformed(table)
        return made if wanted == "pyarrow" else blocks.to_batch(made, wanted)

    def _transformed_frame(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Transform a DataFrame. Its index and the columns that are not read or written stay as they are."""
        declared = self.get_input_columns()
        reads = [name for name in declared if name in frame.columns]
        if declared:
            # A block has rows only if it has a column.
            table = self._transformed(blocks.from_batch(frame[reads or frame.columns[:1]]))
        else:
            table = self._transformed(blocks.from_batch(frame))
        made = blocks.to_batch(table, "pandas")
        if len(made) != len(frame):
            return made
        made.index = frame.index
        if not declared:
            return made
        writes = self.get_output_columns()
        in_arrow = any(isinstance(kind, pd.ArrowDtype) for kind in frame.dtypes)
        kept = frame.drop(columns=[name for name in reads if name not in made.columns])
        for name, column in zip(table.column_names, table.columns, strict=True):
            if name in writes or name not in kept.columns:
                kept[name] = made[name] if in_arrow else self._in_numpy(column, made[name])
        return kept

    def _in_numpy(self, column: pa.ChunkedArray, made: pd.Series) -> Any:
        """Return a column for a frame that does not use Arrow's types: NaN for null, and objects for lists."""
        kind = column.type
        if is_list(kind):
            values = column.to_pandas().to_numpy() if self._result_form == "arrow" else column.to_pylist()
            return pd.Series(values, index=made.index, dtype=object)
        return column.to_numpy() if pa.types.is_integer(kind) and column.null_count else made

    @classmethod
    def preferred_batch_format(cls) -> str:
        """Return the format to use if a class defines several of the three methods: "pandas", "numpy" or "arrow"."""
        return "pandas"

    def _form(self) -> str:
        """Return the batch format of the transform method that the subclass defines. Raises NotImplementedError if
        there is none.
        """
        own = type(self)
        defined = [
            form
            for form in ("pandas", "numpy", "arrow")
            if getattr(own, f"_transform_{form}") is not getattr(Preprocessor, f"_transform_{form}")
        ]
        if not defined:
            raise NotImplementedError(
                f"{own.__name__} defines none of `_transform_numpy`, `_transform_pandas` or `_transform_arrow`; define one"
            )
        form = defined[0] if len(defined) == 1 else str.__str__(self.preferred_batch_format())
        if form == "pyarrow":
            form = "arrow"
        if form not in defined:
            raise NotImplementedError(
                f"{own.__name__} prefers the batch format {form!r}, but defines methods for "
                f"{' and '.join(defined)} only"
            )
        return form

    def _need_fit(self, word: str) -> None:
        if self.fit_status() in (self.FitStatus.NOT_FITTED, self.FitStatus.PARTIALLY_FITTED):
            raise PreprocessorNotFittedException(
                f"{self!r} has not been fitted; call fit(ds) before {word}(), or fit_transform(ds)"
            )

    def _transformed(self, table: pa.Table) -> pa.Table:
        """Transform one block with the method that the subclass defines."""
        form = self._form()
        if form == "arrow":
            return blocks.from_batch(self._transform_arrow(table))
        return blocks.from_batch(
            getattr(self, f"_transform_{form}")(blocks.to_batch(table, form, for_function=True))
        )

    # -- for subclasses to define

    def _fit(self, ds: Dataset) -> Preprocessor:
        raise NotImplementedError(
            f"{type(self).__name__} must define _fit(self, ds), or set _is_fittable = False"
        )

    def _transform_arrow(self, table: pa.Table) -> pa.Table:
        raise NotImplementedError

    def _transform_pandas(self, df: Any) -> Any:
        raise NotImplementedError

    def _transform_numpy(self, np_data: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def get_input_columns(self) -> list[str]:
        """The columns that the preprocessor reads."""
        return list(getattr(self, "columns", []))

    def get_output_columns(self) -> list[str]:
        """The columns that the preprocessor writes."""
        return list(getattr(self, "output_columns", self.get_input_columns()))

    @classmethod
    def _derive_and_validate_output_columns(
        cls, columns: Sequence[str], output_columns: Sequence[str] | None
    ) -> list[str]:
        if isinstance(columns, str) or not all(isinstance(each, str) for each in columns):
            raise TypeError(f"columns of {cls.__name__} must be a list of names, got {columns!r}")
        if output_columns is None:
            return list(columns)
        if len(output_columns) != len(columns):
            raise ValueError(
                "The length of columns and output_columns must match. "
                f"{cls.__name__} has {len(columns)} columns but {len(output_columns)} output_columns"
            )
        return list(output_columns)

    # -- serialization

    @classmethod
    def get_version(cls) -> int:
        """The serialized version of the class; 1 unless `SerializablePreprocessor` set another."""
        return cls._version

    @classmethod
    def set_version(cls, version: int) -> None:
        """Set the version of the class."""
        cls._version = version

    @classmethod
    def get_preprocessor_class_id(cls) -> str:
        """The serialized identifier of the class; by default its module and name."""
        return str(cls.__dict__.get("_class_id") or f"{cls.__module__}.{cls.__qualname__}")

    @classmethod
    def set_preprocessor_class_id(cls, identifier: str) -> None:
        """Set the identifier of the class."""
        cls._class_id = identifier

    def serialize(self) -> bytes:
        """Serialize the fitted preprocessor, for `deserialize`."""
        written: Any = self
        if REGISTERED.get(self.get_preprocessor_class_id()) is type(self):
            written = {
                "type": self.get_preprocessor_class_id(),
                "version": self.get_version(),
                "fields": self._get_serializable_fields(),  # type: ignore[attr-defined]
                "serializer_format_version": self.SERIALIZER_FORMAT_VERSION,
            }
        return self.MAGIC_CLOUDPICKLE + bytes(cloudpickle.dumps(written, protocol=5))

    @staticmethod
    def deserialize(serialized: str | bytes) -> Preprocessor:
        """Return the preprocessor that `serialize` wrote. Deserialize only trusted bytes: they are a pickle.

        Raises ValueError for other bytes, and UnknownPreprocessorError, a ValueError, for a class that is not registered.
        """
        data = _decoded(serialized) if isinstance(serialized, str) else bytes(serialized)
        if not data.startswith(Preprocessor.MAGIC_CLOUDPICKLE):
            raise ValueError(
                f"Failed to deserialize preprocessor. Data preview: {serialized[:50]!r}: not a preprocessor "
                "serialized by serialize()"
            )
        found = pickle.loads(data[len(Preprocessor.MAGIC_CLOUDPICKLE) :])
        if isinstance(found, dict) and "type" in found:
            return _registered(found)
        if not isinstance(found, Preprocessor):
            raise ValueError(f"expected a serialized preprocessor, got a {type(found).__name__}")
        return found

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name, None)!r}" for name in self._shown)
        return f"{type(self).__name__}({shown})"


SerializablePreprocessorBase = Preprocessor


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except ValueError:
        return b""


def _registered(written: dict[str, Any]) -> Preprocessor:
    """Rebuild a preprocessor whose class reads its own fields."""
    kind = REGISTERED.get(written["type"])
    if kind is None:
        raise UnknownPreprocessorError(written["type"])
    made = kind.__new__(kind)
    made._set_serializable_fields(written["fields"], written["version"])  # type: ignore[attr-defined]
    return made


def is_list(kind: pa.DataType) -> bool:
    """True if the values are lists."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _in_numpy_types(batch: Any) -> pd.DataFrame:
    """Return a batch as a DataFrame without Arrow's types for lists, and for integers with nulls."""
    table = blocks.from_batch(batch)
    frame = blocks.to_batch(table, "pandas")
    for name, column in zip(table.column_names, table.columns, strict=True):
        if is_list(column.type) or (pa.types.is_integer(column.type) and column.null_count):
            frame[name] = column.to_pandas()
    return frame


class _Transform:
    """The step of `transform`, named like the preprocessor."""

    def __init__(self, preprocessor: Preprocessor) -> None:
        self.preprocessor = preprocessor
        self.__name__ = type(preprocessor).__name__

    def __call__(self, table: pa.Table) -> pa.Table:
        return self.preprocessor._transformed(table)
