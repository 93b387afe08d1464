"""`expr.str`: text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from skate.data.expressions.namespaces.base import Namespace

if TYPE_CHECKING:
    from skate.data.expressions.tree import Expr


class StringNamespace(Namespace):
    """Functions of text. Further arguments go to the underlying function of `pyarrow.compute`."""

    _title = "str"

    def len(self) -> Expr:
        """Return the number of characters."""
        return self._call("len", "utf8_length")

    def byte_len(self) -> Expr:
        """Return the number of bytes."""
        return self._call("byte_len", "binary_length")

    def upper(self) -> Expr:
        """Convert to upper case."""
        return self._call("upper", "utf8_upper")

    def lower(self) -> Expr:
        """Convert to lower case."""
        return self._call("lower", "utf8_lower")

    def capitalize(self) -> Expr:
        """Capitalize the first letter and make the others lower case."""
        return self._call("capitalize", "utf8_capitalize")

    def title(self) -> Expr:
        """Capitalize each word."""
        return self._call("title", "utf8_title")

    def swapcase(self) -> Expr:
        """Swap upper and lower case."""
        return self._call("swapcase", "utf8_swapcase")

    def reverse(self) -> Expr:
        """Reverse the characters."""
        return self._call("reverse", "utf8_reverse")

    def is_alpha(self) -> Expr:
        """True if all characters are letters."""
        return self._call("is_alpha", "utf8_is_alpha")

    def is_alnum(self) -> Expr:
        """True if all characters are letters or digits."""
        return self._call("is_alnum", "utf8_is_alnum")

    def is_digit(self) -> Expr:
        """True if all characters are digits."""
        return self._call("is_digit", "utf8_is_digit")

    def is_decimal(self) -> Expr:
        """True if all characters are decimal digits."""
        return self._call("is_decimal", "utf8_is_decimal")

    def is_numeric(self) -> Expr:
        """True if all characters are numeric."""
        return self._call("is_numeric", "utf8_is_numeric")

    def is_space(self) -> Expr:
        """True if all characters are whitespace."""
        return self._call("is_space", "utf8_is_space")

    def is_lower(self) -> Expr:
        """True if all letters are lower case."""
        return self._call("is_lower", "utf8_is_lower")

    def is_upper(self) -> Expr:
        """True if all letters are upper case."""
        return self._call("is_upper", "utf8_is_upper")

    def is_title(self) -> Expr:
        """True if each word is capitalized."""
        return self._call("is_title", "utf8_is_title")

    def is_printable(self) -> Expr:
        """True if all characters are printable."""
        return self._call("is_printable", "utf8_is_printable")

    def is_ascii(self) -> Expr:
        """True if all characters are ASCII."""
        return self._call("is_ascii", "string_is_ascii")

    def starts_with(self, pattern: str, *args: Any, **kwargs: Any) -> Expr:
        """True if the text starts with `pattern`."""
        return self._call("starts_with", "starts_with", pattern, *args, **kwargs)

    def ends_with(self, pattern: str, *args: Any, **kwargs: Any) -> Expr:
        """True if the text ends with `pattern`."""
        return self._call("ends_with", "ends_with", pattern, *args, **kwargs)

    def contains(self, pattern: str, *args: Any, **kwargs: Any) -> Expr:
        """True if the text contains `pattern`."""
        return self._call("contains", "match_substring", pattern, *args, **kwargs)

    def match(self, pattern: str, *args: Any, **kwargs: Any) -> Expr:
        """True if the text matches an SQL LIKE pattern: % for any text, _ for one character."""
        return self._call("match", "match_like", pattern, *args, **kwargs)

    def match_regex(self, pattern: str, *args: Any, **kwargs: Any) -> Expr:
        """True if the text contains a match of a regular expression."""
        return self._call("match_regex", "match_substring_regex", pattern, *args, **kwargs)

    def find(self, pattern: str, *args: Any, **kwargs: Any) -> Expr:
        """Return the byte offset of the first occurrence of a text, or -1."""
        return self._call("find", "find_substring", pattern, *args, **kwargs)

    def find_regex(self, pattern: str, *args: Any, **kwargs: Any) -> Expr:
        """Return the byte offset of the first match of a regular expression, or -1."""
        return self._call("find_regex", "find_substring_regex", pattern, *args, **kwargs)

    def count(self, pattern: str, *args: Any, **kwargs: Any) -> Expr:
        """Count the occurrences of `pattern`."""
        return self._call("count", "count_substring", pattern, *args, **kwargs)

    def count_regex(self, pattern: str, *args: Any, **kwargs: Any) -> Expr:
        """Count the matches of a regular expression."""
        return self._call("count_regex", "count_substring_regex", pattern, *args, **kwargs)

    def split(self, pattern: str, *args: Any, **kwargs: Any) -> Expr:
        """Split at occurrences of a text. Raises ValueError if it is empty."""
        if not pattern:
            raise ValueError("split() got an empty text; use one with at least one character")
        return self._call("split", "split_pattern", pattern, *args, **kwargs)

    def split_regex(self, pattern: str, *args: Any, **kwargs: Any) -> Expr:
        """Split at matches of a regular expression. Raises ValueError if it may match without a character."""
        _check_matches_are_not_empty(pattern)
        return self._call("split_regex", "split_pattern_regex", pattern, *args, **kwargs)

    def extract(self, pattern: str, *args: Any, **kwargs: Any) -> Expr:
        """Return the named groups of the first match of a regular expression, as a struct."""
        return self._call("extract", "extract_regex", pattern, *args, **kwargs)

    def split_whitespace(self, *args: Any, **kwargs: Any) -> Expr:
        """Split at whitespace."""
        return self._call("split_whitespace", "utf8_split_whitespace", *args, **kwargs)

    def slice(self, *args: Any, **kwargs: Any) -> Expr:
        """Return the characters from `start` up to `stop`, by `step`."""
        return self._call("slice", "utf8_slice_codeunits", *args, **kwargs)

    def replace(self, pattern: str, replacement: str, *args: Any, **kwargs: Any) -> Expr:
        """Replace a text with another."""
        return self._call("replace", "replace_substring", pattern, replacement, *args, **kwargs)

    def replace_regex(self, pattern: str, replacement: str, *args: Any, **kwargs: Any) -> Expr:
        """Replace matches of a regular expression with a text."""
        return self._call("replace_regex", "replace_substring_regex", pattern, replacement, *args, **kwargs)

    def replace_slice(self, start: int, stop: int, replacement: str, *args: Any, **kwargs: Any) -> Expr:
        """Replace the characters from `start` up to `stop` with a text."""
        return self._call("replace_slice", "utf8_replace_slice", start, stop, replacement, *args, **kwargs)

    def repeat(self, n: int, *args: Any, **kwargs: Any) -> Expr:
        """Repeat the text `n` times."""
        return self._call("repeat", "binary_repeat", n, *args, **kwargs)

    def center(self, width: int, padding: str = " ", *args: Any, **kwargs: Any) -> Expr:
        """Center in at least `width` characters."""
        return self._call("center", "utf8_center", width, padding, *args, **kwargs)

    def lpad(self, width: int, padding: str = " ", *args: Any, **kwargs: Any) -> Expr:
        """Align right in at least `width` characters."""
        return self._call("lpad", "utf8_lpad", width, padding, *args, **kwargs)

    def rpad(self, width: int, padding: str = " ", *args: Any, **kwargs: Any) -> Expr:
        """Align left in at least `width` characters."""
        return self._call("rpad", "utf8_rpad", width, padding, *args, **kwargs)

    def pad(self, width: int, fillchar: str = " ", side: str = "right") -> Expr:
        """Pad the text to `width` characters on the "left", the "right" or "both" sides."""
        functions = {"left": "utf8_lpad", "right": "utf8_rpad", "both": "utf8_center"}
        if side not in functions:
            raise ValueError(f"side must be 'left', 'right', or 'both', not {side!r}")
        return self._call("pad", functions[side], width, fillchar)

    def strip(self, characters: str | None = None) -> Expr:
        """Strip whitespace, or the given characters, from both ends."""
        if characters is None:
            return self._call("strip", "utf8_trim_whitespace")
        return self._call("strip", "utf8_trim", characters)

    def lstrip(self, characters: str | None = None) -> Expr:
        """Strip whitespace, or the given characters, from the beginning."""
        if characters is None:
            return self._call("lstrip", "utf8_ltrim_whitespace")
        return self._call("lstrip", "utf8_ltrim", characters)

    def rstrip(self, characters: str | None = None) -> Expr:
        """Strip whitespace, or the given characters, from the end."""
        if characters is None:
            return self._call("rstrip", "utf8_rtrim_whitespace")
        return self._call("rstrip", "utf8_rtrim", characters)


#: Texts in which patterns such as `x*`, `^` and `\\b` have a match of no characters.
_PROBES = ("", "a b")


def _check_matches_are_not_empty(pattern: str) -> None:
    """Raise ValueError for a pattern at whose matches Arrow would split without end, taking up more and more memory."""
    for probe in _PROBES:
        try:
            marked = pc.replace_substring_regex(probe, pattern, "|").as_py()
        except pa.ArrowInvalid:  # not a pattern: the expression says so with its column
            return
        marks = marked.count("|")
        if marks > len(probe) - (len(marked) - marks):
            raise ValueError(
                f"split_regex() got the pattern {pattern!r}, which also matches between two characters; use one whose "
                "matches have at least one character, such as 'x+' instead of 'x*'"
            )
