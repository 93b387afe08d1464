"""Constants that programs share with the library."""

from __future__ import annotations

#: The column name of arrays that were given without one.
TENSOR_COLUMN_NAME = "__value__"
#: The most characters of a value that a dataset's text shows.
MAX_REPR_LENGTH = 120
