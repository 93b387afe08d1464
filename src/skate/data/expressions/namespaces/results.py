"""The types of the results of functions, where they are the same for all operands."""

from __future__ import annotations

import pyarrow as pa

from skate.data.datatype import DataType

_ANY = DataType(object)
_RESULTS = {
    pa.int32(): "str.byte_len str.count str.count_regex str.find str.find_regex str.len list.len "
    "dt.day dt.hour dt.minute dt.month dt.second dt.year",
    pa.string(): "str.capitalize str.center str.extract str.lower str.lpad str.lstrip str.pad str.repeat "
    "str.replace str.replace_regex str.replace_slice str.reverse str.rpad str.rstrip str.slice str.strip "
    "str.swapcase str.title str.upper dt.strftime",
    pa.bool_(): "str.contains str.ends_with str.is_alnum str.is_alpha str.is_ascii str.is_decimal str.is_digit "
    "str.is_lower str.is_numeric str.is_printable str.is_space str.is_title str.is_upper str.match str.match_regex "
    "str.starts_with",
    pa.float64(): "acos asin atan cos exp ln log10 log2 sin tan",
}
_BY_NAME = {name: DataType(kind) for kind, names in _RESULTS.items() for name in names.split()}


def result_type(title: str) -> DataType:
    """Return the type that a function is known to return; object if that depends on its operand."""
    return _BY_NAME.get(title, _ANY)
