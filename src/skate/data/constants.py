"""Numbers and names that programs share with the library."""

from __future__ import annotations

#: The column of arrays that have no name of their own.
TENSOR_COLUMN_NAME = "__value__"
#: Characters of a value that a text of a dataset shows at most.
MAX_REPR_LENGTH = 120
